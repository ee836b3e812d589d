// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"boxdyno/host"
	"boxdyno/internal/caps"
	"boxdyno/internal/netns"
	"boxdyno/result"
)

// One CPU takes frames off a port's ring, for a veth that is redirected to has one queue
// that is filled. Behind it the kernel hands flows to several CPUs (RPS): what a network
// card's queues do for a box.
//
//	ring -> NAPI thread on the DUT's CPU -> RPS, by flow -> backlogs of CPUs -> routing, wan

// moreCPUs are those of cpus that a DUT placed at has beside its own: all but the tester's
// core. sys is the machine's /sys.
func moreCPUs(at place, cpus []int, sys fs.FS) (more []int) {
	if at.name != split {
		return nil
	}
	core := coreOf(sys, at.tester)
	for _, cpu := range cpus {
		if cpu == at.tester || cpu == at.dut || core != "" && coreOf(sys, cpu) == core {
			continue
		}
		more = append(more, cpu)
	}
	return more
}

// leftCPUs is moreCPUs of this machine.
func leftCPUs(at place) ([]int, error) {
	cpus, err := host.AllowedCPUs()
	return moreCPUs(at, cpus, os.DirFS("/sys")), err
}

// spreadSettings say which CPUs dut_cpus=all has beside one sender. Further senders have
// theirs of them.
func spreadSettings(at place, more []int) []result.Pair {
	if at.name != split {
		return nil
	}
	return []result.Pair{{Key: "dut_cpus_all", Value: CPUList(append([]int{at.dut}, more...))}}
}

// cpuMask is cpus as the kernel's bitmaps are written: words of 32 bits, the highest first.
func cpuMask(cpus []int) string {
	words := make([]uint32, 1)
	for _, cpu := range cpus {
		if need := cpu/32 + 1; need > len(words) {
			words = append(words, make([]uint32, need-len(words))...)
		}
		words[cpu/32] |= 1 << (cpu % 32)
	}
	var text []string
	for _, w := range slices.Backward(words) {
		text = append(text, fmt.Sprintf("%08x", w))
	}
	return strings.Join(text, ",")
}

// spread has flows that a port receives go to cpus; none: where they are received.
func (s *space) spread(port string, cpus []int) error {
	err := netns.DoSys(s.Netns, func(sys *os.Root) error {
		queues, err := fs.Glob(sys.FS(), "class/net/"+port+"/queues/rx-*/rps_cpus")
		if err == nil && len(queues) == 0 {
			err = fmt.Errorf("%w by this kernel: it has no RPS", host.ErrNotSupported)
		}
		for _, name := range queues {
			var f *os.File
			e := caps.Override(func() (err error) {
				f, err = sys.OpenFile(name, os.O_WRONLY, 0)
				return err
			})
			if e == nil {
				_, e = f.WriteString(cpuMask(cpus))
				e = errors.Join(e, f.Close())
			}
			err = errors.Join(err, e)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("spread the flows of %s over CPUs %v: %w", port, cpus, err)
	}
	return nil
}

// spread has the DUT use all of its CPUs that no sender is on, or one. Where it has no more,
// nothing is to do.
func (v *services) spread(s Service) error {
	var cpus []int
	if s.AllCPUs && len(v.more) > 0 {
		cpus = boxCPUs([]int{v.cpu}, v.more, v.senders, s.Senders)
	}
	if slices.Equal(cpus, v.spreads) {
		return nil
	}
	v.spreads = cpus
	for _, sd := range sides {
		if err := v.dut.spread(sd.dut, cpus); err != nil {
			return err
		}
	}
	return nil
}

// CPUText is n CPUs in words.
func CPUText(n int) string {
	if n == 1 {
		return "1 CPU"
	}
	return strconv.Itoa(n) + " CPUs"
}
