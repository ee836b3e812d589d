// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/internal/caps"
	"boxdyno/internal/netns"
)

// ownCPU moves the receive work of a veth port that is up and has an XDP program
// to a pinned NAPI thread, and returns the thread's id. RPS would move the stack only.
// It needs CAP_SYS_ADMIN, CAP_SYS_NICE and write access to root's files;
// ErrNotSupported before Linux 5.12 or where the thread is not visible.
func (s *space) ownCPU(port string, cpu int) (tid int, err error) {
	const tries = 20
	for try := range tries {
		before, err := napiThreads(port)
		if err != nil {
			return 0, err
		}
		if try == 0 {
			err = s.threaded(port)
		} else {
			err = s.up(port)
		}
		if err != nil {
			return 0, err
		}
		after, err := napiThreads(port)
		if err != nil {
			return 0, err
		}
		var fresh []int
		for tid := range after {
			if !before[tid] {
				fresh = append(fresh, tid)
			}
		}
		switch {
		case len(fresh) == 0:
			return 0, fmt.Errorf("find the NAPI thread of %s: %w: no process of that name is to be seen", port, host.ErrNotSupported)
		case len(fresh) == 1: // ours, for ours exists
			return fresh[0], pinThread(fresh[0], cpu)
		}
		// Another lab made a port of this name meanwhile, and a thread's name does
		// not tell the namespace: make ours again.
		if err := s.down(port); err != nil {
			return 0, err
		}
		time.Sleep(rand.N(20 * time.Millisecond))
	}
	return 0, fmt.Errorf("find the NAPI thread of %s: other labs came up at each of %d tries", port, tries)
}

func (s *space) threaded(port string) error {
	return netns.DoSys(s.Netns, func(sys *os.Root) error {
		var f *os.File
		err := caps.Override(func() (err error) {
			f, err = sys.OpenFile("class/net/"+port+"/threaded", os.O_WRONLY, 0)
			return err
		})
		if errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("threaded NAPI of %s: %w by this kernel", port, host.ErrNotSupported)
		}
		if err != nil {
			return fmt.Errorf("threaded NAPI of %s: %w", port, err)
		}
		_, err = f.WriteString("1")
		if err := errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("switch threaded NAPI of %s on: %w", port, err)
		}
		return nil
	})
}

// napiThreads are the kernel's threads named for a NAPI of a port of that name,
// in whatever namespace.
func napiThreads(port string) (map[int]bool, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	tids := map[int]bool{}
	for _, e := range entries {
		tid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		comm, err := os.ReadFile("/proc/" + e.Name() + "/comm")
		if err == nil && strings.HasPrefix(string(comm), "napi/"+port+"-") {
			tids[tid] = true
		}
	}
	return tids, nil
}

// slice is the shortest time slice that Linux gives (since 6.12; older ones
// ignore it).
const slice = 100 * time.Microsecond

// pinThread lets a NAPI thread run on cpu alone, First.
func pinThread(tid, cpu int) error {
	var set, got unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(tid, &set); err != nil {
		return fmt.Errorf("pin the NAPI thread %d to CPU %d: %w", tid, cpu, err)
	}
	if err := unix.SchedGetaffinity(tid, &got); err != nil || got != set {
		return fmt.Errorf("the NAPI thread %d does not stay on CPU %d (%w)", tid, cpu, errors.Join(err, host.ErrNotSupported))
	}
	return First.give(tid)
}

// A Precedence is how the threads that receive the DUT's frames stand to programs on
// their CPU. They stand for softirq, which interrupts every program.
type Precedence uint8

const (
	// First is before all ordinary work, threads of several ports in turn: nice -20 and
	// the shortest slice. With nice 0 a compiler made a box lose a third of the frames,
	// with a longer slice the thread of the other port up to 15 % in both directions at
	// once. A testbed is built so.
	First Precedence = iota
	// AtOnce is before all ordinary work, and interrupts it: SCHED_FIFO. Threads that are
	// First were seen to wait for programs for up to 0.6 ms (Linux 6.18), in which a
	// receive ring overflows. Threads of several ports do not take turns: it is for one
	// that receives.
	AtOnce
	// Even is among programs, as ksoftirqd, which takes over from softirq that has more
	// to receive than the time for (kernel/softirq.c): nice 0.
	Even
)

func (p Precedence) give(tid int) error {
	attr := map[Precedence]unix.SchedAttr{
		First:  {Policy: unix.SCHED_NORMAL, Nice: firstNice, Runtime: uint64(slice)},
		AtOnce: {Policy: unix.SCHED_FIFO, Priority: 1},
		Even:   {Policy: unix.SCHED_NORMAL, Runtime: uint64(slice)},
	}[p]
	attr.Size = unix.SizeofSchedAttr
	if err := unix.SchedSetAttr(tid, &attr, 0); err != nil {
		return fmt.Errorf("give the NAPI thread %d its precedence: %w", tid, err)
	}
	return nil
}

const firstNice = -20

// Precede gives the threads that receive the DUT's frames that precedence. It needs
// CAP_SYS_NICE, and does nothing where Threads is nil or a thread went with its port.
func (tb *Testbed) Precede(p Precedence) (err error) {
	for _, tid := range tb.Threads {
		if gone := p.give(tid); !errors.Is(gone, unix.ESRCH) {
			err = errors.Join(err, gone)
		}
	}
	return err
}
