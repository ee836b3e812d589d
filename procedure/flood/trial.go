// SPDX-License-Identifier: Apache-2.0

package flood

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"boxdyno/engine"
	"boxdyno/frame"
	"boxdyno/lab"
	"boxdyno/ledger"
	"boxdyno/procedure"
	"boxdyno/procedure/capture"
	"boxdyno/procedure/internal/metrics"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
	"boxdyno/unit"
)

// A floodPoint is one flood at one rate, or whose limit is searched. One trial:
//
//	sender, one schedule:  benign ........................................
//	                       flood               ###############
//	meter: streams         1 before          | 2 during      | 3 after     signed
//	       foreign                             the flood's that came through
//
//	meters armed -> Book.Begin -> the episode, meters read 20 times a second and less
//	             -> settle, Book.Balance -> phases, recovery, figures
//
// The account is of all frames: a box's counter does not know whose frames it counts.
// Whose they were the tester knows: of benign frames what arrived in each phase, and of
// the flood's how many came through.
type floodPoint struct {
	*Flood
	env     *procedure.Env
	effort  floodEffort
	rig     *trial.Rig     // nil where the box itself is flooded
	siege   *siege         // nil else
	ceiling unit.FrameRate // of the flood's frames
	mean    float64        // of a flood's frame, octets with FCS
	out     procedure.Outcome
}

// floodStream is the first of an episode's streams, one a phase.
const floodStream = 1

// Phases of a trial.
const (
	beforeFlood = "before"
	duringFlood = "flood"
	afterFlood  = "after"
)

var floodPhases = [...]string{frame.BenignBefore: beforeFlood, frame.BenignDuring: duringFlood, frame.BenignAfter: afterFlood}

func (p *Flood) from() int {
	if p.Direction.Value == trial.WanToLAN {
		return 1
	}
	return 0
}

// attack is the flood between two ports.
func (p *Flood) attack(from, to lab.Port) frame.Flood {
	f := frame.Flood{Name: p.kind.Value, SrcMAC: from.MAC, DstMAC: from.GatewayMAC, Port: uint16(p.port.Value)}
	own, target := from.Addr4, to.Addr4
	if p.IPv6() {
		own, target = from.Addr6, to.Addr6
	}
	f.Target = netip.PrefixFrom(target, target.BitLen())
	if p.sources.Value == fromNetwork {
		f.Sources = neighbours(own)
	}
	if p.attacksBox() {
		f.Sources, f.Port = attackers(from.Addr4), p.serverPort()
		if from.Port == to.Port {
			f.Target = netip.PrefixFrom(from.Gateway4, 32)
		}
	}
	return f
}

// neighbours are addresses of own's network that neither own nor its gateway is likely
// to be: 16384 of IPv4, a /64 of IPv6.
func neighbours(own netip.Addr) netip.Prefix {
	if own.Is6() {
		return netip.PrefixFrom(own, 64).Masked()
	}
	raw := own.As4()
	half := byte(64)
	if raw[2] >= 64 && raw[2] < 128 {
		half = 128
	}
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{raw[0], raw[1], half}), 18)
}

// screen keeps a flood from the stack behind a meter, which would answer it or be busy
// with it. A box that finds no neighbour at a real port any more drops all frames to it.
func screen(m engine.Meter) error {
	if s, ok := m.(engine.Screener); ok {
		return s.Screen()
	}
	return nil
}

// selfTest measures once a run what the tester carries of the flood from port to port.
func (m *floodPoint) selfTest(ctx context.Context) (result.Record, error) {
	bed := m.env.Bed
	loop, alone := trial.SelfTestPorts(bed)
	cfg := []result.Pair{{Key: "flood", Value: m.kind.Value}, {Key: "ip", Value: frame.IPText(m.IPv6())}, {Key: "streams", Value: "1"}}
	if alone {
		cfg = append(cfg, result.Pair{Key: "path", Value: result.SenderAlone})
	}
	n := len(m.cpus())
	if n > 1 {
		cfg = append(cfg, result.Pair{Key: "senders", Value: strconv.Itoa(n)})
	}
	e := trial.EffortOf(m.Preset.Value)
	key := fmt.Sprintf("self-test/flood/%s/ipv%s/%v", m.kind.Value, frame.IPText(m.IPv6()), e.SelfTest)
	if n > 1 {
		key += fmt.Sprintf("/%d", n)
	}
	if m.attacksBox() {
		key, cfg = key+"/box", append(cfg, result.Pair{Key: "target", Value: toBox})
	}
	return m.env.Once(ctx, key, cfg, func(ctx context.Context) (o procedure.Outcome, err error) {
		last := len(loop) - 1 // 0: from a port to the box at its cable
		stream, end, err := m.pure(loop[0], loop[last])
		if err != nil {
			return o, err
		}
		defer end()
		r, err := trial.NewRig(ctx, m.env, trial.RigSpec{Ports: loop, Loop: !alone, Mix: m.Mix.Mix, Ways: []trial.Way{{From: 0, To: last, Frames: trial.Between(loop[0], loop[last], m.Mix.Mix, 1, m.IPv6())}}, Settle: e.Settle, Drops: true, Senders: n, Alone: true})
		if err != nil {
			return o, err
		}
		defer r.Close()
		if err := screen(r.Meters[0]); err != nil {
			return o, err
		}
		r.Foreign, r.Streams = last > 0, []engine.Stream{stream}
		o, sent, _, err := r.Offer(ctx, engine.Load{Duration: e.SelfTest}, false)
		if err == nil && sent[0].Accepted > 0 {
			o.Load.MeanSize = float64(sent[0].Octets) / float64(sent[0].Accepted)
		}
		return o, err
	})
}

// cpus are those that send.
func (m *floodPoint) cpus() []int { return m.env.Bed.SenderCPUs(max(m.senders.Value, 1)) }

// pure is a stream of the flood alone, which has no end, divided among the senders.
func (m *floodPoint) pure(from, to lab.Port) (s engine.Stream, end func(), err error) {
	var parts []engine.Part
	end = func() {
		for _, p := range parts {
			p.Source.Close()
		}
	}
	for range m.cpus() {
		source, err := frame.NewFlood(m.attack(from, to))
		if err != nil {
			end()
			return s, nil, err
		}
		parts = append(parts, engine.Part{Source: source})
	}
	return divided(parts), end, nil
}

// divided is a stream of parts, or of the only one.
func divided(parts []engine.Part) engine.Stream {
	if len(parts) == 1 {
		return engine.Stream{ID: floodStream, Source: parts[0].Source}
	}
	return engine.Stream{ID: floodStream, Parts: parts}
}

// open has the DUT do the point's service and opens the rig, which the caller closes.
func (m *floodPoint) open(ctx context.Context) (err error) {
	if m.attacksBox() {
		return m.openBox(ctx)
	}
	bed := m.env.Bed
	if err := bed.Serve(ctx, m.Asked()); err != nil {
		return err
	}
	from, to := m.from(), 1-m.from()
	m.rig, err = trial.NewRig(ctx, m.env, trial.RigSpec{
		Ports: bed.Ports, Mix: m.Mix.Mix, Ways: []trial.Way{{From: from, To: to, Frames: m.Between(bed.Ports[from], bed.Ports[to])}}, Settle: trial.EffortOf(m.Preset.Value).Settle,
		Drops:   true, // the tracepoint would see every frame of the flood that ends
		Senders: m.senders.Value, Alone: true,
	})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.rig.Close())
			m.rig = nil
		}
	}()
	if m.Service.Value == "nat" {
		if err := m.OpenFlows(ctx, bed, m.rig); err != nil {
			return err
		}
	}
	m.rig.Foreign, m.rig.Arms[0] = true, nil
	for c := range uint16(len(floodPhases)) {
		m.rig.Arms[0] = append(m.rig.Arms[0], floodStream+c)
	}
	return screen(m.rig.Meters[0])
}

// trial is one flood at a rate, for so long.
func (m *floodPoint) trial(ctx context.Context, kind string, n int, rate unit.FrameRate, lasts time.Duration) (result.Record, error) {
	cfg := []result.Pair{
		{Key: "trial", Value: kind}, {Key: "n", Value: strconv.Itoa(n)},
		{Key: "flood_rate", Value: strconv.FormatFloat(float64(rate), 'f', 0, 64)}, {Key: "duration", Value: lasts.String()},
	}
	return m.env.Trial(ctx, cfg, func(ctx context.Context) (procedure.Outcome, error) {
		o, err := m.carryOut(ctx, rate, lasts)
		if failed, ok := m.newSensor(m.env.Bed).Broken(err); ok && ctx.Err() == nil {
			return failed, nil
		}
		return o, err
	})
}

func (m *floodPoint) carryOut(ctx context.Context, rate unit.FrameRate, lasts time.Duration) (procedure.Outcome, error) {
	if m.siege != nil {
		return m.storm(ctx, rate, lasts)
	}
	return m.flood(ctx, rate, lasts)
}

func (m *floodPoint) close() (err error) {
	if m.rig != nil {
		err = m.rig.Close()
	}
	if m.siege != nil {
		err = errors.Join(err, m.siege.close())
	}
	return err
}

// flood is the trial of a flood through the box.
func (m *floodPoint) flood(ctx context.Context, rate unit.FrameRate, lasts time.Duration) (procedure.Outcome, error) {
	bed := m.env.Bed
	from, to := bed.Ports[m.from()], bed.Ports[1-m.from()]
	var sources []*frame.EpisodeSource
	var parts []engine.Part
	for i := range m.cpus() {
		source, err := frame.NewEpisode(frame.Episode{
			Benign: m.Between(from, to), BenignRate: m.benignRate(), Flood: m.attack(from, to), FloodRate: rate,
			Before: m.effort.before, During: lasts, After: m.effort.after, Sender: i, Senders: len(m.cpus()),
		})
		if err != nil {
			return procedure.Outcome{}, err
		}
		sources, parts = append(sources, source), append(parts, engine.Part{Source: source, First: source.First()})
	}
	stream := divided(parts)
	stream.Lane = m.from()
	m.rig.Streams = []engine.Stream{stream}
	sensor, err := m.sense(ctx)
	if err != nil {
		return procedure.Outcome{}, err
	}
	before, tracked := m.table()
	var s *floodSampler
	o, sent, seen, err := m.rig.Account(ctx, true, func(ctx context.Context) (l engine.Load, sent []engine.TxReport, err error) {
		s = sampleFlood(ctx, bed, m.rig.Meters[0], m.effort.before+lasts+m.effort.after)
		l = engine.Load{Speed: 1, Passes: 1} // a flood that the tester cannot send takes longer
		if sensor != nil {
			defer sensor.Follow(ctx)()
		}
		sent, err = m.rig.TX.Transmit(ctx, l, m.rig.Streams...)
		return l, sent, errors.Join(err, s.stop(ctx))
	})
	if err != nil {
		if sensor != nil {
			err = errors.Join(err, sensor.Stop(ctx))
		}
		return o, err
	}
	after, _ := m.table()
	e := episode{floodPoint: m, rate: rate, sources: sources, sent: sent[0], seen: seen[0]}
	e.tell(&o, s)
	benign := e.counts[frame.BenignBefore] + e.counts[frame.BenignDuring] + e.counts[frame.BenignAfter]
	if sensor != nil {
		if err := sensor.End(ctx, &o, int64(benign), sent[0].Last); err != nil {
			return o, err
		}
	}
	if tracked {
		o.Values = append(o.Values, trial.TrackedValues(figures, after.Since(before))...)
		if o.Status == result.Failed && o.Account != nil {
			if why := trial.RefusedBy(after.Since(before), true, &result.Account{}); why != "" {
				o.Reason += "; " + why
			}
		}
	}
	return o, nil
}

// table is the box's connection table; false: it tracks nothing, or nobody can look.
func (m *floodPoint) table() (ledger.Conntrack, bool) {
	if m.env.Bed.DUT == nil {
		return ledger.Conntrack{}, false
	}
	c, err := ledger.ReadConntrack(m.env.Bed.DUT)
	return c, err == nil && c.Entries > 0
}

const underFlood = "Under flood: the share of the benign frames that survived; flood and ceiling in frame/s"

var floodMetrics = slices.Concat([]result.Metric{
	{Name: "flood_borne_fps", Label: "bears", Group: underFlood, Interval: "interval", Heads: true, Unit: "frame/s", Better: 1, Help: "rate search: highest flood that loses at most benign_loss of the benign frames, also in a longer trial; interval up to the lowest rate that lost more"},
	{Name: "benign_survival_ratio", Label: "survived", Share: true, Interval: "samples", Heads: true, Unit: "1", Better: 1, Help: "share of the benign frames sent during the flood that crossed the box; interval: least to greatest sample"},
	{Name: "flood_recovery_s", Label: "back after", Heads: true, Unit: "s", Better: -1, Help: "from the flood's last frame to the last benign frame before which others were missing; <=: none was missing, and this is the gap between benign frames; absent if they were missing to the end"},
	{Name: "flood_offered_fps", Label: "flood", Unit: "frame/s", Help: "the flood's frames that were sent a second"},
	{Name: "flood_offered_bps", Unit: "bit/s", Help: "the same in layer-2 bits, FCS included"},
	{Name: "flood_forwarded_fps", Label: "came through", Unit: "frame/s", Help: "of them, those that came through the box"},
	{Name: "flood_sent", Unit: "1", Help: "frames of the flood"},
	{Name: "flood_arrived", Unit: "1", Help: "of them, those that came through the box: unsigned frames at the meter"},
	{Name: "benign_offered_fps", Unit: "frame/s", Help: "benign frames that were sent a second, during the flood"},
	{Name: "benign_offered_bps", Unit: "bit/s", Help: "the same in layer-2 bits, FCS included"},
	{Name: "benign_forwarded_bps", Unit: "bit/s", Better: 1, Help: "of them, those that came out of the box"},
	{Name: "benign_sent", Unit: "1", Help: "benign frames sent during the flood"},
	{Name: "benign_lost_before", Unit: "1", Better: -1, Help: "benign frames that were lost before the flood began"},
	{Name: "benign_lost", Unit: "1", Better: -1, Help: "benign frames that were lost during the flood"},
	{Name: "benign_lost_after", Unit: "1", Better: -1, Help: "benign frames that were lost after the flood had ended"},
	{Name: "benign_latency_before_p99_s", Label: "before", Group: "Benign frames' delay (p99) before a flood and during it, and the receive threads' share of a CPU", Unit: "s", Better: -1, Help: "one-way delay of benign frames before the flood, sender's program to meter's program, software stamps: 99th percentile"},
	{Name: "benign_latency_p99_s", Label: "during", Unit: "s", Better: -1, Help: "the same during the flood"},
	{Name: "flood_cpu_ratio", Label: "CPU", Share: true, Unit: "1", Better: -1, Help: "time that the threads which receive the box's frames ran during the flood (threaded NAPI; placement split): 1 is a whole CPU"},
}, siegeMetrics, capture.SensorMetrics, []result.Metric{
	{Name: "conntrack_entries", Label: "entries", Group: "The connection table of a flooded box, at the end", Unit: "1", Help: "entries in the box's connection table at the end; where it tracks connections"},
	{Name: "conntrack_most", Label: "most", Unit: "1", Help: "entries that the table takes (nf_conntrack_max)"},
	{Name: "conntrack_insert_failed", Label: "no place", Unit: "1", Better: -1, Help: "connections that found no place in the table (insert_failed)"},
	{Name: "conntrack_drop", Unit: "1", Better: -1, Help: "packets that connection tracking refused: table full, or insert failed (drop)"},
	{Name: "conntrack_early_drop", Label: "evicted", Unit: "1", Better: -1, Help: "entries evicted to make room for others (early_drop)"},
	{Name: "conntrack_invalid", Unit: "1", Better: -1, Help: "packets that fit no connection (invalid)"},
	trial.Ceiling(underFlood),
})

// figures are the metrics of this room's procedure.
var figures = metrics.List(floodMetrics)
