// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"boxdyno/script/proof/boards/job"
)

// results are what came back from a board, as far as they came.
type results struct {
	boot     job.Boot
	commands []ran
	files    map[string][]byte // below job.Out
	whole    bool              // to the last entry
}

// A ran is a command of the job with what it said.
type ran struct {
	job.Outcome
	stdout, stderr []byte
}

// readResults reads a stream of results. One that breaks off is no error.
func readResults(name string) (r results, err error) {
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return r, nil // QEMU did not get as far
	}
	if err != nil {
		return r, err
	}
	defer f.Close()
	r.files = map[string][]byte{}
	for t := tar.NewReader(f); ; {
		h, err := t.Next()
		var data []byte
		if err == nil {
			data, err = io.ReadAll(t)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return r, nil
		}
		if err == nil {
			err = r.take(h.Name, data)
		}
		if err != nil {
			return r, err
		}
	}
}

func (r *results) take(name string, data []byte) error {
	switch dir, base := path.Split(name); {
	case name == job.BootEntry:
		return json.Unmarshal(data, &r.boot)
	case name == job.EndEntry:
		r.whole = true
	case strings.HasPrefix(name, strings.TrimPrefix(job.Out, "/")+"/"):
		r.files[strings.TrimPrefix(name, strings.TrimPrefix(job.Out, "/")+"/")] = data
	default:
		n, err := strconv.Atoi(strings.TrimSuffix(dir, "/"))
		if err != nil || n < 0 || n > len(r.commands) {
			return fmt.Errorf("entry %q is of no command", name)
		}
		if n == len(r.commands) {
			r.commands = append(r.commands, ran{})
		}
		switch c := &r.commands[n]; base {
		case job.StdoutEntry:
			c.stdout = data
		case job.StderrEntry:
			c.stderr = data
		case job.OutcomeEntry:
			return json.Unmarshal(data, &c.Outcome)
		}
	}
	return nil
}

// save writes the files that came back below dir, and never outside of it.
func (r results) save(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for name, data := range r.files {
		if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return fmt.Errorf("save %s: %w", name, err)
		}
		if err := root.WriteFile(name, data, 0o644); err != nil {
			return fmt.Errorf("save %s: %w", name, err)
		}
	}
	return nil
}
