// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"boxdyno/internal/files"
)

// A journal that another user, or nobody, has written is not believed.
func TestJournalOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a file of another user: run script/test with sudo")
	}
	name := filepath.Join(t.TempDir(), "1-1"+suffix)
	if err := errors.Join(os.WriteFile(name, []byte("{}\n"), 0o600), os.Chown(name, 12345, 12345)); err != nil {
		t.Fatal(err)
	}
	if _, err := (real{}).Read(name); err == nil || !strings.Contains(err.Error(), name+" belongs to user 12345") {
		t.Errorf("of another user: %v", err)
	}
	link := filepath.Join(t.TempDir(), "2-2"+suffix) // of another user, to a file of root's
	if err := errors.Join(os.Chown(name, 0, 0), os.Symlink(name, link), os.Lchown(link, 12345, 12345)); err != nil {
		t.Fatal(err)
	}
	if _, err := (real{}).Read(link); err == nil || !strings.Contains(err.Error(), link) {
		t.Errorf("a link of another user: %v", err)
	}
	if data, err := (real{}).Read(name); err != nil || string(data) != "{}\n" {
		t.Errorf("of this user: %q, %v", data, err)
	}
	fifo := filepath.Join(t.TempDir(), "3-3"+suffix)
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (real{}).Read(fifo); err == nil {
		t.Error("a FIFO was read")
	}
}

// Root makes no journal where a link of another user leads, and finds those elsewhere.
func TestJournalBehindALink(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a link of another user: run script/test with sudo")
	}
	place, own := t.TempDir(), t.TempDir()
	away := filepath.Join(t.TempDir(), "away")
	if err := errors.Join(os.Symlink(place, away), os.Lchown(away, 12345, 12345)); err != nil {
		t.Fatal(err)
	}
	if _, err := (real{}).Create(filepath.Join(away, "tune", "1-1"+suffix)); !errors.Is(err, files.ErrLink) {
		t.Errorf("below a link: %v", err)
	}
	if _, err := (real{}).Create(filepath.Join(away, "1-1"+suffix)); !errors.Is(err, files.ErrLink) {
		t.Errorf("in a link: %v", err)
	}
	if names, err := os.ReadDir(place); err != nil || len(names) > 0 {
		t.Errorf("root's folder holds %v, %v", names, err)
	}
	f, err := (real{}).Create(filepath.Join(own, "2-2"+suffix))
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	js, notes, err := (&Tuner{disk: real{}, dirs: []string{away, own}}).journals()
	if err != nil || len(js) != 1 || len(notes) != 1 || !strings.Contains(notes[0], away) {
		t.Errorf("%d journals, %q, %v", len(js), notes, err)
	}
}
