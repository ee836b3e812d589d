// SPDX-License-Identifier: Apache-2.0

package host

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/internal/netns"
)

const (
	speedRounds  = 100_000
	speedRepeats = 3 // of which the best counts: an interrupt is no slow CPU
)

// Speed is how many rounds of a loop of independent additions each of cpus makes
// in a second of CPU time now, all at once. It falls with the real clock, and where
// another thread works on the same core: on its other hyperthread, or in the
// hypervisor's other guests, which no steal time tells. A thread that has the CPU
// itself does not count. It takes about a millisecond of each CPU, so not while
// something is measured.
func Speed(cpus ...int) ([]float64, error) { return timed(0, speedRounds, count, cpus) }

// Slowest is the Speed of the slowest of cpus; false where it is not known.
func Slowest(cpus ...int) (float64, bool) {
	speeds, err := Speed(cpus...)
	if err != nil || len(speeds) == 0 {
		return 0, false
	}
	return slices.Min(speeds), true
}

// timed is how many rounds of loop each of cpus makes in a second of CPU time, the
// best of speedRepeats, or of as many as fit into span.
func timed(span time.Duration, rounds int, loop func(rounds int) uint, cpus []int) ([]float64, error) {
	speeds := make([]float64, len(cpus))
	threads := make([]*netns.Thread, 0, len(cpus))
	var first error
	for i, cpu := range cpus {
		t, err := netns.Go("", []int{cpu}, func() error {
			best := time.Duration(1<<63 - 1)
			started := time.Now()
			for k := 0; k < speedRepeats || time.Since(started) < span; k++ {
				begin, err := threadTime()
				if err != nil {
					return err
				}
				if loop(rounds) == 0 {
					break
				}
				end, err := threadTime()
				if err != nil {
					return err
				}
				best = min(best, max(end-begin, 1))
			}
			speeds[i] = float64(rounds) / best.Seconds()
			return nil
		})
		if err != nil {
			first = err
			break
		}
		threads = append(threads, t)
	}
	for _, t := range threads {
		if err := t.Wait(); err != nil && first == nil {
			first = err
		}
	}
	return speeds, first
}

// threadTime is the CPU time that the calling thread has had.
func threadTime() (time.Duration, error) {
	var ts unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts)
	return time.Duration(ts.Nano()), err
}

// count adds in eight chains that do not wait for each other, so that it needs
// every execution unit of a core. Its result is not 0.
//
//go:noinline
func count(rounds int) (sum uint) {
	var a, b, c, d, e, f, g, h uint = 1, 2, 3, 4, 5, 6, 7, 8
	for range rounds {
		a += 0x9e37
		b ^= 0x79b9
		c += 0x7f4a
		d ^= 0x7c15
		e += 0x739c
		f ^= 0x4060
		g += 0x2f1b
		h ^= 0x1234
		a ^= 0x0079
		b += 0x59b9
		c ^= 0x0f4a
		d += 0x0c15
		e ^= 0x039c
		f += 0x3060
		g ^= 0x7f1b
		h += 0x1334
	}
	return a | b | c | d | e | f | g | h | 1
}
