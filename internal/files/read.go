// SPDX-License-Identifier: Apache-2.0

// Package files reads files that others name, and writes into folders that others own.
package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ErrNotRegular is the error for a FIFO, a device, a socket or a folder where a file is
// wanted: reading it could wait, or yield octets, without end.
var ErrNotRegular = errors.New("it is not a regular file")

// Open opens a regular file for reading. Anything else is ErrNotRegular, at once.
func Open(name string) (*os.File, error) {
	info, err := os.Stat(name) // opening a device may already do something
	if err != nil {
		return nil, err
	}
	if err := regular(name, info); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil { // it may be another one by now
		err = regular(name, info)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func regular(name string, info fs.FileInfo) error {
	if info.Mode().IsRegular() {
		return nil
	}
	return &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
}

// Read reads a regular file of at most most octets. A longer one is an error, of which
// no more is read.
func Read(name string, most int64) ([]byte, error) {
	f, err := Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadAll(f, most)
}

// ReadAll is Read of an open file.
func ReadAll(f *os.File, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s has more than %d octets", f.Name(), most)
	}
	return data, err
}
