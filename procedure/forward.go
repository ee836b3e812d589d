// SPDX-License-Identifier: Apache-2.0

package procedure

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
	"boxdyno/result"
	"boxdyno/search"
	"boxdyno/unit"
)

// Forward measures the DUT as a router, one service, direction and frame size at
// a time. Each of a run's visits to a point goes
//
//	service set -> overload -> some of the search
//
// with self-test and warm-up before the first; the last ends the search and
// measures latency at half the throughput or less.
type Forward struct {
	service   choice
	direction choice
	mix       mixFlag
	rules     count
	flows     count
	ip        choice
	preset    choice
}

const (
	lanToWAN = "lan-to-wan"
	wanToLAN = "wan-to-lan"
	both     = "both"
)

func newForward() Procedure {
	return &Forward{
		service:   choice{"route", lab.Services},
		direction: choice{lanToWAN, []string{lanToWAN, wanToLAN, both}},
		mix:       mixFlag{frame.Mix{Name: "64", Sizes: []unit.FrameSize{64}}},
		rules:     count{0, 0, 100_000},
		flows:     count{1, 1, frame.MaxFlows},
		ip:        choice{"4", ipVersions},
		preset:    choice{"quick", presets},
	}
}

// maxNATFlows is what one public address can map with ports to spare.
const maxNATFlows = 10_000

func (p *Forward) Flags(fs *flag.FlagSet) {
	fs.Var(&p.service, "service", "what the box does to frames: forward them (route, filter, nat) or throw them away (drop-*)")
	fs.Var(&p.direction, "direction", "which way frames go; both: each way at once")
	fs.Var(&p.mix, "frame_size", "`octets` with FCS, imix (7:4:1 of 64, 594 and 1518), or a mix such as 64:7+594:4+1518:1")
	fs.Var(&p.rules, "rules", "filter: `rules` before the one that matches")
	fs.Var(&p.flows, "flows", "UDP `flows` that frames belong to in turn; nat: at most 10000")
	fs.Var(&p.ip, "ip", "IP version")
	fs.Var(&p.preset, "preset", "quick or standard: how long, how often")
}

func (p *Forward) ipv6() bool { return p.ip.value == "6" }

// dropPlaces is where each drop service is meant to end every frame.
var dropPlaces = map[string]result.Place{"drop-xdp": result.XDP, "drop-tc": result.TC, "drop-nft": result.NFT}

func (p *Forward) Check(bed *lab.Testbed) error {
	if err := p.mix.Signed(p.ipv6()); err != nil {
		return err
	}
	if p.rules.value != 0 && p.service.value != "filter" {
		return fmt.Errorf("rules %d: only service filter has rules, and this is %s", p.rules.value, p.service.value)
	}
	if p.service.value == "nat" {
		if p.ipv6() {
			return fmt.Errorf("service nat: masquerade is measured over IPv4 only")
		}
		if p.flows.value > maxNATFlows {
			return fmt.Errorf("flows %d: service nat takes 1 to %d", p.flows.value, maxNATFlows)
		}
	}
	if dropPlaces[p.service.value] != "" && p.direction.value == both {
		return fmt.Errorf("direction both: service %s is measured one way at a time", p.service.value)
	}
	if bed == nil {
		return nil
	}
	if !slices.Contains(bed.Services, p.service.value) {
		return fmt.Errorf("service %s: topology %s has %s", p.service.value, bed.Topology, strings.Join(bed.Services, ", "))
	}
	return fits(p.mix.Mix, p.ipv6(), bed.Ports)
}

func (p *Forward) Estimate() (int, time.Duration) {
	e := effortOf(p.preset.value)
	trials, d := 0, time.Duration(0)
	for _, s := range search.Presets {
		if s.Name == p.preset.value {
			trials, d = s.Estimate()
		}
	}
	trials += 1 + visits*e.overloads + 1
	d += e.warmUp + visits*time.Duration(e.overloads)*e.overload + e.latency
	const around = 60 * time.Millisecond // arming, snapshots and settling of a trial
	return trials, d + time.Duration(trials)*(around+e.settle)
}

// point is one Forward being measured.
type point struct {
	*Forward
	env    *Env
	rig    *rig
	effort effort
	search *search.Search // nil before the first visit's overload
	seen   []search.Seen
	out    Outcome // without the figures under overload
	stalls, longest,
	unexplained int64
	steal          float64
	ceiling        unit.FrameRate
	rates, offered []float64 // of the overload trials that are valid
	invalid        string    // why the last one was not
	leaked         int64     // frames that a drop service let through
}

func (p *Forward) Run(ctx context.Context, env *Env) (_ Outcome, err error) {
	m := &point{Forward: p, env: env, effort: effortOf(p.preset.value), out: Outcome{Status: result.Passed}}
	self, err := selfTest(ctx, env, p.mix.Mix, p.ipv6(), p.direction.value == both, m.effort)
	if err != nil {
		return Outcome{}, err
	}
	if self.Status == result.Invalid {
		return Outcome{Status: result.Invalid, Reason: "the self-test is invalid: " + self.Reason}, nil
	}
	m.ceiling = self.Load.Forwarded

	return m.visit(ctx, 0)
}

// visits is how often a run comes to a point.
const visits = 5

// visit is the nth time.
func (m *point) visit(ctx context.Context, n int) (_ Outcome, err error) {
	if err := m.enter(ctx, n); err != nil {
		return Outcome{}, err
	}
	defer func() { err = errors.Join(err, m.rig.close()) }()
	if err := m.overload(ctx, n); err != nil {
		return Outcome{}, err
	}
	if len(m.rates) == 0 {
		return m.outcome(), nil
	}
	if err := m.limits(ctx, n); err != nil {
		return Outcome{}, err
	}
	out := m.outcome()
	if n+1 < visits {
		out.Again = func(ctx context.Context) (Outcome, error) { return m.visit(ctx, n+1) }
	}
	return out, nil
}

// enter has the DUT do the point's service, and warms up at the first visit.
func (m *point) enter(ctx context.Context, n int) (err error) {
	bed := m.env.Bed
	if bed.Serve != nil {
		service := lab.Service{Kind: m.service.value, Rules: m.rules.value, Flows: m.flows.value}
		if err := bed.Serve(ctx, service); err != nil {
			return err
		}
	}
	if m.rig, err = m.open(ctx, bed, m.effort.settle); err != nil {
		return err
	}
	if m.service.value == "nat" {
		err = m.openFlows(ctx, bed, m.rig)
	}
	if err == nil && n == 0 {
		_, err = m.trial(ctx, "warm-up", n, engine.Load{Rate: m.linkRate(), Duration: m.effort.warmUp}, false)
	}
	if err != nil {
		m.rig.close()
	}
	return err
}

// limits does visit n's part of the search, where the placement lets a load be
// offered that the DUT cannot take; at the last visit it ends with latency.
func (m *point) limits(ctx context.Context, n int) error {
	last := n+1 == visits
	if m.env.Bed.Placement == "shared" {
		if last {
			m.out.Warnings = append(m.out.Warnings, "tester and DUT share a CPU, so the DUT throttles the tester: only the forwarding rate is reported, and it includes the tester's own cost")
		}
		return nil
	}
	if m.search == nil {
		if err := m.begin(unit.FrameRate(spread("forwarding_rate_fps", m.rates).Value)); err != nil {
			return err
		}
	}
	steps := m.search.Trials / visits
	if last {
		steps = -1
	}
	if err := m.seek(ctx, steps); err != nil || !last {
		return err
	}
	l := m.search.Limit(m.seen)
	m.limit(l)
	if l.Lower == 0 || dropPlaces[m.service.value] != "" {
		return nil
	}
	return m.latency(ctx, l.Lower)
}

// open lays out the streams of the direction and opens the rig.
func (p *Forward) open(ctx context.Context, bed *lab.Testbed, settle time.Duration) (*rig, error) {
	lan, wan := bed.Ports[0], bed.Ports[1]
	forth := way{0, 1, between(lan, wan, p.mix.Mix, p.flows.value, p.ipv6())}
	back := way{1, 0, between(wan, lan, p.mix.Mix, p.flows.value, p.ipv6())}
	if p.service.value == "nat" {
		// From the wan, only answers to flows get through: they go to the DUT's
		// own address, at the port that masquerade kept.
		back.frames.Dst, back.frames.Answer = wan.Gateway4, true
		back.frames.SrcPort, back.frames.DstPort = frame.Port, frame.FirstPort
	}
	ways := map[string][]way{lanToWAN: {forth}, wanToLAN: {back}, both: {forth, back}}[p.direction.value]
	return newRig(ctx, bed, rigSpec{
		ports: bed.Ports, mix: p.mix.Mix, ways: ways, settle: settle,
		drops: dropPlaces[p.service.value] != "",
	})
}

// openFlows sends a frame of every flow from lan until all of them have come out
// of the DUT at wan, for answers to a flow that is not open would be refused, and
// block its port. The DUT keeps flows for longer than a trial lasts.
func (p *Forward) openFlows(ctx context.Context, bed *lab.Testbed, r *rig) error {
	const id, rate, tries = 0xffff, 20_000, 10
	out := r.meterAt(1)
	if out == nil {
		m, err := bed.Engine.OpenMeter(ctx, bed.Ports[1].Port)
		if err != nil {
			return err
		}
		defer m.Close()
		out = m
	}
	smallest := frame.Mix{Sizes: []unit.FrameSize{frame.Smallest(false)}}
	opening := engine.Stream{ID: id, Frames: between(bed.Ports[0], bed.Ports[1], smallest, p.flows.value, false)}
	flows := uint64(p.flows.value)
	var arrived uint64
	for range tries {
		if err := out.Arm(ctx, false, id); err != nil {
			return err
		}
		if _, err := r.tx.Transmit(ctx, engine.Load{Rate: rate, Count: flows}, opening); err != nil {
			return fmt.Errorf("open %d flows: %w", flows, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
		seen, err := out.Read(ctx)
		if err != nil {
			return err
		}
		if arrived = seen.Streams[0].Frames; arrived == flows {
			return nil
		}
	}
	return fmt.Errorf("open %d flows: the DUT let %d of their first frames through", flows, arrived)
}

// linkRate is line rate for each stream where the link's rate is stated, else 0:
// flat out.
func (m *point) linkRate() unit.FrameRate {
	if link := m.env.Bed.Ports[0].Link; link > 0 {
		return unit.LineRate(link, m.mix.Mean())
	}
	return 0
}

// trial runs one trial of the point and keeps what all of them have in common.
func (m *point) trial(ctx context.Context, kind string, n int, l engine.Load, timing bool) (result.Record, error) {
	cfg := []result.Pair{{Key: "trial", Value: kind}, {Key: "n", Value: strconv.Itoa(n)}}
	if l.Rate > 0 {
		cfg = append(cfg, result.Pair{Key: "rate", Value: strconv.FormatFloat(float64(l.Rate), 'f', 0, 64)})
	} else {
		cfg = append(cfg, result.Pair{Key: "rate", Value: "flat-out"})
	}
	cfg = append(cfg, result.Pair{Key: "duration", Value: l.Duration.String()})
	rec, err := m.env.Trial(ctx, cfg, func(ctx context.Context) (Outcome, error) {
		o, err := m.rig.trial(ctx, l, timing)
		if err == nil {
			o.Ceiling = m.ceiling
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
func (m *point) judge(o *Outcome) {
	place := dropPlaces[m.service.value]
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
func (m *point) missed(a *result.Account) int64 {
	if place := dropPlaces[m.service.value]; place != "" {
		return a.Accepted - a.DroppedAt(place)
	}
	return a.Lost()
}

// overload offers as much as there is, in the trials of visit n, and keeps the
// rates at which the service was done, all streams together.
func (m *point) overload(ctx context.Context, n int) error {
	for i := range m.effort.overloads {
		rec, err := m.trial(ctx, "overload", n*m.effort.overloads+i, engine.Load{Rate: m.linkRate(), Duration: m.effort.overload}, false)
		if err != nil {
			return err
		}
		if rec.Status == result.Invalid {
			m.invalid = rec.Reason
			continue
		}
		m.out.Account, m.out.Load = rec.Account, rec.Load
		rate := float64(rec.Load.Forwarded)
		if place := dropPlaces[m.service.value]; place != "" {
			traffic := rec.Phases[0]
			rate = float64(rec.Account.DroppedAt(place)) / time.Duration(traffic.End-traffic.Begin).Seconds()
			m.leaked += rec.Account.Received
		}
		m.rates, m.offered = append(m.rates, rate), append(m.offered, float64(rec.Load.Offered))
	}
	return nil
}

// outcome is what the visits so far found.
func (m *point) outcome() Outcome {
	out := m.out
	if len(m.rates) == 0 {
		out.Status, out.Reason = result.Invalid, "every trial under overload is invalid: "+m.invalid
		return out
	}
	rate := spread("forwarding_rate_fps", m.rates)
	rate.Bound = m.bound(rate.Value)
	if dropPlaces[m.service.value] != "" {
		rate.Metric = "drop_rate_fps"
		out.Values = append(slices.Clip(out.Values), rate, value("forwarding_rate_fps", 0))
	} else {
		bits := value("forwarding_rate_bps", float64(unit.L2(unit.FrameRate(rate.Value), m.mix.Mean())))
		bits.Bound = rate.Bound
		out.Values = append(slices.Clip(out.Values), rate, bits)
	}
	out.Values = append(out.Values, spread("offered_fps", m.offered), value("ceiling_fps", float64(m.ceiling)),
		value("stalls", float64(m.stalls)), value("longest_stall_s", float64(m.longest)/1e9), value("steal_ratio", m.steal))
	out.Warnings = slices.Clip(out.Warnings)
	if m.leaked > 0 {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%d frames that should be thrown away came through under overload", m.leaked))
	}
	if m.unexplained > 0 {
		out.Warnings = append(out.Warnings, fmt.Sprintf("in %d trials frames are unexplained", m.unexplained))
	}
	return out
}

// bound is ">=" for a rate so near the tester's ceiling that it may be the
// tester's own (METHOD rule 1), and where both share a CPU (rule 16).
func (m *point) bound(rate float64) result.Bound {
	if rate > float64(m.ceiling)/1.2 || m.env.Bed.Placement == "shared" {
		return result.AtLeast
	}
	return result.Exactly
}

func (m *point) streams() unit.FrameRate { return unit.FrameRate(len(m.rig.streams)) }

// begin sets the search's range by the rate under overload.
func (m *point) begin(overload unit.FrameRate) error {
	// A box may carry somewhat more than it forwards under overload; one that
	// forwards nothing then may carry anything.
	top := m.ceiling / m.streams()
	if overload > 0 {
		top = min(top, overload/m.streams()*1.25)
	}
	if link := m.linkRate(); link > 0 {
		top = min(top, link)
	}
	s, err := search.New(m.preset.value, top, overload/m.streams()/2)
	m.search = &s
	return err
}

// seek takes the search on by at most steps trials; -1: to its end.
func (m *point) seek(ctx context.Context, steps int) error {
	for ; steps != 0; steps-- {
		step, more := m.search.Next(m.seen)
		if !more {
			return nil
		}
		rec, err := m.trial(ctx, "search", len(m.seen), engine.Load{Rate: step.Rate, Duration: step.Duration}, false)
		if err != nil {
			return err
		}
		now := search.Seen{Step: step, Valid: rec.Status != result.Invalid}
		if rec.Load != nil && rec.Account != nil {
			now.Offered = rec.Load.Offered / m.streams()
			if lost := m.missed(rec.Account) + rec.Load.Broken; lost > 0 {
				now.Loss = unit.LossRatio(float64(lost) / float64(rec.Account.Accepted))
				now.Offered = rec.Load.Peak / m.streams() // which may be what it could not carry
			}
		}
		m.seen = append(m.seen, now)
	}
	return nil
}

func (m *point) limit(l search.Limit) {
	streams := m.streams()
	switch {
	case l.Clean+l.Lossy == 0:
		m.out.Status, m.out.Reason = result.Invalid, fmt.Sprintf("no throughput: all %d trials of the search were invalid, for the tester was held up", l.Invalid)
		return
	case l.Clean == 0:
		m.out.Status, m.out.Reason = result.Failed, "frames were lost at every load tried"
	case l.Lower == 0:
		m.out.Status, m.out.Reason = result.Invalid, fmt.Sprintf("no throughput: no load without loss could be confirmed in %d trials, of which %d were clean, %d lost frames and %d were invalid", l.Clean+l.Lossy+l.Invalid, l.Clean, l.Lossy, l.Invalid)
		return
	}
	lo, hi := float64(l.Lower*streams), float64(l.Upper*streams)
	t := value("throughput_fps", lo)
	t.Lo, t.N = &lo, l.Clean+l.Lossy
	if l.Upper > 0 {
		t.Hi = &hi
	}
	if l.AtCeiling {
		t.Bound = result.AtLeast
	} else {
		t.Bound = m.bound(lo)
	}
	scaled := func(metric string, f func(unit.FrameRate) float64) result.Value {
		v := value(metric, f(unit.FrameRate(lo)))
		low := v.Value
		v.Lo, v.N, v.Bound = &low, t.N, t.Bound
		if t.Hi != nil {
			high := f(unit.FrameRate(hi))
			v.Hi = &high
		}
		return v
	}
	mean := m.mix.Mean()
	link := m.env.Bed.Ports[0].Link
	if link == 0 {
		link = referenceLink
	}
	m.add(t,
		scaled("throughput_bps", func(r unit.FrameRate) float64 { return float64(unit.L2(r, mean)) }),
		scaled("throughput_l1_bps", func(r unit.FrameRate) float64 { return float64(unit.L1(r/streams, mean)) }),
		scaled("line_rate_share", func(r unit.FrameRate) float64 { return float64(r / streams / unit.LineRate(link, mean)) }),
	)
	if l.Inversions > 0 {
		m.out.Warnings = append(m.out.Warnings, fmt.Sprintf("no sharp limit: frames were lost in %d trials at or below the highest load that another trial carried without loss", l.Inversions))
	} else if !l.Sharp && !l.AtCeiling {
		m.out.Warnings = append(m.out.Warnings, "no sharp limit: the bounds lie wider apart than the preset asks")
	}
	if l.Invalid > 0 {
		m.out.Warnings = append(m.out.Warnings, fmt.Sprintf("%d trials of the search were invalid and do not count", l.Invalid))
	}
}

// latency measures one-way delay, frame by frame, at half of throughput (each
// stream's), or at the first half of that which the tester can offer so.
func (m *point) latency(ctx context.Context, throughput unit.FrameRate) error {
	for n := range 3 {
		load := engine.Load{Rate: throughput / unit.FrameRate(int(2)<<n), Duration: m.effort.latency, Alone: true}
		rec, err := m.trial(ctx, "latency", n, load, true)
		if err != nil {
			return err
		}
		if rec.Status == result.Invalid || rec.Load == nil || rec.Load.Latency == nil || rec.Load.Latency.Total() == 0 {
			continue
		}
		if rec.Status == result.Failed {
			m.out.Warnings = append(m.out.Warnings, "in the latency trial, below the throughput: "+rec.Reason)
		}
		h := rec.Load.Latency
		m.add(value("latency_p50_s", h.Quantile(0.5)), value("latency_p99_s", h.Quantile(0.99)),
			value("latency_max_s", h.Quantile(1)), value("latency_load_fps", float64(rec.Load.Offered)))
		return nil
	}
	m.out.Warnings = append(m.out.Warnings, "no latency: the tester could not offer single frames on time at a half, a quarter or an eighth of the throughput")
	return nil
}

func (m *point) add(vs ...result.Value) { m.out.Values = append(m.out.Values, vs...) }
