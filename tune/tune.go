// SPDX-License-Identifier: Apache-2.0

// Package tune changes settings of this machine and puts them back.
//
//	Recipe -> steps x ports -> read old -> journal (synced) -> write -> read back -> result.Setting
//	journal, last entry first  -> still what we left? -> write old -> journal gone
//
// The journal lies on the disk of the machine that is changed: who is killed
// between any two of these steps leaves enough behind for Recover to put every
// value back.
package tune

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/internal/caps"
	"boxdyno/internal/netns"
)

// A Scope says of what there is one setting.
type Scope string

const (
	PerPort    Scope = "port"      // of a network interface
	PerNetns   Scope = "namespace" // of a network namespace
	PerMachine Scope = "host"      // of the machine, whatever namespace the ports are in
)

// A Site is where a knob is turned.
type Site struct {
	Netns string // path of the port's namespace; "": the process's own. Always "" for PerMachine
	Port  string // "" unless PerPort
	root  string // in tests: a folder with proc and sys in it; "": the machine's
}

// A Spec is a knob: one setting that can be read, written and put back. Its values
// are text; what Read returns, Write takes.
type Spec struct {
	Name, Doc string
	Values    string // what it takes, for people
	Scope     Scope
	// Check says what is wrong with a recipe's value, without looking at a machine.
	Check func(value string) error
	// Read returns the present value. Its error is host.ErrNotSupported where this
	// kernel, driver or machine has no such setting.
	Read func(ctx context.Context, at Site) (string, error)
	// Resolve is the value that Read shall return after asked was written to where
	// now stands; nil: asked itself. ("rx=max" becomes "rx=4096 tx=256".)
	Resolve func(ctx context.Context, at Site, asked, now string) (string, error)
	// Write sets what Resolve, or an earlier Read, returned. A driver may round it:
	// whoever calls reads it back.
	Write func(ctx context.Context, at Site, value string) error
	// Disturbs are other settings that Write changes on the side; nil: none.
	Disturbs func(ctx context.Context, at Site) ([]Ref, error)
	// Export says how a reboot keeps it; nil: it does not.
	Export func(port, value string) ([]Exported, error)
}

// A Ref is a knob and the port that it is of; "": the machine or the namespace.
type Ref struct{ Knob, Port string }

// Find is the knob of a recipe's name. Its error says which there are.
func Find(name string) (Spec, error) {
	if key, ok := strings.CutPrefix(name, sysctlPrefix); ok {
		return sysctlSpec(key)
	}
	for _, s := range All {
		if s.Name == name && s.Read != nil {
			return s, nil
		}
	}
	var names []string
	for _, s := range All {
		names = append(names, s.Name)
	}
	return Spec{}, fmt.Errorf("there is no knob %q: the knobs are %s", name, strings.Join(names, ", "))
}

// oneOf is a Check for words.
func oneOf(words ...string) func(string) error {
	return func(v string) error {
		if !slices.Contains(words, v) {
			return fmt.Errorf("%q is none of %s", v, strings.Join(words, ", "))
		}
		return nil
	}
}

// within runs f in the site's namespace. f must not start goroutines.
func (s Site) within(f func() error) error { return netns.Do(s.Netns, f) }

// sys runs f with the sysfs of the site's namespace.
func (s Site) sys(f func(sys *os.Root) error) error {
	switch {
	case s.root != "":
		return inRoot(filepath.Join(s.root, "sys"), f)
	}
	err := netns.DoSys(s.Netns, f)
	if s.Netns == "" && errors.Is(err, unix.EPERM) && os.Geteuid() != 0 { // for reading, the one at /sys does
		return inRoot("/sys", f)
	}
	return err
}

// proc runs f with /proc, where proc/sys/net is that of the site's namespace.
func (s Site) proc(f func(proc *os.Root) error) error {
	dir := "/proc"
	if s.root != "" {
		dir = filepath.Join(s.root, "proc")
	}
	return s.within(func() error { return inRoot(dir, f) })
}

func inRoot(dir string, f func(*os.Root) error) error {
	r, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer r.Close()
	return f(r)
}

// readFile is a kernel file's text without its last newline. A file that is not
// there, or that answers that the device has no such thing, is ErrNotSupported.
func readFile(r *os.Root, name string) (string, error) {
	f, err := r.Open(name)
	if err != nil {
		return "", absent(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 1<<16))
	if err != nil {
		return "", absent(err)
	}
	return strings.TrimSuffix(string(data), "\n"), nil
}

// writeFile writes value in one call, as kernel files want it.
func writeFile(r *os.Root, name, value string) error {
	var f *os.File
	err := caps.Override(func() (err error) {
		f, err = r.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0)
		return err
	})
	if err != nil {
		return absent(err)
	}
	_, err = f.WriteString(value + "\n")
	return permitted(errors.Join(err, f.Close()))
}

// absent makes the kernel's ways to say "there is none" ErrNotSupported.
func absent(err error) error {
	for _, no := range []error{fs.ErrNotExist, unix.EOPNOTSUPP, unix.ENODEV, unix.ENXIO} {
		if errors.Is(err, no) {
			return fmt.Errorf("%w here (%v)", host.ErrNotSupported, err)
		}
	}
	return permitted(err)
}

// permitted makes a refusal for want of privilege a *host.Missing. Root lacks
// none: a file that root may not write is the kernel's no.
func permitted(err error) error {
	if !errors.Is(err, fs.ErrPermission) { // EPERM, EACCES
		return err
	}
	if os.Geteuid() == 0 {
		return fmt.Errorf("%w: the kernel does not let it be changed here (%v)", host.ErrNotSupported, err)
	}
	return host.Privilege(fmt.Sprintf("change it (%v)", err))
}

// link runs f with the port, in its namespace.
func (s Site) link(f func(netlink.Link) error) error {
	if s.root != "" {
		return fmt.Errorf("%w: a recorded tree has no ports to ask", host.ErrNotSupported)
	}
	return s.within(func() error {
		l, err := netlink.LinkByName(s.Port)
		if errors.As(err, &netlink.LinkNotFoundError{}) {
			return noPort(s.Port)
		}
		if err != nil {
			return fmt.Errorf("find port %s: %w", s.Port, err)
		}
		return absent(f(l))
	})
}

// A goneError says that a port or namespace is not there any more: with it went its
// settings.
type goneError string

func (e goneError) Error() string { return string(e) }

func noPort(name string) error { return goneError("port " + name + " is not there") }

func gone(err error) bool {
	var e goneError
	return errors.As(err, &e)
}
