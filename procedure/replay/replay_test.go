// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/result"
	"boxdyno/unit"
)

// counts are what became of frames.
type counts struct{ sent, received, missing, altered, twice, foreign int }

func countsOf(t *testing.T, o procedure.Outcome) counts {
	t.Helper()
	n := func(metric string) int {
		return int(roomtest.Figure(t, o, "replay_"+metric+"_frames").Value)
	}
	return counts{n("sent"), n("received"), n("missing"), n("altered"), n("duplicated"), n("foreign")}
}

// A box in memory that loses, doubles or alters each n-th frame is found to do so, frame by
// frame, at any rate.
func TestKnownFaults(t *testing.T) {
	testutil.Computed(t)
	const all = 2 * 10_000
	every := func(n int) int { return all / n }
	for name, c := range map[string]struct {
		box    map[string]string
		want   counts
		status result.Status
	}{
		"nothing":    {nil, counts{all, all, 0, 0, 0, 0}, result.Passed},
		"loses":      {map[string]string{"lose_every": "7"}, counts{all, all - every(7), every(7), 0, 0, 0}, result.Failed},
		"alters":     {map[string]string{"alter_every": "10"}, counts{all, all - every(10), 0, every(10), 0, 0}, result.Failed},
		"duplicates": {map[string]string{"duplicate_every": "10"}, counts{all, all, 0, 0, every(10), 0}, result.Passed},
		"reorders":   {map[string]string{"reorder_every": "10", "reorder_depth": "20"}, counts{all, all, 0, 0, 0, 0}, result.Passed},
	} {
		for _, rate := range []string{"x2", "20k", "50Mbps"} {
			t.Run(name+" "+rate, func(t *testing.T) {
				box := map[string]string{"capacity": "0"}
				for k, v := range c.box {
					box[k] = v
				}
				b := roomtest.NewBench(t, "mem", box)
				o := b.Run(Spec, map[string]string{"loops": "2", "packets_of_file": "10000", "rate": rate})
				roomtest.Declared(t, o, Spec.Metrics)
				trial := b.Recs[len(b.Recs)-1]
				if got := countsOf(t, o); got != c.want || trial.Status != c.status || o.Status != result.Passed {
					t.Errorf("%+v, %s %s; want %+v, %s", got, trial.Status, trial.Reason, c.want, c.status)
				}
				if a := o.Account; a.Unexplained != 0 || a.Lost() != int64(c.want.missing) {
					t.Errorf("of %+v, %d are unexplained and %d lost", c.want, a.Unexplained, a.Lost())
				}
			})
		}
	}
}

// Passes that would take days flat out are not begun.
func TestTooLongFlatOut(t *testing.T) {
	o := roomtest.NewBench(t, "mem", map[string]string{"lose_every": "2"}).Run(Spec, map[string]string{"packets_of_file": "10000", "rate": "flat-out", "loops": "1000000"})
	if o.Status != result.Skipped || !strings.Contains(o.Reason, "flat out, and 1h0m0s is the most") || len(o.Values) > 0 {
		t.Errorf("%s %q, %v", o.Status, o.Reason, o.Values)
	}
}

// A box that loses and duplicates at once hides no loss by what came twice, but for frames
// that are equal.
func TestLossBehindDuplicates(t *testing.T) {
	const all = 10_000
	o := roomtest.NewBench(t, "mem", map[string]string{"capacity": "0", "lose_every": "10", "duplicate_every": "9"}).Run(Spec, map[string]string{"packets_of_file": "10000", "rate": "flat-out"})
	if got := countsOf(t, o); got.missing != all/10 || got.twice != (all-all/10)/9 || o.Account.Lost() != all/10 {
		t.Errorf("%+v, %s", got, o.Status)
	}
}

// The highest rate without loss is the box's, below a policer, too.
func TestSearch(t *testing.T) {
	testutil.Computed(t)
	for name, c := range map[string]struct {
		box  map[string]string
		want float64
	}{
		"queue":   {map[string]string{"capacity": "50000"}, 50e3},
		"policer": {map[string]string{"dut.policer": "30000", "dut.policer_burst": "3000"}, 30e3},
	} {
		t.Run(name, func(t *testing.T) {
			o := roomtest.NewBench(t, "mem", c.box).Run(Spec, map[string]string{"rate": "search"})
			roomtest.Declared(t, o, Spec.Metrics)
			v := roomtest.Figure(t, o, "throughput_fps")
			if v.Value < 0.985*c.want || v.Value > 1.002*c.want {
				t.Errorf("found %v, want %v: %s %v", v.Value, c.want, o.Reason, o.Warnings)
			}
			if f := roomtest.Figure(t, o, "forwarding_rate_fps").Value; f < 0.98*c.want || f > 1.05*c.want {
				t.Errorf("forwards %v, want %v", f, c.want)
			}
		})
	}
}

func TestRefuses(t *testing.T) {
	b := roomtest.NewBench(t, "mem", nil)
	file := filepath.Join(t.TempDir(), "empty.pcap")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		set  map[string]string
		want string
	}{
		{map[string]string{"file": ""}, "give a capture"},
		{map[string]string{"file": filepath.Join(t.TempDir(), "none.pcap")}, "no such file"},
		{map[string]string{"file": file}, "is empty"},
		{map[string]string{"file": "/dev/zero"}, "/dev/zero"},
		{map[string]string{"service": "nat", "direction": "wan-to-lan"}, "only answers"},
		{map[string]string{"service": "nat", "compare": "bridge"}, "no frame would be the same"},
		{map[string]string{"rate": "search", "loops": "2"}, "a search chooses"},
		{map[string]string{"loops": "1000000"}, "1h0m0s is the most"},
		{map[string]string{"rate": "1"}, "is the most"},
	} {
		p := newReplay()
		roomtest.Assign(t, p.Flags, c.set)
		if err := p.Check(b.Bed); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.set, err, c.want)
		}
	}
	for _, s := range []string{"", "x", "x0", "x1e9", "fast", "-1", "0bps", "NaN", "xNaN"} {
		r := replayRate{text: ownTimes, speed: 1}
		if err := r.Set(s); err == nil {
			t.Errorf("rate %q is taken as %+v", s, r)
		}
	}
}

// Where the meter cannot tell what became of frames, the trial is invalid, and no frame is
// called lost.
func TestUnsure(t *testing.T) {
	m := &point{Replay: newReplay().(*Replay)}
	for _, c := range []struct {
		unsure  uint64
		sent    engine.TxReport
		invalid bool
	}{
		{0, engine.TxReport{Accepted: 10}, false},
		{1, engine.TxReport{Accepted: 10}, true},
		{0, engine.TxReport{Accepted: 10, Refused: 1}, true},
		{0, engine.TxReport{}, true},
	} {
		m.rig = rigThat(c.unsure)
		o := procedure.Outcome{Load: &result.Load{MeanSize: 64}}
		m.judge(&o, c.sent)
		if (o.Status == result.Invalid) != c.invalid || c.invalid == (len(o.Values) > 0) {
			t.Errorf("%+v: %s, %d values", c, o.Status, len(o.Values))
		}
	}
}

// The generated capture, and any real one, goes through a real box whole, translated or not;
// what nftables changes, doubles or drops there is found by number.
func TestSandbox(t *testing.T) {
	testutil.Privileged(t)
	testutil.Alone(t)
	if err := host.Has("nft"); err != nil {
		t.Skip(err)
	}
	const chain = "add table inet test; add counter inet test drop_test {}; add chain inet test f { type filter hook forward priority 0; }; add rule inet test f "
	for name, c := range map[string]struct {
		rule string
		set  map[string]string
		want func(sent int) counts
	}{
		"route":  {"", map[string]string{"rate": "x0.5"}, func(n int) counts { return counts{n, n, 0, 0, 0, 0} }},
		"box":    {"", map[string]string{"target": "box"}, func(n int) counts { return counts{n, n, 0, 0, 0, 0} }},
		"drops":  {"numgen inc mod 10 0 counter name drop_test drop", nil, func(n int) counts { return counts{n, n - (n+9)/10, (n + 9) / 10, 0, 0, 0} }},
		"alters": {"numgen inc mod 10 0 ip dscp set 5", nil, func(n int) counts { return counts{n, n - (n+9)/10, 0, (n + 9) / 10, 0, 0} }},
	} {
		t.Run(name, func(t *testing.T) {
			b := roomtest.NewBench(t, "sandbox", nil)
			if c.rule != "" {
				if _, err := b.Bed.DUT.Run(t.Context(), chain+c.rule, "nft", "-f", "-"); err != nil {
					t.Fatal(err)
				}
			}
			set := map[string]string{"rate": "10k", "packets_of_file": "2000"}
			for k, v := range c.set {
				set[k] = v
			}
			cpus := testutil.WatchCPUs()
			o := b.Run(Spec, set)
			got := countsOf(t, o)
			want := c.want(got.sent)
			if ring := int(o.Account.DroppedAt(result.DUTNIC)); ring > 0 {
				cpus.Skipf(t, "the DUT's port lost %d frames", ring)
			}
			if got.sent != 2000 || got != want || o.Account.Unexplained != 0 || o.Account.DroppedAt(result.XDP) != 0 {
				t.Errorf("%+v, want %+v; unexplained %d, %s %v", got, want, o.Account.Unexplained, o.Reason, o.Warnings)
			}
		})
	}
}

// Real captures go through a real box: all that a router hands on comes back.
func TestRealCaptures(t *testing.T) {
	files, _ := filepath.Glob("../../../shared/pcaps/*/*.pcap")
	if len(files) == 0 {
		t.Skip("there are no captures in ../shared/pcaps")
	}
	testutil.Privileged(t)
	testutil.Alone(t)
	b := roomtest.NewBench(t, "sandbox", nil)
	busy, cpus := 0, testutil.WatchCPUs()
	for i, file := range files[:min(len(files), 4)] {
		for j, service := range []string{"route", "nat"} {
			if (i+j)%2 == 1 && !testutil.Full() { // each capture by one service
				continue
			}
			p := newReplay()
			set := map[string]string{"file": file, "rate": "10k", "service": service}
			roomtest.Assign(t, p.Flags, set)
			if err := p.Check(b.Bed); err != nil {
				if !strings.Contains(err.Error(), "no packet can be replayed") && !strings.Contains(err.Error(), "no frame of it") {
					t.Errorf("%s: %v", file, err)
				}
				continue
			}
			o := b.Run(Spec, set)
			got := countsOf(t, o)
			if o.Status == result.Invalid || got.missing > 0 && o.Account.Dropped() == int64(got.missing) {
				busy++ // a ring of the machine's, or a flow that another one's answer had taken
				continue
			}
			if got.received != got.sent || got.foreign+got.altered+got.twice != 0 || o.Account.Unexplained != 0 {
				t.Errorf("%s, %s: %+v, unexplained %d", filepath.Base(file), service, got, o.Account.Unexplained)
			}
		}
	}
	if busy > 2 {
		cpus.Skipf(t, "%d replays lost frames whose counter named them", busy)
	}
}

// The estimate knows how long a capture is.
func TestEstimate(t *testing.T) {
	b := roomtest.NewBench(t, "mem", nil)
	for rate, want := range map[string]time.Duration{"capture": 6 * time.Second, "x2": 3 * time.Second, "flat-out": 0} {
		p := newReplay()
		roomtest.Assign(t, p.Flags, map[string]string{"rate": rate, "loops": "3"})
		if err := p.Check(b.Bed); err != nil {
			t.Fatal(err)
		}
		if n, d := p.Estimate(); n != 1 || d < want || d > want+time.Second {
			t.Errorf("%s: %d trials, %v, want about %v", rate, n, d, want)
		}
	}
}

// What leaves is the file, with other addresses: frames of equal number and length.
func TestMadeCapture(t *testing.T) {
	a, err := makeCapture()
	if err != nil {
		t.Fatal(err)
	}
	b, err := makeCapture()
	if err != nil || !bytes.Equal(a, b) {
		t.Errorf("the capture is made differently each time: %v", err)
	}
	bed := roomtest.NewBench(t, "mem", nil).Bed
	file := filepath.Join(t.TempDir(), "made.pcap")
	if err := os.WriteFile(file, a, 0o600); err != nil {
		t.Fatal(err)
	}
	var all []facts
	for _, name := range []string{generated, file} {
		p := newReplay()
		roomtest.Assign(t, p.Flags, map[string]string{"file": name})
		f, err := p.(*Replay).facts(t.Context(), bed)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, facts{frames: f.frames, octets: f.octets, span: f.span})
	}
	if all[0].frames != all[1].frames || all[0].octets != all[1].octets || all[0].span != all[1].span || all[0].frames < 10_000 {
		t.Errorf("%+v", all)
	}
	if rate := all[0].mean(); rate < 200 || rate > 700 || slices.Contains([]time.Duration{0}, all[0].span) {
		t.Error(strconv.FormatFloat(rate, 'f', 1, 64), unit.FrameRate(rate))
	}
}
