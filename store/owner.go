// SPDX-License-Identifier: Apache-2.0

package store

import (
	"io/fs"
	"syscall"
)

// owner is the user whose file it is.
func owner(info fs.FileInfo) (uid int, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}
