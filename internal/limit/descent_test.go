// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"slices"
	"testing"
)

func TestDescent(t *testing.T) {
	halves := func(rate, _ float64) float64 { return rate / 2 }
	for name, c := range map[string]struct {
		d         Descent
		carries   float64
		invalid   []int // trials
		rates     []float64
		top, peak float64
	}{
		"at once":           {Descent{Rate: 800, Top: 800}, 900, nil, []float64{800}, 800, 800},
		"halves":            {Descent{Rate: 800, Top: 800}, 150, nil, []float64{800, 400, 200, 100}, 200, 150},
		"nothing":           {Descent{Rate: 800, Top: 800}, 0, nil, []float64{800, 400, 200, 100, 50}, 50, 0},
		"a guess":           {Descent{Rate: 200, Top: 800, Guess: true}, 300, nil, []float64{200, 800, 400, 200}, 400, 300},
		"a guess too high":  {Descent{Rate: 200, Top: 800, Guess: true}, 150, nil, []float64{200, 100}, 200, 150},
		"an invalid one":    {Descent{Rate: 800, Top: 800}, 500, []int{0}, []float64{800, 400}, 800, 400},
		"invalid, repeated": {Descent{Rate: 800, Top: 800, Twice: true}, 500, []int{0}, []float64{800, 800, 400}, 800, 500},
		"beyond the tester": {Descent{Rate: 200, Top: 800, Twice: true, Guess: true}, 500, []int{0, 1}, []float64{200, 200, 100}, 200, 100},
	} {
		d := c.d
		d.Most, d.Lower = 5, halves
		var rates []float64
		for more := true; more; {
			rates = append(rates, d.Rate)
			carried := min(d.Rate, c.carries)
			valid := !slices.Contains(c.invalid, d.Tried)
			if !valid {
				carried = 0
			}
			more = d.Next(valid, carried > 0.95*d.Rate, carried)
		}
		if !slices.Equal(rates, c.rates) || d.Top != c.top || d.Peak != c.peak || d.Tried != len(rates) {
			t.Errorf("%s: %v, top %v, peak %v; want %v, %v, %v", name, rates, d.Top, d.Peak, c.rates, c.top, c.peak)
		}
	}
}
