// SPDX-License-Identifier: Apache-2.0

// Package caps keeps what file capabilities (setcap) give this program from the files,
// programs and environment of those who may run it.
package caps

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Path is where a program that has capabilities looks for others: in folders of root.
const Path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// kept are the variables of the environment that such a program, and with it the
// programs that it starts, may see, besides LC_*.
var kept = []string{
	"HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM", "COLORTERM", "NO_COLOR", "COLUMNS", "LINES",
	"XDG_STATE_HOME", "XDG_CACHE_HOME", "SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY", "SSH_AUTH_SOCK",
}

// confined says that this process has capabilities and is not root's.
var confined bool

// Confine is to be called before anything else. Where this process has capabilities
// without being root's, it takes CAP_DAC_OVERRIDE out of the effective set of every
// thread, so that files are opened by the right of whoever runs it, and replaces the
// environment. A program that is set-user-ID is an error.
func Confine() error {
	if unix.Getuid() != unix.Geteuid() {
		return errors.New("this program is set-user-ID, for which it is not made: take that away by chmod u-s, and run it with sudo")
	}
	if unix.Geteuid() == 0 {
		return nil
	}
	data, err := get()
	if err != nil {
		return err
	}
	if data[0].Permitted|data[1].Permitted == 0 {
		return nil
	}
	confined = true
	clean()
	data[0].Effective &^= 1 << unix.CAP_DAC_OVERRIDE
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data[0])), 0); errno != 0 {
		return fmt.Errorf("lay down CAP_DAC_OVERRIDE: %w", errno)
	}
	return nil
}

// clean leaves of the environment what is harmless.
func clean() {
	env := os.Environ()
	os.Clearenv()
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		if slices.Contains(kept, name) || strings.HasPrefix(name, "LC_") {
			os.Setenv(name, value)
		}
	}
	os.Setenv("PATH", Path)
}

// Override runs f where root's files of the kernel may be opened: with CAP_DAC_OVERRIDE
// on this thread alone, if this process has it by file capabilities. f opens files
// below /proc, /sys, /dev or /run whose names no user chose, and does not start
// goroutines that rely on it.
func Override(f func() error) (err error) {
	if !confined {
		return f()
	}
	data, err := get()
	if err != nil || data[0].Permitted&(1<<unix.CAP_DAC_OVERRIDE) == 0 {
		return errors.Join(err, f())
	}
	runtime.LockOSThread()
	defer func() {
		if derr := effective(false); derr != nil {
			err = errors.Join(err, derr) // the thread stays locked, and is nobody else's
			return
		}
		runtime.UnlockOSThread()
	}()
	if err := effective(true); err != nil {
		return err
	}
	return f()
}

// effective raises CAP_DAC_OVERRIDE on this thread, or lowers it.
func effective(on bool) error {
	data, err := get()
	if err != nil {
		return err
	}
	data[0].Effective &^= 1 << unix.CAP_DAC_OVERRIDE
	if on {
		data[0].Effective |= 1 << unix.CAP_DAC_OVERRIDE
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("raise or lower CAP_DAC_OVERRIDE: %w", err)
	}
	return nil
}

func get() (data [2]unix.CapUserData, err error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &data[0]); err != nil {
		return data, fmt.Errorf("read the capabilities: %w", err)
	}
	return data, nil
}

// networking are the programs of the system that need capabilities to do what this one
// asks of them.
var networking = []string{"nft", "ip", "tc"}

// Inherit hands capabilities of the network on to a program that is to be started, if
// it is one of the system's tools that need them. Every other program gets none. Root's
// programs have theirs anyway.
func Inherit(program string) *syscall.SysProcAttr {
	if !confined || !slices.Contains(networking, program) {
		return nil
	}
	data, err := get()
	if err != nil {
		return nil
	}
	var caps []uintptr
	for _, c := range []uintptr{unix.CAP_NET_ADMIN, unix.CAP_NET_RAW} {
		if data[0].Permitted&(1<<c) != 0 {
			caps = append(caps, c)
		}
	}
	return &syscall.SysProcAttr{AmbientCaps: caps}
}
