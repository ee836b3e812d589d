// SPDX-License-Identifier: Apache-2.0

package flood

import (
	"fmt"
	"math"

	"boxdyno/engine"
	"boxdyno/frame"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
	"boxdyno/unit"
)

// An episode is what the tester's ends saw of a trial.
type episode struct {
	*floodPoint
	rate    unit.FrameRate
	sources []*frame.EpisodeSource // of the senders
	sent    engine.TxReport
	seen    engine.MeterReport

	begins [len(floodPhases) + 1]unit.Instant // of the phases, by the sender's clock, and the end
	counts [frame.EpisodeClasses]uint64       // sent
}

// tell makes the trial's outcome.
func (e *episode) tell(o *procedure.Outcome, s *floodSampler) {
	shares := e.sent.Shares
	if shares == nil {
		shares = []uint64{e.sent.Accepted + e.sent.Refused}
	}
	for i, source := range e.sources {
		for class, n := range source.Counts(shares[i]) {
			e.counts[class] += n
		}
	}
	e.phases()
	flooded := e.seconds(frame.BenignDuring)
	benign := float64(e.counts[frame.BenignDuring])
	flood := float64(e.counts[frame.FloodFrames])
	o.Ceiling = e.ceiling
	o.Load.Streams, o.Load.LateLost = 1, 0 // frames without a signature do not say that they are late
	o.Load.Intended = e.rate + e.benignRate()
	o.Load.Offered = unit.FrameRate((flood + benign) / flooded)
	o.Load.Peak = o.Load.Offered
	o.Load.MeanSize = (flood*e.mean + benign*e.Mix.Mean()) / (flood + benign)
	arrived := float64(e.seen.Foreign) + float64(arrivedAll(e.seen.Streams[frame.BenignDuring]))
	o.Load.Forwarded = unit.FrameRate(arrived / flooded)
	o.KPIs, o.Samples = e.kpis(), s.phased(e.begins)
	o.Phases = nil
	for i, name := range floodPhases {
		o.Phases = append(o.Phases, result.Phase{Name: name, Begin: e.begins[i], End: e.begins[i+1]})
	}
	o.Phases = append(o.Phases, result.Phase{Name: "settle", Begin: e.begins[len(floodPhases)], End: unit.Now()})
	o.Values = e.figures(o, s)
	e.verdict(o)
}

func arrivedAll(r engine.RxReport) int64 { return int64(r.Frames - r.Duplicate) }

// phases finds when each began, by the sender's time of its first frame that arrived.
func (e *episode) phases() {
	gap := 1e9 / float64(e.benignRate())
	at := float64(e.sent.First)
	for c := range floodPhases {
		e.begins[c] = unit.Instant(at) // by the schedule, where none arrived
		if runs := e.seen.Streams[c].Runs; c > 0 && len(runs) > 0 && runs[0].Begin > 0 {
			e.begins[c] = runs[0].Begin - unit.Instant(float64(runs[0].Lowest)*gap)
		}
		at = float64(e.begins[c]) + float64(e.counts[c])*gap
	}
	e.begins[len(floodPhases)] = max(e.sent.Last, unit.Instant(at))
}

// seconds is how long phase c lasted.
func (e *episode) seconds(c int) float64 {
	return math.Max(float64(e.begins[c+1]-e.begins[c])/1e9, 1e-9)
}

func (e *episode) kpis() (all []result.KPI) {
	for c, name := range floodPhases {
		sent, arrived := int64(e.counts[c]), arrivedAll(e.seen.Streams[c])
		k := result.KPI{
			Phase: name, Begin: e.begins[c], End: e.begins[c+1], Sent: sent, Lost: sent - arrived,
			Offered: unit.FrameRate(float64(sent) / e.seconds(c)), Forwarded: unit.FrameRate(float64(arrived) / e.seconds(c)),
			Delay: trial.Delay(e.seen.Streams[c].Latency),
		}
		if c == frame.BenignDuring {
			k.BadSent, k.BadArrived = int64(e.counts[frame.FloodFrames]), int64(e.seen.Foreign)
		}
		all = append(all, k)
	}
	return all
}

// steady is the part of the phase after the flood in which no frame may be lost for the
// box to be back.
const steady = 0.1

// recovery is how long after the flood had ended benign frames were still lost; known
// is false where they were to the end. Where none was, the gap between two of them is
// its resolution, and it is that at most.
func (e *episode) recovery() (v result.Value, known bool) {
	rx := e.seen.Streams[frame.BenignAfter]
	end := e.begins[frame.BenignAfter]
	if uint64(arrivedAll(rx)) == e.counts[frame.BenignAfter] {
		v := figures.Value("flood_recovery_s", 1/float64(e.benignRate()))
		v.Bound = result.AtMost
		return v, true
	}
	back := float64(rx.Gap-end) / 1e9
	if low := rx.Runs; len(low) > 0 && low[0].Lowest > 0 { // its first frames are missing: no gap tells of them
		back = math.Max(back, float64(low[0].First-end)/1e9)
	}
	if rx.Span < e.counts[frame.BenignAfter] || back > (1-steady)*e.seconds(frame.BenignAfter) {
		return v, false
	}
	return figures.Value("flood_recovery_s", back), true
}

func (e *episode) figures(o *procedure.Outcome, s *floodSampler) (vs []result.Value) {
	k := o.KPIs[frame.BenignDuring]
	share := func(k result.KPI) float64 { return 1 - float64(k.Lost)/math.Max(float64(k.Sent), 1) }
	survival := figures.Value("benign_survival_ratio", share(k))
	for _, x := range o.Samples {
		if x.Phase == duringFlood && x.Sent > 0 && x.Begin >= k.Begin && x.End <= k.End {
			if survival.N++; survival.N == 1 {
				survival.Lo, survival.Hi = new(float64), new(float64)
				*survival.Lo, *survival.Hi = share(x), share(x)
			}
			*survival.Lo, *survival.Hi = math.Min(*survival.Lo, share(x)), math.Max(*survival.Hi, share(x))
		}
	}
	flood := float64(k.BadSent) / e.seconds(frame.BenignDuring)
	vs = append(vs, survival,
		figures.Value("flood_offered_fps", flood), figures.Value("flood_offered_bps", flood*8*e.mean),
		figures.Value("flood_forwarded_fps", float64(k.BadArrived)/e.seconds(frame.BenignDuring)),
		figures.Value("flood_sent", float64(k.BadSent)), figures.Value("flood_arrived", float64(k.BadArrived)),
		figures.Value("benign_offered_fps", float64(k.Offered)), figures.Value("benign_offered_bps", float64(unit.L2(k.Offered, e.Mix.Mean()))),
		figures.Value("benign_forwarded_bps", float64(unit.L2(k.Forwarded, e.Mix.Mean()))),
		figures.Value("benign_sent", float64(k.Sent)),
		figures.Value("benign_lost_before", float64(o.KPIs[frame.BenignBefore].Lost)), figures.Value("benign_lost", float64(k.Lost)), figures.Value("benign_lost_after", float64(o.KPIs[frame.BenignAfter].Lost)),
	)
	if v, ok := e.recovery(); ok {
		vs = append(vs, v)
	}
	for _, d := range []struct {
		metric string
		k      result.KPI
	}{{"benign_latency_before_p99_s", o.KPIs[frame.BenignBefore]}, {"benign_latency_p99_s", k}} {
		if d.k.Delay != nil {
			vs = append(vs, figures.Value(d.metric, d.k.Delay.P99))
		}
	}
	if busy, ok := s.busy(e.begins[frame.BenignDuring], e.begins[frame.BenignAfter]); ok {
		vs = append(vs, figures.Value("flood_cpu_ratio", busy))
	}
	return append(vs, figures.Value("ceiling_fps", float64(e.ceiling)))
}

// floodNames are the kinds in a reader's words.
var floodNames = map[string]string{
	"syn": "SYN flood", "ack": "ACK flood", "udp": "UDP flood", "icmp": "ICMP flood", "dns": "DNS amplification", "ntp": "NTP amplification", "fragments": "flood of fragments",
}

// verdict decides the trial.
func (e *episode) verdict(o *procedure.Outcome) {
	before, during := o.KPIs[frame.BenignBefore], o.KPIs[frame.BenignDuring]
	lost := float64(during.Lost) / math.Max(float64(during.Sent), 1)
	var wrong []string
	if before.Lost > 0 && float64(before.Lost) > float64(e.may)*float64(before.Sent) {
		wrong = append(wrong, fmt.Sprintf("%d of %d benign frames were lost before the flood began", before.Lost, before.Sent))
	}
	if lost > float64(e.may) {
		wrong = append(wrong, fmt.Sprintf("%s of %v benign survived a %s of %v (%d of %d frames were lost, and %s may be)",
			sharePercent(1-lost), unit.L2(during.Offered, e.Mix.Mean()), floodNames[e.kind.Value], e.rate, during.Lost, during.Sent, sharePercent(float64(e.may))))
	}
	if _, ok := e.recovery(); !ok {
		wrong = append(wrong, fmt.Sprintf("benign frames were still lost %v after the flood had ended", e.effort.after))
	}
	o.Status, o.Reason = result.Passed, ""
	for i, w := range wrong {
		o.Status = result.Failed
		if i > 0 {
			o.Reason += "; "
		}
		o.Reason += w
	}
}
