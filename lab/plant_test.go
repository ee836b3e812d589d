// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/ledger"
	"boxdyno/result"
	"boxdyno/unit"
)

func TestLossPattern(t *testing.T) {
	for text, want := range map[string]LossPattern{
		"none": {}, "every:1000": {Period: 1000, Run: 1}, "burst:10/100000": {Period: 100_000, Run: 10},
		"burst:3/3": {Period: 3, Run: 3}, "random:0.001": {Ratio: 0.001},
	} {
		var got LossPattern
		if err := got.Set(text); err != nil || got != want || got.String() != text {
			t.Errorf("%s became %+v, %q, %v", text, got, got.String(), err)
		}
	}
	for _, text := range []string{"", "none:1", "every", "every:", "every:0", "every:-1", "every:1.5", "burst:10", "burst:0/5", "burst:6/5", "burst:1/2/3", "random:0", "random:1", "random:NaN", "random:x", "often:3"} {
		got := LossPattern{Ratio: 0.5}
		if err := got.Set(text); err == nil || !strings.Contains(err.Error(), "every:1000") {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	if s := (*LossPattern)(nil).String(); s != "none" {
		t.Errorf("no pattern is %q", s)
	}
}

func TestPlantSays(t *testing.T) {
	p := Plant{Policer: 187e3, Shaper: 100e6, Loss: LossPattern{Ratio: 0.01}, LossSeed: 4}
	want := "[{dut.policer 187000} {dut.policer_burst 187} {dut.shaper 100000000} {dut.shaper_burst 12500} {dut.shaper_queue 125000} {dut.loss random:0.01} {dut.loss_seed 4}]"
	if got := fmt.Sprint(p.settings(1500)); got != want {
		t.Errorf("settings %s", got)
	}
	if got := p.planted(1500); len(got) != 3 || !strings.Contains(got[0], "187000 frame/s with a burst of 187") || !strings.Contains(got[1], "100 Mbit/s") || !strings.Contains(got[2], "random:0.01, seed 4") {
		t.Errorf("%q", got)
	}
	if got := (Plant{LossSeed: 1}); got.planted(1500) != nil || got.settings(1500) != nil || len(got.names("route")) != 0 {
		t.Errorf("nothing planted says %q", got.planted(1500))
	}
	// A slow one still lets a frame through.
	if burst, queue := (Plant{Shaper: 8000}).shaperSizes(1500); burst != 3036 || queue != 3036 {
		t.Errorf("burst %d, queue %d", burst, queue)
	}
	if b := (Plant{Policer: 10}).bucket(); b != 1 {
		t.Errorf("bucket of %d", b)
	}
}

// A plantedTrial is what a planted DUT did to one trial from a port.
type plantedTrial struct {
	sent engine.TxReport
	seen engine.RxReport
	result.Account
}

// through offers l from a port through the DUT and balances the books.
func through(t *testing.T, tb *Testbed, from int, size unit.FrameSize, l engine.Load) (r plantedTrial) {
	t.Helper()
	ctx := t.Context()
	p, q := tb.Ports[from], tb.Ports[1-from]
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	m, err := tb.Engine.OpenMeter(ctx, q.Port)
	must(err)
	defer m.Close()
	tx, err := tb.Engine.OpenTransmitter(ctx, []host.Port{p.Port}, tb.TesterCPU)
	must(err)
	defer tx.Close()
	book, err := ledger.Open([]ledger.Path{tb.Path(from, 1-from, false)}, tb.Sources...)
	must(err)
	defer book.Close()
	must(m.Arm(ctx, true, 7))
	must(book.Begin(ctx))
	sent, err := tx.Transmit(ctx, l, engine.Stream{ID: 7, Frames: frame.Spec{
		Sizes: []unit.FrameSize{size}, Flows: 100,
		SrcMAC: p.MAC, DstMAC: p.GatewayMAC, Src: p.Addr4, Dst: q.Addr4,
		SrcPort: frame.FirstPort, DstPort: frame.Port,
	}})
	must(err)
	r.sent = sent[0]
	r.Account, err = book.Balance(ctx, func(ctx context.Context) (ledger.Ends, error) {
		rep, err := m.Read(ctx)
		if err != nil {
			return ledger.Ends{}, err
		}
		r.seen = rep.Streams[0]
		return ledger.Ends{Intended: r.sent.Intended, Accepted: r.sent.Accepted, Refused: r.sent.Refused, NotSent: r.sent.NotSent, Received: r.seen.Frames}, nil
	})
	must(err)
	if r.Unexplained != 0 || r.InFlight != 0 {
		t.Errorf("%d unexplained, %d in flight: %+v", r.Unexplained, r.InFlight, r.Drops)
	}
	return r
}

// at is how many frames ended at a place under a name; another drop there is an
// error.
func (r plantedTrial) at(t *testing.T, place result.Place, name string) (n int64) {
	t.Helper()
	for _, d := range r.Drops {
		switch {
		case d.Place == place && d.Name == name:
			n += d.N
		case d.Place == place:
			t.Errorf("%d more ended in %s: %q", d.N, place, d.Name)
		}
	}
	return n
}

func buildPlanted(t *testing.T, p Plant) *Testbed {
	t.Helper()
	testutil.Privileged(t)
	tb, err := (&sandbox{mtu: defaultMTU, plant: p}).Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tb.Close(); err != nil {
			t.Error(err)
		}
	})
	if len(tb.Planted) == 0 {
		t.Error("the testbed does not say what is planted")
	}
	return tb
}

// What a policer lets through in d is at most its burst and rate times d, and it
// has its whole burst at first; each port has its own.
func TestPlantedPolicer(t *testing.T) {
	testutil.Alone(t)
	const rate, burst = 20_000, 500
	tb := buildPlanted(t, Plant{Policer: rate, PolicerBurst: burst})
	for from := range 2 {
		r := through(t, tb, from, 64, engine.Load{Rate: 60_000, Count: 6_000})
		dropped := r.at(t, result.XDP, "policer")
		took := time.Duration(r.seen.Last - r.sent.First) // all of them met the limit in between
		most := burst + rate*took.Seconds() + 1
		if n := float64(r.seen.Frames); n > most || n < burst || dropped == 0 {
			t.Errorf("from %s: %.0f came through in %v, want %d to %.0f; %d policed", tb.Ports[from].Name, n, took, burst, most, dropped)
		}
	}
	// A service in its place has neither its drops nor its name.
	if err := tb.Serve(t.Context(), Service{Kind: "drop-xdp"}); err != nil {
		t.Fatal(err)
	}
	if r := through(t, tb, 0, 64, engine.Load{Rate: 60_000, Count: 600}); r.at(t, result.XDP, "XDP drop") == 0 || r.seen.Frames != 0 {
		t.Errorf("drop-xdp: %+v", r.Account)
	}
	if err := tb.Serve(t.Context(), Service{Kind: "route"}); err != nil {
		t.Fatal(err)
	}
	if r := through(t, tb, 0, 64, engine.Load{Rate: 60_000, Count: 6_000}); r.at(t, result.XDP, "policer") == 0 {
		t.Errorf("after drop-xdp: %+v", r.Account)
	}
}

// Loss falls where its pattern says, to the frame, whatever the speed; and the
// same again with the same seed.
func TestPlantedLoss(t *testing.T) {
	const frames = 4_000
	var random [3]int64
	for i, c := range []struct {
		pattern string
		seed    uint64
		want    int64 // -1: near frames/100
	}{{"every:100", 1, 40}, {"burst:10/1000", 1, 40}, {"random:0.01", 1, -1}, {"random:0.01", 1, -1}, {"random:0.01", 2, -1}} {
		p := Plant{LossSeed: c.seed}
		if err := p.Loss.Set(c.pattern); err != nil {
			t.Fatal(err)
		}
		tb := buildPlanted(t, p)
		cpus := testutil.WatchCPUs()
		r := through(t, tb, 0, 64, engine.Load{Rate: 20_000, Count: frames})
		lost := r.at(t, result.TC, "planted loss")
		if ring := r.Accepted - lost - int64(r.seen.Frames); ring != 0 {
			cpus.Skipf(t, "%d frames were lost before they met the pattern", ring)
		}
		if c.want >= 0 && lost != c.want {
			t.Errorf("%s: %d lost, want %d", c.pattern, lost, c.want)
		}
		if c.want < 0 {
			random[i-2] = lost
			if lost < 15 || lost > 80 {
				t.Errorf("%s: %d of %d lost", c.pattern, lost, frames)
			}
			continue
		}
		// The other direction counts for itself, and a service in its place takes over.
		if r := through(t, tb, 1, 64, engine.Load{Rate: 20_000, Count: 1_000}); r.at(t, result.TC, "planted loss") != 10 {
			t.Errorf("%s from wan: %+v", c.pattern, r.Drops)
		}
		for _, s := range []Service{{Kind: "drop-tc"}, {Kind: "route"}} {
			if err := tb.Serve(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		if r := through(t, tb, 0, 64, engine.Load{Rate: 20_000, Count: 1_000}); r.at(t, result.TC, "planted loss") != 10 {
			t.Errorf("%s after drop-tc: %+v", c.pattern, r.Drops)
		}
	}
	if random[0] != random[1] {
		t.Errorf("the same seed lost %d and %d", random[0], random[1])
	}
}

// A shaper sends at most its rate and burst, counted with the FCS, and what it
// cannot hold is its queue's loss.
func TestPlantedShaper(t *testing.T) {
	testutil.Alone(t)
	const rate, size, burst, queue = 20e6, 512, 20 * 512, 30 * 512
	tb := buildPlanted(t, Plant{Shaper: rate, ShaperBurst: burst, ShaperQueue: queue})
	for from := range 2 {
		r := through(t, tb, from, size, engine.Load{Rate: 15_000, Count: 3_000})
		dropped := r.at(t, result.Qdisc, "shaper queue full")
		took := time.Duration(r.seen.Last - r.sent.First).Seconds() // all of them met the limit in between
		most := burst/size + took*rate/8/size + 2
		const least = (burst + queue) / size // a busy machine offers no more at once
		if n := float64(r.seen.Frames); n > most || n < least || dropped == 0 {
			t.Errorf("from %s: %.0f came through in %.4f s, want %d to %.0f; the shaper dropped %d", tb.Ports[from].Name, n, took, least, most, dropped)
		}
	}
}

// In memory a policer is exact: its burst and then its rate.
func TestPlantedMemory(t *testing.T) {
	tb := buildMem(t, "-capacity", "0", "-dut.policer", "187k", "-dut.policer_burst", "50")
	if result.Get(tb.Settings, "dut.policer") != "187000" || len(tb.Planted) != 1 {
		t.Errorf("%v, %q", tb.Settings, tb.Planted)
	}
	var lost int64
	for from := range 2 {
		sent, got := memTrial(t, tb, tb.Ports[from], tb.Ports[1-from], engine.Load{Rate: 400e3, Count: 40_000})
		// From the first frame to the last, 39,999 intervals of 2.5 us: 0.1 s.
		const want = 50 + 18_700 - 1
		if got.Frames < want-1 || got.Frames > want+1 || sent.Accepted != 40_000 {
			t.Errorf("%d of %d came through, want %d", got.Frames, sent.Accepted, want)
		}
		if lost += int64(sent.Accepted - got.Frames); memTerm(t, tb, result.XDP) != lost {
			t.Errorf("%d policed, want %d", memTerm(t, tb, result.XDP), lost)
		}
	}
}
