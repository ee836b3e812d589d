// SPDX-License-Identifier: Apache-2.0

// Package connections has the procedure that opens TCP connections through a box.
//
//	connections.go   how many a second, or at once: fill -> search -> a longer trial
//	   |
//	rig.go           one trial: both ends of every connection are the tester's (conn.Ends)
package connections

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/conn"
	"boxdyno/host"
	"boxdyno/internal/limit"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/param"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
	"boxdyno/search"
	"boxdyno/unit"
)

// ConnectionsSpec is the row of connections. It has one sender by design: of ten frames of a
// connection with a short response the sender makes the SYN alone. Programs on the CPUs that
// receive make the others, each in answer to one frame. So those CPUs are the tester's limit
// long before the sender, which makes as many SYNs a second as a rate may ask for (maxRate).
var ConnectionsSpec = procedure.Spec{
	Name: "connections", Needs: lab.KernelPorts, Standard: "RFC 9411 sections 7.2 and 7.5",
	Deviation: "nothing is retransmitted, so a lost frame fails its connection, and none may fail (RFC 9411 allows 0.001 %); one request a connection, over IPv4, with one segment under way at a time; a trial ends after 4194304 connections",
	Quick:     "each rate of new connections is offered for 0.15 s, the one found for 0.5 s (RFC 9411 section 4.3.4 asks for 300 s)",
	Doc:       "a stateful box: highest rate of new TCP connections, how many at once, time to first byte, goodput, and what limits it",
	Names:     []string{"service", "mode", "response_size"},
	Metrics:   connectionMetrics, Joules: connectionJoules, New: newConnections,
}

// Connections measures how many TCP connections a second a box takes, and how
// many at once (RFC 9411 sections 7.2 and 7.5), with ends that need no sockets.
//
//	self-test -> mode rate, rate 0:  overload, halved -> search -> trial at the limit
//	             mode rate:          a trial at the rate
//	             mode concurrent:    opened at the rate, held, closed at the rate
//
// The box begins each trial with an empty connection table, where it can be told.
type Connections struct {
	service  param.Choice
	mode     param.Choice
	rules    param.Count
	response param.Count
	rate     param.Count
	most     param.Count
	preset   param.Choice
	search   param.Choice
	senders  param.Count
}

const (
	byRate     = "rate"
	concurrent = "concurrent"

	// connServices are the server ports from connPort on: with 50,000 client ports
	// 12.8 million connections have addresses of their own.
	connPort     = 8000
	connServices = 256
	maxRate      = 5_000_000
	// fastOpen is how fast connections are opened to see how many there can be.
	fastOpen = 20_000
)

func newConnections() procedure.Procedure {
	return &Connections{
		service: param.NewChoice("route", trial.Forwarding), mode: param.NewChoice(byRate, []string{byRate, concurrent}),
		rules: param.NewCount(0, 0, 100_000), response: param.NewCount(1024, 0, conn.MaxObject),
		rate: param.NewCount(0, 0, maxRate), most: param.NewCount(100_000, 1, 4_000_000),
		preset: param.NewPreset(), search: param.NewChoice(trial.AsPreset, append([]string{trial.AsPreset}, search.Names()...)), senders: trial.NewSenders(),
	}
}

func (p *Connections) Flags(fs *flag.FlagSet) {
	fs.Var(&p.service, "service", "what the box does to connections: forward them (route), track and filter them (filter), or masquerade them (nat)")
	fs.Var(&p.mode, "mode", "rate: how many a second; concurrent: how many at once")
	fs.Var(&p.rules, "rules", "filter: `rules` that a new connection is tried against before the one that matches")
	fs.Var(&p.response, "response_size", "`octets` of a response beside its HTTP header")
	fs.Var(&p.rate, "rate", "new `connections` a second; 0: mode rate searches the highest, mode concurrent opens 20000")
	fs.Var(&p.most, "connections", "mode concurrent: `connections` to open")
	fs.Var(&p.senders, "senders", "CPUs of the tester that `send` SYNs: 1, for programs at both ports send all other frames")
	fs.Var(&p.preset, "preset", "quick or standard: how long, how often")
	fs.Var(&p.search, "search", "how the highest rate without a failed connection is found; preset: the search of the preset's name")
}

// Needs implements Needing.
func (p *Connections) Needs() (lab.Capability, string) { return 0, p.service.Value }

func (p *Connections) Check(bed *lab.Testbed) error {
	if p.rules.Value != 0 && p.service.Value != "filter" {
		return fmt.Errorf("rules %d: only service filter has rules, and this is %s", p.rules.Value, p.service.Value)
	}
	if p.senders.Value > 1 {
		return fmt.Errorf("senders %d: one CPU sends the SYNs, up to %d a second, and programs on the CPUs that receive send all other frames, so that a second sender would add none: leave senders at 1", p.senders.Value, maxRate)
	}
	if bed == nil || bed.Engine == nil {
		return nil
	}
	if name := bed.Engine.Name(); name != "xdp/native" {
		return fmt.Errorf("backend %s: connections need native XDP and live frames on both ports: %w", name, host.ErrNotSupported)
	}
	return nil
}

// A connEffort is how long a preset offers connections.
type connEffort struct{ selfTest, overload, trial, hold time.Duration }

func connEffortOf(preset string) connEffort {
	if preset == "quick" {
		return connEffort{200 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, 500 * time.Millisecond}
	}
	return connEffort{10 * time.Second, 10 * time.Second, time.Minute, time.Minute}
}

func (p *Connections) searching() search.Preset {
	return trial.SearchOf(p.search.Value, p.preset.Value)
}

func (p *Connections) Estimate() (int, time.Duration) {
	e, trials, d := connEffortOf(p.preset.Value), 1, time.Duration(0)
	switch {
	case p.mode.Value == concurrent:
		d = 2*time.Duration(float64(p.most.Value)/float64(p.opens())*float64(time.Second)) + e.hold
	case p.rate.Value > 0:
		d = e.trial
	default:
		trials, d = p.searching().Estimate()
		trials += 7
		s := p.searching()
		d += 4*e.overload + 2*s.Rest + 3*s.Overload + e.trial
	}
	const around = 150 * time.Millisecond // an empty table, snapshots and settling
	return trials, d + time.Duration(trials)*(around+trial.EffortOf(p.preset.Value).Settle)
}

// opens is the rate at which mode concurrent opens connections.
func (p *Connections) opens() int {
	if p.rate.Value > 0 {
		return p.rate.Value
	}
	return fastOpen
}

func (p *Connections) Run(ctx context.Context, env *procedure.Env) (_ procedure.Outcome, err error) {
	m := &connPoint{Connections: p, env: env, effort: connEffortOf(p.preset.Value), out: procedure.Outcome{Status: result.Passed}}
	if invalid, err := m.selfTest(ctx); err != nil || invalid != "" {
		return procedure.Outcome{Status: result.Invalid, Reason: invalid}, err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	switch {
	case p.mode.Value == concurrent:
		err = m.concurrent(ctx)
	case p.rate.Value > 0:
		err = m.at(ctx, unit.FrameRate(p.rate.Value))
	default:
		err = m.highest(ctx)
	}
	return m.out, err
}

// A connPoint is one service being measured.
type connPoint struct {
	*Connections
	env     *procedure.Env
	effort  connEffort
	ceiling float64 // connections/s; 0: not known
	rig     *connRig
	clean   time.Duration // the longest trial of the search without a failure
	out     procedure.Outcome
}

// selfTest finds how many connections a second the tester makes with itself.
func (m *connPoint) selfTest(ctx context.Context) (invalid string, err error) {
	bed := m.env.Bed
	if len(bed.Loop) != 2 {
		m.warn("the tester's own ceiling is not known: topology %s has no two ports that are wired to each other", bed.Topology)
		return "", nil
	}
	key := fmt.Sprintf("self-test/connections/%d/%v", m.response.Value, m.effort.selfTest)
	cfg := []result.Pair{{Key: "connections", Value: "flat-out"}, {Key: "response_size", Value: strconv.Itoa(m.response.Value)}}
	rec, err := m.env.Once(ctx, key, cfg, func(ctx context.Context) (o procedure.Outcome, err error) {
		r, err := newConnRig(ctx, m.env, m.Connections, true)
		if err != nil {
			return o, err
		}
		defer func() { err = errors.Join(err, r.close()) }()
		return r.trial(ctx, connTrial{load: engine.Load{Duration: m.effort.selfTest}})
	})
	if err != nil {
		return "", err
	}
	if v := rec.Value("connections_complete_cps"); v != nil {
		m.ceiling = v.Value
	}
	if m.ceiling == 0 {
		return "the self-test is invalid: of the tester's connections to itself none was complete", nil
	}
	m.add(figures.Value("connections_ceiling_cps", m.ceiling))
	return "", nil
}

func (m *connPoint) close() error {
	if m.rig == nil {
		return nil
	}
	return m.rig.close()
}

// trial is carried out with an empty table.
func (m *connPoint) trial(ctx context.Context, kind string, n int, t connTrial) (result.Record, error) {
	return m.trialFrom(ctx, 0, kind, n, t)
}

// trialFrom is trial after a rest.
func (m *connPoint) trialFrom(ctx context.Context, rest time.Duration, kind string, n int, t connTrial) (result.Record, error) {
	cfg := []result.Pair{
		{Key: "trial", Value: kind}, {Key: "n", Value: strconv.Itoa(n)},
		{Key: "rate", Value: strconv.FormatFloat(float64(t.load.Rate), 'f', 0, 64)},
	}
	if rest > 0 {
		cfg = append(cfg, result.Pair{Key: "rest", Value: rest.String()})
	}
	if t.load.Count > 0 {
		cfg = append(cfg, result.Pair{Key: "connections", Value: strconv.FormatUint(t.load.Count, 10)})
	} else {
		cfg = append(cfg, result.Pair{Key: "duration", Value: t.load.Duration.String()})
	}
	return m.env.Trial(ctx, cfg, func(ctx context.Context) (o procedure.Outcome, err error) {
		s := lab.Service{Kind: m.service.Value, Rules: m.rules.Value, Flows: 1, Connections: &lab.Connections{Port: connPort, Ports: connServices}}
		if err := m.env.Bed.Serve(ctx, s); err != nil {
			return o, err
		}
		if err := trial.Resting(ctx, m.env.Bed, rest); err != nil {
			return o, err
		}
		if m.rig == nil {
			if m.rig, err = newConnRig(ctx, m.env, m.Connections, false); err != nil {
				return o, err
			}
		}
		return m.rig.trial(ctx, t)
	})
}

// at measures one rate.
func (m *connPoint) at(ctx context.Context, rate unit.FrameRate) error {
	rec, err := m.trial(ctx, "rate", 0, connTrial{load: engine.Load{Rate: rate, Duration: m.effort.trial}})
	if err != nil {
		return err
	}
	m.take(rec)
	return nil
}

// take makes a trial's figures and verdict those of the point.
func (m *connPoint) take(rec result.Record) {
	m.out.Status, m.out.Reason = rec.Status, rec.Reason
	m.out.Load, m.out.Account = rec.Load, rec.Account
	m.out.Warnings = append(m.out.Warnings, rec.Warnings...)
	for _, v := range rec.Values {
		if v.Metric == "connections_complete_cps" {
			v.Bound = m.bound(v.Value)
		}
		m.add(v)
	}
}

// highest searches the highest rate at which no connection fails.
func (m *connPoint) highest(ctx context.Context) error {
	top, peak, err := m.descend(ctx)
	if err != nil {
		return err
	}
	if peak == 0 {
		m.out.Status, m.out.Reason = result.Failed, "no connection was complete at any rate tried"
		return nil
	}
	v := figures.Value("connections_overload_cps", peak)
	v.Bound = m.bound(peak)
	m.add(v)
	if m.env.Bed.Placement == "shared" {
		m.warn("%s", "tester and DUT share a CPU, so the DUT throttles the tester: no limit is searched")
		return nil
	}
	sustained, err := m.fill(ctx, top, peak)
	if err != nil {
		return err
	}
	p, guess := m.searching(), unit.FrameRate(peak)
	if sustained.Rate > 0 {
		guess = min(unit.FrameRate(top), sustained.First(min(guess, sustained.Rate), p.Goals[0].Final, p.Goals[0].Width))
	}
	s, err := search.New(p.Name, unit.FrameRate(top), guess)
	if err != nil {
		return err
	}
	why := "" // of the trial that failed at the lowest rate
	lowest := unit.FrameRate(0)
	h := &limit.Hunt{Search: s, Sustained: func() search.Sustained { return sustained }}
	h.Offer = func(ctx context.Context, n int, step search.Step) (search.Seen, time.Duration, error) {
		rec, err := m.trial(ctx, "search", n, connTrial{load: engine.Load{Rate: step.Rate, Duration: step.Duration}})
		now := saw(rec)
		if now.Valid && now.Loss > 0 && (lowest == 0 || step.Rate < lowest) {
			why, lowest = rec.Reason, step.Rate
		}
		return now, 0, err
	}
	l, err := limit.Find(ctx, h)
	if err != nil {
		return err
	}
	m.clean = h.Clean()
	return m.limit(ctx, l, why)
}

// saw is what a search is told of a trial of connections.
func saw(rec result.Record) search.Seen {
	now := search.Seen{Valid: rec.Status != result.Invalid}
	opened, failed := rec.Value("connections_opened"), rec.Value("connections_failed")
	if rec.Load == nil || opened == nil || failed == nil || opened.Value <= 0 {
		return now
	}
	now.Offered = rec.Load.Offered
	if failed.Value > 0 {
		now.Loss, now.Offered = unit.LossRatio(failed.Value/opened.Value), rec.Load.Peak
		now.Doubt = unit.LossRatio((trial.LateFor(rec) + trial.KeptOff(rec)) / opened.Value) // each frame is one connection's
	}
	return now
}

// descend offers the ceiling's rate, and half of it as often as most connections
// fail: a box that is flooded with SYNs may complete hardly any. peak is the most
// that were complete a second, top a rate above which a search need not look.
func (m *connPoint) descend(ctx context.Context) (top, peak float64, err error) {
	top = cmp.Or(m.ceiling, maxRate)
	d := limit.Descent{Rate: top, Top: top, Most: 12, Lower: func(rate, _ float64) float64 { return rate / 2 }}
	for more := true; more; {
		rec, err := m.trial(ctx, "overload", d.Tried, connTrial{load: engine.Load{Rate: unit.FrameRate(d.Rate), Duration: m.effort.overload}})
		if err != nil {
			return 0, 0, err
		}
		opened, failed, complete := rec.Value("connections_opened"), rec.Value("connections_failed"), rec.Value("connections_complete_cps")
		if opened == nil || failed == nil || complete == nil {
			more = d.Next(false, false, 0)
		} else {
			more = d.Next(true, failed.Value < opened.Value/20, complete.Value)
		}
	}
	return d.Top, min(d.Peak, d.Top), nil
}

// fill finds what the box takes without end, and how many connections beyond that
// buckets and queues let it take at first: overloads of growing length, each after a rest,
// until two of them have lost connections. The load is little above peak, for a box that
// is flooded with SYNs may complete hardly any.
func (m *connPoint) fill(ctx context.Context, top, peak float64) (search.Sustained, error) {
	p := m.searching()
	load := min(trial.FillAbove*peak, max(top, peak))
	longest := p.Longest
	s, after, err := trial.Filling(p.Overload, &longest, func(n int, d time.Duration) (passed, lost float64, err error) {
		rec, err := m.trialFrom(ctx, p.Rest, "fill", n, connTrial{load: engine.Load{Rate: unit.FrameRate(load), Duration: d}})
		opened, failed := rec.Value("connections_opened"), rec.Value("connections_failed")
		if err != nil || rec.Status == result.Invalid || opened == nil || failed == nil {
			return 0, 0, err
		}
		room := float64(mostConns)
		if v := rec.Value("conntrack_most"); v != nil && v.Value > 0 { // a full table is another limit
			room = min(room, 0.8*v.Value)
		}
		longest = min(longest, time.Duration(room/load*1e9))
		return opened.Value - failed.Value, failed.Value, nil
	})
	if err != nil {
		return s, err
	}
	g := p.Goals[0]
	switch {
	case s.Rate > 0 && s.Sizeable(g.Final, g.Width):
		m.warn("takes %s connections/s without end, and bursts of %s connections above that", strings.TrimSpace(unit.SI(float64(s.Rate))), unit.Grouped(s.Memory, 0))
	case s.Rate == 0 && after > 0:
		m.warn("too short to know: connections failed only in an overload of %v, so the box may take fewer without end", after)
	}
	return s, nil
}

// limit reports what the search found, and what connections are like there.
func (m *connPoint) limit(ctx context.Context, l search.Limit, why string) error {
	switch {
	case l.Clean+l.Lossy == 0:
		m.out.Status, m.out.Reason = result.Invalid, fmt.Sprintf("no limit: all %d trials of the search were invalid", l.Invalid)
		return nil
	case l.Lower == 0:
		m.out.Status, m.out.Reason = result.Failed, "connections failed at every rate tried: "+why
		return nil
	}
	rec, n, doubt, err := m.confirm(ctx, l.Lower)
	if err != nil {
		return err
	}
	m.take(rec)
	if doubt != "" {
		m.warn("%s", doubt)
	}
	switch rec.Status {
	case result.Failed:
		m.out.Reason = "no rate was confirmed by a longer trial: at the lowest, " + rec.Reason
	case result.Passed:
		if doubt != "" {
			l.Lower, l.Upper, l.AtCeiling = rec.Load.Offered, cmp.Or(l.Upper, l.Lower), false
		}
		v := figures.Interval("connections_cps", l, 1)
		v.N += n
		if m.bound(v.Value) == result.AtLeast {
			v.Limit()
		}
		m.add(v)
	}
	if why != "" {
		m.warn("first failure above it: %s", why)
	}
	if l.Inversions > 0 {
		m.warn("no sharp limit: connections failed in %d trials at or below a rate that another trial carried", l.Inversions)
	}
	if l.Invalid > 0 {
		m.warn("%d trials of the search were invalid and do not count", l.Invalid)
	}
	return nil
}

// confirm offers the rate that a search found for longer, and less of it as often
// as connections fail, until none does: rec is that trial, or else the last; n
// counts the valid ones; doubt says what failed first, at the rate found.
func (m *connPoint) confirm(ctx context.Context, found unit.FrameRate) (rec result.Record, n int, doubt string, err error) {
	c := limit.Longer{Least: max(m.effort.trial, m.clean+m.clean/4), Budget: trial.Confirmations, OfInvalid: 1}
	c.Begin(found)
	for more := true; more; {
		rec, err = m.trial(ctx, "limit", c.Trials, connTrial{load: engine.Load{Rate: c.Rate, Duration: c.Lasts}})
		if err != nil {
			break
		}
		if rec.Status == result.Failed && doubt == "" {
			doubt = fmt.Sprintf("the search ended at %s connections/s, and a longer trial did not confirm it: %s", strings.TrimSpace(unit.SI(float64(found))), rec.Reason)
		}
		more = c.Next(trial.Came(rec, rec.Status == result.Passed), 0)
	}
	return rec, c.Valid, doubt, err
}

// concurrent opens connections, holds and closes them.
func (m *connPoint) concurrent(ctx context.Context) error {
	rec, err := m.trial(ctx, concurrent, 0, connTrial{
		load: engine.Load{Rate: unit.FrameRate(m.opens()), Count: uint64(m.most.Value)}, hold: max(m.effort.hold, 1),
	})
	if err != nil {
		return err
	}
	m.take(rec)
	return nil
}

// bound is ">=" for a rate so near the tester's ceiling that it may be the
// tester's own (METHOD rule 1), and where both share a CPU (rule 16).
func (m *connPoint) bound(rate float64) result.Bound {
	if m.ceiling > 0 && rate > m.ceiling/1.2 || m.env.Bed.Placement == "shared" {
		return result.AtLeast
	}
	return result.Exactly
}

func (m *connPoint) add(vs ...result.Value) { m.out.Values = append(m.out.Values, vs...) }

func (m *connPoint) warn(format string, args ...any) {
	m.out.Warnings = append(m.out.Warnings, fmt.Sprintf(format, args...))
}
