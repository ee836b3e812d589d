// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"boxdyno/engine"
	"boxdyno/internal/limit"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/metrics"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
	"boxdyno/search"
	"boxdyno/subject"
	"boxdyno/unit"
)

// streamed is TCP: streams without the tunnel and through it in turn, and sessions once
// it is up.
func (m *vpnPoint) streamed(ctx context.Context) error {
	trials, length := m.streams()
	s := stream{from: m.env.Bed.Gateways[0], to: m.env.Bed.Gateways[1], apart: m.env.Bed.Apart, connections: m.connections.Value, length: length, payload: streamPayload}
	var daemons func() (result.Usage, error)
	if m.tunnel != nil {
		daemons = func() (result.Usage, error) { return m.up.Usage() }
	}
	var with, without streamsTold
	sessions := false
	err := m.turns(trials, func(n int, tunnel bool) error {
		if !tunnel {
			return without.next(ctx, m.without, "stream without", n, s, nil)
		}
		if !sessions {
			sessions = true
			if err := m.sessionsMade(ctx); err != nil {
				return err
			}
		}
		return with.next(ctx, m.settled, "stream", n, s, daemons)
	})
	for _, name := range []string{"goodput_bps", "cpu_per_mbit_s"} {
		if vs := without.all[name]; len(vs) > 0 {
			v := figures.Spread(name, vs)
			v.Metric = "baseline_" + name
			m.out.Values = append(m.out.Values, v)
		}
	}
	m.out.Values = append(m.out.Values, with.all.values(vpnMetrics)...)
	m.out.Warnings = addNew(m.out.Warnings, without.notes)
	if without.failed != "" {
		m.out.Warnings = append(m.out.Warnings, "a stream without the tunnel failed: "+without.failed)
	}
	if with.failed != "" {
		m.out.Status, m.out.Reason = result.Failed, with.failed
	}
	return err
}

// sessionsMade are new sessions of the tunnel, one after the other.
func (m *vpnPoint) sessionsMade(ctx context.Context) error {
	if m.tunnel == nil {
		return nil
	}
	cfg := []result.Pair{{Key: "trial", Value: "handshakes"}, {Key: "n", Value: strconv.Itoa(m.sessions())}}
	rec, err := m.through(ctx, cfg, func(ctx context.Context) (o procedure.Outcome, err error) {
		if !m.up.Handshakes {
			o.Status, o.Reason = result.Skipped, "the tunnel's keys are given, so there is no handshake to measure"
			return o, nil
		}
		begin := unit.Now()
		var took []float64
		for range m.sessions() {
			d, err := m.up.Handshake(ctx)
			if err != nil && ctx.Err() != nil {
				return o, ctx.Err()
			}
			if errors.Is(err, subject.ErrLost) {
				return o, err
			}
			if err != nil {
				o.Status, o.Reason = result.Failed, procedure.Sentence(err)
				return o, nil
			}
			took = append(took, d.Seconds())
		}
		o.Status, o.Values = result.Passed, []result.Value{figures.Spread("handshake_s", took)}
		o.Phases = []result.Phase{{Name: "handshakes", Begin: begin, End: unit.Now()}}
		return o, nil
	})
	if err != nil {
		return err
	}
	if rec.Status == result.Failed {
		m.failed = rec.Reason
		return errTunnel
	}
	if v := rec.Value("handshake_s"); v != nil {
		m.out.Values = append(m.out.Values, *v)
	}
	return nil
}

// selfTested is the tester's ceiling.
func (m *vpnPoint) selfTested(ctx context.Context) error {
	rec, err := trial.TesterCeiling(ctx, m.env, m.frames.Mix.Mix, false, false, 1, trial.EffortOf(m.frames.Preset.Value))
	if err == nil && rec.Status == result.Invalid {
		m.out.Status, m.out.Reason = result.Invalid, "the self-test is invalid: "+rec.Reason
	}
	return err
}

// point is the UDP of one side, whose trials record carries out.
func (m *vpnPoint) point(ctx context.Context, record trial.Recording) (*trial.Point, error) {
	q := trial.NewPoint(&m.frames, m.env, record)
	q.Effort = vpnEffort(m.frames.Preset.Value)
	_, err := q.TesterCeiling(ctx) // it is valid, or this would not be measured
	return q, err
}

// forwarded is the engine's frames: under overload without the tunnel and through it
// in turn, then through it without loss. A tunnel's programs are kept off the tester's
// CPU, on which they would hold it up (METHOD rule 16).
func (m *vpnPoint) forwarded(ctx context.Context) (err error) {
	q, err := m.point(ctx, m.settled)
	if err != nil {
		return err
	}
	bare, err := m.point(ctx, m.without)
	if err != nil {
		return err
	}
	bed := m.env.Bed
	if bed.Placement == "split" {
		m.cpus = slices.DeleteFunc(slices.Clone(bed.CPUs), func(c int) bool { return c == bed.TesterCPU })
		if m.dutCPUs.Value == trial.AllCPUs {
			m.cpus = append(m.cpus, bed.MoreCPUs...)
			m.frames.Flows.Value = trial.FlowsFor(len(m.cpus))
		}
	}
	if q.Rig, err = m.frames.Open(ctx, m.env, q.Effort.Settle); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.Rig.Close()) }()
	bare.Rig = q.Rig
	overloads := q.Effort.Overloads
	q.Effort.Overloads = 1 // a turn
	load := engine.Load{Rate: q.LinkRate(), Duration: q.Effort.Overload}
	var without []float64
	err = m.turns(overloads, func(n int, tunnel bool) error {
		if tunnel {
			if n == 0 {
				if err := q.WarmUp(ctx); err != nil {
					return err
				}
				if err := q.Fill(ctx); err != nil {
					return err
				}
			}
			return q.Overload(ctx)
		}
		if n == 0 {
			if _, err := bare.Trial(ctx, "warm-up without", 0, engine.Load{Rate: load.Rate, Duration: q.Effort.WarmUp}, false); err != nil {
				return err
			}
		}
		rec, err := bare.Trial(ctx, "overload without", n, load, false)
		if err == nil && rec.Status != result.Invalid && rec.Load != nil {
			without = append(without, float64(rec.Load.Forwarded))
		}
		return err
	})
	if err != nil {
		return err
	}
	if len(without) > 0 {
		v := figures.Spread("baseline_forwarding_fps", without)
		v.Bound = bare.Bound(v.Value)
		m.out.Values = append(m.out.Values, v)
	}
	if err := m.searched(ctx, q, without); err != nil {
		return err
	}
	o := q.Outcome()
	m.out.Values = append(m.out.Values, o.Values...)
	m.out.Warnings = addNew(m.out.Warnings, o.Warnings)
	m.out.Account, m.out.Load = o.Account, o.Load
	if o.Status != result.Passed && m.out.Status == result.Passed {
		m.out.Status, m.out.Reason = o.Status, o.Reason
	}
	return nil
}

// searched is the highest load without loss, and the latency there. A tunnel may carry
// many times what it forwards under overload, in which its programs starve beside the
// work of receiving; it carries no more than the gateways do without it.
func (m *vpnPoint) searched(ctx context.Context, q *trial.Point, without []float64) error {
	if len(q.Readings) == 0 {
		return nil
	}
	if m.env.Bed.Placement == "shared" {
		q.Out.Warnings = append(q.Out.Warnings, trial.SharedPlacement)
		return nil
	}
	if m.frames.Search.Value == procedure.NoSearch {
		return nil
	}
	overload := unit.FrameRate(figures.Spread("forwarding_rate_fps", q.Rates()).Value)
	if err := q.Begin(overload); err != nil {
		return err
	}
	if len(without) > 0 {
		top := min(q.Ceiling, 1.25*unit.FrameRate(slices.Max(without)))
		if link := q.LinkRate(); link > 0 {
			top = min(top, link)
		}
		top = max(top, q.Search.Max)
		p := m.frames.Searching()
		guess := q.Sustained().First(overload, p.Goals[0].Final, p.Goals[0].Width)
		s, err := search.New(p.Name, top, min(guess, top))
		if err != nil {
			return err
		}
		q.Search.Search = s
	}
	l, err := limit.Find(ctx, q.Search)
	if err != nil {
		return err
	}
	if l.Lower > 0 {
		return q.Latency(ctx, l.Lower)
	}
	return nil
}

var vpnMetrics = slices.Concat(metrics.List(streamMetrics).Pick("goodput_bps", "sent_bps", "retransmits", "cpu_per_mbit_s", "sender_cpu_per_mbit_s", "receiver_cpu_per_mbit_s"), []result.Metric{
	{Name: "startup_s", Label: "start", Group: "Sessions: from nothing to the first packet, the program's start, and the rate under overload without the tunnel", Unit: "s", Better: -1, Help: "from the start of the tunnel's first program or device until a packet has passed each way: median and range"},
	{Name: "handshake_s", Label: "handshake", Interval: "range", Unit: "s", Better: -1, Help: "from the end of the old session (OpenVPN: the start of a new client) until a packet has passed the new one: median and range"},
	{Name: "baseline_goodput_bps", Label: "without, bit/s", Group: "Streams: payload that arrives, and without the tunnel", Unit: "bit/s", Better: 1, Help: "goodput_bps without the tunnel, in turn with it"},
	{Name: "goodput_share", Label: "share", Heads: true, Share: true, Unit: "1", Better: 1, Help: "goodput_bps as a share of the same without the tunnel"},
	{Name: "baseline_cpu_per_mbit_s", Label: "CPU, without", Group: costOfStreams, Unit: "s", Better: -1, Help: "cpu_per_mbit_s without the tunnel, in turn with it"},
	{Name: "daemon_cpu_per_mbit_s", Label: "daemons", Unit: "s", Better: -1, Help: "CPU time of the tunnel's programs at both ends for a megabit that arrived; absent where the kernel does the work"},
	{Name: "subject_memory_bytes", Label: "memory", Unit: "B", Better: -1, Help: "most memory that the tunnel's programs at both ends had"},
	{Name: "baseline_forwarding_fps", Label: "frame/s, without", Group: "Sessions: from nothing to the first packet, the program's start, and the rate under overload without the tunnel", Unit: "frame/s", Better: 1, Help: "forwarding_rate_fps without the tunnel, in turn with it"},
	{Name: "forwarding_share", Unit: "1", Better: 1, Help: "forwarding_rate_fps as a share of the same without the tunnel"},
}, oneWay(slices.Concat(trial.ThroughputMetrics,
	metrics.List(trial.ForwardMetrics).Pick("latency_p50_s", "latency_p99_s", "latency_max_s", "latency_load_fps"))))

// oneWay returns metrics whose tables' titles name the direction of a tunnel's frames.
func oneWay(ms []result.Metric) []result.Metric {
	for i := range ms {
		if ms[i].Group != "" {
			ms[i].Group = "Frames, lan-to-wan: " + strings.ToLower(ms[i].Group[:1]) + ms[i].Group[1:]
		}
	}
	return ms
}

var vpnJoules = append([]procedure.Joule{
	procedure.Worked("goodput_bps", "tunnel gigabyte", 8*1e9, "while streams ran", result.Pair{Key: "trial", Value: "stream"}),
	procedure.Worked("goodput_bps", "gigabyte", 8*1e9, "without the tunnel", result.Pair{Key: "trial", Value: "stream without"}),
}, trial.ForwardJoules[0])

// figures are the metrics of all procedures of this room.
var figures = metrics.List(slices.Concat(streamMetrics, vpnMetrics))
