// SPDX-License-Identifier: Apache-2.0

package ids

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/engine"
	"boxdyno/engine/catalog"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/subject"
	"boxdyno/subject/capture"
	"boxdyno/subject/internal/subjecttest"
	"boxdyno/unit"
)

// hasSuricata skips where there is none that a subject could be.
func hasSuricata(t *testing.T, s *IDS) {
	t.Helper()
	var missing *host.Missing
	if err := s.Check(t.Context(), nil); errors.As(err, &missing) {
		t.Skip(missing)
	} else if err != nil {
		t.Fatal(err)
	}
}

// sense starts an IDS on a port of its own and waits until it is ready.
func sense(t *testing.T, s *IDS) (*Sensing, host.Port) {
	t.Helper()
	testutil.NoLeaks(t)
	from, to := subjecttest.Pair(t)
	hasSuricata(t, s)
	r, err := s.Run(t.Context(), subject.Env{Port: to, CPUs: []int{subjecttest.ACPU(t)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Process.Kill() })
	if err := r.Ready(t.Context()); err != nil {
		t.Fatalf("%v\n%s", errors.Join(err, r.Stop(t.Context())), r.Log.String())
	}
	return r, from
}

// replayMix sends whole conversations once, and returns what they hold.
func replayMix(t *testing.T, p host.Port, flows uint64, rate unit.FrameRate) frame.MixTruth {
	t.Helper()
	share := 0.3
	mix, err := frame.NewAppMix(frame.AppMix{Seed: 5, Flows: flows, AlertShare: &share})
	if err != nil {
		t.Fatal(err)
	}
	b, err := catalog.Open("packet")
	if err != nil {
		t.Fatal(err)
	}
	tx, err := b.OpenTransmitter(t.Context(), []host.Port{p}, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Close()
	truth := mix.Truth()
	reports, err := tx.Transmit(t.Context(), engine.Load{Rate: rate, Passes: 1}, engine.Stream{Source: mix})
	if err != nil || reports[0].Accepted != truth.Frames {
		t.Fatalf("%+v, %v; want %d frames", reports, err, truth.Frames)
	}
	return truth
}

// Suricata finds every planted alert and nothing with generated rules, all of which it
// loads, sees each frame or says that it was dropped, and leaves nothing behind.
func TestSuricata(t *testing.T) {
	const generated = 2000
	var rules bytes.Buffer
	_, err := GenerateRules(&rules, generated, 9)
	if err := errors.Join(err, frame.WriteRules(&rules)); err != nil {
		t.Fatal(err)
	}
	s := NewSuricata()
	s.Rules, s.Filter = written(t, rules.Bytes()), "ip"
	r, from := sense(t, s)
	truth := replayMix(t, from, 300, 20_000)
	time.Sleep(s.tool(newEve(), "").Lag)
	if err := errors.Join(r.Stop(t.Context()), r.Ended()); err != nil {
		t.Fatal(err)
	}
	sent := int64(truth.Frames)
	if got := r.Totals(); got.Captured+got.Kernel+got.Own != sent || got.Kernel < 0 || got.Own < 0 {
		t.Errorf("of %d frames it says %+v", sent, got)
	}
	alerts, err := r.Alerts(t.Context())
	if err != nil {
		t.Error(err)
	}
	sum := int64(0)
	for i, want := range truth.Alerts {
		sid := frame.FirstSID + i
		if sum += alerts[sid]; alerts[sid] != int64(want) || want == 0 {
			t.Errorf("%d alerts for sid %d, and %d flows match", alerts[sid], sid, want)
		}
	}
	ids := r.IDS()
	want := Totals{RulesLoaded: generated + int64(len(truth.Alerts)), Alerts: sum, KernelPackets: sent}
	if ids != want {
		t.Errorf("%+v, want %+v", ids, want)
	}
	if st := r.Startup(); st.Process <= 0 || st.Socket <= 0 || st.Sign < st.Process || st.First <= 0 {
		t.Errorf("start-up %+v", st)
	}
	if u, err := r.Usage(); err != nil || u.CPU <= 0 || u.PeakMemory == 0 || u.Subject != "suricata" {
		t.Errorf("%+v, %v", u, err)
	}
	if _, err := os.Stat(r.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its folder is still there: %v", err)
	}
	t.Logf("%+v; start-up %+v", ids, r.Startup())
}

// While it runs its count moves, late, to what was sent, and no further: with the filter
// that the captures have.
func TestSuricataCounts(t *testing.T) {
	s := NewSuricata()
	s.Filter, s.RunMode, s.Threads = capture.DefaultFilter, AutoFP, 2
	r, from := sense(t, s)
	const n = 500
	subjecttest.Send(t, from, n, 5000)
	subjecttest.Eventually(t, "its counter is complete", func() bool {
		counted, at, ok := r.Progress()
		if counted > n || at > unit.Now() {
			t.Fatalf("%d frames at %v", counted, at)
		}
		return ok && counted == n
	})
	sent := unit.Now()
	subjecttest.Eventually(t, "it knows that nothing is left", func() bool { return r.WorkedOff(sent) })
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/comm", r.Process.PID))
	if err != nil {
		t.Fatal(err)
	}
	detecting := 0
	for _, name := range threads {
		if comm, err := os.ReadFile(name); err == nil && strings.HasPrefix(string(comm), "W#") {
			detecting++
		}
	}
	if detecting != s.Threads {
		t.Errorf("%d threads detect, want %d", detecting, s.Threads)
	}
	if err := errors.Join(r.Stop(t.Context()), r.Ended()); err != nil {
		t.Fatal(err)
	}
	if got := r.Totals(); got.Captured != n || got.Kernel != 0 || got.Own != 0 {
		t.Errorf("%+v", got)
	}
	if r.Rare() != suricataRare {
		t.Error(r.Rare())
	}
}

// Rules that it cannot load are one sentence where they are all, and counted where some
// are; a killed one is one sentence.
func TestSuricataGoesWrong(t *testing.T) {
	testutil.NoLeaks(t)
	_, port := subjecttest.Pair(t)
	s := NewSuricata()
	hasSuricata(t, s)
	s.Rules = written(t, []byte("alert tcp any any -> any any (msg:\"x\"; nosuchword; sid:1;)\nhello\n"))
	r, err := s.Run(t.Context(), subject.Env{Port: port})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Process.Kill() })
	if err := r.Ready(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "suricata loaded none of the 2 rules in "+s.Rules+": it said ") || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "nosuchword") {
		t.Errorf("%v\n%s", err, r.Log.String())
	}
	if err := r.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	s.RunMode = Single
	s.Rules = written(t, []byte("alert tcp any any -> any any (msg:\"x\"; nosuchword; sid:1;)\nalert tcp any any -> any any (msg:\"y\"; sid:2;)\n"))
	r, err = s.Run(t.Context(), subject.Env{Port: port})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Process.Kill() })
	if err := r.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	subjecttest.Eventually(t, "it tells its rules", func() bool { return r.IDS().RulesLoaded >= 0 })
	if ids := r.IDS(); ids.RulesLoaded != 1 || ids.RulesFailed != 1 || !strings.Contains(ids.RulesError, "nosuchword") || ids.RulesRefused != "1" {
		t.Errorf("%+v", ids)
	}
	if err := r.Process.Signal(unix.SIGKILL); err != nil {
		t.Error(err)
	}
	subjecttest.Eventually(t, "it is said", func() bool { return r.Ended() != nil })
	if err := r.Ended(); err.Error() != "suricata was ended by signal killed" && !strings.HasPrefix(err.Error(), "suricata was ended by signal killed; it said ") {
		t.Error(err)
	}
	if _, err := r.Alerts(t.Context()); err == nil {
		t.Error("its alerts are taken for known")
	}
	if err := r.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// A virtual pair's driver tells no receive queues: Suricata starts over AF_XDP, and has no
// thread that would see a frame.
func TestSuricataOverAFXDP(t *testing.T) {
	testutil.NoLeaks(t)
	from, port := subjecttest.Pair(t)
	s := NewSuricata()
	hasSuricata(t, s)
	s.Mode = AFXDP
	if err := s.Check(t.Context(), nil); err != nil {
		t.Skip(err) // it was built without
	}
	r, err := s.Run(t.Context(), subject.Env{Port: port})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Process.Kill() })
	const n = 100
	ready := r.Ready(t.Context())
	if ready == nil { // a kernel whose pairs tell them
		subjecttest.Send(t, from, n, 1000)
		time.Sleep(s.tool(newEve(), "").Lag)
	} else if !strings.HasPrefix(ready.Error(), "suricata captures nothing: ") {
		t.Error(ready)
	}
	if err := r.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if got := r.Totals().Captured; ready == nil && got < n {
		t.Errorf("it is ready, and saw %d of %d frames", got, n)
	}
}

func TestCheckIDS(t *testing.T) {
	for want, change := range map[string]func(s *IDS){
		`runmode "x": want`:         func(s *IDS) { s.RunMode = "x" },
		`capture "pcap": want`:      func(s *IDS) { s.Mode = "pcap" },
		"ring 63: want":             func(s *IDS) { s.Ring = 63 },
		"block 40000: want":         func(s *IDS) { s.Block = 40000 },
		"threads -1: want":          func(s *IDS) { s.Threads = -1 },
		"runmode autofp: with":      func(s *IDS) { s.Mode, s.RunMode = AFXDP, AutoFP },
		`filter "udp": capture`:     func(s *IDS) { s.Mode, s.Filter = AFXDP, "udp" },
		"filter: want one line":     func(s *IDS) { s.Filter = "udp\nor" },
		"threads 2: runmode single": func(s *IDS) { s.RunMode, s.Threads = Single, 2 },
		"nothere.rules":             func(s *IDS) { s.Rules = "nothere.rules" },
		": it is not a":             func(s *IDS) { s.Rules = "/proc" },
		"null: it is not a":         func(s *IDS) { s.Rules = os.DevNull },
		"is empty":                  func(s *IDS) { s.Rules = written(t, nil) },
		"is no text":                func(s *IDS) { s.Rules = written(t, []byte{0x1f, 0x8b, 8}) },
	} {
		s := NewSuricata()
		change(s)
		if err := s.Check(t.Context(), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if err := NewSuricata().suricata(context.Background()); err == nil {
		t.Log("it is found in /usr/sbin") // an ordinary PATH lacks that
	} else if missing := (*host.Missing)(nil); !errors.As(err, &missing) || !strings.Contains(err.Error(), "suricata") {
		t.Error(err)
	}
}

// The package comes from where apt has version 7.
func TestSuricataRemedy(t *testing.T) {
	const backports, suite = "     100 mirror/debian bookworm-backports/main amd64 Packages\n", "bookworm-backports"
	for name, c := range map[string]struct{ policy, suite, want string }{
		"backports":     {"  Candidate: 1:6.0.10-1\n" + backports, suite, "missing x: run apt-get install -y -t bookworm-backports suricata"},
		"release":       {"  Candidate: 1:7.0.10-1\n", suite, "missing x: run apt-get install -y suricata"},
		"too old":       {"  Candidate: 1:6.0.10-1\n", suite, "missing x: the release has none of version 7: add a source of bookworm-backports to apt, then run apt-get update and apt-get install -y -t bookworm-backports suricata"},
		"none":          {"", suite, "missing x: the release has none of version 7: add a source of bookworm-backports"},
		"not a Debian":  {"", "", "missing x: install it as its documentation says"},
		"not installed": {"  Candidate: (none)\n", "", "missing x: install it"},
	} {
		if err := suricataRemedy("x", c.policy, c.suite); !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

func TestSuricataConfig(t *testing.T) {
	s := NewSuricata()
	s.Threads, s.Ring, s.Filter = 3, 4096, `ip host "x"`
	text := s.config(capture.Place{Env: subject.Env{Port: host.Port{Name: "lan"}}, Dir: "/tmp/x"}, 7)
	for _, want := range []string{
		`{interface: "lan", threads: 3, cluster-id: 7, cluster-type: cluster_flow,`, "ring-size: 4096, block-size: 32768,", `bpf-filter: "ip host \"x\""`, `threshold-file: "/tmp/x/threshold.config"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the configuration has no %s:\n%s", want, text)
		}
	}
	s = &IDS{Mode: AFXDP, RunMode: Workers}
	if text := s.config(capture.Place{Env: subject.Env{Port: host.Port{Name: "lan"}}, Dir: "/tmp/x"}, 7); !strings.Contains(text, `af-xdp:`) || strings.Contains(text, "af-packet:") {
		t.Error(text)
	}
	if n := (&IDS{RunMode: Workers}).detecting(subject.Env{CPUs: []int{0, 2}}); n != 2 {
		t.Errorf("%d threads on two CPUs", n)
	}
}
