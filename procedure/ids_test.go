// SPDX-License-Identifier: Apache-2.0

package procedure

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"boxdyno/frame"
	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/result"
	"boxdyno/search"
	"boxdyno/subject"
	"boxdyno/subject/capture"
	"boxdyno/subject/ids"
	"boxdyno/unit"
	"boxdyno/verdict"
)

// A fakeSensor is a fakeSniffer that looks for the planted attacks in what it receives.
type fakeSensor struct {
	fakeSniffer
	misses int64 // of so many attacks it does not see one; 0: it sees all
	rules  string
}

func (s *fakeSensor) Flags(fs *flag.FlagSet) {
	fs.StringVar(&s.rules, "rules", "", "`file`")
	for _, name := range []string{"runmode", "capture", "threads", "ring", "filter"} {
		fs.String(name, "", "")
	}
}

func (s *fakeSensor) Start(ctx context.Context, e subject.Env) (subject.Running, error) {
	r := &sensorRunning{sensor: s, alerts: map[int]int64{}}
	sniffer := s.fakeSniffer
	sniffer.look = r.look
	run, err := sniffer.Start(ctx, e)
	if err != nil {
		return nil, err
	}
	r.fakeRunning = run.(*fakeRunning)
	return r, nil
}

type sensorRunning struct {
	*fakeRunning
	sensor *fakeSensor

	mu      sync.Mutex
	alerts  map[int]int64
	attacks int64
}

func (r *sensorRunning) look(octets []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range frame.Alerts() {
		if bytes.Contains(octets, []byte(a.Pattern)) {
			if r.attacks++; r.sensor.misses == 0 || r.attacks%r.sensor.misses != 0 {
				r.alerts[a.SID]++
			}
			return
		}
	}
}

func (r *sensorRunning) Alerts(context.Context) (map[int]int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.alerts, nil
}

func (r *sensorRunning) IDS() ids.Totals {
	return ids.Totals{RulesLoaded: int64(len(frame.Alerts()))}
}

func idsBench(t *testing.T, bed *lab.Testbed, s *fakeSensor, set map[string]string) (Outcome, []result.Record) {
	t.Helper()
	p := newIDSOf([]subject.Spec{{Name: "sensor", Work: capture.Application, New: func() subject.Subject { return s }}})
	p.standing, p.patience = 300*time.Millisecond, time.Second
	assign(t, p.Flags, map[string]string{"subject": "sensor", "duration": "250ms", "attacks": "1"})
	assign(t, p.Flags, set)
	if err := p.Check(bed); err != nil {
		t.Fatal(err)
	}
	var recs []result.Record
	trial := func(ctx context.Context, cfg []result.Pair, f func(context.Context) (Outcome, error)) (result.Record, error) {
		o, err := f(ctx)
		if err != nil {
			return result.Record{}, err
		}
		r := result.Record{Parent: "ids", Config: cfg, Status: o.Status, Reason: o.Reason, Values: o.Values, Load: o.Load, Account: o.Account, Phases: o.Phases, CPUs: o.CPUs, DUT: o.DUT, Usage: o.Usage, Alerts: o.Alerts, Warnings: o.Warnings}
		r.Status, r.Reason = verdict.Validity(r, o.Ceiling)
		recs = append(recs, r)
		return r, nil
	}
	once := func(ctx context.Context, _ string, cfg []result.Pair, f func(context.Context) (Outcome, error)) (result.Record, error) {
		return trial(ctx, cfg, f)
	}
	o, err := p.Run(t.Context(), &Env{Bed: bed, Log: slog.New(slog.DiscardHandler), Pause: goOn, Trial: trial, Once: once})
	if err != nil {
		t.Fatal(err)
	}
	return o, recs
}

func valueOf(t *testing.T, o Outcome, name string) float64 {
	t.Helper()
	r := result.Record{Values: o.Values}
	v := r.Value(name)
	if v == nil {
		t.Fatalf("no %s in %v", name, o.Values)
	}
	return v.Value
}

// What a sensor with a planted fault is said to be.
func TestIDSKnownSensors(t *testing.T) {
	testutil.Privileged(t)
	bed := build(t, "sandbox", nil)
	for _, c := range []struct {
		name   string
		sensor fakeSensor
		set    map[string]string
		status result.Status
		reason string
		seen   float64 // share of the attacks
	}{
		{"sees all", fakeSensor{}, nil, result.Passed, "", 1},
		{"keeps up and does not see", fakeSensor{misses: 4}, nil, result.Failed, "it keeps up and does not see", 0.75},
		{"loses frames", fakeSensor{fakeSniffer: fakeSniffer{skip: 100}}, nil, result.Failed, "did not count", 1},
		{"may lose frames", fakeSensor{fakeSniffer: fakeSniffer{skip: 100}}, map[string]string{"loss": "0.02"}, result.Passed, "", 1},
		{"among a flood", fakeSensor{}, map[string]string{"flood": "syn", "flood_share": "0.5"}, result.Passed, "", 1},
		{"never counts", fakeSensor{fakeSniffer: fakeSniffer{deaf: true}}, nil, result.Failed, "none of", -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.sensor.buffer = 256 << 20 // holds a whole trial: what loses frames is planted
			set := map[string]string{"rate": "20Mbps"}
			for k, v := range c.set {
				set[k] = v
			}
			o, recs := idsBench(t, bed, &c.sensor, set)
			if o.Status == result.Invalid {
				t.Skipf("the tester was held up: %s", o.Reason)
			}
			if slices.ContainsFunc(recs, func(r result.Record) bool { return keptOff(r) > 0 }) {
				t.Skip("the DUT was held up: something else had its CPU while its receive ring overflowed")
			}
			if o.Status != c.status || !strings.Contains(o.Reason, c.reason) {
				t.Errorf("%s: %s; want %s: %s", o.Status, o.Reason, c.status, c.reason)
			}
			if c.seen < 0 {
				return
			}
			planted := valueOf(t, o, "attacks_planted")
			if got := valueOf(t, o, "detected_ratio"); planted < 5 || math.Abs(got-c.seen) > 0.05 {
				t.Errorf("%v of %v attacks were seen, as a share, want %v", got, planted, c.seen)
			}
			above := result.Record{Values: o.Values}
			v := above.Value("host_cpu_above_per_frame_s")
			if v == nil && slices.ContainsFunc(recs, invalid) {
				t.Skip("the tester was held up while the box was empty")
			}
			if len(bed.Threads) > 0 && (v == nil || v.Value >= valueOf(t, o, "host_cpu_per_frame_s")) {
				t.Errorf("above an empty box it takes %+v", v)
			}
			for _, r := range recs {
				if a := r.Account; a != nil && r.Parent == "ids" && a.Unexplained != 0 && r.Value("frames_offered") != nil {
					t.Errorf("%d of %d frames are unexplained", a.Unexplained, a.Accepted)
				}
			}
			if v := valueOf(t, o, "capture_offered_bps"); math.Abs(v/20e6-1) > 0.05 {
				t.Errorf("%.4g bit/s were offered, want 20M", v)
			}
		})
	}
}

func invalid(r result.Record) bool { return r.Status == result.Invalid }

func writeCapture(t *testing.T, s frame.Source) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "frames.pcap")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := pcapgo.NewWriterNanos(f)
	if err := p.WriteFileHeader(1<<16, layers.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	for w, end := newWindow(), error(nil); end == nil; w.Reset() {
		if end = s.Fill(w); end != nil && end != io.EOF {
			t.Fatal(end)
		}
		for i, e := range w.Entries[:w.Len()] {
			octets := w.Frame(i)
			if err := p.WritePacket(gopacket.CaptureInfo{Timestamp: time.Unix(1_700_000_000, int64(e.At)), CaptureLength: len(octets), Length: len(octets)}, octets); err != nil {
				t.Fatal(err)
			}
		}
	}
	return path
}

// What a sensor carries that rests after each frame is about what it counts under overload: conversations come in bursts, and its socket's buffer takes some of them.
func TestIDSFindsAKnownLimit(t *testing.T) {
	testutil.Privileged(t)
	bed := build(t, "sandbox", nil)
	s := &fakeSensor{fakeSniffer: fakeSniffer{sleep: 250 * time.Microsecond, buffer: 64 << 10}}
	o, recs := idsBench(t, bed, s, map[string]string{"rate": "search", "top": "60Mbps", "idle": "1Mbps"})
	if o.Status == result.Invalid {
		t.Skipf("the tester was held up: %s", o.Reason)
	}
	if over := (result.Record{Values: o.Values}); over.Value("counting_overload_fps") == nil && slices.ContainsFunc(recs, invalid) {
		t.Skip("the tester was held up while it offered too much")
	}
	got, most := valueOf(t, o, "ids_rate_fps"), valueOf(t, o, "counting_overload_fps")
	if got > 1.3*most || got < 0.4*most || most > 4000 {
		t.Errorf("%.0f frame/s with hardly a loss, and %.0f counted under overload: a sensor that rests for 250 us after each frame counts at most 4000", got, most)
	}
}

// Attacks in a capture are not known: what was seen when idle is what is expected.
func TestIDSReplaysACapture(t *testing.T) {
	testutil.Privileged(t)
	bed := build(t, "sandbox", nil)
	half := 0.5
	s, err := frame.NewAppMix(frame.AppMix{Seed: 3, Rate: 5e6, Duration: 300 * time.Millisecond, AlertShare: &half})
	if err != nil {
		t.Fatal(err)
	}
	name := writeCapture(t, s)
	sensor := &fakeSensor{fakeSniffer: fakeSniffer{buffer: 64 << 20}} // all of a trial: this is not about loss
	o, _ := idsBench(t, bed, sensor, map[string]string{"traffic": name, "rate": "20Mbps"})
	if o.Status == result.Invalid {
		t.Skipf("the tester was held up: %s", o.Reason)
	}
	if o.Status != result.Passed || valueOf(t, o, "detected_ratio") != 1 || valueOf(t, o, "attacks_planted") < 1 {
		t.Errorf("%s: %s; %v", o.Status, o.Reason, o.Values)
	}
}

// longCapture has 4 GiB, nearly all of them a hole.
func longCapture(t *testing.T) (name string) {
	t.Helper()
	mix, err := frame.NewAppMix(frame.AppMix{Seed: 3, Rate: 5e6, Duration: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	name = writeCapture(t, mix)
	if err := os.Truncate(name, 4<<30); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestIDSRefuses(t *testing.T) {
	for _, c := range []struct {
		set  map[string]string
		want string
	}{
		{map[string]string{"rules": "10", "rules_file": "/etc/hostname", "rules_sample": "5"}, "both say how many"},
		{map[string]string{"rules_file": ""}, "is empty"},
		{map[string]string{"rules_file": "generated", "rules_sample": "10"}, "needs a rules_file"},
		{map[string]string{"rules_sample": "10"}, "needs a rules_file"},
		{map[string]string{"rules_file": "/nonexistent/a.rules"}, "/nonexistent/a.rules"},
		{map[string]string{"traffic": "/nonexistent/a.pcap"}, "/nonexistent/a.pcap"},
		{map[string]string{"rate": "200k"}, "want bit/s"},
		{map[string]string{"top": "search"}, "want bit/s"},
		{map[string]string{"rate": "1bps"}, "10kbps"},
		{map[string]string{"duration": "1ms"}, "100ms"},
		{map[string]string{"flood": "syn", "traffic": "/etc/hostname"}, "only traffic appmix"},
		{map[string]string{"top": "line:1Gbps"}, "bit/s of layer 2"},
		{map[string]string{"traffic": "/etc/hostname"}, "traffic: /etc/hostname"},
		{map[string]string{"traffic": "/dev/zero"}, "it is not a regular file"},
		{map[string]string{"traffic": longCapture(t)}, "a pass takes 28m"},
		{map[string]string{"traffic": longCapture(t), "idle": "1Gbps", "rate": "10Mbps"}, "at 10.0 Mbit/s"},
	} {
		p := newIDSOf([]subject.Spec{{Name: "sensor", Work: capture.Application, New: func() subject.Subject { return &fakeSensor{} }}})
		p.subject.value = "sensor"
		assign(t, p.Flags, c.set)
		if err := p.Check(nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want a sentence with %q", c.set, err, c.want)
		}
	}
}

// The machine's own rules are taken where there are enough of them.
func TestIDSChoosesRules(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "own.rules")
	if err := os.WriteFile(file, []byte("alert tcp any any -> any any (msg:\"a\"; sid:1;)\nalert tcp any any -> any any (msg:\"b\"; sid:2;)\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		machine string
		set     map[string]string
		kind    string
		rules   int
	}{
		{dir, map[string]string{"rules": "2"}, ids.RulesReal, 2},
		{dir, map[string]string{"rules": "1"}, ids.RulesReal, 1},
		{dir, map[string]string{"rules": "3"}, ids.RulesGenerated, 3},
		{dir, map[string]string{"rules": "0"}, ids.RulesNone, 0},
		{dir, map[string]string{"rules": "2", "rules_file": "generated"}, ids.RulesGenerated, 2},
		{t.TempDir(), map[string]string{"rules": "2"}, ids.RulesGenerated, 2},
		{"/nonexistent", map[string]string{"rules": "2"}, ids.RulesGenerated, 2},
		{"/nonexistent", map[string]string{"rules": "1", "rules_file": file}, ids.RulesReal, 1},
		{"/nonexistent", map[string]string{"rules_sample": "1", "rules_file": dir}, ids.RulesReal, 1},
		{"/nonexistent", map[string]string{"rules_file": file}, ids.RulesReal, 2},
	} {
		p := newIDS().(*IDS)
		p.machine = c.machine
		assign(t, p.Flags, c.set)
		set, err := p.writeRules(filepath.Join(t.TempDir(), "boxdyno.rules"))
		if err != nil || set.Kind != c.kind || set.Rules != c.rules {
			t.Errorf("%s, %v: %+v, %v; want %d %s", c.machine, c.set, set, err, c.rules, c.kind)
		}
	}
}

// What an IDS does not see is no frame that it lost: a search of what it carries goes on.
func TestIDSSearchIsOfFrames(t *testing.T) {
	m := &idsPoint{IDS: newIDS().(*IDS), listen: &capturePoint{}}
	rec := result.Record{
		Status: result.Failed, Reason: "suricata missed 1 of 9 attacks, and lost 0 of 1000 frames: " + keepsUpBlind,
		Load: &result.Load{Offered: 1000}, Account: &result.Account{Accepted: 1000, Received: 1000},
		Values: []result.Value{value("frames_lag", 700), value("capture_offered_bps", 4e6)},
	}
	if now := m.saw(search.Step{Rate: 4e6}, rec); now.Loss != 0 || now.Offered != 4e6 || !now.Valid {
		t.Errorf("blind: %+v", now)
	}
	rec.Reason = "suricata counted every frame, the last 9 s after it was sent: it does not keep up"
	if now := m.saw(search.Step{Rate: 4e6}, rec); now.Loss != 0.7 {
		t.Errorf("behind: %+v", now)
	}
}

// An estimate holds the idle trial, a descent, the search, the overload that fills buffers
// and three longer trials.
func TestIDSEstimateHoldsLongerTrials(t *testing.T) {
	p := newIDS().(*IDS)
	searched := p.searching().Trials
	trials, d := p.Estimate()
	if want := time.Duration(idleLonger+3+searched+2*4) * p.lasts(); trials != 1+3+searched+4 || d != want+time.Duration(trials)*idsAround {
		t.Errorf("%d trials, %v", trials, d)
	}
}

// What the search found and a longer trial did not bear out is no lower bound.
func TestIDSLimitIsDoubted(t *testing.T) {
	trials := 0
	lost := []int64{50, 0}
	env := &Env{Bed: &lab.Testbed{}, Trial: func(context.Context, []result.Pair, func(context.Context) (Outcome, error)) (result.Record, error) {
		n := lost[min(trials, 1)]
		trials++
		return result.Record{Status: result.Passed, Load: &result.Load{}, Account: &result.Account{Accepted: 1000, Received: 1000 - n}}, nil
	}}
	m := &idsPoint{IDS: newIDS().(*IDS), listen: &capturePoint{Capture: newCaptureOf(nil), env: env}}
	if err := m.limit(t.Context(), search.Limit{Lower: 50e6, AtCeiling: true, Clean: 3}, 50e6); err != nil {
		t.Fatal(err)
	}
	r := result.Record{Values: m.out.Values}
	v := r.Value("ids_rate_bps")
	if v == nil || v.Bound != result.Exactly || v.Value >= 50e6 || v.Hi == nil || *v.Hi != 50e6 || trials != 2 {
		t.Errorf("%+v after %d trials", v, trials)
	}
}

// A box that loses a little at every load that was searched is offered less.
func TestIDSLimitBelowTheSearch(t *testing.T) {
	for _, c := range []struct {
		clean int // trial from which on nothing is lost
		want  float64
	}{{2, 100e6 * stepDown * stepDown * stepDown}, {99, 0}} {
		trials := 0
		env := &Env{Bed: &lab.Testbed{}, Trial: func(context.Context, []result.Pair, func(context.Context) (Outcome, error)) (result.Record, error) {
			r := result.Record{Status: result.Passed, Load: &result.Load{}, Account: &result.Account{Accepted: 1000, Received: 1000}}
			if trials < c.clean {
				r.Status, r.Account.Received = result.Failed, 990
			}
			trials++
			return r, nil
		}}
		m := &idsPoint{IDS: newIDS().(*IDS), listen: &capturePoint{Capture: newCaptureOf(nil), env: env}}
		if err := m.limit(t.Context(), search.Limit{Lossy: 9, Upper: 120e6}, 100e6); err != nil {
			t.Fatal(err)
		}
		r := result.Record{Values: m.out.Values}
		v := r.Value("ids_rate_bps")
		switch {
		case c.want == 0 && (v != nil || m.listen.out.Status != result.Failed):
			t.Errorf("%+v, %s", v, m.listen.out.Status)
		case c.want > 0 && (v == nil || math.Abs(v.Value/c.want-1) > 1e-9 || v.Hi == nil || math.Abs(*v.Hi*stepDown/c.want-1) > 1e-9 || v.Bound != result.Exactly):
			t.Errorf("%+v, want %v", v, c.want)
		}
	}
}

// A longer trial that was disturbed says nothing of the load, unless each one loses.
func TestIDSLimitDisturbed(t *testing.T) {
	for _, c := range []struct {
		clean int // trial from which on nothing is lost
		want  float64
		blind float64 // lowest load at which attacks were missed
	}{{2, 100e6, 0}, {3, 80e6, 100e6}} {
		trials := 0
		env := &Env{Bed: &lab.Testbed{}, Trial: func(context.Context, []result.Pair, func(context.Context) (Outcome, error)) (result.Record, error) {
			r := result.Record{Status: result.Passed, Load: &result.Load{}, Account: &result.Account{Accepted: 1000, Received: 1000}, DUT: &result.DUTWork{Waited: 0.02}}
			if trials < c.clean {
				r.Status, r.Account.Received, r.Account.Drops = result.Failed, 990, []result.Term{{Place: result.DUTNIC, N: 10}}
				r.Values = []result.Value{value("detected_ratio", 0.9), value("capture_offered_bps", 100e6)}
			}
			trials++
			return r, nil
		}}
		m := &idsPoint{IDS: newIDS().(*IDS), listen: &capturePoint{Capture: newCaptureOf(nil), env: env}}
		if err := m.limit(t.Context(), search.Limit{Lower: 100e6, Clean: 3}, 100e6); err != nil {
			t.Fatal(err)
		}
		found := result.Record{Values: m.out.Values}
		if v := found.Value("ids_rate_bps"); v == nil || v.Value != c.want || trials != c.clean+1 || m.blind != c.blind {
			t.Errorf("clean from %d on: %+v after %d trials, blind from %v", c.clean, v, trials, m.blind)
		}
	}
}

// A rule that speaks more often than when idle does not stand for one that is silent.
func TestIDSCaptureIsToldRuleByRule(t *testing.T) {
	m := &idsPoint{IDS: newIDS().(*IDS), listen: &capturePoint{}, passes: 2, traffic: &idsTraffic{passes: 4}}
	m.idle = result.Record{Alerts: []result.Alert{{Rule: 1, Raised: 10}, {Rule: 2, Raised: 4}, {Rule: 4, Raised: 1}, {Rule: 5, Raised: 3}}} // rule 4 limits its alerts
	o := Outcome{Status: result.Passed, Account: &result.Account{Accepted: 1000, Received: 1000}}
	if err := m.told(t.Context(), &o, &sensorRunning{sensor: &fakeSensor{}, alerts: map[int]int64{1: 28, 3: 5}}); err != nil {
		t.Fatal(err)
	}
	if valueOf(t, o, "attacks_planted") != 34 || valueOf(t, o, "attacks_detected") != 20 || o.Status != result.Failed {
		t.Errorf("%s: %s; %v", o.Status, o.Reason, o.Values)
	}
	want := []result.Alert{{Rule: 1, Planted: 20, Raised: 28}, {Rule: 2, Planted: 8}, {Rule: 3, Raised: 5}, {Rule: 5, Planted: 6}}
	if !slices.Equal(o.Alerts, want) {
		t.Errorf("%+v, want %+v", o.Alerts, want)
	}
}

// What a capture loses on its way to the wire is told.
func TestIDSTellsWhatACaptureLoses(t *testing.T) {
	name := filepath.Join(t.TempDir(), "long.pcap")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := pcapgo.NewWriterNanos(f)
	if err := w.WriteFileHeader(1<<16, layers.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	octets := make([]byte, 3000)
	octets[12] = 8 // IPv4
	octets[14] = 0x45
	if err := w.WritePacket(gopacket.CaptureInfo{Timestamp: time.Unix(1, 0), CaptureLength: len(octets), Length: len(octets)}, octets); err != nil {
		t.Fatal(err)
	}
	p := newIDS().(*IDS)
	p.traffic = name
	traffic, err := p.make(t.Context(), 10e6, 100*time.Millisecond, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer traffic.source.Close()
	if len(traffic.notes) == 0 || !strings.Contains(strings.Join(traffic.notes, " "), "1 packet") {
		t.Errorf("%q", traffic.notes)
	}
	m := &idsPoint{IDS: p, traffic: traffic, listen: &capturePoint{}}
	var o Outcome
	o.Account = &result.Account{Accepted: 1, Received: 1, NotSent: 1}
	if err := m.told(t.Context(), &o, &sensorRunning{}); err != nil || !strings.Contains(strings.Join(o.Warnings, " "), "1 packet") {
		t.Errorf("%q, %v", o.Warnings, err)
	}
}

// Where another point showed what is inspected of a load that is too much, that is the
// first load of the search; what it lost there is above the limit.
func TestIDSSearchBeginsFromOtherPoints(t *testing.T) {
	overload := func(lost int64, d time.Duration) result.Record {
		return result.Record{
			Status: result.Failed, Load: &result.Load{Offered: 1000}, Account: &result.Account{Accepted: 1000, Received: 1000 - lost},
			Values: []result.Value{value("capture_offered_bps", 20e6), value("counting_rate_fps", 300)}, Phases: []result.Phase{{End: unit.Instant(d)}},
		}
	}
	for _, c := range []struct {
		akin []result.Record
		kind string
		want float64
	}{
		{nil, "descend", 20e6},
		{[]result.Record{overload(700, 400*time.Millisecond)}, "search", 6e6},
		{[]result.Record{overload(700, 300*time.Millisecond)}, "descend", 20e6}, // shorter than those of the search
		{[]result.Record{overload(40, 400*time.Millisecond)}, "descend", 20e6},
		{[]result.Record{{Status: result.Invalid}}, "descend", 20e6},
	} {
		p := newIDS().(*IDS)
		p.length, p.top.bits = 400*time.Millisecond, 20e6
		var cfg []result.Pair
		env := &Env{Bed: &lab.Testbed{}, Akin: func(...string) []result.Record { return c.akin }}
		env.Trial = func(_ context.Context, words []result.Pair, _ func(context.Context) (Outcome, error)) (result.Record, error) {
			cfg = words
			return overload(900, p.length), nil
		}
		m := &idsPoint{IDS: p, listen: &capturePoint{Capture: p.listener(""), env: env}}
		if _, err := m.hunt(t.Context()); err != nil {
			t.Fatal(err)
		}
		rate, err := strconv.ParseFloat(result.Get(cfg, "rate"), 64)
		if err != nil || rate != c.want || result.Get(cfg, "trial") != c.kind {
			t.Errorf("%v: %v; want %s at %v", c.akin, cfg, c.kind, c.want)
		}
		if c.kind == "search" && len(m.out.Values) != 1 {
			t.Errorf("%v: what it counts under overload is not told", m.out.Values)
		}
		o := m.interim()
		r := result.Record{Values: o.Values}
		if v := r.Value("ids_rate_bps"); o.Status != result.Failed || v == nil || v.Bound != result.AtMost || v.Value > 20e6 {
			t.Errorf("%s: %s: %+v", o.Status, o.Reason, v)
		}
	}
}

// Whenever a run stops the search of a box with a known limit, the interval that it has
// found by then holds that limit.
func TestIDSInterimHoldsTheLimit(t *testing.T) {
	const top = 20e6
	for seed := range uint64(6) {
		chance := rand.New(rand.NewPCG(seed, 0))
		limit := top * math.Exp(-2.5*chance.Float64()+0.5)
		p := newIDS().(*IDS)
		p.length, p.top.bits = 400*time.Millisecond, top
		env := &Env{Bed: &lab.Testbed{}, Once: func(context.Context, string, []result.Pair, func(context.Context) (Outcome, error)) (result.Record, error) {
			return result.Record{}, nil
		}}
		trials := 0
		env.Trial = func(_ context.Context, cfg []result.Pair, _ func(context.Context) (Outcome, error)) (result.Record, error) {
			trials++
			rate, err := strconv.ParseFloat(result.Get(cfg, "rate"), 64)
			if err != nil {
				t.Fatal(err)
			}
			if chance.IntN(10) == 0 {
				return result.Record{Status: result.Invalid, Load: &result.Load{}, Account: &result.Account{}}, nil
			}
			const all = 1_000_000
			r := result.Record{Status: result.Passed, Load: &result.Load{Offered: unit.FrameRate(rate / 3600)}, Account: &result.Account{Accepted: all, Received: all}}
			if rate > limit {
				r.Status, r.Account.Received = result.Failed, int64(all*limit/rate)
			}
			r.Values = []result.Value{value("capture_offered_bps", rate), value("counting_rate_fps", min(rate, limit)/3600)}
			return r, nil
		}
		if seed%2 == 1 { // a point at a rate that was given came before
			env.Akin = func(...string) []result.Record {
				r, _ := env.Trial(t.Context(), []result.Pair{{Key: "rate", Value: strconv.Itoa(top)}}, nil)
				r.Phases = []result.Phase{{Name: "traffic", End: unit.Instant(p.length)}}
				return []result.Record{r}
			}
		}
		m := &idsPoint{IDS: p, out: Outcome{Status: result.Passed}}
		m.listen = &capturePoint{Capture: p.listener(""), env: env, out: Outcome{Status: result.Passed}, ceiling: 10e6}
		check := func(o Outcome, what string) {
			for _, v := range o.Values {
				if v.Metric != "ids_rate_bps" {
					continue
				}
				if v.Bound == result.AtMost {
					if v.Value < limit*0.9999 {
						t.Fatalf("seed %d, %s: at most %v, and the limit is %v", seed, what, v.Value, limit)
					}
					continue
				}
				if *v.Lo > limit*1.0001 || v.Hi != nil && *v.Hi < limit*0.9999 {
					t.Fatalf("seed %d, %s: %v to %v %s, and the limit is %v", seed, what, *v.Lo, v.Hi, v.Bound, limit)
				}
			}
		}
		more := true
		for n := 0; more && n < 30; n++ {
			var err error
			last := m.next() > 0
			if more, err = m.hunt(context.Background()); err != nil {
				t.Fatal(err)
			}
			if more == last {
				t.Fatalf("seed %d: a longer visit was announced: %v, and it was the last: %v", seed, last, !more)
			}
			if more {
				o := m.interim()
				check(o, fmt.Sprintf("after %d trials", trials))
				if v := o.Values; len(v) == 0 && o.Status == result.Passed {
					t.Fatalf("seed %d: after %d trials it passed without a figure", seed, trials)
				}
			}
		}
		o := m.outcome()
		check(o, "in the end")
		found := result.Record{Values: o.Values}
		if v := found.Value("ids_rate_bps"); o.Status == result.Passed && (v == nil || v.Value < 0.7*min(limit, top)) {
			t.Fatalf("seed %d: the limit is %v, and found was %+v", seed, limit, v)
		}
	}
}
