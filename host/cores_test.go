// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestCoreTypes(t *testing.T) {
	topology := func(files map[string]string, cpu int, siblings string) {
		files[fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu)] = siblings + "\n"
	}
	plain := map[string]string{}
	for c, s := range []string{"0,2", "1,3", "0,2", "1,3"} {
		topology(plain, c, s)
	}
	// Two cores with two threads each and four without, as Intel's hybrids have them.
	hybrid := map[string]string{"sys/devices/cpu_core/cpus": "0-3\n", "sys/devices/cpu_atom/cpus": "4-7\n"}
	for c, s := range []string{"0-1", "0-1", "2-3", "2-3", "4", "5", "6", "7"} {
		topology(hybrid, c, s)
		hybrid[fmt.Sprintf("sys/devices/system/cpu/cpu%d/cpufreq/cpuinfo_max_freq", c)] = []string{"4700000", "3600000"}[c/4]
	}
	// Four little cores first, then four big ones, as in an RK3588.
	little := map[string]string{}
	var info strings.Builder
	for c := range 8 {
		topology(little, c, fmt.Sprint(c))
		fmt.Fprintf(&info, "processor\t: %d\nBogoMIPS\t: 48.00\nCPU part\t: %s\n\n", c, []string{"0xd05", "0xd0b"}[c/4])
		little[fmt.Sprintf("sys/devices/system/cpu/cpu%d/cpu_capacity", c)] = []string{"530", "1024"}[c/4]
	}
	little["proc/cpuinfo"] = info.String()
	for _, c := range []struct {
		name  string
		files map[string]string
		cpus  []int
		want  []CoreType
	}{
		{"hyper-threads", plain, []int{0, 1, 2, 3}, []CoreType{{"", []int{1, 0, 3, 2}}}},
		{"hybrid", hybrid, []int{0, 1, 2, 3, 4, 5, 6, 7}, []CoreType{{"core", []int{2, 0, 3, 1}}, {"atom", []int{7, 6, 5, 4}}}},
		{"big.LITTLE", little, []int{0, 1, 2, 3, 4, 5, 6, 7}, []CoreType{{"0xd0b", []int{7, 6, 5, 4}}, {"0xd05", []int{3, 2, 1, 0}}}},
		{"its little ones", little, []int{1, 2}, []CoreType{{"", []int{2, 1}}}},
		{"nothing known", nil, []int{5}, []CoreType{{"", []int{5}}}},
	} {
		got := coreTypes(tree(c.files), c.cpus)
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestParseCPUs(t *testing.T) {
	for list, want := range map[string][]int{"0-2,5": {0, 1, 2, 5}, "3": {3}, "": nil, "2-1": nil, "a": nil, "0-99999999": nil, "-1": nil} {
		if got := ParseCPUs(list); !slices.Equal(got, want) {
			t.Errorf("%q is %v, want %v", list, got, want)
		}
	}
	if got := Words([]int{0, 3}); got != "0+3" {
		t.Errorf("%q", got)
	}
}
