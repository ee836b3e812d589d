// SPDX-License-Identifier: Apache-2.0

package flood

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os/exec"
	"strings"
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/mem"
	"boxdyno/frame"
	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/param"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
	"boxdyno/unit"
)

// floodTrial holds a point's last trial against its own account and figures.
func floodTrial(t *testing.T, b *roomtest.Bench, o procedure.Outcome) result.Record {
	t.Helper()
	r := b.Recs[len(b.Recs)-1]
	if r.Account.Unexplained != 0 || r.Account.InFlight != 0 {
		t.Errorf("the books do not close: %+v", r.Account)
	}
	var names []string
	var sent, lost, bad, through int64
	for i, k := range r.KPIs {
		names = append(names, k.Phase)
		sent, lost, bad, through = sent+k.Sent, lost+k.Lost, bad+k.BadSent, through+k.BadArrived
		if k.End <= k.Begin || i > 0 && k.Begin != r.KPIs[i-1].End || k.Begin != r.Phases[i].Begin {
			t.Errorf("phase %s is from %d to %d", k.Phase, k.Begin, k.End)
		}
	}
	if got := fmt.Sprint(names); got != "[before flood after]" {
		t.Fatalf("phases %s", got)
	}
	if a := r.Account; sent+bad != a.Accepted || sent-lost+through != a.Received-a.Duplicate {
		t.Errorf("%d benign frames and %d of the flood were sent, %d and %d arrived: %+v", sent, bad, sent-lost, through, a)
	}
	if roomtest.Figure(t, o, "flood_sent").Value != float64(bad) || roomtest.Figure(t, o, "flood_arrived").Value != float64(through) || roomtest.Figure(t, o, "benign_lost").Value != float64(r.KPIs[1].Lost) {
		t.Errorf("figures %+v of phases %+v", o.Values, r.KPIs)
	}
	var sampled, sampledLost, sampledThrough int64
	for _, s := range r.Samples {
		sampled, sampledLost, sampledThrough = sampled+s.Sent, sampledLost+s.Lost, sampledThrough+s.BadArrived
	}
	if sampled > sent || sampledLost > lost || sampledThrough > through {
		t.Errorf("samples have %d of %d frames, %d of %d lost, %d of %d through", sampled, sent, sampledLost, lost, sampledThrough, through)
	}
	return r
}

// A box that is too slow loses benign frames and the flood's alike, in proportion.
func TestFloodOfASmallBox(t *testing.T) {
	testutil.Computed(t)
	for _, c := range []struct{ kind, ip string }{{"syn", "4"}, {"udp", "6"}, {"fragments", "4"}, {"dns", "4"}} {
		b := roomtest.NewBench(t, "mem", map[string]string{"capacity": "200000", "delay": "100us"})
		o := b.Run(FloodSpec, map[string]string{"kind": c.kind, "ip": c.ip, "rate": "371k", "benign": "5037", "flows": "50", "duration": "1s", "frame_size": "imix"})
		r := floodTrial(t, b, o)
		want := 200e3 / 376e3
		survived, through := roomtest.Figure(t, o, "benign_survival_ratio"), roomtest.Figure(t, o, "flood_arrived").Value/roomtest.Figure(t, o, "flood_sent").Value
		if math.Abs(survived.Value/want-1) > 0.1 || math.Abs(through/want-1) > 0.02 {
			t.Errorf("%s: %v of the benign frames and %v of the flood's came through a box that carries %v", c.kind, survived.Value, through, want)
		}
		if o.Status != result.Failed || !strings.Contains(o.Reason, "benign survived a") || r.Account.DroppedAt(result.DUTNIC) != r.Account.Lost() {
			t.Errorf("%s: %s: %s: %+v", c.kind, o.Status, o.Reason, r.Account.Drops)
		}
		if v := roomtest.Figure(t, o, "flood_offered_fps").Value; math.Abs(v/371e3-1) > 0.005 {
			t.Errorf("%s: %v frames of the flood a second, not 371000", c.kind, v)
		}
		if v := roomtest.Figure(t, o, "flood_recovery_s"); v.Value > 5e-3 {
			t.Errorf("%s: back after %v s from a queue of 256 frames", c.kind, v.Value)
		}
		if p99, before := roomtest.Figure(t, o, "benign_latency_p99_s").Value, roomtest.Figure(t, o, "benign_latency_before_p99_s").Value; before > 130e-6 || p99 < 1e-3 || p99 > 2e-3 {
			t.Errorf("%s: delay %v before and %v behind a queue of 256 frames at 200 kframe/s", c.kind, before, p99)
		}
	}
}

// Rules that throw the flood away and nothing else: no benign frame is lost, and every
// frame of the flood is named.
func TestFloodThatRulesStop(t *testing.T) {
	b := roomtest.NewBench(t, "mem", map[string]string{"capacity": "100000"})
	wire := b.Bed.Engine.(roomtest.LoggedBackend).Backend.(*mem.Backend)
	b.Serving(func(ctx context.Context, inner lab.Server, s lab.Service) error {
		err := inner.Serve(ctx, s)
		wire.Block(func(buf []byte) bool {
			_, class := frame.Parse(buf)
			return class == frame.Foreign
		})
		return err
	})
	o := b.Run(FloodSpec, map[string]string{"rate": "90k", "duration": "500ms", "direction": trial.WanToLAN, "service": "filter"})
	r := floodTrial(t, b, o)
	if o.Status != result.Passed || roomtest.Figure(t, o, "benign_survival_ratio").Value != 1 || roomtest.Figure(t, o, "flood_arrived").Value != 0 {
		t.Errorf("%s: %s: %+v", o.Status, o.Reason, o.Values)
	}
	if n := r.Account.DroppedAt(result.NFT); n != 45_000 || n != r.Account.Lost() {
		t.Errorf("%d of 45000 frames are named: %+v", n, r.Account)
	}
	if v := roomtest.Figure(t, o, "flood_recovery_s"); v.Bound != result.AtMost || math.Abs(v.Value-512*8/20e6) > 1e-9 {
		t.Errorf("back after %+v", v)
	}
}

// What the tester cannot send is not the box's fault; what the box always loses is not
// the flood's.
func TestFloodThatSaysNothing(t *testing.T) {
	b := roomtest.NewBench(t, "mem", map[string]string{"capacity": "0", "ceiling": "200k"})
	o := b.Run(FloodSpec, map[string]string{"rate": "300k", "duration": "500ms"})
	if o.Status != result.Invalid || !strings.Contains(o.Reason, "the tester offered") || !strings.Contains(o.Reason, "its ceiling is 200 kframe/s") {
		t.Errorf("%s: %s", o.Status, o.Reason)
	}
	o = b.Run(FloodSpec, map[string]string{"rate": "line", "duration": "500ms"})
	if v := roomtest.Figure(t, o, "flood_offered_fps").Value; o.Status != result.Passed || math.Abs(v/(0.9*200e3-4883)-1) > 0.01 {
		t.Errorf("%s: %s: line is %v of a ceiling of 200 kframe/s", o.Status, o.Reason, v)
	}
	b = roomtest.NewBench(t, "mem", map[string]string{"capacity": "0", "lose_every": "50"})
	o = b.Run(FloodSpec, map[string]string{"rate": "20k", "duration": "500ms"})
	floodTrial(t, b, o)
	if o.Status != result.Failed || !strings.Contains(o.Reason, "were lost before the flood began") || !strings.Contains(o.Reason, "still lost 1s after") {
		t.Errorf("%s: %s", o.Status, o.Reason)
	}
	for _, v := range o.Values {
		if v.Metric == "flood_recovery_s" {
			t.Errorf("back after %v s, and frames were lost to the end", v.Value)
		}
	}
}

// The highest rate that a box bears is what it carries less the benign load.
func TestFloodSearch(t *testing.T) {
	testutil.Computed(t)
	b := roomtest.NewBench(t, "mem", map[string]string{"capacity": "150000", "ceiling": "500k"})
	o := b.Run(FloodSpec, map[string]string{"rate": "search", "duration": "200ms", "benign": "10k", "benign_loss": "0.01"})
	v := roomtest.Figure(t, o, "flood_borne_fps")
	if o.Status != result.Passed || v.Value > 145e3 || v.Value < 128e3 || v.Hi == nil || *v.Hi < 139e3 || *v.Hi > 155e3 {
		t.Errorf("%s: %s: %+v, and 140000 is true", o.Status, o.Reason, v)
	}
	if r := floodTrial(t, b, o); result.Get(r.Config, "trial") != "flood" {
		t.Errorf("the last trial is %v", r.Config)
	}
	b = roomtest.NewBench(t, "mem", map[string]string{"capacity": "0", "ceiling": "300k"})
	o = b.Run(FloodSpec, map[string]string{"rate": "search", "duration": "200ms"})
	if v := roomtest.Figure(t, o, "flood_borne_fps"); o.Status != result.Passed || v.Bound != result.AtLeast || v.Value < 250e3 {
		t.Errorf("%s: %s: a box without a limit bears %+v", o.Status, o.Reason, v)
	}
}

// Recovery is told by the last gap in the sequence of the frames after the flood.
func TestFloodRecovery(t *testing.T) {
	const sent, end = 1000, unit.Instant(5e9)
	at := func(rx engine.RxReport) episode {
		e := episode{floodPoint: &floodPoint{Flood: newFlood().(*Flood)}}
		e.benign = param.OfferedRate{Frames: 1000}
		e.counts[frame.BenignAfter] = sent
		e.begins = [...]unit.Instant{1e9, 3e9, end, end + 1e9}
		e.seen.Streams = []engine.RxReport{{}, {}, rx}
		return e
	}
	run := func(lowest uint64, first unit.Instant) []engine.RxRun {
		return []engine.RxRun{{Lowest: lowest, First: first}}
	}
	for name, c := range map[string]struct {
		rx    engine.RxReport
		back  float64
		bound result.Bound
		known bool
	}{
		"nothing lost":         {engine.RxReport{Frames: sent, Span: sent, Runs: run(0, end)}, 1e-3, result.AtMost, true},
		"lost for a while":     {engine.RxReport{Frames: sent - 90, Span: sent, Gap: end + 3e8, Runs: run(0, end)}, 0.3, result.Exactly, true},
		"dead for a while":     {engine.RxReport{Frames: sent - 200, Span: sent, Runs: run(200, end+2e8)}, 0.2, result.Exactly, true},
		"duplicates hide none": {engine.RxReport{Frames: sent, Duplicate: 9, Span: sent, Gap: end + 1e8, Runs: run(0, end)}, 0.1, result.Exactly, true},
		"lost to the end":      {engine.RxReport{Frames: sent - 1, Span: sent - 1, Gap: end + 1e8, Runs: run(0, end)}, 0, "", false},
		"lost almost so":       {engine.RxReport{Frames: sent - 9, Span: sent, Gap: end + 95e7, Runs: run(0, end)}, 0, "", false},
		"nothing came":         {engine.RxReport{}, 0, "", false},
	} {
		e := at(c.rx)
		v, known := e.recovery()
		if known != c.known || known && (math.Abs(v.Value-c.back) > 1e-9 || v.Bound != c.bound) {
			t.Errorf("%s: %+v, %v", name, v, known)
		}
	}
}

func TestFloodChecks(t *testing.T) {
	for want, set := range map[string]map[string]string{
		"direction wan-to-lan": {"service": "nat", "direction": trial.WanToLAN},
		"port 80":              {"kind": "icmp", "port": "80"},
		"benign search":        {"benign": "search"},
		"benign 1Mbps":         {"benign": "1Mbps", "frame_size": "1518"},
		"duration 1ms":         {"duration": "1ms"},
		"rules 5":              {"rules": "5"},
		"sensor: subject wolf": {"sensor": "wolf"},
		"over IPv4 only":       {"sensor": "tcpdump", "ip": "6"},
	} {
		p := newFlood()
		roomtest.Assign(t, p.Flags, set)
		if err := p.Check(nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	p := newFlood()
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	p.Flags(fs)
	for _, bad := range [][2]string{{"rate", "0"}, {"rate", "fast"}, {"rate", "2G"}, {"kind", "rain"}, {"benign_loss", "1"}, {"benign_loss", "-0.1"}, {"flows", "1001"}, {"direction", "both"}, {"sources", "moon"}} {
		if fs.Set(bad[0], bad[1]) == nil {
			t.Errorf("%s=%s was taken", bad[0], bad[1])
		}
	}
	if err := p.Check(nil); err != nil {
		t.Errorf("as it is by default: %v", err)
	}
	if e := (&Flood{Traffic: trial.Traffic{Preset: param.Choice{Value: "standard"}}}).effort(); e.flood != 30*time.Second {
		t.Errorf("the standard floods for %v", e.flood)
	}
}

// whatever is a point with its last trial's figures, also where a machine that stalled
// made it invalid: what they say of each other still holds.
func whatever(b *roomtest.Bench, o procedure.Outcome) procedure.Outcome {
	b.T.Helper()
	if len(b.Recs) == 0 {
		b.T.Skipf("the tester was held up: %s", o.Reason)
	}
	o.Values = b.Recs[len(b.Recs)-1].Values
	return o
}

// In the sandbox a firewall's policy throws exactly the flood away; strict reverse path
// filtering does so with what is spoofed, but for frames that came in one batch behind a
// benign one, whose route they share. A machine that stalls makes longer batches.
func TestSandboxFlood(t *testing.T) {
	testutil.Privileged(t)
	testutil.Alone(t)
	b := roomtest.NewBench(t, "sandbox", nil)
	for _, c := range []struct {
		set   map[string]string
		name  string
		least float64
	}{
		{map[string]string{"service": "filter", "kind": "udp", "port": "7", "ip": "6", "direction": trial.WanToLAN}, "policy", 1},
		{map[string]string{"kind": "ack", "sources": "any"}, "reverse path", 0.5},
	} {
		c.set["rate"], c.set["duration"] = "20k", "200ms"
		b.Recs = nil
		o := whatever(b, b.Run(FloodSpec, c.set))
		r := floodTrial(t, b, o)
		var named, others float64
		for _, d := range r.Account.Drops {
			if strings.Contains(d.Name, c.name) {
				named += float64(d.N)
			} else {
				others += float64(d.N) // where a stall of the machine lost some
			}
		}
		sent, through := roomtest.Figure(t, o, "flood_sent").Value, roomtest.Figure(t, o, "flood_arrived").Value
		if sent != 4000 || named > sent || named < c.least*sent-others || named+others+through < sent {
			t.Errorf("%s: %v of %v frames of the flood ended there, %v elsewhere, %v came through: %+v", c.name, named, sent, others, through, r.Account.Drops)
		}
		if lost := roomtest.Figure(t, o, "benign_lost").Value; lost > others {
			t.Errorf("%s: %v benign frames were lost, and %v are named: %+v", c.name, lost, others, r.Account.Drops)
		}
	}
}

// A sensor on the box counts the benign frames alone, and all of them.
func TestSandboxFloodSensor(t *testing.T) {
	testutil.Privileged(t)
	testutil.Alone(t)
	if _, err := exec.LookPath("tcpdump"); err != nil {
		t.Skip("tcpdump is not installed: apt-get install -y tcpdump")
	}
	b := roomtest.NewBench(t, "sandbox", nil)
	kinds := []string{"dns", "syn"}
	for _, kind := range kinds[:testutil.Cases(len(kinds))] {
		o := whatever(b, b.Run(FloodSpec, map[string]string{"rate": "5k", "duration": "200ms", "sensor": "tcpdump", "service": "filter", "kind": kind}))
		r := floodTrial(t, b, o)
		// What a stall of the machine lost on the way did not come to the socket.
		most := float64(r.Account.DroppedAt(result.DUTNIC)) + roomtest.Figure(t, o, "sensor_dropped").Value
		if missed := roomtest.Figure(t, o, "sensor_missed").Value; missed < 0 || missed > most {
			t.Errorf("%s: %v benign frames were missed of %+v: %v", kind, missed, r.Account, o.Warnings)
		}
		if v := roomtest.Figure(t, o, "sensor_seen_ratio").Value; v > 1 || v < 0.5 {
			t.Errorf("%s: %v of the benign frames were seen", kind, v)
		}
	}
}

// A connection table that is full refuses the flood's connections and keeps those that
// are open.
func TestSandboxFloodOfAFullTable(t *testing.T) {
	testutil.Long(t)
	testutil.Privileged(t)
	testutil.Alone(t)
	b := roomtest.NewBench(t, "sandbox", map[string]string{"dut.fault": "conntrack-full"})
	o := whatever(b, b.Run(FloodSpec, map[string]string{"rate": "20k", "duration": "200ms"}))
	r := floodTrial(t, b, o)
	if n := r.Account.DroppedAt(result.Conntrack); float64(n) < roomtest.Figure(t, o, "flood_sent").Value/2 || roomtest.Figure(t, o, "conntrack_drop").Value < float64(n) {
		t.Errorf("connection tracking refused %d frames: %+v", n, o)
	}
	if o.Status != result.Invalid && (o.Status != result.Failed || !strings.Contains(o.Reason, "the connection table is full")) {
		t.Errorf("%s: %s", o.Status, o.Reason)
	}
}
