// SPDX-License-Identifier: Apache-2.0

package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Userland is an installation of programs in a folder beside the machine's own, such
// as those of 32 bit on a kernel of 64. They run with the folder as their root
// (chroot), in a mount namespace where /proc, /sys, /dev and the temporary folder are
// the machine's: nothing of it is left on the machine. It takes CAP_SYS_ADMIN and
// CAP_SYS_CHROOT.
type Userland struct {
	Name  string   `json:"name"`            // Debian's of its architecture: "i386"
	Root  string   `json:"root"`            // the folder
	Share []string `json:"share,omitempty"` // further folders of the machine that they see where they are
}

// userlandWord is the first argument of this binary where it becomes a program of a
// Userland; the Userland and the program's arguments follow.
const userlandWord = "enter-a-userland"

// The exit codes of such a process that did not become the program.
const (
	exitPrivilege = 126 // EPERM
	exitFormat    = 124 // ENOEXEC: no program of this machine's
)

// Programs says what the folder's programs are: "32 bit, i386, Debian GNU/Linux 12
// (bookworm)". The width is that of its shell.
func (u *Userland) Programs() string {
	root := os.DirFS(u.Root)
	words := []string{u.Name}
	if _, w, ok := strings.Cut(width(root), "programs "); ok {
		words = []string{w, u.Name}
	}
	if os := osName(root); os != "" {
		words = append(words, os)
	}
	return strings.Join(words, ", ")
}

// Lookup is where the folder has a program, as seen from inside; one that it lacks is a
// *Missing.
func (u *Userland) Lookup(name string) (string, error) {
	if filepath.IsAbs(name) {
		return name, nil
	}
	for _, dir := range []string{"/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"} {
		// A link there may be an absolute one, which does not lead out from inside.
		if _, err := os.Lstat(filepath.Join(u.Root, dir, name)); err == nil {
			return filepath.Join(dir, name), nil
		}
	}
	return "", &Missing{
		What:   fmt.Sprintf("the program %s among those of %s", name, u.Name),
		Remedy: [][]string{{"chroot", u.Root, "apt-get", "install", "-y", packageOf(name)}},
	}
}

// command is argv as a command of this machine that becomes the folder's program.
func (u *Userland) command(argv []string) ([]string, error) {
	path, err := u.Lookup(argv[0])
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(u)
	return append([]string{"/proc/self/exe", userlandWord, string(text), path}, argv[1:]...), err
}

// Arrange makes the machine's folders appear in the Userland's, in a mount namespace of
// this process's own, which must be a child that the caller made for it and be at its
// main goroutine. It does not change the root.
func (u *Userland) Arrange() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make a mount namespace for the programs of %s: %w", u.Name, err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep the mounts for the programs of %s apart: %w", u.Name, err)
	}
	for _, dir := range append([]string{"/proc", "/sys", "/dev", os.TempDir()}, u.Share...) {
		dir = filepath.Clean(dir)
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		at := filepath.Join(u.Root, dir)
		if err := os.MkdirAll(at, 0o755); err != nil {
			return fmt.Errorf("show %s to the programs of %s: %w", dir, u.Name, err)
		}
		if err := unix.Mount(dir, at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("show %s to the programs of %s: %w", dir, u.Name, err)
		}
	}
	return nil
}

// enter makes the folder this process's root; the current folder stays what it was
// called where it is there, too.
func (u *Userland) enter() error {
	here, err := os.Getwd()
	if err != nil {
		here = "/"
	}
	if err := u.Arrange(); err != nil {
		return err
	}
	if err := unix.Chroot(u.Root); err != nil {
		return fmt.Errorf("make %s the root: %w", u.Root, err)
	}
	if os.Chdir(here) != nil {
		return os.Chdir("/")
	}
	return nil
}

// userlandMain becomes a program of a Userland; it returns only when it failed, with the
// exit code.
func userlandMain(args []string) int {
	var u Userland
	err := json.Unmarshal([]byte(args[0]), &u)
	if err == nil {
		err = u.enter()
	}
	if err == nil {
		err = fmt.Errorf("start %s of %s: %w", args[1], u.Name, syscall.Exec(args[1], args[1:], os.Environ()))
	}
	fmt.Fprintln(os.Stderr, "boxdyno:", err)
	switch {
	case errors.Is(err, unix.EPERM):
		return exitPrivilege
	case errors.Is(err, unix.ENOEXEC):
		return exitFormat
	}
	return exitEntry
}

// lacks is what a process of the Userland that ended with a code lacked; nil: nothing.
func (u *Userland) lacks(code int) *Missing {
	switch code {
	case exitPrivilege:
		return Privilege("run the programs of " + u.Name)
	case exitFormat:
		return &Missing{What: "a CPU and a kernel that run programs of " + u.Name, Hint: "they cannot be run on this machine"}
	}
	return nil
}
