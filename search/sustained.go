// SPDX-License-Identifier: Apache-2.0

package search

import (
	"math"
	"time"

	"boxdyno/unit"
)

// A Sustained is what is known of a box beside its search: what it does without end, and
// its memory, in events (frames, transactions or alerts). A full bucket, a queue and a
// ring let a trial pass that could not go on. So a load above Rate counts as carried
// only if memory cannot be the reason. Zero knows nothing, and judges nothing.
type Sustained struct {
	Rate    unit.FrameRate // events a second of an overload that has filled the box; 0: not known
	Memory  float64        // events that pass beyond Rate x time, once, from rest
	Longest time.Duration  // of a trial; 0: trials are as long as they are
}

const (
	// sustainedTo is how far above Rate a load may be and count as Rate.
	sustainedTo = 0.001
	// memories is how often Memory must have passed beyond Rate for it not to be why.
	memories = 2
	// inFlight is how many events more may be under way when a trial ends.
	inFlight = 16
	// lagging is the least growth of delay, as a share of the time in which it grew,
	// and lagLeast in time, that says more than how a machine is disturbed.
	lagging  = 0.005
	lagLeast = 500 * time.Microsecond
	// quantum is how many events a trial has at least: one is then below 0.25 %.
	quantum = 400
)

// Between returns what two overloads from rest tell of a box whose arrivals have no
// course: that of d let short events pass, the longer one of longer let long pass, and
// both lost some. The difference passed without the help of memory.
func Between(short float64, d time.Duration, long float64, longer, longest time.Duration) Sustained {
	s := Sustained{Longest: longest}
	if rate := (long - short) / (longer - d).Seconds(); longer > d && rate > 0 {
		s.Rate, s.Memory = unit.FrameRate(rate), max(0, short-rate*d.Seconds())
	}
	return s
}

// Near says whether s and o are of the same rate, as far as overloads can tell.
func (s Sustained) Near(o Sustained) bool {
	return s.Rate > 0 && math.Abs(float64(o.Rate/s.Rate-1)) <= sustainedTo
}

// Explains says whether memory may be why n events passed in d.
func (s Sustained) Explains(n float64, d time.Duration) bool {
	return s.Rate > 0 && n-float64(s.Rate)*d.Seconds() <= memories*s.Memory+inFlight
}

// Needs returns how long a trial at load is so that memory does not explain that it
// was clean; 0: any length will do, or none within Longest.
func (s Sustained) Needs(load unit.FrameRate) time.Duration {
	above := float64(load - s.Rate)
	if s.Rate <= 0 || above <= float64(s.Rate)*sustainedTo {
		return 0
	}
	d := time.Duration((memories*s.Memory + inFlight) / above * 1.05 * 1e9)
	if d > s.Longest {
		return 0
	}
	return d
}

// Carries returns the highest load up to found that a clean trial of duration least or
// longer can show to be carried without end, and how long that trial has to be.
func (s Sustained) Carries(found unit.FrameRate, least time.Duration) (unit.FrameRate, time.Duration) {
	if s.Rate <= 0 || found <= s.Rate*(1+sustainedTo) || !s.Explains(float64(found)*least.Seconds(), least) {
		return found, least
	}
	if need := s.Needs(found); need > 0 {
		return found, max(need, least)
	}
	return s.Rate, least
}

// Length returns how long the trial of step is to be: longer than the search asks
// for where events are rare, and where Needs says so.
func (s Sustained) Length(step Step) time.Duration {
	d := max(step.Duration, s.Needs(step.Rate))
	if step.Rate > 0 {
		d = max(d, time.Duration(quantum/float64(step.Rate)*1e9))
	}
	return d
}

// Judge returns t, which was offered for d, as it would be if it had gone on: where
// the load is above Rate and memory explains what passed, with the loss that Rate
// leaves. lag is by how much more the last quarter of a clean trial's events were
// delayed than the second quarter: a queue that grows. Memory tells that t was
// changed.
func (s Sustained) Judge(t Seen, d, lag time.Duration) Seen {
	load := float64(t.Offered)
	if !t.Valid || load <= 0 {
		return t
	}
	loss := float64(t.Loss)
	passed := load * d.Seconds() * (1 - loss)
	if load > float64(s.Rate)*(1+sustainedTo) && s.Explains(passed, d) {
		loss = max(loss, 1-float64(s.Rate)/load)
	}
	half := d / 2 // from the second quarter to the last
	if t.Loss == 0 && lag > lagLeast && lag.Seconds() > lagging*half.Seconds() && lag.Seconds()*load > inFlight {
		loss = max(loss, lag.Seconds()/(lag+half).Seconds())
	}
	if loss > float64(t.Loss) {
		t.Loss, t.Memory = unit.LossRatio(loss), true
	}
	return t
}

// Told returns judged trials with those believed that a clean trial which memory
// does not explain speaks for: it was at their load or above.
func (s Sustained) Told(judged, raw []Seen) []Seen {
	most := unit.FrameRate(0)
	for _, t := range judged {
		if t.Valid && !t.Memory && t.Loss == 0 && t.Offered > s.Rate*(1+sustainedTo) {
			most = max(most, t.Rate)
		}
	}
	out := append(judged[:0:0], judged...)
	for i := range out {
		if out[i].Memory && out[i].Rate <= most {
			out[i] = raw[i]
		}
	}
	return out
}

// First returns the load that a search begins with: guess; but where memory is so
// large, or Rate so low, that trials of length d just above Rate tell nothing, the lowest load above
// it that a trial within Longest can tell of. A box that carries it carries more
// than it forwards under overload.
func (s Sustained) First(guess unit.FrameRate, d time.Duration, width float64) unit.FrameRate {
	few := s.Needs(s.Rate*unit.FrameRate(1+width)) == 0 // events, for a trial to tell
	if s.Rate <= 0 || s.Longest == 0 || !few && !s.Sizeable(d, width) {
		return guess
	}
	for share := 4 * width; share < 1; share *= 1.5 {
		if load := s.Rate * unit.FrameRate(1+share); s.Needs(load) > 0 {
			return max(load, guess)
		}
	}
	return guess
}

// Sizeable says whether memory is more than a few events, and more than a trial of
// length d can tell from a load that is a width higher.
func (s Sustained) Sizeable(d time.Duration, width float64) bool {
	return s.Rate > 0 && s.Memory > inFlight && memories*s.Memory+inFlight > width*float64(s.Rate)*d.Seconds()
}
