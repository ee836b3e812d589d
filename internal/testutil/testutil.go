// SPDX-License-Identifier: Apache-2.0

// Package testutil is what tests of several packages share.
package testutil

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"boxdyno/internal/netns"
)

// Privileged skips the test where this process may not make a network
// namespace. It finds out by trying; any answer but "not permitted" fails.
func Privileged(t testing.TB) {
	t.Helper()
	ns, err := netns.New()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		t.Skip("needs root or capabilities to make a network namespace: run script/test with sudo")
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := ns.Close(); err != nil {
		t.Fatal(err)
	}
}

// Timed skips a test that bounds how long something takes, where the bounds do not
// hold: with the race detector, whose run has other tests beside it. script/test runs
// what is skipped there once more, without the detector, and this one Alone.
func Timed(t testing.TB) {
	t.Helper()
	Unraced(t, "is timed")
	Alone(t)
}

// Alone skips a test that measures, or bounds a time, with BOXDYNO_TESTS=shared: so
// script/test calls programs of tests that run side by side. What is skipped there it
// runs once more, one after another.
func Alone(t testing.TB) {
	t.Helper()
	if os.Getenv("BOXDYNO_TESTS") == "shared" {
		t.Skip("runs with nothing beside it")
	}
}

// TwoCPUs are two that this process may run on. It skips the test where there is
// one only.
func TwoCPUs(t testing.TB) [2]int {
	t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	var cpus []int
	for c := 0; c < 8*int(unsafe.Sizeof(set)); c++ {
		if set.IsSet(c) {
			cpus = append(cpus, c)
		}
	}
	if len(cpus) < 2 {
		t.Skip("needs two CPUs: run script/test on a machine that has them, with both allowed (nproc)")
	}
	return [2]int(cpus)
}

// NoLeaks fails the test if, once it and its other clean-ups are over, it left
// goroutines or file descriptors behind. Call it first. It counts those of the
// whole process, so the test must not be parallel.
func NoLeaks(t testing.TB) {
	t.Helper()
	noLeaks(t, time.Minute)
}

// noLeaks waits for so long until what ends by itself has ended.
func noLeaks(t testing.TB, wait time.Duration) {
	t.Helper()
	goroutines, fds := runtime.NumGoroutine(), openFiles(t)
	t.Cleanup(func() {
		deadline := time.Now().Add(wait)
		for {
			g, f := runtime.NumGoroutine(), openFiles(t)
			if g <= goroutines && len(f) <= len(fds) {
				return
			}
			if time.Now().After(deadline) {
				buf := make([]byte, 1<<20)
				t.Errorf("left behind: %d goroutines (%d before), %d descriptors (%d before)\n%s\n%s",
					g, goroutines, len(f), len(fds), strings.Join(f, "\n"), buf[:runtime.Stack(buf, true)])
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}

func openFiles(t testing.TB) (names []string) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil || strings.HasPrefix(target, "anon_inode:[eventpoll]") || strings.HasPrefix(target, "anon_inode:[eventfd]") {
			continue // gone since, or the runtime's own poller
		}
		names = append(names, e.Name()+" "+target)
	}
	return names
}
