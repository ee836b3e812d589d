// SPDX-License-Identifier: Apache-2.0

package procedure

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"boxdyno/engine"
	"boxdyno/result"
	"boxdyno/unit"
)

// stream is the point's TCP.
func (m *vpnPoint) stream() stream {
	_, length := streamEffort(m.frames.preset.value)
	return stream{from: m.env.Bed.Gateways[0], to: m.env.Bed.Gateways[1], parallel: m.parallel.value, length: length, payload: streamPayload}
}

// bareStreams are those without a tunnel.
func (m *vpnPoint) bareStreams(ctx context.Context) error {
	n, _ := streamEffort(m.frames.preset.value)
	record := func(ctx context.Context, cfg []result.Pair, f func(context.Context) (Outcome, error)) (result.Record, error) {
		return m.env.Trial(ctx, cfg, f)
	}
	if err := m.env.Bed.Direct(true); err != nil {
		return err
	}
	all, failed, err := streams(ctx, record, "stream without", n, m.stream(), nil)
	if err != nil {
		return err
	}
	if failed != "" {
		m.out.Warnings = append(m.out.Warnings, "a stream without the tunnel failed: "+failed)
	}
	for _, name := range []string{"goodput_bps", "cpu_per_mbit_s"} {
		if len(all[name]) > 0 {
			v := spread(name, all[name])
			v.Metric = "baseline_" + name
			m.out.Values = append(m.out.Values, v)
		}
	}
	return nil
}

// streamed are those through the tunnel.
func (m *vpnPoint) streamed(ctx context.Context) error {
	n, _ := streamEffort(m.frames.preset.value)
	var daemons func() (result.Usage, error)
	if m.tunnel != nil {
		daemons = func() (result.Usage, error) { return m.up.Usage() }
	}
	all, failed, err := streams(ctx, m.through, "stream", n, m.stream(), daemons)
	if err != nil {
		return err
	}
	if failed != "" {
		m.out.Status, m.out.Reason = result.Failed, failed
	}
	m.out.Values = append(m.out.Values, all.values(vpnMetrics)...)
	return nil
}

// sessionsMade are new sessions of the tunnel, one after the other.
func (m *vpnPoint) sessionsMade(ctx context.Context) error {
	cfg := []result.Pair{{Key: "trial", Value: "handshakes"}, {Key: "n", Value: strconv.Itoa(m.sessions())}}
	rec, err := m.through(ctx, cfg, func(ctx context.Context) (o Outcome, err error) {
		o.Warnings = append(o.Warnings, "cipher "+m.up.Cipher+" by "+m.up.Driver)
		if !m.up.Handshakes() {
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
			if err != nil {
				o.Status, o.Reason = result.Failed, oneSentence(err)
				return o, nil
			}
			took = append(took, d.Seconds())
		}
		o.Status, o.Values = result.Passed, []result.Value{spread("handshake_s", took)}
		o.Phases = []result.Phase{{Name: "handshakes", Begin: begin, End: unit.Now()}}
		return o, nil
	})
	if err != nil {
		return err
	}
	for _, w := range rec.Warnings {
		if !slices.Contains(m.out.Warnings, w) {
			m.out.Warnings = append(m.out.Warnings, w)
		}
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

// point is the point's UDP, whose trials record carries out, with its rig open.
func (m *vpnPoint) point(ctx context.Context, record recording) (*point, error) {
	q := newPoint(&m.frames, m.env)
	q.record = record
	invalid, err := q.selfTest(ctx)
	if err != nil {
		return nil, err
	}
	if invalid != "" {
		m.out.Status, m.out.Reason = result.Invalid, invalid
		return nil, nil
	}
	q.rig, err = m.frames.open(ctx, m.env.Bed, q.effort.settle)
	return q, err
}

// selfTested is the tester's ceiling, told before anything is lost.
func (m *vpnPoint) selfTested(ctx context.Context) error {
	rec, err := selfTest(ctx, m.env, m.frames.mix.Mix, false, false, effortOf(m.frames.preset.value))
	if err == nil && rec.Status == result.Invalid {
		m.out.Status, m.out.Reason = result.Invalid, "the self-test is invalid: "+rec.Reason
	}
	return err
}

// bareOverload is what the gateways forward without a tunnel.
func (m *vpnPoint) bareOverload(ctx context.Context) (err error) {
	q, err := m.point(ctx, m.env.Trial)
	if err != nil || q == nil {
		return err
	}
	defer func() { err = errors.Join(err, q.rig.close()) }()
	if err := m.env.Bed.Direct(true); err != nil {
		return err
	}
	var rates []float64
	for n := range q.effort.overloads {
		rec, err := q.trial(ctx, "overload without", n, engine.Load{Rate: q.linkRate(), Duration: q.effort.overload}, false)
		if err != nil {
			return err
		}
		if rec.Status != result.Invalid && rec.Load != nil {
			rates = append(rates, float64(rec.Load.Forwarded))
		}
	}
	if len(rates) > 0 {
		v := spread("baseline_forwarding_fps", rates)
		v.Bound = q.bound(v.Value)
		m.out.Values = append(m.out.Values, v)
	}
	return nil
}

// forwarded is what goes through the tunnel: under overload, and without loss.
func (m *vpnPoint) forwarded(ctx context.Context) (err error) {
	q, err := m.point(ctx, m.through)
	if err != nil || q == nil {
		return err
	}
	defer func() { err = errors.Join(err, q.rig.close()) }()
	if err := q.warmUp(ctx); err != nil {
		return err
	}
	if err := q.overload(ctx, 0); err != nil {
		return err
	}
	if len(q.rates) > 0 && m.env.Bed.Placement == "shared" {
		q.out.Warnings = append(q.out.Warnings, sharedPlacement)
	} else if len(q.rates) > 0 && m.frames.search.value != NoSearch {
		if err := q.begin(unit.FrameRate(spread("forwarding_rate_fps", q.rates).Value)); err != nil {
			return err
		}
		if err := q.seek(ctx, -1); err != nil {
			return err
		}
		l := q.search.Limit(q.seen)
		q.limit(l)
		if l.Lower > 0 {
			if err := q.latency(ctx, l.Lower); err != nil {
				return err
			}
		}
	}
	o := q.outcome()
	m.out.Values = append(m.out.Values, o.Values...)
	m.out.Warnings = append(m.out.Warnings, o.Warnings...)
	m.out.Account, m.out.Load = o.Account, o.Load
	if o.Status != result.Passed && m.out.Status == result.Passed {
		m.out.Status, m.out.Reason = o.Status, o.Reason
	}
	return nil
}

var vpnMetrics = slices.Concat([]result.Metric{
	{Name: "startup_s", Unit: "s", Better: -1, Help: "time from the start of the tunnel until a packet had come through it each way"},
	{Name: "handshake_s", Unit: "s", Better: -1, Help: "time from when the tunnel has forgotten its session until a packet has come through a new one; of OpenVPN the client's start is in it; median, interval from least to greatest"},
	{Name: "baseline_goodput_bps", Unit: "bit/s", Better: 1, Help: "goodput_bps without the tunnel, just before"},
	{Name: "goodput_share", Unit: "1", Better: 1, Help: "goodput_bps as a share of the same without the tunnel"},
	{Name: "baseline_cpu_per_mbit_s", Unit: "s", Better: -1, Help: "cpu_per_mbit_s without the tunnel, just before"},
	{Name: "daemon_cpu_per_mbit_s", Unit: "s", Better: -1, Help: "CPU time of the tunnel's programs at both ends for a megabit that arrived; absent where the kernel does the work"},
	{Name: "subject_memory_bytes", Unit: "B", Better: -1, Help: "most memory that the tunnel's programs at both ends had"},
	{Name: "baseline_forwarding_fps", Unit: "frame/s", Better: 1, Help: "forwarding_rate_fps without the tunnel, just before"},
	{Name: "forwarding_share", Unit: "1", Better: 1, Help: "forwarding_rate_fps as a share of the same without the tunnel"},
}, some(streamMetrics, "goodput_bps", "sent_bps", "retransmits", "cpu_per_mbit_s"), throughputMetrics,
	metrics("latency_p50_s", "latency_p99_s", "latency_max_s", "latency_load_fps"))

// some are those of the names.
func some(ms []result.Metric, names ...string) (out []result.Metric) {
	for _, m := range ms {
		if slices.Contains(names, m.Name) {
			out = append(out, m)
		}
	}
	return out
}
