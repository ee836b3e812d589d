// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What is no file of a bounded length is refused at once.
func TestReadRefuses(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	linked := filepath.Join(dir, "linked")
	if err := os.Symlink("/dev/zero", linked); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{fifo, linked, "/dev/zero", dir} {
		done := make(chan error, 1)
		go func() { _, err := Read(name, 100); done <- err }()
		select {
		case err := <-done:
			if !errors.Is(err, ErrNotRegular) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: it is still being read after a minute", name)
		}
	}
	if _, err := Read(filepath.Join(dir, "none"), 100); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that does not exist: %v", err)
	}
}

func TestReadIsBounded(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte("0123456789"), 0o600); err != nil {
		t.Fatal(err)
	}
	if data, err := Read(name, 10); err != nil || string(data) != "0123456789" {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := Read(name, 9); err == nil || !strings.Contains(err.Error(), name+" has more than 9 octets") {
		t.Errorf("one octet too many: %v", err)
	}
	if err := os.Truncate(name, 1<<40); err != nil { // a hole
		t.Fatal(err)
	}
	if data, err := Read(name, 1<<20); err == nil || len(data) > 1<<20+1 {
		t.Errorf("%d octets of a terabyte, %v", len(data), err)
	}
}
