// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"slices"
	"time"

	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/unit"
)

const (
	idleReadings = 3                      // of each meter, for its idle power
	idleLeast    = time.Second            // that the idle machine is measured for
	idleMost     = 6 * time.Second        // after which a meter has no idle power
	idleAsked    = 250 * time.Millisecond // between two looks whether that is enough
)

// idlePower measures what each meter reads of the idle machine, before the first trial:
// work above idle is told apart by it. Without a meter it takes no time.
func (x *execution) idlePower(ctx context.Context) {
	if x.sampler == nil || x.sampler.Meters() == 0 {
		return
	}
	x.o.Notify(Event{Kind: Preparing, Text: "measure the power of the idle machine"})
	x.sampler.Begin()
	from := unit.Now()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(idleAsked):
		}
		x.sampler.Now()
		now := unit.Now()
		all := x.sampler.Energy(from, now)
		enough := len(all) == x.sampler.Meters() && !slices.ContainsFunc(all, func(e result.Energy) bool { return e.Readings < idleReadings })
		if took := time.Duration(now - from); took >= idleLeast && enough || took >= idleMost {
			break
		}
	}
	idle := x.sampler.Energy(from, unit.Now())
	_, _ = x.sampler.End()
	x.run.Telemetry[len(x.run.Telemetry)-1].Idle = slices.DeleteFunc(idle, func(e result.Energy) bool { return e.Readings < idleReadings })
}

// idleOf is the idle power by the meter of e, of this part of the run or the latest that
// has it; nil: none has.
func (x *execution) idleOf(e result.Energy) *float64 {
	for _, t := range slices.Backward(x.run.Telemetry) {
		for _, i := range t.Idle {
			if i.Meter == e.Meter && i.Seconds > 0 {
				w := i.Watts()
				return &w
			}
		}
	}
	return nil
}

// joules is what meters measured while the load of a trial ran; nil where the trial does
// not say when that was.
func (x *execution) joules(r result.Record, o procedure.Outcome) []result.Energy {
	load := procedure.LoadPhase(o.Phases)
	if x.sampler == nil || load == nil || load.End <= load.Begin {
		return nil
	}
	from := load.Begin
	r.Values = o.Values
	for _, j := range x.o.Catalogue.joules(r.Procedure) {
		if j.Within != nil {
			if s := j.Within(r); s > 0 {
				from = max(from, load.End-unit.Instant(s*1e9))
			}
		}
	}
	all := x.sampler.Energy(from, load.End)
	_, watched := x.bed.Means.(lab.Watcher)
	for i := range all {
		// A plug or a command measures what its user put it at; where the DUT is watched, too,
		// the tester's meters are none.
		all[i].Tester = !worksHere(x.bed) && !watched && all[i].Covers != "wall" && all[i].Covers != "command"
	}
	return all
}

// worksHere says whether the machine that boxdyno runs on does the work of bed's DUT.
func worksHere(bed *lab.Testbed) bool { return bed.DUT != nil || bed.Topology == lab.Here }

func (c Catalogue) joules(name string) []procedure.Joule {
	for _, s := range c.Procedures {
		if s.Name == name {
			return s.Joules
		}
	}
	return nil
}

const pointReadings = 3 // a figure of fewer would be chance

// spent sums the energies of a point's trials by meter, for each work that they did. A
// meter of the tester is left out where the box is another machine.
func (x *execution) spent(point result.Record) (out []result.Energy) {
	for _, j := range x.o.Catalogue.joules(point.Procedure) {
		first := len(out)
		for _, t := range x.recs {
			if t.Parent != point.ID || t.Energy == nil {
				continue
			}
			rate := j.Rate(point, t)
			if !(rate > 0) {
				continue
			}
			for _, e := range t.Energy {
				if e.Tester {
					continue
				}
				i := first + slices.IndexFunc(out[first:], func(o result.Energy) bool { return o.Meter == e.Meter })
				if i < first {
					i = len(out)
					out = append(out, result.Energy{Meter: e.Meter, Covers: e.Covers, Accuracy: e.Accuracy, Per: j.Per, When: j.When, Idle: x.idleOf(e)})
				}
				s := &out[i]
				s.Joules, s.Seconds, s.Readings = s.Joules+e.Joules, s.Seconds+e.Seconds, s.Readings+e.Readings
				s.Trials, s.Work = s.Trials+1, s.Work+rate*e.Seconds
			}
		}
	}
	return slices.DeleteFunc(out, func(e result.Energy) bool { return e.Readings < pointReadings })
}
