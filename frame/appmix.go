// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"slices"
	"sync"
	"time"

	"boxdyno/unit"
)

// An AppMix describes generated conversations of many applications, as a sensor at a mirror
// port sees them: both directions in one stream, nothing lost or sent twice, all checksums
// right. It is plain data. With a Duration a pass is cut out of traffic that goes on, so that
// the rate is the same from the first second to the last. apps has the rates of flows. What
// is transferred is log-normal with a Pareto tail, at most 10 MB. Headers are true (exchange:
// MS RPC, oracle: TNS, citrix: ICA, https: TLS 1.3); what is inside is filling. Where passes
// have addresses of their own, SIP still names those of the first.
type AppMix struct {
	Seed uint64
	// Rate is the mean layer-2 rate of both directions together, with FCS; 0 is
	// 1 Gbit/s. A pass of some seconds is within some percent of it, for sizes
	// have a long tail.
	Rate unit.BitRate
	// One of the two must be given. Duration is that of a pass. Flows is a number
	// of whole conversations from a standstill: the rate rises as they begin, and
	// falls for up to 30 s after the last has begun.
	Duration time.Duration
	Flows    uint64
	// Clients and Servers are where addresses come from, both IPv4 or both IPv6
	// and apart from each other; zero is 198.18.0.0/16 and 198.19.0.0/16. No two
	// flows of a pass have the same client's address and port, up to 64,512 flows
	// an address.
	Clients, Servers     netip.Prefix
	ClientMAC, ServerMAC [6]byte // zero is 02:00:00:00:00:01 and ...:02
	// AlertShare is the share of flows, 0 to 1, that match one of Alerts; nil is
	// 0.02. A flow from before the pass does not: who has not heard its beginning
	// would not see it.
	AlertShare *float64
	MTU        int // octets of the largest IP packet, 1280 to 3000; 0 is 1500
	Side       Side
}

// A Side says whose frames a source of conversations yields.
type Side uint8

const (
	BothSides  Side = iota
	ClientSide      // what clients send; with ServerSide of the same seed, for two ports
	ServerSide
)

// dryFlows is how many flows are run through beforehand to know a pass exactly.
const dryFlows = 1 << 17

// An AppMixSource yields the frames of an AppMix. Every pass has the same frames.
// Classes are the applications and "alert": the one frame of a flow with which a
// rule of Alerts matches, so that frames of that class are the alerts to expect.
// The frames are not signed.
type AppMixSource struct {
	mix   AppMix
	net   addressing
	flows arrivals
	sizes [len(apps)]float64 // the last flow's quantile of size, by application
	open  timeline[*flow]
	free  []*flow
	plan  planner
	shape Shape

	// Flows begin from 0 on, and the pass is from origin to end: before it is the
	// past, as long as the longest flow.
	origin, end uint64
	lasts       []uint64    // the longest flow of each kind, ns
	early       []beginning // flows of the past that are under way at origin
	now         present

	part, of uint64
}

// A beginning is what a flow is planned from.
type beginning struct {
	k, at uint64
	kind  int     // index of apps, then of alerts
	u     float64 // quantile of its size
}

// A present is what the next flow depends on.
type present struct {
	flows arrivals
	sizes [len(apps)]float64
}

// NewAppMix checks m and prepares its source. A pass of at most 131,072 flows is
// run through to know its frames, which takes some µs a flow.
func NewAppMix(m AppMix) (*AppMixSource, error) {
	if m.Rate == 0 {
		m.Rate = 1e9
	}
	if !m.Clients.IsValid() && !m.Servers.IsValid() {
		m.Clients, m.Servers = netip.MustParsePrefix("198.18.0.0/16"), netip.MustParsePrefix("198.19.0.0/16")
	}
	if m.AlertShare == nil {
		share := 0.02
		m.AlertShare = &share
	}
	if m.MTU == 0 {
		m.MTU = 1500
	}
	switch {
	case !(m.Rate > 0 && m.Rate <= 1e12):
		return nil, fmt.Errorf("application mix: rate %v: want one above 0 and up to 1 Tbit/s", m.Rate)
	case m.Duration < 0 || m.Duration == 0 && m.Flows == 0 || m.Duration > 0 && m.Flows > 0:
		return nil, errors.New("application mix: it needs either a duration above 0 or a number of flows")
	case !(*m.AlertShare >= 0 && *m.AlertShare <= 1):
		return nil, fmt.Errorf("application mix: share of alerts %v: want 0 to 1", *m.AlertShare)
	case m.MTU < 1280 || m.MTU > 3000:
		return nil, fmt.Errorf("application mix: MTU %d: want 1280 to 3000 octets", m.MTU)
	case m.Side > ServerSide:
		return nil, fmt.Errorf("application mix: unknown side %d", m.Side)
	}
	net, err := prefixes(m.Clients, m.Servers)
	if err != nil {
		return nil, fmt.Errorf("application mix: %w", err)
	}
	net.seed = m.Seed
	net.setMACs(m.ClientMAC, m.ServerMAC)
	s := &AppMixSource{mix: m, net: net, of: 1}
	s.plan.mtu = m.MTU
	s.calibrate()
	s.settle()
	s.rewind()
	s.measure()
	return s, nil
}

// measure finds the shape.
func (s *AppMixSource) measure() {
	s.shape = Shape{Timed: true, Longest: ethLen + s.mix.MTU, Classes: make([]string, 0, len(apps)+1)}
	for i := range apps {
		s.shape.Classes = append(s.shape.Classes, apps[i].name)
	}
	s.shape.Classes = append(s.shape.Classes, "alert")
	expected := float64(s.mix.Flows)
	if s.mix.Duration > 0 {
		expected = s.flows.rate * s.mix.Duration.Seconds()
	}
	if expected <= dryFlows {
		t := s.Truth()
		s.shape.Frames, s.shape.Octets = t.Frames, t.rounded
	} else {
		s.shape.Octets = uint64(float64(s.mix.Rate) / 8 / s.flows.rate * expected / float64(s.of))
	}
}

// Shard is as Sharder says: a flow's frames are all in one part.
func (s *AppMixSource) Shard(i, n int) Source {
	c := *s
	c.open, c.free = nil, nil
	c.part, c.of = uint64(i), uint64(n)
	c.rewind()
	c.measure()
	return &c
}

// Shape is as Source says.
func (s *AppMixSource) Shape() Shape { return s.shape }

// Notes are none: nothing is left out.
func (s *AppMixSource) Notes() []string { return nil }

func (s *AppMixSource) Close() error { return nil }

// Fill is as Source says; it fails where the window cannot hold one frame.
func (s *AppMixSource) Fill(w *Window) error {
	for {
		if s.more() && (len(s.open) == 0 || s.flows.at < s.open[0].at) {
			if b := s.arrive(); b.k%s.of == s.part {
				f := s.fresh()
				s.begin(f, b)
				s.open.push(f.at, f.k, f)
			}
			continue
		}
		if len(s.open) == 0 || s.open[0].at >= s.end {
			s.rewind()
			return io.EOF
		}
		f := s.open[0].of
		o := f.next()
		if s.mix.Side.has(o.from) {
			e, b := w.Next(o.frame)
			if e == nil {
				return full(w, o.frame)
			}
			e.Class = o.class(f)
			f.write(e, b, &o)
			e.At -= s.origin
		}
		if f.advance(&o) {
			s.open.move(f.at)
		} else {
			s.free = append(s.free, s.open.pop())
		}
	}
}

// full is Fill's answer where a frame of n octets found no room in w.
func full(w *Window, n int) error {
	if w.Len() == 0 {
		return fmt.Errorf("a window of %d octets and %d entries (chunk %d) cannot hold a frame of %d octets: give it more",
			len(w.Blob), len(w.Entries), w.Chunk, n)
	}
	return nil
}

func (s Side) has(from int) bool { return s == BothSides || int(s)-1 == from }

// fresh is a flow to be planned.
func (s *AppMixSource) fresh() *flow {
	n := len(s.free)
	if n == 0 {
		return &flow{}
	}
	f := s.free[n-1]
	s.free = s.free[:n-1]
	return f
}

// settle goes through the past.
func (s *AppMixSource) settle() {
	s.flows.rewind(s.mix.Seed)
	for i := range s.sizes {
		s.sizes[i] = unitInterval(mix64(s.mix.Seed + uint64(i)))
	}
	s.end = math.MaxUint64
	if s.mix.Duration > 0 {
		s.origin = slices.Max(s.lasts)
		s.end = s.origin + uint64(s.mix.Duration)
	}
	var f flow
	for s.flows.at < s.origin {
		b := s.arrive()
		if b.at+s.lasts[b.kind] < s.origin {
			continue
		}
		if s.begin(&f, b); f.skip(s.origin) {
			s.early = append(s.early, b)
		}
	}
	s.now = present{s.flows, s.sizes}
}

// skip goes on to the first frame from time at on. It is false where there is
// none, and for a flow whose alert would come only then.
func (f *flow) skip(at uint64) bool {
	known := f.alert < 0
	for f.at < at {
		o := f.next()
		known = known || o.mark
		if !f.advance(&o) {
			return false
		}
	}
	return known
}

// rewind goes back to the beginning of the pass.
func (s *AppMixSource) rewind() {
	for len(s.open) > 0 {
		s.free = append(s.free, s.open.pop())
	}
	s.flows, s.sizes = s.now.flows, s.now.sizes
	for _, b := range s.early {
		if b.k%s.of == s.part {
			f := s.fresh()
			s.begin(f, b)
			f.skip(s.origin)
			s.open.push(f.at, f.k, f)
		}
	}
}

// more says whether another flow begins.
func (s *AppMixSource) more() bool {
	return s.flows.at < s.end && (s.mix.Flows == 0 || s.flows.k < s.mix.Flows)
}

// arrive takes the next flow.
func (s *AppMixSource) arrive() beginning {
	b := beginning{k: s.flows.k, at: s.flows.at, kind: s.flows.kind}
	if b.kind < len(apps) {
		// Sizes are taken evenly from their distribution, for a short pass to have
		// nearly the mean of a long one.
		b.u = s.sizes[b.kind] + golden
		if b.u >= 1 {
			b.u--
		}
		s.sizes[b.kind] = b.u
	}
	s.flows.step()
	return b
}

// begin makes a flow in f.
func (s *AppMixSource) begin(f *flow, b beginning) {
	app, alert := b.kind, -1
	if b.kind >= len(apps) {
		alert = b.kind - len(apps)
		app = alerts[alert].app
	}
	s.net.assign(&f.ends, b.k, apps[app].port)
	f.v6 = s.net.v6
	s.plan.begin(f, s.mix.Seed, b.k, b.u, app, alert)
	f.at = b.at
}

// calibrate finds how many flows a second make the rate, and how long they last.
func (s *AppMixSource) calibrate() {
	share := *s.mix.AlertShare
	total := 0.0
	for i := range apps {
		total += apps[i].rate
	}
	kinds := kindsOf(kindsKey{s.mix.MTU, s.net.v6})
	s.lasts = kinds.lasts
	weights := make([]float64, len(kinds.mean))
	octets := 0.0
	for i := range weights {
		if weights[i] = share / float64(len(alerts)); i < len(apps) {
			weights[i] = (1 - share) * apps[i].rate / total
		}
		octets += weights[i] * kinds.mean[i]
	}
	s.flows.set(float64(s.mix.Rate)/8/octets, weights)
}

// A kindsKey is all that flowKinds depend on.
type kindsKey struct {
	mtu int
	v6  bool
}

// flowKinds are what flows come to, by the index of apps, then of alerts.
type flowKinds struct {
	mean  []float64 // octets
	lasts []uint64  // the longest, ns
}

var knownKinds sync.Map // flowKinds by kindsKey

// kindsOf plans flows of all sizes of each application, once for each key.
func kindsOf(key kindsKey) flowKinds {
	if known, ok := knownKinds.Load(key); ok {
		return known.(flowKinds)
	}
	const even, few, largest = 1024, 64, 16
	kinds := flowKinds{mean: make([]float64, len(apps)+len(alerts)), lasts: make([]uint64, len(apps)+len(alerts))}
	plan := planner{mtu: key.mtu}
	var f flow
	for i := range kinds.mean {
		app, alert, n := i, -1, few
		if i >= len(apps) {
			alert = i - len(apps)
			app = alerts[alert].app
		} else if apps[i].sized {
			n = even
		}
		for j := range n + largest {
			f.v6 = key.v6
			plan.begin(&f, 1, uint64(j), min((float64(j)+0.5)/float64(n), 1-1e-9), app, alert)
			for more := true; more; {
				o := f.next()
				if j < n {
					kinds.mean[i] += float64(o.frame+unit.FCS) / float64(n)
				}
				kinds.lasts[i] = max(kinds.lasts[i], f.at)
				more = f.advance(&o)
			}
		}
		kinds.lasts[i] += kinds.lasts[i] / 10 // a few that were not planned last longer
	}
	knownKinds.Store(key, kinds)
	return kinds
}

// A MixTruth is what a pass over an AppMixSource holds.
type MixTruth struct {
	MixCount
	Early   uint64        // flows that began before the pass; Flows has those that begin in it
	Classes []MixCount    // as Shape.Classes; a flow with an alert counts as its application's, and as "alert" where that frame is in the pass
	Alerts  []uint64      // flows that match each of Alerts
	Begins  time.Duration // time of the first frame
	Ends    time.Duration // of the last one
	rounded uint64        // octets in windows
}

// A MixCount counts flows, their frames, and the frames' octets with FCS.
type MixCount struct{ Flows, Frames, Octets uint64 }

// Truth runs through a pass without writing it: some µs a flow. Where a source
// yields one side, frames and octets are that side's, and flows those of both.
func (s *AppMixSource) Truth() MixTruth {
	dry := *s
	dry.flows, dry.sizes = s.now.flows, s.now.sizes
	t := MixTruth{Classes: make([]MixCount, len(apps)+1), Alerts: make([]uint64, len(alerts))}
	f := &flow{}
	for _, b := range s.early {
		if b.k%s.of == s.part {
			t.Early++
			dry.begin(f, b)
			f.skip(s.origin)
			t.add(s, f)
		}
	}
	for dry.more() {
		if b := dry.arrive(); b.k%s.of == s.part {
			dry.begin(f, b)
			t.Flows++
			t.Classes[f.app].Flows++
			t.add(s, f)
		}
	}
	return t
}

// add counts what is left of f.
func (t *MixTruth) add(s *AppMixSource, f *flow) {
	for more := true; more && f.at < s.end; {
		o := f.next()
		c := &t.Classes[o.class(f)]
		if o.mark {
			c.Flows++
			t.Alerts[f.alert]++
		}
		if s.mix.Side.has(o.from) {
			n := uint64(o.frame + unit.FCS)
			at := time.Duration(f.at - s.origin)
			if t.Frames == 0 || at < t.Begins {
				t.Begins = at
			}
			t.Frames++
			t.Octets += n
			t.rounded += uint64(o.frame+7) &^ 7
			c.Frames++
			c.Octets += n
			t.Ends = max(t.Ends, at)
		}
		more = f.advance(&o)
	}
}
