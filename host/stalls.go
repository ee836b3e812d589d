// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"boxdyno/internal/guard"
	"boxdyno/unit"
)

const (
	stallPeriod = time.Millisecond       // of the timer
	stallLeast  = 500 * time.Microsecond // beyond it, for a stall
	stallRoom   = 32                     // pages of samples: 8 s
	stallReads  = 500 * time.Millisecond
)

// StallUnseen is the longest stall that may not show.
const StallUnseen = stallPeriod + stallLeast

// A Stall is about when a CPU took no timer interrupt: the hypervisor or the firmware had it,
// the kernel had interrupts off, or the interrupt came late while the CPU worked, as was seen.
// A busy program is no stall.
type Stall struct{ Begin, End unit.Instant }

// Stalls watches CPUs of this machine by a timer interrupt on each (perf's cpu-clock).
type Stalls struct {
	rings []*stallRing
	stop  func()
}

// A stallRing is the timer of one CPU, and its samples.
type stallRing struct {
	fd   int
	mem  []byte
	last uint64 // when the last interrupt came; 0: not known
	gaps bool   // samples were lost, or the kernel stopped the timer
	seen []Stall
}

// WatchStalls begins to watch. It needs CAP_PERFMON.
func WatchStalls(cpus ...int) (_ *Stalls, err error) {
	s := &Stalls{}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	for _, cpu := range cpus {
		attr := unix.PerfEventAttr{
			Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Sample: uint64(stallPeriod), Sample_type: unix.PERF_SAMPLE_TIME,
			Bits: unix.PerfBitUseClockID, Clockid: unix.CLOCK_MONOTONIC,
		}
		attr.Size = uint32(unsafe.Sizeof(attr))
		fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err != nil {
			return nil, fmt.Errorf("watch the timer of CPU %d: %w", cpu, err)
		}
		r := &stallRing{fd: fd}
		s.rings = append(s.rings, r)
		if r.mem, err = unix.Mmap(fd, 0, (1+stallRoom)*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
			return nil, fmt.Errorf("map the samples of CPU %d's timer: %w", cpu, err)
		}
	}
	s.stop = guard.Beside(context.Background(), stallReads, s.read)
	return s, nil
}

func (s *Stalls) read() {
	for _, r := range s.rings {
		page := (*unix.PerfEventMmapPage)(unsafe.Pointer(&r.mem[0]))
		head := atomic.LoadUint64(&page.Data_head)
		atomic.StoreUint64(&page.Data_tail, r.take(r.mem[os.Getpagesize():], page.Data_tail, head))
	}
}

// take reads the records from tail to head, and returns the new tail. All are whole words,
// so that none of those read here wraps.
func (r *stallRing) take(data []byte, tail, head uint64) uint64 {
	size := uint64(len(data))
	for tail < head {
		kind := binary.NativeEndian.Uint32(data[tail%size:])
		length := binary.NativeEndian.Uint16(data[tail%size+6:])
		switch {
		case length == 0:
			return head
		case kind == unix.PERF_RECORD_SAMPLE:
			r.tick(binary.NativeEndian.Uint64(data[(tail+8)%size:]))
		case kind == unix.PERF_RECORD_LOST, kind == unix.PERF_RECORD_THROTTLE, kind == unix.PERF_RECORD_UNTHROTTLE:
			r.last, r.gaps = 0, true
		}
		tail += uint64(length)
	}
	return tail
}

// tick notes an interrupt. A stall began within a period after the one before: half of it is
// its expectation.
func (r *stallRing) tick(now uint64) {
	if due := r.last + uint64(stallPeriod); r.last > 0 && now > due+uint64(stallLeast) {
		r.seen = append(r.seen, Stall{unit.Instant(due - uint64(stallPeriod)/2), unit.Instant(now)})
	}
	r.last = now
}

// Stop ends the watch, and returns each CPU's stalls, in the order in which CPUs were named;
// whole says that no stall can be missing.
func (s *Stalls) Stop() (all [][]Stall, whole bool, err error) {
	s.stop()
	s.read()
	whole = true
	for _, r := range s.rings {
		all, whole = append(all, r.seen), whole && !r.gaps && r.last > 0
	}
	return all, whole, s.close()
}

func (s *Stalls) close() (err error) {
	for _, r := range s.rings {
		if r.mem != nil {
			err = errors.Join(err, unix.Munmap(r.mem))
		}
		err = errors.Join(err, unix.Close(r.fd))
	}
	s.rings = nil
	return err
}

// StalledIn returns how long the CPU that stalled most of all did so between two instants,
// and the longest single stall of any.
func StalledIn(all [][]Stall, begin, end unit.Instant) (sum, longest time.Duration) {
	for _, one := range all {
		var own time.Duration
		for _, s := range one {
			if d := time.Duration(min(s.End, end) - max(s.Begin, begin)); d > 0 {
				own, longest = own+d, max(longest, d)
			}
		}
		sum = max(sum, own)
	}
	return sum, longest
}
