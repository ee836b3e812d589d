// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"boxdyno/host"
	"boxdyno/result"
)

// The placements of tester and DUT on one machine's CPUs (METHOD: a shared core
// closes the loop, for the DUT throttles the tester).
const (
	shared = "shared" // one CPU does all: NAPI runs in the sender's softirq
	split  = "split"  // the DUT's receive work has a CPU of its own
)

// A place is who works on which CPU.
type place struct {
	name        string
	tester, dut int
	siblings    bool // split, but both are threads of one core
}

func (p place) cpus() []int {
	if p.tester == p.dut {
		return []int{p.dut}
	}
	return []int{p.tester, p.dut}
}

func (p place) settings() []result.Pair {
	napi := "in the sender's softirq"
	if p.name == split {
		napi = fmt.Sprintf("threads pinned to CPU %d, nice %d, slice %v, SCHED_FIFO for programs that capture", p.dut, firstNice, slice)
	}
	return []result.Pair{
		{Key: "placement", Value: p.name},
		{Key: "tester_cpu", Value: strconv.Itoa(p.tester)},
		{Key: "dut_cpu", Value: strconv.Itoa(p.dut)},
		{Key: "one_core", Value: strconv.FormatBool(p.name == shared || p.siblings)},
		{Key: "napi", Value: napi},
		{Key: "meter_napi", Value: "in the DUT's softirq"},
	}
}

// buildPlaced builds at the placement wanted; "" is split, or shared where build says
// that this machine has no split (host.ErrNotSupported).
func buildPlaced(want string, build func(place) (*Testbed, error)) (*Testbed, error) {
	at, err := placed(want)
	if err != nil {
		return nil, err
	}
	tb, err := build(at)
	if want == "" && errors.Is(err, host.ErrNotSupported) {
		why := err.Error()
		if tb, err = build(place{name: shared, tester: at.dut, dut: at.dut}); err == nil {
			tb.Settings = append(tb.Settings, result.Pair{Key: "no_split", Value: why})
		}
	}
	return tb, err
}

// placed is the place that is tried first on this machine.
func placed(want string) (place, error) {
	cpus, err := host.AllowedCPUs()
	if err != nil {
		return place{}, err
	}
	return choosePlace(want, cpus, os.DirFS("/sys"))
}

// choosePlace answers want ("" is split where cpus has two) with the last of
// cpus, because interrupts like the first: the DUT gets the last one, the
// tester the last that is not on the same core. sys is the machine's /sys.
func choosePlace(want string, cpus []int, sys fs.FS) (place, error) {
	if len(cpus) == 0 {
		return place{}, fmt.Errorf("this process may use no CPU")
	}
	last := cpus[len(cpus)-1]
	if want == shared || want == "" && len(cpus) == 1 {
		return place{name: shared, tester: last, dut: last}, nil
	}
	if len(cpus) == 1 {
		return place{}, &host.Missing{
			What: fmt.Sprintf("a second CPU for placement split (this process may only use CPU %d)", last),
			Hint: "allow it more with taskset or its cpuset, or use placement shared, which reports the forwarding rate alone",
		}
	}
	core := coreOf(sys, last)
	for i := len(cpus) - 2; i >= 0; i-- {
		if core == "" || coreOf(sys, cpus[i]) != core {
			return place{name: split, tester: cpus[i], dut: last}, nil
		}
	}
	return place{name: split, tester: cpus[len(cpus)-2], dut: last, siblings: true}, nil
}

// coreOf is equal for the threads of one core; "" where the machine does not say.
func coreOf(sys fs.FS, cpu int) string {
	b, err := fs.ReadFile(sys, fmt.Sprintf("devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
