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
	entries, err := os.ReadDir(dir) // by name: the time that they were begun
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), suffix) {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	slices.Sort(names)
	return names, err
}

// Read refuses a journal that neither root nor this user has written: what it says would
// be written to the machine.
func (real) Read(name string) ([]byte, error) {
	info, err := os.Lstat(name)
	if err != nil {
		return nil, err
	}
	if uid := int(info.Sys().(*syscall.Stat_t).Uid); uid != 0 && uid != os.Geteuid() {
		return nil, fmt.Errorf("%s belongs to user %d and is left alone: that user puts back what it says by boxdyno tune revert", name, uid)
	}
	return files.Read(name, longest)
}

func (d real) Create(name string) (file, error) {
	dir := filepath.Dir(name)
	if err := mkdirSynced(dir); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syncDir(dir); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (real) Append(name string, size int) (file, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(int64(size)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (real) Remove(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return syncDir(filepath.Dir(name))
}

// mkdirSynced makes dir and the folders above it, each on the disk.
func mkdirSynced(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent == dir {
		return fmt.Errorf("make %s: %w", dir, fs.ErrNotExist)
	}
	if err := mkdirSynced(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(parent)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
