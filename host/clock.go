// SPDX-License-Identifier: Apache-2.0

package host

import "time"

const (
	chainRounds = 10_000
	chainLength = 64 // operations of a round that wait for each other; the loop's own hardly count
)

// Clock is the clock in Hz at which each of cpus runs now, all at once, by a chain
// of additions that wait for each other: a core does one in a cycle, whatever
// cpufreq claims. The best of repeats of 0.2 to 0.6 ms within span counts, at least
// three; give 100 ms to let the governor raise the clock, 0 to see what it is. It
// is less where another thread takes part of the core: on its other hyperthread, or
// in a hypervisor's other guest. Not while something is measured.
func Clock(span time.Duration, cpus ...int) ([]float64, error) {
	hz, err := timed(span, chainRounds, chain, cpus)
	for i := range hz {
		hz[i] *= chainLength
	}
	return hz, err
}

// chain has operands in registers, for some cores add constants in no time, and
// no two operations that a compiler could make one of.
//
//go:noinline
func chain(rounds int) (sum uint) {
	a, b, c := uint(1), uint(rounds)|1, uint(rounds)<<1|5
	for range rounds {
		a = (((((((a + b) ^ c) + b) ^ c) + b) ^ c) + b) ^ c
		a = (((((((a + b) ^ c) + b) ^ c) + b) ^ c) + b) ^ c
		a = (((((((a + b) ^ c) + b) ^ c) + b) ^ c) + b) ^ c
		a = (((((((a + b) ^ c) + b) ^ c) + b) ^ c) + b) ^ c
		a = (((((((a + b) ^ c) + b) ^ c) + b) ^ c) + b) ^ c
		a = (((((((a + b) ^ c) + b) ^ c) + b) ^ c) + b) ^ c
		a = (((((((a + b) ^ c) + b) ^ c) + b) ^ c) + b) ^ c
		a = (((((((a + b) ^ c) + b) ^ c) + b) ^ c) + b) ^ c
	}
	return a | 1
}
