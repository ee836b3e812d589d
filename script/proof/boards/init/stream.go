// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/script/proof/boards/job"
)

// A stream is the results on their way to the host.
type stream struct {
	f *os.File
	w *tar.Writer
}

// openStream waits for the device: its driver was loaded a moment ago.
func openStream(pattern string) (*stream, error) {
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		names, err := filepath.Glob(pattern)
		if err != nil {
			return nil, fmt.Errorf("find %s for the results: %w", pattern, err)
		}
		if len(names) == 1 {
			f, err := os.OpenFile(names[0], os.O_WRONLY|unix.O_NOCTTY, 0)
			if err != nil {
				return nil, fmt.Errorf("open %s for the results: %w", names[0], err)
			}
			if err := raw(f); err != nil {
				return nil, fmt.Errorf("make %s a line for octets: %w", names[0], err)
			}
			return &stream{f, tar.NewWriter(f)}, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("the results need one device %s, and there are %d", pattern, len(names))
		}
	}
}

// raw keeps a serial line from changing what is written to it; other devices change
// nothing.
func raw(f *os.File) error {
	t, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		return nil
	}
	t.Oflag &^= unix.OPOST
	return unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, t)
}

func (s *stream) file(name string, data []byte) error {
	if err := s.w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data)), ModTime: time.Now()}); err != nil {
		return err
	}
	if _, err := s.w.Write(data); err != nil {
		return err
	}
	return s.w.Flush()
}

func (s *stream) object(name string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.file(name, data)
}

// end sends the files that the commands left, and the last entry.
func (s *stream) end() error {
	err := filepath.WalkDir(job.Out, func(name string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return s.file(strings.TrimPrefix(name, "/"), data)
	})
	return errors.Join(err, s.file(job.EndEntry, nil), s.w.Close(), s.f.Close())
}
