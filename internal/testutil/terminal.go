// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A Terminal is a pseudo-terminal: a test types, and sees what the program writes.
type Terminal struct {
	File   *os.File // the program's side
	master *os.File

	mu      sync.Mutex
	written []byte
}

// NewTerminal makes a terminal of that size, which is closed at the end of the test.
// It skips the test where there are no pseudo-terminals.
func NewTerminal(t testing.TB, columns, rows int) *Terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		t.Skipf("needs pseudo-terminals: mount devpts and let this user open /dev/ptmx (%v)", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	x := &Terminal{master: master}
	number := 0
	x.control(t, func(fd int) error {
		var err error
		if number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN); err != nil {
			return err
		}
		return unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	})
	x.Resize(t, columns, rows)
	if x.File, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		buf := make([]byte, 1<<16)
		for {
			n, err := master.Read(buf)
			if err != nil {
				return
			}
			x.mu.Lock()
			x.written = append(x.written, buf[:n]...)
			x.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		if err := errors.Join(x.File.Close(), master.Close()); err != nil {
			t.Error(err)
		}
		<-over
	})
	return x
}

// control calls f with the test's side. Fd would make it block for ever.
func (x *Terminal) control(t testing.TB, f func(fd int) error) {
	t.Helper()
	conn, err := x.master.SyscallConn()
	if err == nil {
		var ferr error
		err = conn.Control(func(fd uintptr) { ferr = f(int(fd)) })
		err = errors.Join(err, ferr)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Resize tells the program, if the terminal controls it.
func (x *Terminal) Resize(t testing.TB, columns, rows int) {
	t.Helper()
	x.control(t, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(columns), Row: uint16(rows)})
	})
}

// State is how the terminal treats what is typed and written.
func (x *Terminal) State(t testing.TB) (state unix.Termios) {
	t.Helper()
	x.control(t, func(fd int) error {
		s, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err == nil {
			state = *s
		}
		return err
	})
	return state
}

// Type types keys.
func (x *Terminal) Type(t testing.TB, keys string) {
	t.Helper()
	if _, err := x.master.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// Written is all that the program has written, escape sequences included.
func (x *Terminal) Written() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return string(x.written)
}

// Await waits until the program has written want behind its first from octets; after
// 20 s it fails the test.
func (x *Terminal) Await(t testing.TB, from int, want string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		x.mu.Lock()
		ok := len(x.written) >= from && bytes.Contains(x.written[from:], []byte(want))
		x.mu.Unlock()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the terminal never showed %q:\n%q", want, x.Written())
		}
	}
}
