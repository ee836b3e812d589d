// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"slices"
	"time"

	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/unit"
)

const (
	idleReadings = 3                      // of each meter, for its idle power
	idleLeast    = time.Second            // that the idle machine is measured for
	idleAsked    = 250 * time.Millisecond // between two looks whether that is enough
	idleLooks    = 24                     // after which a meter has no idle power
	idleMost     = 30 * time.Second       // the same, where a look takes long
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
	for looks := 1; ; looks++ {
		if host.Pause(ctx, idleAsked) != nil {
			break
		}
		x.sampler.Now()
		now := unit.Now()
		all := x.sampler.Energy(from, now)
		enough := len(all) == x.sampler.Meters() && !slices.ContainsFunc(all, func(e result.Energy) bool { return e.Readings < idleReadings })
		if idleOver(looks, time.Duration(now-from), enough) {
			break
		}
	}
	idle := x.sampler.Energy(from, unit.Now())
	_, _ = x.sampler.End()
	x.run.Telemetry[len(x.run.Telemetry)-1].Idle = slices.DeleteFunc(idle, func(e result.Energy) bool { return e.Readings < idleReadings })
}

// idleOver says whether so many looks in that time suffice, where every meter was read often
// enough or not. They count, as a process that is held up looks later.
func idleOver(looks int, took time.Duration, enough bool) bool {
	return enough && took >= idleLeast || looks >= idleLooks || took >= idleMost
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
			if !(j.Rate(point, t) > 0) {
				continue
			}
			for _, e := range t.Energy {
				if e.Tester {
					continue
				}
				rate := x.rate(j, point, t, e)
				i := first + slices.IndexFunc(out[first:], func(o result.Energy) bool { return o.Meter == e.Meter })
				if i < first {
					i = len(out)
					out = append(out, result.Energy{Meter: e.Meter, Covers: e.Covers, Of: e.Of, Accuracy: e.Accuracy, Per: j.Per, When: j.When, Idle: x.idleOf(e)})
				}
				s := &out[i]
				s.Joules, s.Seconds, s.Readings = s.Joules+e.Joules, s.Seconds+e.Seconds, s.Readings+e.Readings
				s.Trials, s.Work = s.Trials+1, s.Work+rate*e.Seconds
			}
		}
	}
	return slices.DeleteFunc(out, func(e result.Energy) bool { return e.Readings < pointReadings })
}

// rate is the work a second that a trial's energy by one meter was spent on. Where the meter
// sees some boards of a fleet, it is theirs; 0: none of them served, or their part of one work
// cannot be told apart. A meter of shared parts alone has all of it.
func (x *execution) rate(j procedure.Joule, point, trial result.Record, e result.Energy) (sum float64) {
	if e.Of == "" || len(trial.Boards) == 0 {
		return j.Rate(point, trial)
	}
	seen := 0
	for _, b := range trial.Boards {
		if e.Sees(b.Name) {
			own := trial
			own.Boards, own.Status, own.Values, own.Config = nil, b.Status, b.Values, slices.Concat(b.Config, trial.Config)
			seen, sum = seen+1, sum+j.Rate(point, own)
		}
	}
	switch {
	case seen == len(trial.Boards), seen == 0 && e.SeesParts(x.run.Shared()):
		return j.Rate(point, trial)
	case x.o.Catalogue.joint(point.Procedure):
		return 0
	}
	return sum
}

// joint says whether boards of a fleet do one work in the procedure of that name.
func (c Catalogue) joint(name string) bool {
	return slices.ContainsFunc(c.Procedures, func(s procedure.Spec) bool { return s.Name == name && s.Joint })
}
