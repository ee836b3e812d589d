// SPDX-License-Identifier: Apache-2.0

// Package security has the procedure that loads a firewall for long (RFC 9411).
//
//	trial.Suite: throughput -> ramp -> sustained, sampled -> ramp down
//	                             frames to forward | known-bad frames to block
package security

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"boxdyno/engine"
	"boxdyno/frame"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/metrics"
	"boxdyno/procedure/internal/param"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
	"boxdyno/unit"
)

// SecuritySpec is the row of security.
var SecuritySpec = procedure.Spec{
	Name: "security", Needs: lab.Ports, Standard: "RFC 9411 section 4.3.4",
	Deviation: "the phases of RFC 9411 offer UDP frames, not HTTP and HTTPS transactions; the source port marks known-bad traffic, not its content",
	Quick:     "the load of security is sustained for 3 s, not 300 s, after a ramp of 0.5 s (RFC 9411 section 4.3.4)",
	Doc:       "a firewall under sustained load in RFC 9411's phases: forwarding rate, loss, latency, and whether it still blocks what it must",
	Names:     []string{"service", "direction", "frame_size"}, Metrics: securityMetrics, New: newSecurity,
}

// Security is RFC 9411's load profile (section 4.3.4) at a box that filters, and
// whether it still blocks what it must while it is loaded: every second frame is
// known-bad.
//
//	throughput of the filter -> [initialise -> ramp up -> sustain -> ramp down -> collect]
//
// The phases in brackets are one trial with one account; the throughput is the
// suite's, and not searched where the load is stated.
type Security struct {
	trial.Suite
	load loadFlag
}

func newSecurity() procedure.Procedure {
	p := &Security{trial.NewSuite(), loadFlag{share: 0.8}}
	p.Service = param.NewChoice("filter", []string{"filter"})
	return p
}

func (p *Security) Flags(fs *flag.FlagSet) {
	p.Suite.Flags(fs)
	fs.Var(&p.load, "load", "what is sustained, good and known-bad frames together: a `share` of the throughput such as 80%, or frame/s such as 200k")
}

// A loadFlag is a share of the throughput or a rate; one of them is 0.
type loadFlag struct {
	share float64
	rate  unit.FrameRate
}

func (l *loadFlag) String() string {
	if l.rate > 0 {
		return strconv.FormatFloat(float64(l.rate), 'f', -1, 64)
	}
	return strconv.FormatFloat(l.share*100, 'f', -1, 64) + "%"
}

func (l *loadFlag) Set(s string) error {
	if percent, ok := strings.CutSuffix(s, "%"); ok {
		v, err := strconv.ParseFloat(strings.TrimSpace(percent), 64)
		if err != nil || !(v >= 1 && v <= 1000) {
			return fmt.Errorf("load %q: want 1%% to 1000%% of the throughput", s)
		}
		*l = loadFlag{share: v / 100}
		return nil
	}
	rate, err := unit.ParseFrameRate(s)
	if err == nil && (rate < leastSustained || rate > 1e9) {
		err = fmt.Errorf("load %q: want %d to 1G frame/s, or a share of the throughput such as 80%%", s, leastSustained)
	}
	if err == nil {
		*l = loadFlag{rate: rate}
	}
	return err
}

// leastSustained is the least load, frame/s: below it phases are too few frames.
const leastSustained = 1000

// Check refuses what suite does, and both directions at once: a sender has two
// streams.
func (p *Security) Check(bed *lab.Testbed) error {
	if p.Direction.Value == trial.BothWays {
		return errors.New("direction both: security is measured one way at a time")
	}
	return p.Suite.Check(bed)
}

// Upon is the throughput, where the load is a share of it.
func (p *Security) Upon() string {
	if p.load.rate > 0 {
		return ""
	}
	return p.Suite.Upon()
}

func (p *Security) Estimate() (int, time.Duration) {
	e := securityEffortOf(p.Preset.Value)
	return p.InAll(1, e.initialise+2*e.ramp+e.sustain)
}

// A securityEffort is how long the phases last.
type securityEffort struct {
	initialise, ramp, sustain, sample time.Duration
}

func securityEffortOf(preset string) securityEffort {
	if preset == "quick" {
		return securityEffort{200 * time.Millisecond, 500 * time.Millisecond, 3 * time.Second, 100 * time.Millisecond}
	}
	return securityEffort{5 * time.Second, 30 * time.Second, 5 * time.Minute, time.Second}
}

const (
	// initialShare is the load while both ends learn where they are, as a share of
	// what is sustained.
	initialShare = 0.01
	// mayLose is the share of the frames of the sustain phase that may be lost, RFC
	// 9411 section 7.1.3.4: below 0.001 % of the transactions may fail.
	mayLose = 1e-5
)

// A stage is a time at one load, all streams together.
type stage struct {
	phase string
	rate  unit.FrameRate
	lasts time.Duration
}

const sustained = "sustain"

// stages are those of all phases but the last, which has no load.
func (e securityEffort) stages(rate unit.FrameRate) (all []stage) {
	step := func(i int) unit.FrameRate { return rate * unit.FrameRate(i) / (trial.RampSteps + 1) }
	all = append(all, stage{"initialise", max(rate*initialShare, 10), e.initialise})
	for i := 1; i <= trial.RampSteps; i++ {
		all = append(all, stage{"ramp up", step(i), e.ramp / trial.RampSteps})
	}
	all = append(all, stage{sustained, rate, e.sustain})
	for i := trial.RampSteps; i > 0; i-- {
		all = append(all, stage{"ramp down", step(i), e.ramp / trial.RampSteps})
	}
	return all
}

func (p *Security) Run(ctx context.Context, env *procedure.Env) (procedure.Outcome, error) {
	return p.At(ctx, env, func(m *trial.Point) error {
		rate, err := p.sustain(ctx, m)
		if err != nil || rate == 0 {
			return err
		}
		if err := p.block(ctx, m); err != nil {
			return err
		}
		e := securityEffortOf(p.Preset.Value)
		rec, err := m.Env.Trial(ctx, []result.Pair{
			{Key: "trial", Value: "phases"}, {Key: "rate", Value: strconv.FormatFloat(float64(rate), 'f', 0, 64)}, {Key: "duration", Value: e.sustain.String()},
		}, func(ctx context.Context) (procedure.Outcome, error) { return p.phases(ctx, m, e, rate) })
		if err != nil {
			return err
		}
		m.Out.Status, m.Out.Reason, m.Out.Values, m.Out.Load, m.Out.Account = rec.Status, rec.Reason, rec.Values, rec.Load, rec.Account
		m.Out.Warnings = append(m.Out.Warnings, rec.Warnings...)
		return nil
	})
}

// sustain is the load of the sustain phase; where there is none, 0, and the
// outcome says why.
func (p *Security) sustain(ctx context.Context, m *trial.Point) (unit.FrameRate, error) {
	if p.load.rate > 0 {
		if m.Env.Bed.Placement == "shared" {
			m.Out.Status, m.Out.Reason = result.Skipped, trial.SharedPlacement
			return 0, nil
		}
		return p.load.rate, nil
	}
	carried, err := m.Throughput(ctx)
	if err != nil || !m.Can(carried) {
		return 0, err
	}
	rate := carried * unit.FrameRate(p.load.share)
	if rate < leastSustained {
		m.Out.Status, m.Out.Reason = result.Failed, fmt.Sprintf("%v is too little to measure with: %v of a throughput of %v", rate, &p.load, carried)
		return 0, nil
	}
	return rate, nil
}

// block has the DUT block known-bad frames, and opens the rig anew with those
// beside the good ones.
func (p *Security) block(ctx context.Context, m *trial.Point) error {
	bed := m.Env.Bed
	if err := m.Rig.Close(); err != nil {
		return err
	}
	service := p.Asked()
	service.Block = true
	if err := bed.Serve(ctx, service); err != nil {
		return err
	}
	from, to := 0, 1
	if p.Direction.Value == trial.WanToLAN {
		from, to = 1, 0
	}
	good := p.Between(bed.Ports[from], bed.Ports[to])
	bad := good
	bad.SrcPort, bad.Flows = frame.BadPort, min(good.Flows, frame.BadPorts)
	r, err := trial.NewRig(ctx, m.Env, trial.RigSpec{Ports: bed.Ports, Mix: p.Mix.Mix, Ways: []trial.Way{{From: from, To: to, Frames: good}, {From: from, To: to, Frames: bad}}, Settle: m.Effort.Settle})
	if err == nil {
		m.Rig = r
	}
	return err
}

// phases is the trial: the stages one after another, with samples.
func (p *Security) phases(ctx context.Context, m *trial.Point, e securityEffort, rate unit.FrameRate) (procedure.Outcome, error) {
	stages := e.stages(rate)
	var parts [][]engine.TxReport
	var s *sampler
	o, _, seen, err := m.Rig.Account(ctx, true, func(ctx context.Context) (l engine.Load, sent []engine.TxReport, err error) {
		s = startSampler(ctx, m.Rig.Meters[0], e.sample, m.Env.Bed.Kind == result.KindMemory)
		defer func() { err = errors.Join(err, s.stop(ctx)) }()
		for _, st := range stages {
			s.begin(ctx, st.phase)
			part, err := m.Rig.TX.Transmit(ctx, engine.Load{Rate: st.rate / m.Streams(), Duration: st.lasts}, m.Rig.Streams...)
			if err != nil {
				return l, nil, err
			}
			parts = append(parts, part)
		}
		l, sent = together(stages, parts, m.Streams())
		return l, sent, nil
	})
	if err != nil {
		return o, err
	}
	o.Ceiling, o.Samples = m.Ceiling, s.samples
	o.Load.Streams = 1 // both go the same way
	o.KPIs = kpis(stages, parts, seen[0].Streams, s.delays)
	o.Phases = nil
	for _, k := range o.KPIs {
		o.Phases = append(o.Phases, result.Phase{Name: k.Phase, Begin: k.Begin, End: k.End})
	}
	o.Phases = append(o.Phases, result.Phase{Name: "collect", Begin: o.KPIs[len(o.KPIs)-1].End, End: unit.Now()})
	p.verdict(m, &o)
	return o, nil
}

// together is what the parts of a load were as one, each stream's report.
func together(stages []stage, parts [][]engine.TxReport, streams unit.FrameRate) (l engine.Load, sum []engine.TxReport) {
	var frames, seconds unit.FrameRate
	for i, part := range parts {
		d := unit.FrameRate(stages[i].lasts.Seconds())
		frames, seconds = frames+stages[i].rate/streams*d, seconds+d
		if i == 0 {
			sum = slices.Clone(part)
			for j := range sum {
				sum[j].Offered *= d
			}
			continue
		}
		for j, t := range part {
			s := &sum[j]
			s.Intended, s.Accepted, s.Refused, s.NotSent = s.Intended+t.Intended, s.Accepted+t.Accepted, s.Refused+t.Refused, s.NotSent+t.NotSent
			s.Late, s.Stalls, s.Octets = s.Late+t.Late, s.Stalls+t.Stalls, s.Octets+t.Octets
			s.LongestStall, s.Peak, s.Batch = max(s.LongestStall, t.LongestStall), max(s.Peak, t.Peak), max(s.Batch, t.Batch)
			s.Last, s.Offered = t.Last, s.Offered+t.Offered*d
		}
	}
	for j := range sum {
		sum[j].Offered /= seconds
		sum[j].Gaps, sum[j].GapErrors = nil, nil
	}
	return engine.Load{Rate: frames / seconds, Duration: time.Duration(float64(seconds) * 1e9)}, sum
}

// kpis are those of the phases. A stage is a run of its own for the meter, which
// is known by the sender's time of its first frame that arrived.
func kpis(stages []stage, parts [][]engine.TxReport, seen []engine.RxReport, delays map[string]*result.Histogram) (all []result.KPI) {
	var took time.Duration
	for i, st := range stages {
		good, bad := parts[i][0], parts[i][1]
		if len(all) == 0 || all[len(all)-1].Phase != st.phase {
			all, took = append(all, result.KPI{Phase: st.phase, Begin: good.First, Delay: trial.Delay(delays[st.phase])}), 0
		}
		k := &all[len(all)-1]
		took += st.lasts
		k.End = max(good.Last, bad.Last)
		arrived := arrivedOf(seen[0].Runs, good)
		k.Sent, k.BadSent = k.Sent+int64(good.Accepted), k.BadSent+int64(bad.Accepted)
		k.Lost += int64(good.Accepted) - arrived
		k.BadArrived += arrivedOf(seen[1].Runs, bad)
		k.Offered = unit.FrameRate(float64(k.Sent) / took.Seconds())
		k.Forwarded = unit.FrameRate(float64(k.Sent-k.Lost) / took.Seconds())
	}
	return all
}

// arrivedOf is how many frames of a part of the load arrived, each once.
func arrivedOf(runs []engine.RxRun, sent engine.TxReport) (n int64) {
	for _, r := range runs {
		if r.Begin >= sent.First && r.Begin <= sent.Last {
			n += int64(r.Frames - r.Duplicate)
		}
	}
	return n
}

// verdict decides the trial, and makes its figures.
func (p *Security) verdict(m *trial.Point, o *procedure.Outcome) {
	k := o.KPIs[slices.IndexFunc(o.KPIs, func(k result.KPI) bool { return k.Phase == sustained })]
	var sent, arrived int64
	for _, k := range o.KPIs {
		sent, arrived = sent+k.BadSent, arrived+k.BadArrived
	}
	lost := float64(k.Lost) / float64(max(k.Sent, 1))
	switch {
	case arrived > 0:
		o.Status, o.Reason = result.Failed, fmt.Sprintf("%d of %d known-bad frames came through", arrived, sent)
	case lost > mayLose:
		o.Status, o.Reason = result.Failed, fmt.Sprintf("%d of %d good frames were lost while the load was sustained: %.2g %%, and at most 0.001 %% may be", k.Lost, k.Sent, lost*100)
	default:
		o.Status = result.Passed
	}
	o.Values = p.figures(k, o.Samples)
	o.Values = append(o.Values, figures.Value("known_bad_sent", float64(sent)), figures.Value("known_bad_arrived", float64(arrived)))
	if _, serves := m.Env.Bed.Means.(lab.Server); !serves { // nobody can look into the box
		return
	}
	blocked := o.Account.DroppedAt(result.NFT)
	o.Values = append(o.Values, figures.Value("known_bad_blocked", float64(blocked)))
	if blocked != sent {
		o.Warnings = append(o.Warnings, fmt.Sprintf("the rules threw %d frames away, and %d known-bad ones were sent: the ledger says where the others ended", blocked, sent))
	}
}

// figures are those of the sustain phase k, with the least and greatest of the
// samples that lie within it.
func (p *Security) figures(k result.KPI, samples []result.KPI) (vs []result.Value) {
	add := func(metric string, of func(k result.KPI) (float64, bool)) {
		x, ok := of(k)
		if !ok {
			return
		}
		v := figures.Value(metric, x)
		for _, s := range samples {
			if x, ok := of(s); ok && s.Phase == sustained && s.Begin >= k.Begin && s.End <= k.End {
				if v.N++; v.N == 1 {
					v.Lo, v.Hi = new(float64), new(float64)
					*v.Lo, *v.Hi = x, x
				}
				*v.Lo, *v.Hi = min(*v.Lo, x), max(*v.Hi, x)
			}
		}
		vs = append(vs, v)
	}
	add("sustain_offered_fps", func(k result.KPI) (float64, bool) { return float64(k.Offered), true })
	add("sustain_forwarded_fps", func(k result.KPI) (float64, bool) { return float64(k.Forwarded), true })
	add("sustain_loss_ratio", func(k result.KPI) (float64, bool) { return float64(k.Lost) / float64(k.Sent), k.Sent > 0 })
	for _, d := range delayMetrics {
		add(d.metric, func(k result.KPI) (float64, bool) {
			if k.Delay == nil {
				return 0, false
			}
			return d.of(k.Delay), true
		})
	}
	return vs
}

var delayMetrics = []struct {
	metric string
	of     func(*result.Delay) float64
}{
	{"sustain_latency_min_s", func(d *result.Delay) float64 { return d.Min }},
	{"sustain_latency_mean_s", func(d *result.Delay) float64 { return d.Mean }},
	{"sustain_latency_p99_s", func(d *result.Delay) float64 { return d.P99 }},
	{"sustain_latency_max_s", func(d *result.Delay) float64 { return d.Max }},
}

var securityMetrics = []result.Metric{
	{Name: "sustain_offered_fps", Label: "offered", Group: "Load sustained: good frames of a firewall, and their delay; offered and forwarded in frame/s", Unit: "frame/s", Help: "good frames offered in the sustain phase, plus as many known-bad ones; interval: least to greatest sample"},
	{Name: "sustain_forwarded_fps", Label: "forwarded", Interval: "samples", Heads: true, Unit: "frame/s", Better: 1, Help: "those that came out of the box"},
	{Name: "sustain_loss_ratio", Label: "lost", Share: true, Unit: "1", Better: -1, Help: "share of them that was lost"},
	{Name: "sustain_latency_min_s", Label: "delay", Unit: "s", Better: -1, Help: "one-way delay in the sustain phase, sender's program to meter's program, software stamps: least"},
	{Name: "sustain_latency_mean_s", Label: "mean", Unit: "s", Better: -1, Help: "the same, mean"},
	{Name: "sustain_latency_p99_s", Label: "p99", Unit: "s", Better: -1, Help: "the same, 99th percentile"},
	{Name: "sustain_latency_max_s", Label: "max", Interval: "samples", Unit: "s", Better: -1, Help: "the same, greatest"},
	{Name: "known_bad_sent", Label: "sent", Group: "Known-bad frames, which a firewall must block: of all phases", Unit: "frame", Exact: true, Help: "known-bad frames that were sent, in all phases"},
	{Name: "known_bad_blocked", Label: "blocked", Unit: "frame", Exact: true, Help: "frames that the box's rules threw away, by their own counter; absent where nobody can look into the box"},
	{Name: "known_bad_arrived", Label: "came through", Heads: true, Unit: "frame", Better: -1, Exact: true, Help: "known-bad frames that came through: there must be none"},
}

// figures are the metrics of this room's procedure.
var figures = metrics.List(securityMetrics)
