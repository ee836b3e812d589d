// SPDX-License-Identifier: Apache-2.0

package subject

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// store is the folder that holds what was made for subjects on this machine:
// $XDG_CACHE_HOME/boxdyno/subjects; without that variable /var/cache/boxdyno/subjects
// for root, and ~/.cache/boxdyno/subjects for others. It may not exist.
func store() (string, error) {
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
	return filepath.Join(cache, "boxdyno", "subjects"), nil
}

// digest tells versions of what is in the store apart.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}
