// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"boxdyno/host"
)

// parseCPUs reads the kernel's lists of CPUs, "0-3,8".
func parseCPUs(list string) ([]int, error) {
	cpus := host.ParseCPUs(list)
	if cpus == nil {
		return nil, fmt.Errorf("%q is no list of CPUs, such as 0-3", list)
	}
	slices.Sort(cpus)
	return slices.Compact(cpus), nil
}

// formatCPUs writes them as the kernel does; cpus are in order.
func formatCPUs(cpus []int) string {
	var words []string
	for i := 0; i < len(cpus); {
		j := i
		for j+1 < len(cpus) && cpus[j+1] == cpus[j]+1 {
			j++
		}
		w := strconv.Itoa(cpus[i])
		if j > i {
			w += "-" + strconv.Itoa(cpus[j])
		}
		words = append(words, w)
		i = j + 1
	}
	return strings.Join(words, ",")
}

// presentCPUs is one more than the number of the last CPU that is there.
func presentCPUs() (int, error) {
	text, err := os.ReadFile("/sys/devices/system/cpu/present")
	if err != nil {
		return 0, err
	}
	cpus, err := parseCPUs(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("read the CPUs that are present: %w", err)
	}
	return cpus[len(cpus)-1] + 1, nil
}
