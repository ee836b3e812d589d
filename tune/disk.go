// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"boxdyno/internal/files"
)

// A disk is where journals lie. Tests have one that crashes at every step.
type disk interface {
	List(dir string) ([]string, error) // of journals, oldest first; none where there is no dir
	Read(name string) ([]byte, error)
	Create(name string) (file, error)           // it and its folder are on the disk when it returns
	Append(name string, size int) (file, error) // after the first size octets; the rest is cut off
	Remove(name string) error
}

// A file is a journal that is being written.
type file interface {
	Write(p []byte) (int, error)
	Sync() error
	Close() error
}

// longest is more than a journal of all knobs of a machine has, in octets.
const longest = 64 << 20

// suffix is that of journals' names.
const suffix = ".journal"

// real is the machine's disk.
type real struct{}

func (real) List(dir string) (names []string, err error) {
	folder, err := files.OpenFolder(dir, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	all, err := folder.Names()
	for _, name := range all {
		if strings.HasSuffix(name, suffix) {
			names = append(names, filepath.Join(dir, name))
		}
	}
	slices.Sort(names) // by the time that they were begun
	return names, err
}

// Read refuses a journal that neither root nor this user has written: what it says would
// be written to the machine.
func (real) Read(name string) (data []byte, err error) {
	err = within(name, files.OpenFolder, func(folder *files.Folder, base string) error {
		f, err := folder.Open(base)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if uid := int(info.Sys().(*syscall.Stat_t).Uid); uid != 0 && uid != os.Geteuid() {
			return fmt.Errorf("%s belongs to user %d and is left alone: that user puts back what it says by boxdyno tune revert", name, uid)
		}
		data, err = files.ReadAll(f, longest)
		return err
	})
	return data, err
}

func (real) Create(name string) (f file, err error) {
	err = within(name, files.MakeFolder, func(folder *files.Folder, base string) error {
		made, err := folder.Create(base, 0o600)
		if err != nil {
			return err
		}
		if err := folder.Sync(); err != nil {
			return errors.Join(err, made.Close())
		}
		f = made
		return nil
	})
	return f, err
}

func (real) Append(name string, size int) (f file, err error) {
	err = within(name, files.OpenFolder, func(folder *files.Folder, base string) error {
		there, err := folder.Append(base, false)
		if err != nil {
			return err
		}
		if err := there.Truncate(int64(size)); err != nil {
			return errors.Join(err, there.Close())
		}
		f = there
		return nil
	})
	return f, err
}

func (real) Remove(name string) error {
	return within(name, files.OpenFolder, func(folder *files.Folder, base string) error {
		if err := folder.Remove(base); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return folder.Sync()
	})
}

// within holds a journal's folder during do: XDG_STATE_HOME may name a folder of another
// user, whose links root must not follow.
func within(name string, hold func(string, *files.Owner) (*files.Folder, error), do func(folder *files.Folder, base string) error) error {
	folder, err := hold(filepath.Dir(name), nil)
	if err != nil {
		return err
	}
	return errors.Join(do(folder, filepath.Base(name)), folder.Close())
}
