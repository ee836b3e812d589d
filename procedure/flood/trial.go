// SPDX-License-Identifier: Apache-2.0

package flood

import (
	"context"
	"errors"
	"fmt"
	"math"
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
	cfg := []result.Pair{{Key: "flood", Value: m.kind.Value}, {Key: "ip", Value: trial.IPText(m.IPv6())}, {Key: "streams", Value: "1"}}
	if alone {
		cfg = append(cfg, result.Pair{Key: "path", Value: result.SenderAlone})
	}
	n := len(m.cpus())
	if n > 1 {
		cfg = append(cfg, result.Pair{Key: "senders", Value: strconv.Itoa(n)})
	}
	e := trial.EffortOf(m.Preset.Value)
	key := fmt.Sprintf("self-test/flood/%s/ipv%s/%v", m.kind.Value, trial.IPText(m.IPv6()), e.SelfTest)
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
	e := episode{floodPoint: m, rate: rate, lasts: lasts, sources: sources, sent: sent[0], seen: seen[0]}
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

// An episode is what the tester's ends saw of a trial.
type episode struct {
	*floodPoint
	rate    unit.FrameRate
	lasts   time.Duration
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
