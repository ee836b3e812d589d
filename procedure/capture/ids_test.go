// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"boxdyno/frame"
	"boxdyno/internal/testutil"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
	"boxdyno/search"
	"boxdyno/subject"
	"boxdyno/subject/capture"
	"boxdyno/subject/ids"
)

func valueOf(t *testing.T, o procedure.Outcome, name string) float64 {
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
	testutil.Alone(t)
	bed := roomtest.Build(t, "sandbox", nil)
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
			if c.set != nil { // the others have the sensors and what is said of them
				testutil.Long(t)
			}
			c.sensor.buffer = 256 << 20 // holds a whole trial: what loses frames is planted
			set := map[string]string{"rate": "20Mbps"}
			for k, v := range c.set {
				set[k] = v
			}
			cpus := testutil.WatchCPUs()
			o, recs := idsBench(t, bed, &c.sensor, set)
			if o.Status == result.Invalid {
				cpus.Skipf(t, "the tester was held up: %s", o.Reason)
			}
			if slices.ContainsFunc(recs, func(r result.Record) bool { return trial.KeptOff(r) > 0 }) {
				cpus.Skipf(t, "the DUT was held up: something else had its CPU while its receive ring overflowed")
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
				cpus.Skipf(t, "the tester was held up while the box was empty")
			}
			if len(bed.Threads) > 0 && (v == nil || v.Value >= valueOf(t, o, "host_cpu_per_frame_s")) {
				t.Errorf("above an empty box it takes %+v", v)
			}
			for _, r := range recs {
				if a := r.Account; a != nil && a.Unexplained != 0 && r.Value("frames_offered") != nil {
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
	testutil.Long(t)
	testutil.Privileged(t)
	testutil.Alone(t)
	bed := roomtest.Build(t, "sandbox", nil)
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
	testutil.Alone(t)
	bed := roomtest.Build(t, "sandbox", nil)
	half := 0.5
	s, err := frame.NewAppMix(frame.AppMix{Seed: 3, Rate: 5e6, Duration: 300 * time.Millisecond, AlertShare: &half})
	if err != nil {
		t.Fatal(err)
	}
	name := writeCapture(t, s)
	sensor := &fakeSensor{fakeSniffer: fakeSniffer{buffer: 64 << 20}} // all of a trial: this is not about loss
	cpus := testutil.WatchCPUs()
	o, _ := idsBench(t, bed, sensor, map[string]string{"traffic": name, "rate": "20Mbps"})
	if o.Status == result.Invalid {
		cpus.Skipf(t, "the tester was held up: %s", o.Reason)
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
		p.subject.Value = "sensor"
		roomtest.Assign(t, p.Flags, c.set)
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
		roomtest.Assign(t, p.Flags, c.set)
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
		Values: []result.Value{figures.Value("frames_lag", 700), figures.Value("capture_offered_bps", 4e6)},
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

// A rule that speaks more often than when idle does not stand for one that is silent.
func TestIDSCaptureIsToldRuleByRule(t *testing.T) {
	m := &idsPoint{IDS: newIDS().(*IDS), listen: &capturePoint{}, passes: 2, traffic: &idsTraffic{passes: 4}}
	m.idle = result.Record{Alerts: []result.Alert{{Rule: 1, Raised: 10}, {Rule: 2, Raised: 4}, {Rule: 4, Raised: 1}, {Rule: 5, Raised: 3}}} // rule 4 limits its alerts
	o := procedure.Outcome{Status: result.Passed, Account: &result.Account{Accepted: 1000, Received: 1000}}
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
	traffic, err := p.make(t.Context(), idsLoad{10e6, 100 * time.Millisecond, 1, 1})
	if err != nil {
		t.Fatal(err)
	}
	defer traffic.close()
	if len(traffic.notes) == 0 || !strings.Contains(strings.Join(traffic.notes, " "), "1 packet") {
		t.Errorf("%q", traffic.notes)
	}
	m := &idsPoint{IDS: p, traffic: traffic, listen: &capturePoint{}}
	var o procedure.Outcome
	o.Account = &result.Account{Accepted: 1, Received: 1, NotSent: 1}
	if err := m.told(t.Context(), &o, &sensorRunning{}); err != nil || !strings.Contains(strings.Join(o.Warnings, " "), "1 packet") {
		t.Errorf("%q, %v", o.Warnings, err)
	}
}
