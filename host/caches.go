// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// LastLevelCache is how many octets the caches of the highest level have that these CPUs
// use, each of them counted once, as the kernel says; 0: it does not say.
func (l *Local) LastLevelCache(cpus []int) (octets int64) {
	_ = l.View(func(root fs.FS) error {
		octets = lastLevelCache(root, cpus)
		return nil
	})
	return octets
}

func lastLevelCache(root fs.FS, cpus []int) (octets int64) {
	counted := map[string]bool{}
	for _, c := range cpus {
		dir := fmt.Sprintf("sys/devices/system/cpu/cpu%d/cache", c)
		entries, _ := fs.ReadDir(root, dir) // many boards have none
		var size int64
		var level int
		var last string
		for _, e := range entries {
			of := func(name string) string { return line(root, dir+"/"+e.Name()+"/"+name) }
			n, err := strconv.Atoi(of("level"))
			if s := cacheSize(of("size")); err == nil && s > 0 && n > level && of("type") != "Instruction" {
				level, size, last = n, s, fmt.Sprintf("%d of %s", n, of("shared_cpu_list"))
			}
		}
		if level > 0 && !counted[last] {
			counted[last] = true
			octets += size
		}
	}
	return octets
}

// cacheSize reads the kernel's "512K".
func cacheSize(text string) int64 {
	digits := strings.TrimRight(text, "KMG")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0
	}
	return n << map[string]int{"K": 10, "M": 20, "G": 30}[text[len(digits):]]
}
