// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"boxdyno/internal/files"
)

// What root makes for a user is that user's, and lies nowhere that a link of theirs leads.
func TestFolderOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to make files of another user: run script/test with sudo")
	}
	const user = 12345
	owner := &files.Owner{UID: user, GID: user}
	home, place := t.TempDir(), t.TempDir()
	away := filepath.Join(home, "away")
	if err := errors.Join(os.Chown(home, user, user), os.Symlink(place, away), os.Lchown(away, user, user)); err != nil {
		t.Fatal(err)
	}
	if _, err := loadKeys(filepath.Join(away, "fleet"), owner, true); !errors.Is(err, files.ErrLink) {
		t.Errorf("behind a link: %v", err)
	}
	if names, err := os.ReadDir(place); err != nil || len(names) > 0 {
		t.Errorf("root's folder holds %v, %v", names, err)
	}
	folder := filepath.Join(home, "state", "fleet")
	k, err := loadKeys(folder, owner, true)
	if err != nil {
		t.Fatal(err)
	}
	r, err := openRegistry(k)
	if err != nil {
		t.Fatal(err)
	}
	r.close()
	for name, mode := range map[string]os.FileMode{"..": 0o700, ".": 0o700, issuerFile: 0o600, registryFile: 0o600, lockFile: 0} {
		info, err := os.Stat(filepath.Join(folder, name))
		if err != nil || mode > 0 && info.Mode().Perm() != mode || info.Sys().(*syscall.Stat_t).Uid != user {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}
