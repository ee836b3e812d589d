// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"boxdyno/host"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/unit"
	"boxdyno/verdict"
)

// trials carries out f, which are trials at one time, and puts their records in rs: first as
// running, so that an unfinished one shows where a box died. A finished record is as it was:
// f is called for the others, and carriedOut says which they are.
func (x *execution) trials(ctx context.Context, rs []result.Record, f func(context.Context) ([]procedure.Outcome, error)) (carriedOut []bool, err error) {
	carriedOut = make([]bool, len(rs))
	for i, r := range rs {
		if k, ok := x.at[r.ID]; ok && kept(x.recs[k]) {
			rs[i] = x.recs[k]
		} else {
			carriedOut[i] = true
		}
	}
	if !slices.Contains(carriedOut, true) {
		return carriedOut, nil
	}
	cfg := rs[0].Config // beside several at one time nothing runs (procedure.Spec.Alone)
	calm, err := x.beside.Calm(ctx, cfg)
	if err != nil {
		return carriedOut, err
	}
	speed := 0.0 // not known: beside a load of ours CPUs are slow, and busy
	if calm {
		speed = x.steady.wait(ctx)
	}
	for i := range rs {
		if carriedOut[i] {
			if err := x.begin(ctx, &rs[i]); err != nil {
				return carriedOut, err
			}
		}
	}
	outs := make([]procedure.Outcome, len(rs))
	var digests []result.Digest
	err = x.beside.Prepare(ctx, cfg)
	used := measure()
	if err == nil {
		var found []procedure.Outcome
		found, digests, err = x.watched(ctx, rs[0].ID, f)
		copy(outs, found)
		if err == nil && len(found) != len(rs) {
			err = fmt.Errorf("%d outcomes of %d trials", len(found), len(rs))
		}
	}
	steal, cpu, memory := used.until()
	var first error
	for i, o := range outs {
		if !carriedOut[i] {
			continue
		}
		x.beside.Account(&o)
		rs[i].Digests, rs[i].Energy = x.of(outs, i, digests, x.joules(rs[i], o))
		if o.Load != nil {
			o.Load.CPUSpeed = speed
			o.Load.StealRatio, o.Load.ObserverCPU, o.Load.ObserverMem = steal, cpu, memory
		}
		var eerr error
		rs[i], eerr = x.end(ctx, rs[i], o, err, true)
		first = cmp.Or(first, eerr)
	}
	return carriedOut, first
}

// of is what telemetry saw in trials at one time, but for meters that see boards of others than
// trial i alone.
func (x *execution) of(outs []procedure.Outcome, i int, digests []result.Digest, energy []result.Energy) ([]result.Digest, []result.Energy) {
	others := func(e result.Energy) bool {
		sees := func(o procedure.Outcome) bool {
			return slices.ContainsFunc(o.Boards, func(b result.Board) bool { return e.Sees(b.Name) })
		}
		return !sees(outs[i]) && slices.ContainsFunc(outs, sees)
	}
	digests = slices.DeleteFunc(slices.Clone(digests), func(d result.Digest) bool {
		return others(result.Energy{Of: result.Get(x.run.Series[d.Series].Labels, "of")})
	})
	return digests, slices.DeleteFunc(energy, others)
}

// begin writes r as running.
func (x *execution) begin(ctx context.Context, r *result.Record) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.Schema, r.Environment, r.Start, r.Status = result.Schema, x.environment, time.Now(), result.Running
	r.Begin = unit.Now() - x.origin
	r.End = r.Begin
	return x.append(*r)
}

// end writes what became of r: o, or err. A trial is judged.
func (x *execution) end(ctx context.Context, r result.Record, o procedure.Outcome, err error, judge bool) (result.Record, error) {
	r.End = unit.Now() - x.origin
	if x.broken != nil { // whatever came of it
		return r, x.broken
	}
	r.Reason, r.Load, r.Account, r.Warnings = o.Reason, o.Load, o.Account, o.Warnings
	r.CPUs, r.DUT, r.Usage, r.Copies, r.Alerts = o.CPUs, o.DUT, o.Usage, o.Copies, o.Alerts
	r.Boards = slices.Clone(o.Boards)
	for i, b := range r.Boards {
		r.Boards[i].Phases = slices.Clone(b.Phases)
		for k := range r.Boards[i].Phases {
			r.Boards[i].Phases[k].Begin -= x.origin
			r.Boards[i].Phases[k].End -= x.origin
		}
	}
	if r.Parent == "" {
		r.Settings = x.tuned
	}
	if o.Values != nil { // else those of the visit before
		r.Values = o.Values
	}
	if !judge {
		r.Energy = x.spent(r)
	}
	for _, p := range o.Phases {
		r.Phases = append(r.Phases, result.Phase{Name: p.Name, Begin: p.Begin - x.origin, End: p.End - x.origin})
	}
	if err == nil {
		err = ctx.Err() // it may have ended early and not have said so
	}
	r.KPIs, r.Samples = slices.Clone(o.KPIs), slices.Clone(o.Samples)
	for _, ks := range [][]result.KPI{r.KPIs, r.Samples} {
		for i := range ks {
			ks[i].Begin -= x.origin
			ks[i].End -= x.origin
		}
	}
	var missing *host.Missing
	switch {
	case errors.As(err, &missing):
		r.Status, r.Reason = result.Skipped, missing.Error()
	case err != nil && ctx.Err() != nil:
		r.Status, r.Reason = result.Aborted, "interrupted"
	case err != nil:
		r.Status, r.Reason = result.Aborted, err.Error()
	case judge:
		r.Status = o.Status
		r.Status, r.Reason = verdict.Validity(r, o.Ceiling)
		r.Warnings = append(r.Warnings, verdict.Warnings(r, o.Ceiling)...)
	case o.Status == "":
		r.Status = result.Passed
	default:
		r.Status = o.Status
	}
	if kerr := x.append(r); kerr != nil {
		return r, errors.Join(kerr, err)
	}
	return r, err
}

// called turns a panic of f into an error, so that the run ends in order.
func called[T any](ctx context.Context, x *execution, id string, f func(context.Context) (T, error)) (found T, err error) {
	defer func() {
		if p := recover(); p != nil {
			x.o.Log.Error("panic", "in", id, "value", p, "stack", string(debug.Stack()))
			var none T
			found, err = none, fmt.Errorf("%s: a fault in boxdyno: panic: %v", id, p)
		}
	}()
	return f(ctx)
}

// A meter of what the machine and this process spent while a trial lasted: in user space,
// as its time in the kernel is the load itself.
type spent struct {
	cpu host.CPUTime
	own time.Duration
	ok  bool
}

func measure() spent {
	cpu, err := (&host.Local{}).CPUTime()
	own, _, _ := host.Own()
	return spent{cpu: cpu, own: own, ok: err == nil}
}

// until is the steal ratio of all CPUs since s, and what boxdyno itself cost.
func (s spent) until() (steal float64, cpu time.Duration, memory uint64) {
	if now, err := (&host.Local{}).CPUTime(); err == nil && s.ok {
		_, steal = now.Since(s.cpu)
	}
	cpu, _, memory = host.Own()
	return steal, cpu - s.own, memory
}
