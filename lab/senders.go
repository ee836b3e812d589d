// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"boxdyno/engine"
	"boxdyno/host"
	"boxdyno/result"
)

// senderCPUs are those of cpus for senders beside the first, which is on tester: none of
// the cores of dut (-1: the DUT has none here), each core's first thread before its others.
// sys is the machine's /sys.
func senderCPUs(tester, dut int, cpus []int, sys fs.FS) []int {
	used := map[string]bool{}
	if core := coreOf(sys, tester); core != "" {
		used[core] = true
	}
	var first, others []int
	for _, cpu := range slices.Backward(cpus) {
		core := coreOf(sys, cpu)
		switch {
		case cpu == tester || cpu == dut || dut >= 0 && core != "" && core == coreOf(sys, dut):
		case core != "" && used[core]:
			others = append(others, cpu)
		default:
			used[core] = core != ""
			first = append(first, cpu)
		}
	}
	return append(first, others...)
}

// sendersBeside is senderCPUs of this machine.
func sendersBeside(tester, dut int) ([]int, error) {
	cpus, err := host.AllowedCPUs()
	return senderCPUs(tester, dut, cpus, os.DirFS("/sys")), err
}

// narrow leaves tb as many senders as its backend has room for at each of ports.
func narrow(tb *Testbed, ports []host.Port) error {
	limited, ok := tb.Engine.(engine.Limited)
	if !ok {
		return nil
	}
	for _, p := range ports {
		n, err := limited.SendQueues(p)
		if err != nil {
			return fmt.Errorf("look at the queues of %s: %w", p.Name, err)
		}
		if more := max(n, 1) - 1; more < len(tb.Senders) {
			queues := "1 queue"
			if n > 1 {
				queues = fmt.Sprintf("%d queues", n)
			}
			tb.Senders = tb.Senders[:more]
			tb.Narrow = fmt.Sprintf("port %s has %s to send by, and each sender of backend %s needs its own (ethtool -L)", p.Name, queues, tb.Engine.Name())
		}
	}
	return nil
}

// senderSettings say on which CPUs senders may be, where there is more than one.
func senderSettings(f Facts) []result.Pair {
	if len(f.Senders) == 0 {
		return nil
	}
	return []result.Pair{{Key: "sender_cpus", Value: CPUList(append([]int{f.TesterCPU}, f.Senders...))}}
}

// CPUList is cpus as a list, such as 0,2,3.
func CPUList(cpus []int) string {
	var text []string
	for _, c := range cpus {
		text = append(text, strconv.Itoa(c))
	}
	return strings.Join(text, ",")
}
