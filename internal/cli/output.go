// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"boxdyno/runner"
)

// outputKind is the extension of what a command writes: that of --output, which is one of
// kinds, .json or .txt. It refuses an output and a JUnit file that could not be written.
func outputKind(what, out, junit string, asJSON bool, kinds ...string) (ext string, err error) {
	switch {
	case out != "" && out != "-":
		if ext = strings.ToLower(filepath.Ext(out)); !slices.Contains(kinds, ext) {
			last := len(kinds) - 1
			return "", &runner.PlanError{Err: fmt.Errorf("%s %s: its name ends in %s or %s", what, out, strings.Join(kinds[:last], ", "), kinds[last])}
		}
		err = outputFile("--output", out, "")
	case asJSON:
		ext = ".json"
	default:
		ext = ".txt"
	}
	if err == nil && junit != "" {
		err = outputFile("--junit", junit, "")
	}
	return ext, err
}

// outputFile refuses a file that could not be written, before any work is done for it.
// Its folder must exist, unless it is own or lies below own: boxdyno makes those.
// The error is a *runner.PlanError at flag.
func outputFile(flag, name, own string) error {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return &runner.PlanError{At: flag, Err: fmt.Errorf("%s is a folder: give the name of a file in it", name)}
	}
	dir := filepath.Dir(name)
	if own != "" && within(own, dir) {
		return outputFolder(flag, dir)
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return &runner.PlanError{At: flag, Err: fmt.Errorf("the folder %s does not exist: make it, or name a file in one that exists", dir)}
	}
	return outputFolder(flag, dir)
}

// outputFolder refuses a folder that does not exist and cannot be made, and one that
// this user may not write into. The error is a *runner.PlanError at flag.
func outputFolder(flag, dir string) error {
	if err := writable(dir); err != nil {
		return &runner.PlanError{At: flag, Err: fmt.Errorf("%w; choose another place", err)}
	}
	return nil
}

// writable is an error where this user may not write into dir, or not make it.
func writable(dir string) error {
	at := dir
	info, err := os.Stat(at)
	for errors.Is(err, fs.ErrNotExist) && filepath.Dir(at) != at {
		at = filepath.Dir(at)
		info, err = os.Stat(at)
	}
	switch {
	case errors.Is(err, unix.ENOTDIR), err == nil && !info.IsDir():
		err = errors.New("not a directory")
	case err == nil:
		err = unix.Faccessat(unix.AT_FDCWD, at, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	}
	switch {
	case err == nil:
		return nil
	case at == dir:
		return fmt.Errorf("cannot write in %s: %w", dir, err)
	}
	return fmt.Errorf("cannot make %s: cannot write in %s: %w", dir, at, err)
}

// within says whether dir is own or lies below it.
func within(own, dir string) bool {
	own, err1 := filepath.Abs(own)
	dir, err2 := filepath.Abs(dir)
	if err1 != nil || err2 != nil {
		return false
	}
	rel, err := filepath.Rel(own, dir)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}
