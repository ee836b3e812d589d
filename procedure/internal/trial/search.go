// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"boxdyno/engine"
	"boxdyno/internal/limit"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/search"
	"boxdyno/unit"
)

// AsPreset has the search follow the parameter preset.
const AsPreset = "preset"

// Searching is the search that the parameters ask for.
func (p *Traffic) Searching() search.Preset { return SearchOf(p.Search.Value, p.Preset.Value) }

// SearchOf is the search of a parameter's value; without one, that of the preset, by
// which overloads go all the same.
func SearchOf(name, preset string) search.Preset {
	if name == AsPreset || name == procedure.NoSearch {
		name = preset
	}
	s, _ := search.Get(name) // the parameters' values are names of searches
	return s
}

// Begin sets the search's range by the rate under overload.
func (m *Point) Begin(overload unit.FrameRate) error {
	// A box may carry somewhat more than it forwards under overload; one that
	// forwards nothing then may carry anything.
	each := overload / m.Streams()
	top := m.Ceiling / m.Streams()
	if s := m.Sustained(); s.Rate > 0 && s.Memory < 2 {
		// With room for one frame it depends on the gaps of an overload how many pass: half
		// of what passes at the limit, at least.
		top = min(top, each*2.05)
	} else if each > 0 {
		top = min(top, each*1.25)
	}
	if link := m.LinkRate(); link > 0 {
		top = min(top, link)
	}
	ask := m.ask()
	if ask*1.01 <= m.Ceiling/m.Streams() && (m.LinkRate() == 0 || ask <= m.LinkRate()) {
		top = max(top, min(ask*1.01, cmp.Or(m.LinkRate(), ask*1.01)))
	}
	p := m.Searching()
	guess := min(m.Sustained().First(each, p.Goals[0].Final, p.Goals[0].Width), top)
	s, err := search.New(p.Name, top, guess)
	s.Ask = ask
	m.Search = m.hunt(s, "search", outset{ramp: m.ramp})
	return err
}

// hunt is a search whose trials of this kind begin so.
func (m *Point) hunt(s search.Search, kind string, from outset) *limit.Hunt {
	return &limit.Hunt{Search: s, Sustained: m.Sustained, Offer: func(ctx context.Context, n int, step search.Step) (search.Seen, time.Duration, error) {
		rec, err := m.trialFrom(ctx, from, kind, n, engine.Load{Rate: step.Rate, Duration: step.Duration})
		now, lag := m.saw(rec)
		return now, lag, err
	}}
}

// saw is what a search is told of a trial.
func (m *Point) saw(rec result.Record) (now search.Seen, lag time.Duration) {
	now.Valid = rec.Status != result.Invalid
	if rec.Load == nil || rec.Account == nil {
		return now, 0
	}
	now.Offered = rec.Load.Offered / m.Streams()
	if a := rec.Load.Arrivals; a != nil {
		lag = a.Lag
	}
	lost, accepted := m.missed(rec.Account), rec.Account.Accepted
	if rec.Load.Ramp != nil {
		lost, accepted = result.LostOf(rec.Load, rec.Account)
	}
	if lost += rec.Load.Broken; lost > 0 {
		now.Loss = unit.LossRatio(float64(lost) / float64(accepted))
		late := LateFor(rec)
		now.Doubt = unit.LossRatio((late + KeptOff(rec)) / float64(accepted))
		now.Excused = unit.LossRatio(min(late, float64(rec.Load.LateLost)) / float64(accepted))
	}
	return now, lag
}

// LateFor is how many frames were held up. Late frames are made up at 9/8 of the rate, so
// that nine are late for one that was.
func LateFor(rec result.Record) float64 { return float64(rec.Load.Late) / 8 }

// KeptOff is at most how many of the frames that a full receive ring lost came while
// something else had the CPU that the DUT's threads were ready to run on: a program, or the
// hypervisor. With dut_cpus=all that is the CPU which empties the ring, not one that flows
// are handed to. Each wake-up waits a little without harm, and is among that time: this asks
// for another trial, and excuses no loss. What the ring may have lost of a ramp is none of
// them.
func KeptOff(rec result.Record) float64 {
	if rec.DUT == nil {
		return 0
	}
	ring, accepted := overflowed(rec)
	return min(ring, (rec.DUT.Waited+stolen(rec))*accepted)
}

// Stolen is KeptOff by the hypervisor alone, for a DUT whose own programs have its CPU.
func Stolen(rec result.Record) float64 {
	ring, accepted := overflowed(rec)
	return min(ring, stolen(rec)*accepted)
}

// stolen is the share of the time that the hypervisor had a CPU that empties the ring.
func stolen(rec result.Record) (share float64) {
	rings := slices.ContainsFunc(rec.CPUs, func(c result.CPU) bool { return c.Rings })
	for _, c := range rec.CPUs {
		if c.Role == "dut" && (c.Rings || !rings) {
			share = max(share, c.Steal)
		}
	}
	return share
}

// overflowed is how many frames a full receive ring lost, and how many were accepted, without
// those of a ramp.
func overflowed(rec result.Record) (ring, accepted float64) {
	if rec.Account == nil {
		return 0, 0
	}
	lost := rec.Account.DroppedAt(result.DUTNIC)
	_, all := result.LostOf(rec.Load, rec.Account)
	if rec.Load != nil && rec.Load.Ramp != nil {
		lost = max(0, lost-rec.Load.Ramp.Lost)
	}
	return float64(lost), float64(all)
}

// limit puts what the search has found so far into o, and returns the throughput's.
func (m *Point) limit(o *procedure.Outcome) search.Limit {
	l := m.Search.Interim()
	switch {
	case l.Lower == 0 && !m.Search.Ended:
		o.Warnings = append(o.Warnings, "no throughput yet: the search has confirmed no load without loss so far")
		return l
	case l.Clean+l.Lossy == 0:
		o.Status, o.Reason = result.Invalid, fmt.Sprintf("no throughput: all %d trials of the search were invalid or in doubt, for the tester was held up", l.Invalid)
		return l
	case l.Clean == 0 && l.Invalid == 0:
		o.Status, o.Reason = result.Failed, "frames were lost at every load tried"
	case l.Lower == 0:
		o.Status, o.Reason = result.Invalid, fmt.Sprintf("no throughput: no load without loss could be confirmed in %d trials, of which %d were clean, %d lost frames and %d were invalid or in doubt", l.Clean+l.Lossy+l.Invalid, l.Clean, l.Lossy, l.Invalid)
		m.pdrs(o)
		return l
	}
	t := m.interval("throughput_fps", l)
	scaled := func(metric string, f func(unit.FrameRate) float64) result.Value {
		v := figures.Value(metric, f(unit.FrameRate(t.Value)))
		low := v.Value
		v.Lo, v.N, v.Bound, v.Open = &low, t.N, t.Bound, t.Open
		if t.Hi != nil {
			high := f(unit.FrameRate(*t.Hi))
			v.Hi = &high
		}
		return v
	}
	streams, mean := m.Streams(), m.Mix.Mean()
	link := m.Env.Bed.Ports[0].Link
	if link == 0 {
		link = referenceLink
	}
	o.Values = append(o.Values, t,
		scaled("throughput_bps", func(r unit.FrameRate) float64 { return float64(unit.L2(r, mean)) }),
		scaled("throughput_l1_bps", func(r unit.FrameRate) float64 { return float64(unit.L1(r/streams, mean)) }),
		scaled("line_rate_share", func(r unit.FrameRate) float64 { return float64(r / streams / unit.LineRate(link, mean)) }),
	)
	m.pdrs(o)
	if t.Open {
		o.Warnings = append(o.Warnings, fmt.Sprintf("no load above %vframe/s is confirmed to lose frames: the throughput may be higher", unit.SI(t.Value)))
	}
	if l.Interim {
		o.Warnings = append(o.Warnings, fmt.Sprintf("the throughput's bounds are interim: the search was not over after %d trials", l.Clean+l.Lossy+l.Invalid))
	} else if l.Inversions > 0 {
		o.Warnings = append(o.Warnings, fmt.Sprintf("no sharp limit: frames were lost in %d trials at or below a load that another trial, as long or longer, carried without loss", l.Inversions))
	} else if !l.Sharp && !l.AtCeiling && !t.Open {
		o.Warnings = append(o.Warnings, "no sharp limit: the bounds lie wider apart than the search asks")
	}
	if l.Invalid > 0 {
		o.Warnings = append(o.Warnings, fmt.Sprintf("%d trials of the search were invalid or in doubt and do not count", l.Invalid))
	}
	return l
}

// pdrs keeps the highest loads at a stated loss ratio, as far as the search looked
// for them and confirmed them.
func (m *Point) pdrs(o *procedure.Outcome) {
	metrics := map[unit.LossRatio]string{0.001: "pdr_0_1pct_fps", 0.005: "pdr_0_5pct_fps"}
	for _, l := range m.Search.Limits() {
		if metric := metrics[l.Goal.Loss]; metric != "" && l.Lower > 0 {
			o.Values = append(o.Values, m.interval(metric, l))
		}
	}
}

// interval is a limit of all streams together, from its lower to its upper bound.
func (m *Point) interval(metric string, l search.Limit) result.Value {
	v := figures.Interval(metric, l, float64(m.Streams()))
	if m.Bound(v.Value) == result.AtLeast {
		v.Limit()
	}
	return v
}

// Confirmations are the longer trials that a rate found may take.
const Confirmations = 5

// Came is what became of a longer trial; carried says whether no more was lost than may
// be.
func Came(rec result.Record, carried bool) limit.Came {
	switch {
	case rec.Status != result.Passed && rec.Status != result.Failed:
		return limit.Invalid
	case carried:
		return limit.Carried
	}
	return limit.Lost
}

// Room is the share of a trial's load at which the box's receive ring of so many frames
// would have outlasted what held its CPU up; 0: not known, or that is not why frames were
// lost. All that the ring lost counts as lost in one stall, of longestStall at most.
func Room(rec result.Record, ring float64) float64 { return room(rec, ring, FillLoses) }

// RoomOfAnyLoss is Room where a stall may be why frames were lost, however many.
func RoomOfAnyLoss(rec result.Record, ring float64) float64 { return room(rec, ring, 1) }

// room is Room where a stall may be why that share of the frames was lost, at most.
func room(rec result.Record, ring, most float64) float64 {
	if rec.Account == nil || rec.Load == nil || ring <= 0 {
		return 0
	}
	all, lost := float64(rec.Account.Lost()), float64(rec.Account.DroppedAt(result.DUTNIC))
	if lost <= 0 || lost*2 < all || all > most*float64(rec.Account.Accepted) {
		return 0
	}
	came := min(ring+lost, float64(rec.Load.Offered)*longestStall.Seconds())
	if came <= ring {
		return 0
	}
	return ringShare * ring / came
}

const (
	// longestStall is above what a CPU of a virtual machine was seen to do: 19 ms.
	longestStall = 20 * time.Millisecond
	// ringShare is how much of a ring may be in use in the load that is tried next: stalls
	// differ.
	ringShare = 0.8
)
