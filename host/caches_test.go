// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"testing"
)

// Each cache of the highest level is counted once, and instructions' are none.
func TestLastLevelCache(t *testing.T) {
	files := map[string]string{}
	add := func(cpu, index int, level, kind, size, shared string) {
		dir := fmt.Sprintf("sys/devices/system/cpu/cpu%d/cache/index%d/", cpu, index)
		files[dir+"level"], files[dir+"type"], files[dir+"size"], files[dir+"shared_cpu_list"] = level+"\n", kind+"\n", size+"\n", shared+"\n"
	}
	for cpu := range 4 {
		pair := []string{"0-1", "0-1", "2-3", "2-3"}[cpu]
		add(cpu, 0, "1", "Data", "48K", fmt.Sprint(cpu))
		add(cpu, 1, "1", "Instruction", "64K", fmt.Sprint(cpu))
		add(cpu, 2, "2", "Unified", "2048K", fmt.Sprint(cpu))
		add(cpu, 3, "3", "Unified", "32M", pair)
	}
	add(4, 0, "1", "Data", "32K", "4")
	add(4, 1, "1", "Instruction", "64K", "4")
	for _, c := range []struct {
		cpus []int
		want int64
	}{{[]int{0}, 32 << 20}, {[]int{0, 1}, 32 << 20}, {[]int{1, 2, 3}, 64 << 20}, {[]int{4}, 32 << 10}, {[]int{9}, 0}, {nil, 0}} {
		if got := lastLevelCache(tree(files), c.cpus); got != c.want {
			t.Errorf("CPUs %v: %d, want %d", c.cpus, got, c.want)
		}
	}
	for text, want := range map[string]int64{"266240K": 260 << 20, "1G": 1 << 30, "512": 512, "": 0, "x": 0, "-": 0} {
		if got := cacheSize(text); got != want {
			t.Errorf("%q is %d, want %d", text, got, want)
		}
	}
}
