// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"context"
	"errors"
	"fmt"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/conn"
	"boxdyno/ledger"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
	"boxdyno/unit"
)

// A connRig is what the trials of connections share. One trial goes
//
//	table read -> Book.Begin -> Open -> [hold, table read, Finish] -> settle, Book.Balance -> table read -> Outcome
//
// The account is of frames, both ways at once: those that both ends made and
// those that came to them. The connections' own books are among the values.
type connRig struct {
	env   *procedure.Env
	conns *conn.Ends
	book  *ledger.Book
	name  string
}

// A connTrial is one load of new connections. With hold they stay open for so
// long once the last one has been opened.
type connTrial struct {
	load engine.Load
	hold time.Duration
}

// mostConns is how many connections a trial of mode rate may have: 96 MB of state.
const mostConns = 4 << 20

func newConnRig(ctx context.Context, env *procedure.Env, p *Connections, loop bool) (_ *connRig, err error) {
	bed := env.Bed
	ports := bed.Ports
	if loop {
		ports = bed.Loop
	}
	r := &connRig{env: env, name: bed.Engine.Name()}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.close())
		}
	}()
	client, server := ports[0], ports[1]
	s := conn.Spec{
		Client: client.Port, Server: server.Port, ClientMAC: client.MAC, GatewayMAC: client.GatewayMAC,
		ClientAddr: client.Addr4, ServerAddr: server.Addr4, ServerPort: connPort, Services: connServices,
		Object: p.response.Value, MTU: min(client.MTU, server.MTU), Most: mostConns, CPU: bed.TesterCPU,
		Bare: bed.DUT == nil && !loop,
	}
	if p.mode.Value == concurrent && !loop {
		s.Most = p.most.Value
	}
	if r.conns, err = conn.Open(ctx, s); err != nil {
		return nil, err
	}
	r.book, err = ledger.Open([]ledger.Path{bed.Path(0, 1, loop), bed.Path(1, 0, loop)}, bed.Sources...)
	if err == nil {
		r.book.Settle = trial.EffortOf(p.preset.Value).Settle
	}
	return r, err
}

func (r *connRig) close() error {
	if r.book != nil {
		r.book.Close()
	}
	if r.conns == nil {
		return nil
	}
	return r.conns.Close()
}

// table is the box's connection table; false: it has none, or nobody can look.
func (r *connRig) table() (ledger.Conntrack, bool) {
	if r.env.Bed.DUT == nil {
		return ledger.Conntrack{}, false
	}
	c, err := ledger.ReadConntrack(r.env.Bed.DUT)
	return c, err == nil
}

func (r *connRig) trial(ctx context.Context, t connTrial) (o procedure.Outcome, err error) {
	if err := r.conns.Begin(t.hold > 0); err != nil {
		return o, err
	}
	before, tracked := r.table()
	if err := r.book.Begin(ctx); err != nil {
		return o, err
	}
	watch := trial.WatchTraffic(r.env)
	sent, err := r.conns.Open(ctx, t.load)
	watch.Stop()
	if err != nil {
		return o, err
	}
	var held conn.Report
	full, _ := r.table()
	if t.hold > 0 {
		if held, full, err = r.holds(ctx, t); err != nil {
			return o, err
		}
	}
	var seen conn.Report
	account, err := r.book.Balance(ctx, func(context.Context) (e ledger.Ends, err error) {
		if seen, err = r.conns.Read(); err != nil {
			return e, err
		}
		e.Accepted, e.Received, e.Refused = seen.Sent-sent.Refused, seen.Received, sent.Refused
		e.Intended, e.NotSent = seen.Sent+sent.NotSent, sent.NotSent
		return e, nil
	})
	if err != nil {
		return o, err
	}
	if t.hold == 0 {
		full.Entries = max(full.Entries, before.Entries)
	}
	after, _ := r.table()
	after.Entries = full.Entries
	o = procedure.Outcome{Account: &account, Load: r.load(t, sent, seen)}
	o.Phases = []result.Phase{{Name: "traffic", Begin: sent.First, End: max(sent.Last, seen.Last)}}
	watch.Tell(ctx, &o, sent.First, sent.Last)
	o.Values = connValues(seen, sent, t.hold > 0)
	if t.hold > 0 {
		o.Values = append(o.Values, figures.Value("connections_concurrent", float64(held.Open)))
	}
	if tracked {
		o.Values = append(o.Values, trial.TrackedValues(figures, after.Since(before))...)
	}
	o.Status, o.Reason = result.Passed, ""
	if failed := seen.Failed(); failed > 0 {
		o.Status = result.Failed
		o.Reason = fmt.Sprintf("%d of %d connections failed (%s)", failed, seen.Opened, seen.Failures())
		if gave := trial.RefusedBy(after.Since(before), tracked, &account); gave != "" {
			o.Reason += "; " + gave
		}
	}
	if n := seen.Unexplained(); n != 0 {
		o.Warnings = append(o.Warnings, fmt.Sprintf("%d connections are unexplained", n))
	}
	if n := seen.NoRoom + seen.Server.NoRoom; n > 0 { // not the box's fault
		o.Status = result.Invalid
		o.Reason = fmt.Sprintf("%d replies did not fit into the receive buffers of the tester's own ports: set a smaller response_size, or use ports with whole pages", n)
	}
	return o, nil
}

// holds waits until all that were opened stand, looks at them and closes them.
func (r *connRig) holds(ctx context.Context, t connTrial) (held conn.Report, full ledger.Conntrack, err error) {
	select {
	case <-ctx.Done():
		return held, full, ctx.Err()
	case <-time.After(t.hold):
	}
	if held, err = r.conns.Read(); err != nil {
		return held, full, err
	}
	full, _ = r.table()
	_, err = r.conns.Finish(ctx, t.load.Rate)
	return held, full, err
}

// load is that of the SYNs; Forwarded is connections that were complete.
func (r *connRig) load(t connTrial, sent engine.TxReport, seen conn.Report) *result.Load {
	return &result.Load{
		MeanSize: float64(unit.MinFrame), Streams: 1, Backend: r.name,
		Intended: t.load.Mean(), Offered: sent.Offered, Peak: sent.Peak, Batch: sent.Batch,
		Forwarded: unit.FrameRate(completeRate(seen, t.hold > 0)),
		Late:      int64(sent.Late), Stalls: int64(sent.Stalls), LongestStall: int64(sent.LongestStall),
	}
}

// completeRate is of connections that were closed, over the time from the first
// SYN to the last one's end; held ones are complete with their response.
func completeRate(seen conn.Report, held bool) float64 {
	n, end := seen.Closed, max(seen.Last, seen.LastSYN)
	if held {
		n, end = seen.Whole, max(seen.LastWhole, seen.LastSYN)
	}
	if n == 0 || end <= seen.First {
		return 0
	}
	return float64(n) * 1e9 / float64(end-seen.First)
}

func connValues(seen conn.Report, sent engine.TxReport, held bool) []result.Value {
	vs := []result.Value{
		figures.Value("connections_complete_cps", completeRate(seen, held)),
		figures.Value("connections_offered_cps", float64(sent.Offered)),
	}
	if seen.Handshake.Total() > 0 {
		vs = append(vs, figures.Value("handshake_p50_s", seen.Handshake.Quantile(0.5)), figures.Value("handshake_p99_s", seen.Handshake.Quantile(0.99)))
	}
	if seen.TTFB.Total() > 0 {
		vs = append(vs, figures.Value("ttfb_p50_s", seen.TTFB.Quantile(0.5)), figures.Value("ttfb_p99_s", seen.TTFB.Quantile(0.99)), figures.Value("ttfb_max_s", seen.TTFB.Quantile(1)))
	}
	if end := max(seen.LastWhole, seen.LastSYN); end > seen.First {
		vs = append(vs, figures.Value("goodput_bps", float64(seen.Octets)*8e9/float64(end-seen.First)))
	}
	for _, v := range []struct {
		name string
		n    uint64
	}{
		{"connections_opened", seen.Opened}, {"connections_closed", seen.Closed}, {"connections_failed", seen.Failed()},
		{"failed_no_syn_ack", seen.NoAnswer}, {"failed_no_first_byte", seen.NoData}, {"failed_incomplete", seen.Partial + seen.Short},
		{"failed_unclosed", seen.Unclosed}, {"failed_reset", seen.Reset}, {"connections_open", seen.Open},
		{"syns_at_server", seen.Server.Opened}, {"stray_segments", seen.Stray + seen.Disorder + seen.Server.Stray},
	} {
		vs = append(vs, figures.Value(v.name, float64(v.n)))
	}
	return append(vs, figures.Value("connections_unexplained", float64(seen.Unexplained())))
}
