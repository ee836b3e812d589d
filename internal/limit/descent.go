// SPDX-License-Identifier: Apache-2.0

package limit

// A Descent finds the load that a search begins with: less and less of the highest is
// offered, until hardly any of it is lost. A box that is flooded may carry hardly anything.
type Descent struct {
	Rate  float64                             // of the next trial
	Top   float64                             // nothing is to be found above it; before the first trial: the highest load
	Lower func(rate, carried float64) float64 // the load after one of which too much was lost, and so much was carried
	Most  int                                 // trials
	Guess bool                                // Rate is one: Top follows if that is not too much
	Twice bool                                // a load whose trial was invalid is offered once more

	Peak  float64 // the most that was carried
	Tried int     // trials so far

	invalid bool // the last one was
}

// Next notes what became of a trial at Rate: whether it was valid, whether hardly
// anything was lost, and what was carried; 0: that is not known. more says that another
// one is to follow.
func (d *Descent) Next(valid, enough bool, carried float64) (more bool) {
	d.Tried++
	d.Peak = max(d.Peak, carried)
	again := !valid && d.Twice
	first := again && !d.invalid
	d.invalid = first
	switch {
	case first:
		return d.Tried < d.Most
	case again: // it is beyond the tester
		d.Top, d.Rate = d.Rate, d.Rate/2
	case !valid:
		d.Rate = d.Lower(d.Rate, carried)
	case enough:
		guess := d.Guess
		d.Rate, d.Guess = d.Top, false
		return guess
	default:
		d.Top, d.Rate = d.Rate, d.Lower(d.Rate, carried)
	}
	d.Guess = false
	return d.Tried < d.Most
}
