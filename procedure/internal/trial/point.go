// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/crew"
	"boxdyno/frame"
	"boxdyno/internal/limit"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/unit"
)

// A Recording carries out a trial (Env.Trial).
type Recording func(ctx context.Context, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error)

// A Point is one traffic being measured.
type Point struct {
	*Traffic
	Env    *procedure.Env
	Rig    *Rig // open while trials run; whoever opened it closes it
	Effort Effort
	Search *limit.Hunt       // nil before the first visit's overload
	Out    procedure.Outcome // without the figures under overload
	stalls, longest,
	unexplained int64
	steal     float64
	Ceiling   unit.FrameRate // the tester's, of all streams together
	Readings  []underLoad    // of the overload trials that are valid
	offered   []float64      // in them
	overloads int            // so far
	stamina   stamina
	invalid   string // why the last one was not
	leaked    int64  // frames that a drop service let through

	record Recording // of the trials that a throughput needs
}

// NewPoint returns the point of p in env, whose trials record carries out.
func NewPoint(p *Traffic, env *procedure.Env, record Recording) *Point {
	m := &Point{Traffic: p, Env: env, Effort: EffortOf(p.Preset.Value), Out: procedure.Outcome{Status: result.Passed}, record: record}
	for _, w := range []string{p.unrouted(env.Bed), Crowded(env.Bed, p.dutCPUs.Value, Flows{p.Flows.Value, "flows", frame.MaxFlows}, p.senders.Value), Placed(env.Bed, p.dutCPUs.Value, p.senders.Value), FewSenders(env.Bed, p.senders.Value)} {
		if w != "" {
			m.Out.Warnings = append(m.Out.Warnings, w)
		}
	}
	return m
}

// TesterCeiling finds the tester's ceiling; where it is invalid, so is the point, for
// the reason it returns.
func (m *Point) TesterCeiling(ctx context.Context) (invalid string, err error) {
	rec, err := TesterCeiling(ctx, m.Env, m.Mix.Mix, m.IPv6(), m.Direction.Value == BothWays, m.senders.Value, m.Effort)
	if err == nil && rec.Status == result.Invalid {
		invalid = "the self-test is invalid: " + rec.Reason
	} else if err == nil {
		m.Ceiling = rec.Ceiling() * unit.FrameRate(crew.Evenness(m.Flows.Value, len(m.Env.Bed.SenderCPUs(m.senders.Value))))
	}
	return invalid, err
}

// Enter has the DUT do the point's service and opens the rig, which the caller
// closes.
func (m *Point) Enter(ctx context.Context) (err error) {
	bed := m.Env.Bed
	if err := bed.Serve(ctx, m.Asked()); err != nil {
		return err
	}
	if m.Rig, err = m.Open(ctx, m.Env, m.Effort.Settle); err != nil {
		return err
	}
	if m.Service.Value == "nat" {
		err = m.OpenFlows(ctx, bed, m.Rig)
	}
	if err != nil {
		m.Rig.Close()
	}
	return err
}

// WarmUp offers as much as there is, in a trial that is in no figure.
func (m *Point) WarmUp(ctx context.Context) error {
	_, err := m.Trial(ctx, "warm-up", 0, engine.Load{Rate: m.LinkRate(), Duration: m.Effort.WarmUp}, false)
	return err
}

// LinkRate is line rate for each stream where the link's rate is stated, else 0:
// flat out.
func (m *Point) LinkRate() unit.FrameRate {
	if link := m.Env.Bed.Ports[0].Link; link > 0 {
		return unit.LineRate(link, m.Mix.Mean())
	}
	return 0
}

// Trial runs one trial of the point and keeps what all of them have in common.
func (m *Point) Trial(ctx context.Context, kind string, n int, l engine.Load, timing bool) (result.Record, error) {
	return m.carryOut(ctx, m.record, outset{}, kind, n, l, timing)
}

// trialFrom is trial, without timing, that starts so.
func (m *Point) trialFrom(ctx context.Context, from outset, kind string, n int, l engine.Load) (result.Record, error) {
	return m.carryOut(ctx, m.record, from, kind, n, l, false)
}

func (m *Point) carryOut(ctx context.Context, record Recording, from outset, kind string, n int, l engine.Load, timing bool) (result.Record, error) {
	cfg := []result.Pair{{Key: "trial", Value: kind}, {Key: "n", Value: strconv.Itoa(n)}}
	if from.rest > 0 {
		cfg = append(cfg, result.Pair{Key: "rest", Value: from.rest.String()})
	}
	if from.ramp > 0 {
		cfg = append(cfg, result.Pair{Key: "start", Value: "gentle"})
	}
	if l.Rate > 0 {
		cfg = append(cfg, result.Pair{Key: "rate", Value: strconv.FormatFloat(float64(l.Rate), 'f', 0, 64)})
	} else {
		cfg = append(cfg, result.Pair{Key: "rate", Value: "flat-out"})
	}
	if l.Count > 0 {
		cfg = append(cfg, result.Pair{Key: "frames", Value: strconv.FormatUint(l.Count, 10)})
	} else {
		cfg = append(cfg, result.Pair{Key: "duration", Value: l.Duration.String()})
	}
	rec, err := record(ctx, cfg, func(ctx context.Context) (procedure.Outcome, error) {
		if err := Resting(ctx, m.Env.Bed, from.rest); err != nil {
			return procedure.Outcome{}, err
		}
		o, err := m.Rig.gently(ctx, from.ramp, l, timing)
		if err == nil {
			o.Ceiling = m.Ceiling
			m.judge(&o)
		}
		return o, err
	})
	if err != nil {
		return rec, err
	}
	if rec.Load != nil {
		m.stalls += rec.Load.Stalls
		m.longest = max(m.longest, rec.Load.LongestStall)
		m.steal = max(m.steal, rec.Load.StealRatio)
	}
	if rec.Account != nil && rec.Account.Unexplained != 0 {
		m.unexplained++
	}
	return rec, nil
}

// judge decides a trial of a drop service, which is right when every frame ended
// where it should; the others are verdict.Validity's.
func (m *Point) judge(o *procedure.Outcome) {
	place := DropPlaces[m.Service.Value]
	if place == "" {
		return
	}
	if missed := m.missed(o.Account); missed != 0 {
		o.Status, o.Reason = result.Failed, fmt.Sprintf("%d of %d frames did not end in %s", missed, o.Account.Accepted, place)
		return
	}
	o.Status = result.Passed
}

// missed is how many frames did not end where the service should end them.
func (m *Point) missed(a *result.Account) int64 {
	if place := DropPlaces[m.Service.Value]; place != "" {
		return a.Accepted - a.DroppedAt(place)
	}
	return a.Lost()
}

// useless says why a trial under overload tells no rate, "" where it does.
func useless(rec result.Record) string {
	switch {
	case rec.Status == result.Invalid || rec.Load == nil || rec.Account == nil:
		return cmp.Or(rec.Reason, "nothing says where its frames went")
	case rec.Account.Accepted < int64(leastFrames*rec.Load.Streams):
		return fmt.Sprintf("a rate needs %d frames, and in its time the link carries fewer", leastFrames)
	}
	return ""
}

// Spent says that the run's budget is, before a trial of that kind.
func (m *Point) Spent(kind string) bool { return m.Env.Spent != nil && m.Env.Spent(kind) }

// Overload offers as much as there is, in the trials of a visit, and keeps the
// rates at which the service was done, all streams together.
func (m *Point) Overload(ctx context.Context) error {
	d, times := m.overloadFor()
	for range times {
		if len(m.Readings) > 0 && m.Spent("overload") {
			return nil
		}
		rec, err := m.Trial(ctx, "overload", m.overloads, engine.Load{Rate: m.LinkRate(), Duration: d}, false)
		if err != nil {
			return err
		}
		m.overloads++
		if m.invalid = useless(rec); m.invalid != "" {
			continue
		}
		m.Out.Account, m.Out.Load = rec.Account, rec.Load
		rate, steady := float64(rec.Load.Forwarded), time.Duration(0)
		if a := rec.Load.Arrivals; a != nil && !a.Falling {
			steady = a.Steady
		}
		if place := DropPlaces[m.Service.Value]; place != "" {
			steady = 0
			traffic := rec.Phases[0]
			rate = float64(rec.Account.DroppedAt(place)) / time.Duration(traffic.End-traffic.Begin).Seconds()
			m.leaked += rec.Account.Received
		}
		m.Readings, m.offered = append(m.Readings, underLoad{rate, steady}), append(m.offered, float64(rec.Load.Offered))
	}
	return nil
}

// Outcome is what the visits so far found.
func (m *Point) Outcome() procedure.Outcome {
	out := m.Out
	rates := m.Rates()
	if len(rates) == 0 {
		out.Status, out.Reason = result.Invalid, "every trial under overload is invalid: "+m.invalid
		return out
	}
	out.Values, out.Warnings = nil, slices.Clip(out.Warnings)
	carried, bound := 0.0, result.Exactly
	if m.Search != nil {
		l := m.limit(&out)
		if carried = float64(l.Lower * m.Streams()); l.Lower > 0 && (l.AtCeiling || l.Upper == 0) {
			bound = result.AtLeast
		}
	}
	out.Values = append(out.Values, m.Out.Values...)
	rate := figures.Spread("forwarding_rate_fps", rates)
	rate.Bound = m.Bound(rate.Value)
	if m.stamina.unsettled && !m.stamina.lossless && rate.Bound == result.Exactly {
		rate.Bound = result.AtMost
	}
	if DropPlaces[m.Service.Value] != "" {
		rate.Metric = "drop_rate_fps"
		out.Values = append(slices.Clip(out.Values), rate, figures.Value("forwarding_rate_fps", 0))
	} else {
		bits := figures.Value("forwarding_rate_bps", float64(unit.L2(unit.FrameRate(rate.Value), m.Mix.Mean())))
		bits.Bound = rate.Bound
		out.Values = append(slices.Clip(out.Values), rate, bits)
	}
	out.Values = append(out.Values, figures.Spread("offered_fps", m.offered), figures.Value("ceiling_fps", float64(m.Ceiling)),
		figures.Value("stalls", float64(m.stalls)), figures.Value("longest_stall_s", float64(m.longest)/1e9), figures.Value("steal_ratio", m.steal))
	burst, told := m.burst(carried, bound, rate)
	out.Values = append(out.Values, burst...)
	for _, w := range []string{told, m.short()} {
		if w != "" {
			out.Warnings = append(out.Warnings, w)
		}
	}
	if m.leaked > 0 {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%d frames that should be thrown away came through under overload", m.leaked))
	}
	if m.unexplained > 0 {
		out.Warnings = append(out.Warnings, fmt.Sprintf("in %d trials frames are unexplained", m.unexplained))
	}
	return out
}

// Bound is ">=" for a rate so near the tester's ceiling that it may be the
// tester's own (METHOD rule 1), and where both share a CPU (rule 16).
func (m *Point) Bound(rate float64) result.Bound {
	if rate > float64(m.Ceiling)/1.2 || m.Env.Bed.Placement == "shared" {
		return result.AtLeast
	}
	return result.Exactly
}

// Streams are how many there are: 2 with both directions.
func (m *Point) Streams() unit.FrameRate { return unit.FrameRate(len(m.Rig.Streams)) }

// Can says whether there is a throughput to start from; if not, the outcome says why.
func (m *Point) Can(carried unit.FrameRate) bool {
	why := m.unable()
	switch {
	case m.Env.Bed.Placement == "shared":
		m.Out.Status, m.Out.Reason = result.Skipped, why
	case why != "":
		m.Out.Status, m.Out.Reason = result.Invalid, why
	case carried == 0 && m.Search.Limit().Lower > 0:
		m.Out.Status, m.Out.Reason = result.Invalid, "no load without loss from a standing start was confirmed, and these trials begin so"
	case carried == 0:
		m.limit(&m.Out)    // says why
		m.Out.Values = nil // which are throughput's
	default:
		return true
	}
	return false
}

// Add adds figures to the outcome.
func (m *Point) Add(vs ...result.Value) { m.Out.Values = append(m.Out.Values, vs...) }

// Warn adds a warning to the outcome.
func (m *Point) Warn(format string, args ...any) {
	m.Out.Warnings = append(m.Out.Warnings, fmt.Sprintf(format, args...))
}
