// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"math"
	"math/bits"
	"time"

	"boxdyno/unit"
)

// catchUp is how many intervals a sender may be behind its schedule; one that is
// further behind gives the rest up, so that a stall does not become a burst.
const catchUp = 16

// A pace is an open-loop schedule and what became of it: frame k is due at
// origin + k * interval, whatever happened to those before. It reads no clock and
// is not safe for concurrent use. The sender in BPF keeps a schedule of its own
// (bpf/sender.c), which makes up for delays without bursts.
type pace struct {
	interval uint64       // 1/65536 ns; 0: flat out
	origin   unit.Instant // moves when the schedule is shifted
	k        uint64       // next frame

	late         uint64
	catchUp      uint64
	stalls       uint64
	longestStall time.Duration

	burst uint64
	seen  unit.Instant // the clock at the last tick
}

// newPace is the schedule of rate frames a second; 0: flat out.
func newPace(rate unit.FrameRate, origin unit.Instant) *pace {
	p := &pace{origin: origin, seen: origin}
	if rate > 0 {
		p.interval = max(uint64(math.Round(65536e9/float64(rate))), 1)
	}
	return p
}

// due is when frame k is to be sent.
func (p *pace) due(k uint64) unit.Instant {
	hi, lo := bits.Mul64(k, p.interval)
	return p.origin + unit.Instant(hi<<48|lo>>16)
}

// take claims the next frame, if it is due.
func (p *pace) take(now unit.Instant) bool {
	if p.interval == 0 {
		p.k++
		return true
	}
	behind := now - p.due(p.k)
	if behind < 0 {
		return false
	}
	if most := unit.Instant(catchUp * p.interval >> 16); behind > most {
		p.origin += behind - most
		behind = most
	}
	if behind >= unit.Instant(p.interval>>16) {
		p.late++
		p.burst++
		p.catchUp = max(p.catchUp, p.burst)
	} else {
		p.burst = 0
	}
	p.k++
	return true
}

// tick tells of the clock after work that should have taken busy: more than
// StallFloor beyond it was a stall, and tick says so.
func (p *pace) tick(now unit.Instant, busy time.Duration) bool {
	stood := time.Duration(now-p.seen) - busy
	p.seen = now
	if stood <= StallFloor {
		return false
	}
	p.stalls++
	p.longestStall = max(p.longestStall, stood)
	return true
}

func (l Load) check() error {
	switch {
	case l.Rate != 0 && !(l.Rate >= 1e-3 && l.Rate <= 1e9):
		return errors.New("load: the rate must be 0 (flat out), or 0.001 to 1e9 frame/s")
	case l.Duration < 0:
		return errors.New("load: the duration is negative")
	case l.Duration == 0 && l.Count == 0:
		return errors.New("load: neither a duration nor a count of frames is given")
	}
	return nil
}

// intended is each stream's frames: 0 for flat out by duration.
func (l Load) intended() uint64 {
	if l.Rate == 0 || l.Duration == 0 {
		return l.Count
	}
	n := uint64(math.Round(float64(l.Rate) * l.Duration.Seconds()))
	if l.Count != 0 {
		n = min(n, l.Count)
	}
	return n
}

// offered is the rate at which a load's frames were accepted: over the whole
// duration, so that a sender that stood still at its end is seen, or over the
// time from the first to the last frame of a counted load.
func offered(l Load, r TxReport) unit.FrameRate {
	counted := l.Count > 0 && (l.Rate == 0 || l.Duration == 0 || float64(l.Count) < float64(l.Rate)*l.Duration.Seconds())
	if counted || l.Rate == 0 {
		return rateOver(r.Accepted, r.First, r.Last)
	}
	return unit.FrameRate(float64(r.Accepted) / max(l.Duration, time.Duration(r.Last-r.First)).Seconds())
}
