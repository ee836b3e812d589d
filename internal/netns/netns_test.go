// SPDX-License-Identifier: Apache-2.0

package netns_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"

	"golang.org/x/sys/unix"
)

func newNamespace(t *testing.T) *netns.Namespace {
	t.Helper()
	testutil.Privileged(t)
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	return ns
}

// here is the namespace of this thread: "net:[4026531840]".
func here(t testing.TB) string {
	t.Helper()
	link, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	return link
}

func inside(t testing.TB, path string) (link string) {
	t.Helper()
	if err := netns.Do(path, func() error { link = here(t); return nil }); err != nil {
		t.Fatal(err)
	}
	return link
}

// eventually waits up to a minute: the kernel ends a thread after Go has.
func eventually(ok func() bool) bool {
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

func threads(t testing.TB) int {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return len(tasks)
}

func TestNew(t *testing.T) {
	ours := here(t)
	a, b := newNamespace(t), newNamespace(t)
	inA, inB := inside(t, a.Path()), inside(t, b.Path())
	if inA == ours || inB == ours || inA == inB {
		t.Errorf("ours %s, first %s, second %s", ours, inA, inB)
	}
	if out, err := exec.Command("readlink", a.Path()).Output(); err != nil || strings.TrimSpace(string(out)) != inA {
		t.Errorf("another process sees %q behind %s, want %s: %v", out, a.Path(), inA, err)
	}
	if err := netns.Do(a.Path(), func() error {
		links, err := net.Interfaces()
		if err == nil && (len(links) != 1 || links[0].Name != "lo" || links[0].Flags&net.FlagUp != 0) {
			t.Errorf("a new namespace holds %+v", links)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	if now := here(t); now != ours {
		t.Errorf("we are now in %s, were in %s", now, ours)
	}
}

func TestDo(t *testing.T) {
	ours, ns := here(t), newNamespace(t)
	want := inside(t, ns.Path())
	started, asked := make(chan struct{}), make(chan string)
	go func() { // runs all the while, and is not drawn in
		<-started
		asked <- here(t)
	}()
	if err := netns.Do(ns.Path(), func() error {
		close(started)
		if other := <-asked; other != ours {
			t.Errorf("a goroutine outside is in %s, want %s", other, ours)
		}
		out, err := exec.Command("readlink", "/proc/self/ns/net").Output()
		if got := strings.TrimSpace(string(out)); got != want {
			t.Errorf("a program started inside is in %q, want %s", got, want)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	boom := errors.New("boom")
	for _, path := range []string{"", ns.Path()} {
		if err := netns.Do(path, func() error { return boom }); err != boom {
			t.Errorf("%q: %v", path, err)
		}
	}
	if got := inside(t, ""); got != ours {
		t.Errorf("no path is %s, want %s", got, ours)
	}
}

func TestDoSys(t *testing.T) {
	ns := newNamespace(t)
	mounts := func() string {
		data, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	before := mounts()
	devices := func(path string) (names []string) {
		if err := netns.DoSys(path, func(sys *os.Root) error {
			entries, err := fs.ReadDir(sys.FS(), "class/net")
			for _, e := range entries {
				if e.Name() != "bonding_masters" { // a file of the bonding module, no device
					names = append(names, e.Name())
				}
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return names
	}
	if got := devices(ns.Path()); !slices.Equal(got, []string{"lo"}) {
		t.Errorf("its sysfs shows %q", got)
	}
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	ours := devices("")
	for _, l := range links {
		if !slices.Contains(ours, l.Name) {
			t.Errorf("our sysfs shows %q, not %s", ours, l.Name)
		}
	}
	if mounts() != before {
		t.Error("the mounts of the process have changed")
	}
	boom := errors.New("boom")
	if err := netns.DoSys(ns.Path(), func(*os.Root) error { return boom }); err != boom {
		t.Error(err)
	}
}

func TestGo(t *testing.T) {
	ns := newNamespace(t)
	want := inside(t, ns.Path())
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		t.Fatal(err)
	}
	last := -1
	for cpu := range 1024 {
		if allowed.IsSet(cpu) {
			last = cpu
		}
	}
	boom := errors.New("boom")
	release := make(chan struct{})
	th, err := netns.Go(ns.Path(), []int{last}, func() error {
		<-release
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(0, &set); err != nil {
			return err
		}
		if set.Count() != 1 || !set.IsSet(last) {
			t.Errorf("pinned to %v, want CPU %d", set, last)
		}
		if got := here(t); got != want {
			t.Errorf("in %s, want %s", got, want)
		}
		return boom
	})
	if err != nil {
		t.Fatal(err)
	}
	// The thread stands where it should before Go returns.
	if link, err := os.Readlink(filepath.Join("/proc/self/task", strconv.Itoa(th.Tid), "ns/net")); err != nil || link != want {
		t.Errorf("thread %d is in %s, want %s: %v", th.Tid, link, want, err)
	}
	select {
	case <-th.Done():
		t.Error("done before it has returned")
	default:
	}
	close(release)
	if err := th.Wait(); err != boom {
		t.Error(err)
	}
	<-th.Done()
	if err := th.Wait(); err != boom {
		t.Errorf("waited again: %v", err)
	}

	var now unix.CPUSet
	if err := unix.SchedGetaffinity(0, &now); err != nil || now != allowed {
		t.Errorf("our own CPUs changed to %v: %v", now, err)
	}
	ran := func() error { t.Error("it ran, though not pinned"); return nil }
	if _, err := netns.Go("", []int{1023}, ran); !errors.Is(err, unix.EINVAL) || !strings.Contains(err.Error(), "1023") {
		t.Errorf("a CPU that is not there: %v", err)
	}
}
