// SPDX-License-Identifier: Apache-2.0

package host

import (
	"io/fs"
	"strconv"
	"strings"
)

// Throttles is how often this machine slowed down for heat or for lack of power since boot,
// as far as it counts that (x86); -1 where it does so now (the firmware of a Raspberry Pi).
func (l *Local) Throttles() (n int64) {
	_ = l.View(func(root fs.FS) error {
		files, _ := fs.Glob(root, "sys/devices/platform/*firmware*/get_throttled") // the pattern is good
		more, _ := fs.Glob(root, "sys/devices/platform/soc/soc:firmware/get_throttled")
		for _, f := range append(files, more...) {
			flags, err := strconv.ParseUint(strings.TrimPrefix(line(root, f), "0x"), 16, 64)
			if err == nil && flags&0xf != 0 {
				n = -1
				return nil
			}
		}
		for _, name := range []string{"core_throttle_count", "package_throttle_count"} {
			count, _ := strconv.ParseInt(throttled(root, name), 10, 64) // "" where there is none
			n += count
		}
		return nil
	})
	return n
}
