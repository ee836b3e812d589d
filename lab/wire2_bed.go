// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"boxdyno/engine"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/ledger"
	"boxdyno/result"
	"boxdyno/unit"
)

// testbed is all but engine and means.
func (w *wired) testbed(name string) *Testbed {
	tb := &Testbed{
		Facts:    Facts{Topology: name, Kind: result.KindReal, TesterCPU: w.cpu, CPUs: []int{w.cpu}},
		Warnings: []string{"topology " + name + " has not been seen on hardware by its authors: it is tested with virtual cables"},
	}
	tb.Senders = w.senders
	rate := w.rate
	for _, n := range w.nics() {
		if w.rate == 0 && n.speed > 0 && (rate == 0 || n.speed < rate) {
			rate = n.speed
		}
	}
	for _, e := range w.ends {
		p := Port{Port: e.nic.Port, MAC: e.nic.mac, GatewayMAC: e.gateway, MTU: e.mtu, Link: rate, Addr4: e.address4, Gateway4: e.gateway4}
		if e.ipv6 == "yes" {
			p.Addr6, p.Gateway6 = e.address6, e.gateway6
		}
		tb.Ports = append(tb.Ports, p)
	}
	for i, n := range w.loops {
		mine, other := sides[i], sides[1-i]
		tb.Loop = append(tb.Loop, Port{Port: n.Port, MAC: n.mac, GatewayMAC: w.loops[1-i].mac, MTU: n.mtu, Link: rate,
			Addr4: mine.net4.Addr().Next(), Gateway4: other.net4.Addr().Next(),
			Addr6: mine.net6.Addr().Next(), Gateway6: other.net6.Addr().Next()})
	}
	if len(tb.Ports) == 2 {
		tb.Services, tb.AsIs = wiredServices, true
		if tb.Loop == nil {
			tb.Warnings = append(tb.Warnings, "no two ports of the tester are wired to each other, so the ceiling is what its sender offers into the box; what its meter can take beyond that is not known: give loop_a and loop_b")
		}
	}
	tb.Settings = w.settings(rate)
	return tb
}

// wiredMeans are those of ports that are cabled to a box.
type wiredMeans struct {
	*wired
	once
	label string    // the box's in paths
	far   [2]string // its ports'
}

// Observe implements Observer.
func (m *wiredMeans) Observe() (kv []result.Pair) {
	for _, n := range m.nics() {
		kv = append(kv, result.Pair{Key: "link_" + n.Name, Value: n.Link(n.driver, n.speed > 0)})
	}
	return kv
}

func (w *wired) settings(rate unit.BitRate) []result.Pair {
	kv := []result.Pair{
		{Key: "box", Value: w.box},
		{Key: "tester_cpu", Value: strconv.Itoa(w.cpu)},
		{Key: "shield", Value: strings.Join(w.shields, "; ")},
		w.idle,
	}
	if rate > 0 {
		kv = append(kv, result.Pair{Key: "link_rate", Value: rate.String()})
	}
	for i, e := range w.ends {
		x := endNames[i]
		kv = append(kv,
			result.Pair{Key: "port_" + x, Value: e.nic.Name},
			result.Pair{Key: "to_mac_" + x, Value: fmt.Sprintf("%x", e.gateway)},
			result.Pair{Key: "ipv6_" + x, Value: e.ipv6},
			result.Pair{Key: "mtu_" + x, Value: strconv.Itoa(e.mtu)})
	}
	return kv
}

// Path implements Pather: the tester sees the far ends of its cables alone.
func (m *wiredMeans) Path(from, to int, loop bool) ledger.Path {
	w := m.wired
	if loop {
		return ledger.Path{Name: w.loops[from].Name + "-to-" + w.loops[to].Name, Hops: []ledger.Hop{
			{Place: result.Tester, Host: w.tester, Port: w.loops[from].Port},
			{Place: result.MeterAt, Host: w.tester, Port: w.loops[to].Port},
		}}
	}
	hops := []ledger.Hop{
		{Place: result.Tester, Host: w.tester, Port: w.ends[from].nic.Port},
		{Place: result.DUTNIC, Port: host.Port{Host: m.label, Name: m.far[from]}},
	}
	if len(w.ends) == 1 {
		return ledger.Path{Name: w.ends[0].nic.Name + "-to-" + m.label, Hops: hops}
	}
	return ledger.Path{Name: w.ends[from].nic.Name + "-to-" + w.ends[to].nic.Name, Hops: append(hops,
		ledger.Hop{Place: result.DUTNIC, Port: host.Port{Host: m.label, Name: m.far[to]}},
		ledger.Hop{Place: result.MeterAt, Host: w.tester, Port: w.ends[to].nic.Port},
	)}
}

// engine chooses the backend, and waits for links that a driver resets when
// programs come and go.
func (w *wired) engine(ctx context.Context, tb *Testbed) (*Testbed, error) {
	tb, err := withEngine(ctx, tb, nil)
	if err != nil {
		return nil, err
	}
	if err := w.again(ctx, true); err != nil {
		return nil, errors.Join(err, tb.Close())
	}
	tb.Engine = &steadyLinks{tb.Engine, w}
	return tb, nil
}

// again waits for links that are down, and then greets anew: who loses a link
// forgets who was there.
func (w *wired) again(ctx context.Context, greet bool) error {
	for _, n := range w.nics() {
		up, err := n.carrier()
		if err != nil {
			return err
		}
		greet = greet || !up
	}
	if err := w.plugged(ctx); err != nil || !greet {
		return err
	}
	return w.meet(ctx)
}

// amid is again between trials, where a link that stays away is no prerequisite that the
// point lacks: the run ends, and a resumed one measures the point.
func (w *wired) amid(ctx context.Context) error {
	err := w.again(ctx, false)
	var missing *host.Missing
	if errors.As(err, &missing) {
		err = fmt.Errorf("%w: %s: %s, then go on with run --resume", ledger.ErrLink, missing.What, missing.Hint)
	}
	return err
}

// steadyLinks is a backend whose ends are there once their links are up: some
// drivers reset theirs when an XDP program comes.
type steadyLinks struct {
	engine.Backend
	wired *wired
}

func (s *steadyLinks) OpenMeter(ctx context.Context, p host.Port) (engine.Meter, error) {
	m, err := s.Backend.OpenMeter(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := s.wired.amid(ctx); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func (s *steadyLinks) OpenRoll(ctx context.Context, p host.Port, r *frame.Roll) (engine.Meter, error) {
	m, err := s.Backend.OpenRoll(ctx, p, r)
	if err != nil {
		return nil, err
	}
	if err := s.wired.amid(ctx); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func (s *steadyLinks) OpenTransmitter(ctx context.Context, lanes []host.Port, cpu int) (engine.Transmitter, error) {
	t, err := s.Backend.OpenTransmitter(ctx, lanes, cpu)
	if err != nil {
		return nil, err
	}
	if err := s.wired.amid(ctx); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// A blackBox is what went into a box and did not come out: what the tester's ports
// counted as sent, less what they counted as received, without what was no test
// frame. It is independent of what sender and meter say, so the books may still
// not close. Cables are in it.
type blackBox struct{ ends []*wiredEnd }

func (b *blackBox) Count(context.Context) ([]result.Term, error) {
	t := result.Term{Place: result.BlackBox, Host: "box", Name: "went in and did not come out"}
	var from []string
	for _, e := range b.ends {
		sent, received, err := e.frames()
		if err != nil {
			return nil, err
		}
		ours, others, err := e.beside()
		if err != nil {
			return nil, err
		}
		t.N += int64(sent) - int64(ours) - int64(received) + int64(others)
		from = append(from, e.nic.Name+" tx_packets - rx_packets")
	}
	t.From = cmp.Or(strings.Join(from, " + "), "no port")
	return []result.Term{t}, nil
}
