// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"boxdyno/engine"
	"boxdyno/frame"
	"boxdyno/internal/limit"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/unit"
)

// A Suite is what the procedures of RFC 2544 section 26 share: a box that
// forwards, and its throughput, from which all of them start. Whichever of them
// comes to a configuration first in a run searches its throughput; the others
// take the records of that search (Env.Shared).
//
//	self-test -> service set -> [warm-up -> overload -> search -> overload] -> the procedure's own trials
type Suite struct{ Traffic }

// Forwarding are the services that let test frames through.
var Forwarding = []string{"route", "filter", "nat"}

// NewSuite returns the parameters with their defaults.
func NewSuite() Suite { return Suite{NewTraffic(Forwarding)} }

// Upon is the throughput: all start from it.
func (*Suite) Upon() string { return "throughput" }

// Check takes frames that are too small to be signed over IPv6: the smallest
// signed one stands for them.
func (p *Suite) Check(bed *lab.Testbed) error {
	t := p.Traffic
	t.Mix.Mix, _ = SignedIn(p.Mix.Mix, uint16(p.vlan.Value), p.IPv6())
	return t.Check(bed)
}

// Signed is mix with the smallest signed frame in place of smaller ones, and a
// sentence that says so; "" where there are none.
func Signed(mix frame.Mix, ipv6 bool) (frame.Mix, string) { return SignedIn(mix, 0, ipv6) }

// SignedIn is Signed in a VLAN; 0: without a tag.
func SignedIn(mix frame.Mix, vlan uint16, ipv6 bool) (frame.Mix, string) {
	least := frame.SmallestIn(vlan, ipv6)
	if !slices.ContainsFunc(mix.Sizes, func(s unit.FrameSize) bool { return s < least }) {
		return mix, ""
	}
	tagged := ""
	if vlan > 0 {
		tagged = " with a VLAN tag"
	}
	out := frame.Mix{Name: fmt.Sprintf("%s(%d)", mix.Name, least)}
	for _, s := range mix.Sizes {
		out.Sizes = append(out.Sizes, max(s, least))
	}
	return out, fmt.Sprintf("frames of %d octets take the place of smaller ones: over IPv%s%s they are the smallest that hold a signature", least, frame.IPText(ipv6), tagged)
}

// InAll adds what every trial takes beside its traffic.
func (p *Suite) InAll(trials int, traffic time.Duration) (int, time.Duration) {
	const around = 60 * time.Millisecond // arming, snapshots and settling of a trial
	return trials, traffic + time.Duration(trials)*(around+EffortOf(p.Preset.Value).Settle)
}

// OnThroughput has f measure what it will of a point whose throughput is known; carried is
// each stream's from a standing start, and 0 where none was confirmed.
func (p *Suite) OnThroughput(ctx context.Context, env *procedure.Env, f func(m *Point, carried unit.FrameRate) error) (procedure.Outcome, error) {
	return p.At(ctx, env, func(m *Point) error {
		carried, err := m.Throughput(ctx)
		if err != nil {
			return err
		}
		m.Out.Values = nil // which are throughput's
		return f(m, carried)
	})
}

// At has f measure what it will of a point, in which the rig is open.
func (p *Suite) At(ctx context.Context, env *procedure.Env, f func(m *Point) error) (_ procedure.Outcome, err error) {
	mix, substituted := SignedIn(p.Mix.Mix, uint16(p.vlan.Value), p.IPv6())
	p.Mix.Mix = mix
	m := NewPoint(&p.Traffic, env, func(ctx context.Context, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		return env.Shared(ctx, "throughput", cfg, f)
	})
	if substituted != "" {
		m.Out.Warnings = append(m.Out.Warnings, substituted)
	}
	if invalid, err := m.TesterCeiling(ctx); err != nil || invalid != "" {
		return procedure.Outcome{Status: result.Invalid, Reason: invalid}, err
	}
	if err := m.Enter(ctx); err != nil {
		return procedure.Outcome{}, err
	}
	defer func() { err = errors.Join(err, m.Rig.Close()) }()
	if err := f(m); err != nil {
		return procedure.Outcome{}, err
	}
	return m.Out, nil
}

// Own is a trial of the procedure's own, beside those of the throughput.
func (m *Point) Own(ctx context.Context, kind string, n int, l engine.Load, timing bool) (result.Record, error) {
	return m.carryOut(ctx, m.Env.Trial, outset{}, kind, n, l, timing)
}

// Throughput searches the highest load without loss, and measures the rate under
// overload before and after; or takes both from the records of the run. It returns what
// each stream carries from a standing start. With placement shared there is no search.
func (m *Point) Throughput(ctx context.Context) (carried unit.FrameRate, err error) {
	if err := m.WarmUp(ctx); err != nil {
		return 0, err
	}
	if err := m.Fill(ctx); err != nil {
		return 0, err
	}
	for range 2 {
		if err := m.Overload(ctx); err != nil {
			return 0, err
		}
	}
	if len(m.Readings) == 0 {
		return 0, nil
	}
	if m.Env.Bed.Placement != "shared" {
		if err := m.Begin(unit.FrameRate(figures.Spread("forwarding_rate_fps", m.Rates()).Value)); err != nil {
			return 0, err
		}
		l, err := limit.Find(ctx, m.Search)
		if err != nil {
			return 0, err
		}
		if carried, err = m.Standing(ctx, l); err != nil {
			return 0, err
		}
	}
	return carried, m.Overload(ctx)
}

// unable says why nothing but the rate under overload can be measured; "" where
// more can.
func (m *Point) unable() string {
	switch {
	case len(m.Readings) == 0:
		return "every trial under overload is invalid: " + m.invalid
	case m.Env.Bed.Placement == "shared":
		return SharedPlacement
	}
	return ""
}

// SharedPlacement warns of a point where nothing can be searched.
const SharedPlacement = "tester and DUT share a CPU, so the DUT throttles the tester: only the forwarding rate is reported, and it includes the tester's own cost"

// Highest is the highest load that each stream can be offered: line rate where
// the link's is stated and the tester reaches it (then it is paced), else what
// the tester was measured to send under overload.
func (m *Point) Highest() (rate unit.FrameRate, paced bool) {
	rate = unit.FrameRate(figures.Spread("offered_fps", m.offered).Value) / m.Streams()
	if line := m.LinkRate(); line > 0 && line*0.98 <= rate {
		return line, true
	}
	return rate, false
}
