// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"

	"golang.org/x/sys/unix"
)

func TestGonePath(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	ran := func() error { t.Error("it ran"); return nil }
	_, goErr := netns.Go(gone, nil, ran)
	for what, err := range map[string]error{
		"Do": netns.Do(gone, ran), "DoSys": netns.DoSys(gone, func(*os.Root) error { return ran() }), "Go": goErr,
	} {
		if !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "network namespace "+gone+" is gone") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", what, err)
		}
	}
	testutil.Privileged(t)
	if err := netns.Do("/proc/self/ns/mnt", ran); !errors.Is(err, unix.EINVAL) || !strings.Contains(err.Error(), "/proc/self/ns/mnt") {
		t.Errorf("a namespace of another kind: %v", err)
	}
}

// With its descriptor closed and its threads ended, nothing holds a namespace.
func TestClose(t *testing.T) {
	testutil.Privileged(t)
	testutil.NoLeaks(t)
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	path, link := ns.Path(), inside(t, ns.Path())
	release := make(chan struct{})
	th, err := netns.Go(path, nil, func() error { <-release; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := ns.Close(); err != nil {
		t.Error(err)
	}
	if h := holders(t, link); len(h) != 1 || filepath.Base(filepath.Dir(filepath.Dir(h[0]))) != strconv.Itoa(th.Tid) {
		t.Errorf("%s is held by %q, want thread %d alone", link, h, th.Tid)
	}
	close(release)
	if err := th.Wait(); err != nil {
		t.Error(err)
	}
	if !eventually(func() bool { return len(holders(t, link)) == 0 }) {
		t.Errorf("%s is held by %q", link, holders(t, link))
	}
	if err := ns.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed again: %v", err)
	}
}

// holders are the processes' threads and descriptors that keep a namespace.
func holders(t testing.TB, link string) (names []string) {
	t.Helper()
	for _, glob := range []string{"/proc/[0-9]*/task/*/ns/net", "/proc/[0-9]*/fd/*"} {
		paths, err := filepath.Glob(glob)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			if got, _ := os.Readlink(p); got == link {
				names = append(names, p)
			}
		}
	}
	return names
}

func TestInterrupt(t *testing.T) {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	th, err := netns.Go("", nil, func() error {
		// Not restarted after a signal, however its handler is set up.
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(pipe[0]), Events: unix.POLLIN}}, 10_000)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for range 1000 { // the first may come before the thread is in its system call
		if err := th.Interrupt(); err != nil && !errors.Is(err, unix.ESRCH) {
			t.Fatal(err)
		}
		select {
		case <-th.Done():
			if err := th.Wait(); err != unix.EINTR || time.Since(start) > 5*time.Second {
				t.Errorf("%v after %v", err, time.Since(start))
			}
			if !eventually(func() bool { return errors.Is(th.Interrupt(), unix.ESRCH) }) {
				t.Error("the thread outlives its function")
			}
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
	t.Error("the system call was not interrupted")
}

// Threads that entered a namespace die: none is given back to the scheduler, and
// they do not pile up.
func TestThreadsDie(t *testing.T) {
	ns := newNamespace(t)
	ours := here(t)
	round := func() {
		if err := netns.Do(ns.Path(), func() error { return nil }); err != nil {
			t.Fatal(err)
		}
		th, err := netns.Go(ns.Path(), nil, func() error { return nil })
		if err == nil {
			err = th.Wait()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 10 { // the runtime makes some spare threads
		round()
	}
	before := threads(t)
	for range 100 {
		round()
	}
	if !eventually(func() bool { return threads(t) <= before+3 }) {
		t.Errorf("%d threads, %d before", threads(t), before)
	}
	if !eventually(func() bool {
		strays, err := filepath.Glob("/proc/self/task/*/ns/net")
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range strays {
			if link, err := os.Readlink(p); err == nil && link != ours {
				return false
			}
		}
		return true
	}) {
		t.Error("a thread is still in the namespace")
	}
}

// The main thread cannot die, so no goroutine may ever enter a namespace on it.
func TestMainThreadStaysOut(t *testing.T) {
	done := make(chan int, 50)
	for range cap(done) {
		go func() {
			th, err := netns.Go("", nil, func() error { runtime.Gosched(); return nil })
			if err != nil {
				done <- 0
				return
			}
			_ = th.Wait() // nil
			done <- th.Tid
		}()
	}
	for range cap(done) {
		if tid := <-done; tid == 0 || tid == os.Getpid() {
			t.Errorf("thread %d", tid)
		}
	}
}
