// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/result"
	"boxdyno/subject"
	"boxdyno/subject/capture"
	"boxdyno/subject/catalog"
	"boxdyno/unit"
)

// A subject that keeps up counts every frame, and the books close.
func TestCaptureCountsAll(t *testing.T) {
	testutil.Privileged(t)
	testutil.Alone(t)
	bed := roomtest.Build(t, "sandbox", nil)
	for _, set := range []map[string]string{
		{"payload_size": "148", "rate": "2Mbps", "packets": "1000"},
		{"payload_size": "148", "rate": "2Mbps", "packets": "1000", "vlan": "7"},
		{"frame_size": "64", "rate": "3k", "duration": "300ms"},
		{"frame_size": "imix", "rate": "3k", "duration": "300ms", "burst": "16"},
	} {
		t.Run(fmt.Sprint(set), func(t *testing.T) {
			if set["frame_size"] == "64" || set["payload_size"] != "" && set["vlan"] == "" { // as the frames of other tests, and those with a tag
				testutil.Long(t)
			}
			stops := 0
			o, recs, err := captureRun(t, bed, &fakeSniffer{stop: &stops}, set)
			if err != nil {
				t.Fatal(err)
			}
			sent, counted := roomtest.Measured(t, o, "frames_offered"), roomtest.Measured(t, o, "frames_counted")
			if set["packets"] != "" && sent != 1000 || sent < 890 || counted != sent || o.Status != result.Passed {
				t.Errorf("%v of %v counted: %s %s", counted, sent, o.Status, o.Reason)
			}
			if o.Account.Unexplained != 0 || o.Account.Lost() != 0 || len(o.Account.Drops) != 0 {
				t.Errorf("the books: %+v", o.Account)
			}
			for _, name := range []string{"frames_lost", "drops_before", "drops_kernel", "drops_subject", "frames_unexplained"} {
				if v := roomtest.Measured(t, o, name); v != 0 {
					t.Errorf("%s is %v", name, v)
				}
			}
			if end, lag := roomtest.Measured(t, o, "frames_at_end"), roomtest.Measured(t, o, "frames_lag"); end+lag != counted {
				t.Errorf("%v at the end and %v later are not %v", end, lag, counted)
			}
			if roomtest.Measured(t, o, "subject_memory_bytes") != 5<<20 || roomtest.Measured(t, o, "first_frame_s") <= 0 || len(o.Usage) != 3 {
				t.Errorf("%+v", o.Usage)
			}
			trials := 0
			for _, r := range recs {
				if result.Get(r.Config, "trial") == "rate" {
					trials++
				}
			}
			if stops != trials || trials == 0 {
				t.Errorf("it was stopped %d times in %d trials", stops, trials)
			}
			want := 194.0
			if set["vlan"] != "" {
				want += 4
			}
			if len(recs) > 0 && set["payload_size"] != "" && o.Load.MeanSize != want {
				t.Errorf("148 octets of payload in frames of %v", o.Load.MeanSize)
			}
		})
	}
}

// A trial in which the tester could not do its part is replaced, and in no figure.
func TestCaptureReplacesInvalidTrials(t *testing.T) {
	for _, c := range []struct {
		invalid int
		trials  string
		want    result.Status
	}{{0, "0", result.Passed}, {2, "012", result.Passed}, {9, "012", result.Invalid}} {
		trials := ""
		m := &capturePoint{Capture: newCaptureOf(nil), env: &procedure.Env{Bed: &lab.Testbed{}, Trial: func(_ context.Context, cfg []result.Pair, _ func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
			trials += result.Get(cfg, "n")
			r := result.Record{Status: result.Passed, Values: []result.Value{figures.Value("frames_counted", float64(len(trials)))}}
			if len(trials) <= c.invalid {
				r.Status = result.Invalid
			}
			return r, nil
		}}}
		if err := m.at(t.Context(), "rate", engine.Load{Rate: 1000, Count: 10}); err != nil || trials != c.trials || m.out.Status != c.want || len(m.out.Values) != 1 {
			t.Errorf("%d invalid: trials %s, %+v, %v", c.invalid, trials, m.out, err)
		}
	}
}

// One that tells its count more seldom than others is waited for, and its silence is taken
// neither for the end of its count nor for lag.
func TestCaptureWaitsForARareCount(t *testing.T) {
	testutil.Privileged(t)
	testutil.Alone(t)
	o, _ := captureBench(t, &fakeSniffer{rare: 800 * time.Millisecond}, map[string]string{"rate": "3k", "duration": "300ms"})
	sent, counted := roomtest.Measured(t, o, "frames_offered"), roomtest.Measured(t, o, "frames_counted")
	if counted != sent || o.Status != result.Passed || len(o.Warnings) != 0 {
		t.Errorf("%v of %v counted: %s %s, %q", counted, sent, o.Status, o.Reason, o.Warnings)
	}
	if rate := roomtest.Measured(t, o, "counting_rate_fps"); rate < 2700 {
		t.Errorf("it counted %.0f frames a second of 3000", rate)
	}
}

// What ends the frames behind the subject is no loss of it.
func TestCapturePassesWhatTheStackEnds(t *testing.T) {
	testutil.Privileged(t)
	testutil.Alone(t)
	o, _ := captureBench(t, &fakeSniffer{}, map[string]string{"rate": "2k", "packets": "500"})
	roomtest.Measured(t, o, "frames_counted")
	ended := int64(0)
	for _, term := range o.Account.Passed {
		if strings.HasPrefix(term.Name, "after the subject's socket: ") {
			ended += term.N
		}
	}
	if ended != 500 {
		t.Errorf("%d frames ended behind the subject: %+v", ended, o.Account.Passed)
	}
}

// Planted losses are found under their own names, and those that nobody names stay
// unexplained.
func TestCaptureFindsPlantedLoss(t *testing.T) {
	testutil.Privileged(t)
	testutil.Alone(t)
	bed := roomtest.Build(t, "sandbox", nil)
	bench := func(t *testing.T, s *fakeSniffer, set map[string]string) procedure.Outcome {
		t.Helper()
		o, _, err := captureRun(t, bed, s, set)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	t.Run("its own", func(t *testing.T) {
		o := bench(t, &fakeSniffer{skip: 10}, map[string]string{"rate": "2k", "packets": "1000"})
		if lost, own := roomtest.Measured(t, o, "frames_lost"), roomtest.Measured(t, o, "drops_subject"); lost < 99 || lost > 101 || math.Abs(own-lost) > 1 || o.Status != result.Failed {
			t.Errorf("%v lost, %v of them its own: %s %s", lost, own, o.Status, o.Reason)
		}
		if !strings.Contains(o.Reason, "dropped by the subject (subject)") {
			t.Errorf("the reason %q does not say where", o.Reason)
		}
	})
	t.Run("its own, before the traffic", func(t *testing.T) {
		o := bench(t, &fakeSniffer{early: 2}, map[string]string{"rate": "2k", "packets": "500"})
		if lost, own, unexplained := roomtest.Measured(t, o, "frames_lost"), roomtest.Measured(t, o, "drops_subject"), roomtest.Measured(t, o, "frames_unexplained"); lost != 0 || own != 0 || unexplained != 0 {
			t.Errorf("%v lost, %v of them its own, %v unexplained: %s", lost, own, unexplained, o.Reason)
		}
		if !slices.ContainsFunc(o.Warnings, func(w string) bool {
			return strings.Contains(w, "said before the traffic that it had dropped 2 frames itself")
		}) {
			t.Errorf("%q", o.Warnings)
		}
	})
	t.Run("hidden", func(t *testing.T) {
		o := bench(t, &fakeSniffer{hide: 10}, map[string]string{"rate": "2k", "packets": "1000"})
		if lost, unexplained := roomtest.Measured(t, o, "frames_lost"), roomtest.Measured(t, o, "frames_unexplained"); lost < 99 || lost > 101 || unexplained != lost {
			t.Errorf("%v lost, %v unexplained", lost, unexplained)
		}
	})
	t.Run("kernel", func(t *testing.T) {
		o := bench(t, &fakeSniffer{sleep: 2 * time.Millisecond}, map[string]string{"rate": "20k", "packets": "4000", "buffer": "65536"})
		lost, kernel := roomtest.Measured(t, o, "frames_lost"), roomtest.Measured(t, o, "drops_kernel")
		if lost < 1000 || kernel != lost || o.Account.Unexplained != 0 {
			t.Errorf("%v lost, %v of them by the kernel: %+v", lost, kernel, o.Account)
		}
	})
}

// ownProgram is capture of a program of one's own, whose text comes behind a packet socket s
// with a short buffer and says "seen=" and a count.
func ownProgram(t *testing.T, text string) *Capture {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3: install it")
	}
	const socket = `import os, signal, socket, sys, time
signal.signal(signal.SIGINT, lambda *_: os._exit(0))
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
s.bind((sys.argv[1], 0x0800))
print("listening", flush=True)
n = 0
`
	script, file := filepath.Join(t.TempDir(), "sniffer.py"), filepath.Join(t.TempDir(), "own.yaml")
	if err := errors.Join(os.WriteFile(script, []byte(socket+text), 0o644),
		os.WriteFile(file, []byte("name: mine\nwork: count\ncommand: ["+python+", "+script+", '{port}']\nready: listening\ncount: 'seen=([0-9]+)'\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	p := newCaptureOf(catalog.Captures)
	roomtest.Assign(t, p.Flags, map[string]string{"subject": capture.Own, "file": file})
	return p
}

// What a program does not tell of its losses the kernel does, at its socket.
func TestCaptureReadsSockets(t *testing.T) {
	testutil.Privileged(t)
	testutil.Alone(t)
	p := ownProgram(t, `while True:
    s.recv(2048)
    n += 1
    if n % 10:  # the others it loses, and does not say so
        print("seen=%d" % (n - n // 10), flush=True)
    time.sleep(0.002)
`)
	roomtest.Assign(t, p.Flags, map[string]string{"rate": "20k", "packets": "2000"})
	o, _, err := captureAs(t, roomtest.Build(t, "sandbox", nil), p)
	if err != nil {
		t.Fatal(err)
	}
	lost, kernel, own := roomtest.Measured(t, o, "frames_lost"), roomtest.Measured(t, o, "drops_kernel"), roomtest.Measured(t, o, "drops_subject")
	if kernel < 500 || own < 5 || kernel+own != lost || o.Account.Unexplained != 0 {
		t.Errorf("%v lost, %v by the kernel, %v of what the socket took: %+v", lost, kernel, own, o.Account)
	}
}

// A slow subject with room for all of it lags, and loses nothing.
func TestCaptureTellsLagFromLoss(t *testing.T) {
	testutil.Privileged(t)
	testutil.Alone(t)
	o, _ := captureBench(t, &fakeSniffer{sleep: 2 * time.Millisecond}, map[string]string{"rate": "4k", "packets": "800"})
	if lost, lag, drain := roomtest.Measured(t, o, "frames_lost"), roomtest.Measured(t, o, "frames_lag"), roomtest.Measured(t, o, "drain_s"); lost != 0 || lag < 200 || drain < 0.5 {
		t.Errorf("%v lost, %v late, %v s: 800 frames in 0.2 s take it 1.6 s", lost, lag, drain)
	}
}

// A subject that is missing is skipped, one that fails gives one sentence.
func TestCaptureOfBrokenSubjects(t *testing.T) {
	testutil.Privileged(t)
	testutil.Alone(t)
	bed := roomtest.Build(t, "sandbox", nil)
	set := map[string]string{"rate": "1k", "packets": "100"}
	var missing *host.Missing
	if _, _, err := captureRun(t, bed, &fakeSniffer{absent: true}, set); !errors.As(err, &missing) || len(missing.Remedy) == 0 {
		t.Errorf("a missing subject: %v", err)
	}
	for _, c := range []struct {
		s    fakeSniffer
		want string
	}{
		{fakeSniffer{broken: errors.New("the environment is damaged")}, "sniffer: the environment is damaged"},
		{fakeSniffer{stuck: true}, "sniffer was not ready within 1s: no packet socket of it listens"},
		{fakeSniffer{dies: 40}, "sniffer was ended by signal killed"},
		{fakeSniffer{deaf: true}, "sniffer: it is ready and does not count"},
	} {
		stops := 0
		c.s.stop = &stops
		o, recs, err := captureRun(t, bed, &c.s, set)
		if err != nil || o.Status != result.Failed || !strings.HasPrefix(o.Reason, c.want) {
			t.Errorf("%s: %s %q, %v", c.want, o.Status, o.Reason, err)
		}
		if len(recs) > 2 && stops != 1 { // self-test, empty box, trial
			t.Errorf("%s: it was stopped %d times", c.want, stops)
		}
		if len(o.Values) != 0 {
			t.Errorf("%s: it has figures: %v", c.want, o.Values)
		}
	}
}

func TestCaptureParameters(t *testing.T) {
	for _, c := range []struct {
		set  map[string]string
		want string
	}{
		{map[string]string{"payload_size": "148", "frame_size": "64"}, "give one of them"},
		{map[string]string{"payload_size": "4"}, "64"},
		{map[string]string{"packets": "10", "duration": "1s", "rate": "1k"}, "give one of them"},
		{map[string]string{"rate": "search", "packets": "10"}, "leave packets and duration out"},
		{map[string]string{"method": "published", "rate": "2Mbps"}, "give payload_size"},
		{map[string]string{"method": "published", "rate": "2k", "payload_size": "148"}, "in bit/s"},
		{map[string]string{"method": "published", "rate": "1Mbps", "payload_size": "1448", "packets": "40000"}, "the frames take"},
		{map[string]string{"method": "published", "rate": "line:1Gbps", "payload_size": "148"}, "of UDP payload"},
		{map[string]string{"rate": "payload:2Mbps", "frame_size": "64"}, "give payload_size"},
		{map[string]string{"window": "10s", "rate": "1k"}, "only method published"},
		{map[string]string{"subject": "stress-ng"}, "it captures nothing"},
		{map[string]string{"subject": "nothing"}, "there are sniffer"},
		{map[string]string{"file": "own.yaml"}, "subject sniffer has no such parameter"},
		{map[string]string{"duration": "1ms", "rate": "1k"}, "10ms"},
		{map[string]string{"buffer": "4096", "rate": "1k"}, ""},
		{map[string]string{"method": "published", "rate": "2Mbps", "payload_size": "1448", "packets": "4000"}, ""},
	} {
		p := newCaptureOf([]subject.Spec{{Name: "sniffer", Work: "count", New: func() subject.Subject { return &fakeSniffer{} }}})
		roomtest.Assign(t, p.Flags, map[string]string{"subject": "sniffer"})
		roomtest.Assign(t, p.Flags, c.set)
		err := p.Check(nil)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: %v, want %q", c.set, err, c.want)
		}
	}
}

// Both methods' rates are those of what they say.
func TestCaptureRates(t *testing.T) {
	for _, c := range []struct {
		set  map[string]string
		want float64
	}{
		{map[string]string{"rate": "200k"}, 200e3},
		{map[string]string{"rate": "2Mbps", "payload_size": "148"}, 2e6 / 8 / 194},
		{map[string]string{"rate": "2Mbps", "payload_size": "148", "method": "published"}, 2e6 / 8 / 148},
		{map[string]string{"rate": "20Mbit/s", "frame_size": "1518"}, 20e6 / 8 / 1518},
		{map[string]string{"rate": "line:1Gbps", "frame_size": "64"}, 1e9 / 8 / 84},
		{map[string]string{"rate": "payload:2Mbps", "payload_size": "148"}, 2e6 / 8 / 148},
		{map[string]string{"rate": "payload:2Mbps", "payload_size": "148", "method": "published"}, 2e6 / 8 / 148},
	} {
		p := newCaptureOf(nil)
		roomtest.Assign(t, p.Flags, c.set)
		if got := float64(p.framesPerSecond()); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%v: %v frame/s, want %v", c.set, got, c.want)
		}
	}
}

// What a subject counts a second is told by its words in the traffic alone.
func TestCapturePace(t *testing.T) {
	const tenth = unit.Instant(1e8)
	c := &capturing{}
	for i := range 12 { // a thousand a tenth of a second, and all the rest at once after the end
		c.readings = append(c.readings, tally{unit.Instant(i) * tenth, int64(1000 * i)})
	}
	c.readings[11].n = 99_999
	if fps, ok := c.pace(tenth/2, 10*tenth+1); !ok || fps != 10_000 {
		t.Errorf("%v frame/s, %v", fps, ok)
	}
	if _, ok := c.pace(7*tenth, 20*tenth); ok {
		t.Error("words of a third of the traffic speak for all of it")
	}
	if _, ok := (&capturing{}).pace(0, tenth); ok {
		t.Error("it said nothing")
	}
}

// A frame for which an XDP socket has no room fails in the port's driver, too, and is lost once;
// one that a program in the driver counts ends there, and is not lost.
func TestCaptureCountsOnceWhatXDPTakes(t *testing.T) {
	testutil.Privileged(t)
	testutil.Alone(t)
	bed := roomtest.Build(t, "sandbox", nil)
	for _, c := range []struct {
		subject, rate string
		full          bool // its socket has no room for all of it
	}{{"af_xdp", "3M", true}, {"xdp", "300k", false}} {
		p := newCapture().(*Capture)
		roomtest.Assign(t, p.Flags, map[string]string{"subject": c.subject, "frame_size": "64", "rate": c.rate, "duration": "300ms"})
		_, recs, err := captureAs(t, bed, p)
		if err != nil {
			t.Fatal(err)
		}
		full, trials := int64(0), 0
		for _, r := range recs {
			if r.Account == nil || result.Get(r.Config, "trial") != "rate" {
				continue
			}
			trials++
			for _, d := range r.Account.Drops {
				switch d.Place {
				case result.Socket:
					full += d.N
				case result.XDP:
					t.Errorf("%s: %d frames that it counted are drops, too", c.subject, d.N)
				}
			}
			if r.Account.Unexplained != 0 {
				t.Errorf("%s: %d frames are unexplained: %+v", c.subject, r.Account.Unexplained, r.Account)
			}
		}
		if trials == 0 || full > 0 != c.full {
			t.Errorf("%s: for %d frames there was no room in the socket, in %d trials", c.subject, full, trials)
		}
	}
}
