// SPDX-License-Identifier: Apache-2.0

// Package netns makes and enters network namespaces. It is the only place that
// locks an OS thread.
//
// A namespace made here has no name in the file system: it lives as long as a
// descriptor or a thread of this process does, so that even SIGKILL leaves
// nothing behind.
package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"boxdyno/internal/guard"
)

// A Namespace is a network namespace that this process keeps alive.
type Namespace struct {
	file *os.File
}

// New makes an empty network namespace, with its loopback down. It needs
// CAP_SYS_ADMIN (EPERM otherwise).
func New() (*Namespace, error) {
	var ns Namespace
	err := OnThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network namespace: %w", err)
		}
		f, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			return fmt.Errorf("keep a network namespace: %w", err)
		}
		ns.file = f
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &ns, nil
}

// Path names the namespace for Do, for host.Port and for other processes
// (nsenter --net=PATH) until Close.
func (n *Namespace) Path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.file.Fd()) }

// Fd is for netlink calls that move links; it stays owned by n.
func (n *Namespace) Fd() int { return int(n.file.Fd()) }

// Close lets go of the namespace; with its last thread gone the kernel removes
// all that is in it.
func (n *Namespace) Close() error { return n.file.Close() }

// Do runs f on a thread of its own in the namespace at path ("" is this one)
// and waits. f must not start goroutines that rely on the namespace: they do not
// inherit it. Programs that f starts do.
func Do(path string, f func() error) error {
	if path == "" {
		return f()
	}
	return OnThread(func() error {
		if err := enter(path); err != nil {
			return err
		}
		return f()
	})
}

// DoSys is Do with the namespace's own sysfs, rooted at sys: the one at /sys shows
// the devices of the namespace that mounted it. The file system is mounted
// nowhere (fsmount(2), Linux 5.2). It needs CAP_SYS_ADMIN.
func DoSys(path string, f func(sys *os.Root) error) error {
	return OnThread(func() error {
		if path != "" {
			if err := enter(path); err != nil {
				return err
			}
		}
		sys, err := openSysfs()
		if err != nil {
			return fmt.Errorf("open the namespace's sysfs: %w", err)
		}
		defer sys.Close()
		return f(sys)
	})
}

func openSysfs() (*os.Root, error) {
	context, err := unix.Fsopen("sysfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, err
	}
	defer unix.Close(context)
	if err := unix.FsconfigCreate(context); err != nil {
		return nil, err
	}
	mount, err := unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return nil, err
	}
	defer unix.Close(mount)
	return os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", mount))
}

// A Thread is an OS thread that runs one function.
type Thread struct {
	Tid  int // for tgkill
	done chan struct{}
	err  error
}

// Go starts f on a thread of its own in the namespace at path, pinned to cpus
// (none: not pinned). It returns once the thread stands there, or why it cannot.
func Go(path string, cpus []int, f func() error) (*Thread, error) {
	t := &Thread{done: make(chan struct{})}
	ready := make(chan error, 1)
	guard.Go(func() {
		defer close(t.done)
		defer close(ready)
		runtime.LockOSThread() // never unlocked: the thread dies with the goroutine
		if path != "" {
			if err := enter(path); err != nil {
				ready <- err
				return
			}
		}
		if err := pin(cpus); err != nil {
			ready <- err
			return
		}
		t.Tid = unix.Gettid()
		ready <- nil
		t.err = guard.Call(f)
	})
	if err := <-ready; err != nil {
		return nil, err
	}
	return t, nil
}

// Wait returns what f returned.
func (t *Thread) Wait() error { <-t.done; return t.err }

// Done is closed once f has returned.
func (t *Thread) Done() <-chan struct{} { return t.done }

// Interrupt makes the thread's system call return EINTR. The signal is the one
// that the Go runtime uses for itself, so it harms nothing.
func (t *Thread) Interrupt() error {
	return unix.Tgkill(os.Getpid(), t.Tid, unix.SIGURG)
}

// OnThread runs f on a thread of its own, which no other goroutine uses, and which ends after f.
func OnThread(f func() error) (err error) {
	var all guard.Group
	all.Go(func() {
		runtime.LockOSThread() // never unlocked: the thread dies with the goroutine
		err = guard.Call(f)
	})
	all.Wait()
	return err
}

func enter(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0) // it may be a FIFO
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("network namespace %s is gone: %w", path, err)
	}
	if err != nil {
		return fmt.Errorf("open network namespace: %w", err)
	}
	defer f.Close()
	if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter network namespace %s: %w", path, err)
	}
	return nil
}

func pin(cpus []int) error {
	if len(cpus) == 0 {
		return nil
	}
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c)
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("pin a thread to CPUs %v: %w", cpus, err)
	}
	return nil
}
