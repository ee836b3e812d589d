// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/result"
)

// trash is the folder for runs that were removed, in the folder of runs: on the same
// file system, so that a run moves as a whole or not at all.
//
//	runs/.trash/20260102T150405.123456789Z/RUN
const trash = ".trash"

// stampForm is that of the folders in the trash, one for each call of Remove. Their
// names are in the order of time.
const stampForm = "20060102T150405.000000000Z"

// A Trashed run can be restored.
type Trashed struct {
	Name string    `json:"name"`
	Dir  string    `json:"dir"`
	At   time.Time `json:"removed"`
}

// ErrNotThere is the error for a run that is not in the folder of runs, or not in its
// trash.
var ErrNotThere = errors.New("there is no such run")

// ErrEmptyTrash is the error for undoing where nothing was removed.
var ErrEmptyTrash = errors.New("the trash is empty: nothing was removed")

// plain refuses what is no name of a run in a folder: paths, and hidden folders.
func plain(name string) error {
	if name == "" || name != filepath.Base(name) || strings.HasPrefix(name, ".") || strings.ContainsRune(name, '/') {
		return fmt.Errorf("%q is not the name of a run in the folder of runs", name)
	}
	return nil
}

// Remove moves runs, named by their folders in the folder runs, to its trash: all, or
// none with an error. A run to which a process still writes stays, and so does what is
// no run or a link.
func Remove(runs string, names []string, now time.Time) error {
	root, err := os.OpenRoot(runs)
	if err != nil {
		return fmt.Errorf("open the folder of runs: %w", err)
	}
	defer root.Close()
	for i, name := range names {
		err := plain(name)
		switch {
		case err != nil:
		case slices.Contains(names[:i], name):
			err = errors.New("it is named twice")
		default:
			err = isRun(root, name)
		}
		if err == nil && result.InUse(filepath.Join(runs, name)) {
			err = errors.New("a process still writes to it")
		}
		if err != nil {
			return fmt.Errorf("remove %s: %w", name, err)
		}
	}
	return move(root, runs, names, filepath.Join(trash, now.UTC().Format(stampForm)))
}

// move moves runs to the folder at, which it makes in the trash of the folder runs: all, or
// none. One that a process has begun to write to meanwhile comes back.
func move(root *os.Root, runs string, names []string, at string) error {
	if err := root.Mkdir(trash, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the trash: %w", err)
	}
	if err := root.Mkdir(at, 0o755); err != nil {
		return fmt.Errorf("make the trash: %w", err)
	}
	for i, name := range names {
		err, moved := root.Rename(name, filepath.Join(at, name)), i
		if err == nil && result.InUse(filepath.Join(runs, at, name)) {
			err, moved = errors.New("a process still writes to it"), i+1
		}
		if err != nil {
			for _, back := range names[:moved] {
				err = errors.Join(err, root.Rename(filepath.Join(at, back), back))
			}
			return errors.Join(fmt.Errorf("remove %s: %w", name, err), root.Remove(at))
		}
	}
	return nil
}

// isRun says why a name in root is no run.
func isRun(root *os.Root, name string) error {
	info, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ErrNotThere
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return errors.New("it is a link: remove the link by hand")
	case !info.IsDir():
		return errors.New("it is not a folder")
	}
	if _, err := root.Lstat(filepath.Join(name, result.RunFile)); err != nil {
		return fmt.Errorf("it is no run: it has no %s", result.RunFile)
	}
	return nil
}

// Trash lists what was removed from the folder runs, the last removed last.
func Trash(runs string) (all []Trashed, err error) {
	root, err := os.OpenRoot(runs)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the folder of runs: %w", err)
	}
	defer root.Close()
	read := func(name string) ([]fs.DirEntry, error) {
		dir, err := root.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the trash: %w", err)
		}
		defer dir.Close()
		return dir.ReadDir(-1)
	}
	stamps, err := read(trash)
	if err != nil {
		return nil, err
	}
	for _, s := range stamps {
		at, err := time.Parse(stampForm, s.Name())
		if err != nil || !s.IsDir() {
			continue // nothing of ours
		}
		inside, err := read(filepath.Join(trash, s.Name()))
		if err != nil {
			return nil, err
		}
		for _, e := range inside {
			if e.IsDir() {
				all = append(all, Trashed{e.Name(), filepath.Join(runs, trash, s.Name(), e.Name()), at})
			}
		}
	}
	slices.SortFunc(all, func(a, b Trashed) int { return cmp.Or(a.At.Compare(b.At), strings.Compare(a.Name, b.Name)) })
	return all, nil
}

// Restore moves runs back from the trash, of each the one that was removed last; with no
// names what the last Remove moved. It returns the runs that are back. A run whose name
// another has taken meanwhile stays in the trash.
func Restore(runs string, names []string) (back []string, err error) {
	all, err := Trash(runs)
	if err != nil {
		return nil, err
	}
	var which []Trashed
	for _, name := range names {
		i := len(all) - 1
		for i >= 0 && all[i].Name != name {
			i--
		}
		if i < 0 {
			return nil, fmt.Errorf("restore %s: %w in the trash", name, ErrNotThere)
		}
		which = append(which, all[i])
	}
	if len(names) == 0 {
		for _, t := range all {
			if t.At.Equal(all[len(all)-1].At) {
				which = append(which, t)
			}
		}
	}
	if len(which) == 0 {
		return nil, ErrEmptyTrash
	}
	root, err := os.OpenRoot(runs)
	if err != nil {
		return nil, fmt.Errorf("open the folder of runs: %w", err)
	}
	defer root.Close()
	dir, err := root.Open(".")
	if err != nil {
		return nil, fmt.Errorf("open the folder of runs: %w", err)
	}
	defer dir.Close()
	for _, t := range which {
		at := filepath.Join(trash, t.At.UTC().Format(stampForm))
		if err := giveBack(root, dir, at, t.Name); err != nil {
			return back, fmt.Errorf("restore %s: %w", t.Name, err)
		}
		back = append(back, t.Name)
		_ = root.Remove(at) // where it is empty now
	}
	return back, nil
}

// giveBack moves a run back, and never over another.
func giveBack(root *os.Root, dir *os.File, at, name string) error {
	from, err := root.Open(at)
	if err != nil {
		return err
	}
	defer from.Close()
	err = unix.Renameat2(int(from.Fd()), name, int(dir.Fd()), name, unix.RENAME_NOREPLACE)
	if err == unix.EEXIST {
		return errors.New("another run has its name now: rename that one first")
	}
	return err
}

// Empty deletes for ever what is in the trash of the folder runs.
func Empty(runs string) error {
	root, err := os.OpenRoot(runs)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the folder of runs: %w", err)
	}
	defer root.Close()
	if info, err := root.Lstat(trash); err == nil && !info.IsDir() {
		return fmt.Errorf("empty the trash: %s is not a folder", filepath.Join(runs, trash))
	}
	if err := root.RemoveAll(trash); err != nil {
		return fmt.Errorf("empty the trash: %w", err)
	}
	return nil
}
