// SPDX-License-Identifier: Apache-2.0

// Package made holds what is made for subjects on the machine itself: compiled programs
// and virtual environments, in a store.
package made

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Store is the folder that holds what was made for subjects on this machine:
// $XDG_CACHE_HOME/boxdyno/subjects; without that variable /var/cache/boxdyno/subjects
// for root, and ~/.cache/boxdyno/subjects for others. It may not exist. Root has none
// where others could put a program.
func Store() (string, error) {
	cache := os.Getenv("XDG_CACHE_HOME")
	switch {
	case filepath.IsAbs(cache):
	case os.Geteuid() == 0:
		cache = "/var/cache"
	default:
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find the folder for subjects: %w", errors.Join(err, errors.New("set XDG_CACHE_HOME")))
		}
		cache = filepath.Join(home, ".cache")
	}
	dir := filepath.Join(cache, "boxdyno", "subjects")
	if os.Geteuid() != 0 {
		return dir, nil
	}
	return dir, RootsAlone(dir)
}

// RootsAlone is an error where others than root own or can write dir or a folder above
// it. Above it, one in which only owners rename and remove, such as /tmp, is good enough.
func RootsAlone(dir string) error {
	for at := dir; ; at = filepath.Dir(at) {
		var link, s unix.Stat_t
		err := errors.Join(unix.Lstat(at, &link), unix.Stat(at, &s))
		sticky := s.Mode&unix.S_ISVTX != 0 && at != dir
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return fmt.Errorf("look at the folder %s: %w", at, err)
		case link.Uid != 0 || s.Uid != 0 || s.Mode&0o022 != 0 && !sticky:
			return fmt.Errorf("the folder %s belongs to, or can be written by, others: root runs nothing from there (XDG_CACHE_HOME)", at)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// Digest tells versions of what is in the store apart.
func Digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}
