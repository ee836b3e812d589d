// SPDX-License-Identifier: Apache-2.0

package search

import (
	"math"
	"testing"
	"time"
)

// A clean trial whose delays grew counts with the loss that would follow once the queue is
// full; one that grew by no more than machines are disturbed by counts as it is.
func TestGrowingDelayIsALoss(t *testing.T) {
	clean := Seen{Offered: 100e3, Valid: true}
	with := func(f func(*Seen)) Seen { s := clean; f(&s); return s }
	for _, c := range []struct {
		name string
		seen Seen
		lag  time.Duration
		want float64
	}{
		{"a queue that grows", clean, 10 * time.Millisecond, 0.010 / 0.510},
		{"steady", clean, 0, 0},
		{"a disturbance", clean, 2 * time.Millisecond, 0},
		{"some frames of a slow load", with(func(s *Seen) { s.Offered = 1e3 }), 10 * time.Millisecond, 0},
		{"lossy", with(func(s *Seen) { s.Loss = 0.001 }), 10 * time.Millisecond, 0.001},
		{"invalid", with(func(s *Seen) { s.Valid = false }), 10 * time.Millisecond, 0},
	} {
		got := Sustained{}.Judge(c.seen, time.Second, c.lag)
		if math.Abs(float64(got.Loss)-c.want) > 1e-9 || got.Memory != (got.Loss > c.seen.Loss) {
			t.Errorf("%s: loss %v, of memory %v; want %v", c.name, got.Loss, got.Memory, c.want)
		}
	}
}
