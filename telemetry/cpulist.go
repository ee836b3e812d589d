// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"bytes"
	"io/fs"
	"slices"

	"boxdyno/host"
)

// mostCPUs is more than Linux can have.
const mostCPUs = 1 << 14

// cpuOf parses "cpu12" after the prefix.
func cpuOf(b, prefix []byte) (int, bool) {
	digits, ok := bytes.CutPrefix(b, prefix)
	if !ok {
		return 0, false
	}
	n, ok := decimal(digits)
	return int(n), ok && n < mostCPUs
}

// cpuList reads one of sys/devices/system/cpu; none where there is none. "present" are
// the CPUs that could be on, "online" those that are.
func cpuList(root fs.FS, name string) []int {
	return host.ParseCPUs(sysText(root, "sys/devices/system/cpu/"+name))
}

// cpuIndex is CPUs and, for each number, where it stands in the list; -1: nowhere.
type cpuIndex struct {
	list []int
	at   []int
}

func indexCPUs(list []int) cpuIndex {
	slices.Sort(list)
	x := cpuIndex{list: slices.Compact(list)}
	if len(x.list) > 0 {
		x.at = slices.Repeat([]int{-1}, x.list[len(x.list)-1]+1)
	}
	for i, cpu := range x.list {
		x.at[cpu] = i
	}
	return x
}

func (x cpuIndex) of(cpu int) int {
	if cpu < 0 || cpu >= len(x.at) {
		return -1
	}
	return x.at[cpu]
}
