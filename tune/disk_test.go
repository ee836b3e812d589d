// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
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
