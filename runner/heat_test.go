// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"boxdyno/internal/testutil"
	"boxdyno/result"
	"boxdyno/telemetry"
	"boxdyno/verdict"
)

// A board of the tree that telemetry's tests have: it gets hot while a trial fills its CPU,
// and what its sensors said is the bottleneck's evidence; before, with the same full CPU,
// it was not throttled. Its thermal zones are asked twice a second.
func TestHeatOfABoard(t *testing.T) {
	testutil.NoLeaks(t)
	a, err := txtar.ParseFile("../telemetry/testdata/pi4-throttling.txtar")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	step := func(prefix string) {
		for _, f := range a.Files {
			name, ours := strings.CutPrefix(f.Name, prefix)
			if !ours || strings.HasPrefix(name, "@") {
				continue
			}
			link, to, isLink := strings.Cut(name, " -> ")
			at := filepath.Join(root, link)
			err := os.MkdirAll(filepath.Dir(at), 0o755)
			if err == nil && isLink {
				err = os.Symlink(to, at)
			} else if err == nil {
				err = os.WriteFile(at, f.Data, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	step("")
	s, err := telemetry.Start(t.Context(), &telemetry.Machine{Root: os.DirFS(root)}, telemetry.Options{Names: []string{"rpi", "thermal", "cpufreq", "hwmon"}, Rate: telemetry.MaxRate})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	latest := make([]float64, len(s.Series()))
	says := func(unit, name string, ok func(v float64) bool) bool { // the latest of a series
		s.Latest(latest)
		for i, one := range s.Series() {
			if string(one.Unit) == unit && strings.Contains(one.Name, name) && ok(latest[i]) {
				return true
			}
		}
		return false
	}
	full := func() []verdict.Limit {
		s.Begin()
		eventually(t, "clock and temperature", func() bool {
			return says("Hz", "", func(v float64) bool { return v > 0 }) && says("°C", "", func(v float64) bool { return v > 0 })
		})
		s.Now()
		digests, _ := s.End()
		return verdict.Limits(verdict.Case{Series: s.Series(), Record: result.Record{
			Status: result.Failed, Config: []result.Pair{{Key: "service", Value: "route"}}, Digests: digests,
			Load: &result.Load{Backend: "xdp/native", Intended: 1e6, Offered: 1e6, Forwarded: 4e5},
			CPUs: []result.CPU{{CPU: 0, Role: "dut"}}, DUT: &result.DUTWork{Threads: 1, Ran: 1},
			Account: &result.Account{Accepted: 1000, Received: 400, Drops: []result.Term{{Place: result.DUTNIC, Host: "dut", Name: "receive ring full", N: 600, Link: "lan"}}},
		}})
	}
	if l := full(); len(l) == 0 || l[0].Cause == verdict.CauseThrottled {
		t.Fatalf("a cool board: %+v", l)
	}
	step("@1/")
	eventually(t, "heat", func() bool {
		return says("Hz", "", func(v float64) bool { return v > 0 && v < 1.6e9 }) && says("°C", "", func(v float64) bool { return v > 80 }) &&
			says("1", "throttled", func(v float64) bool { return v == 1 })
	})
	l := full()
	if len(l) == 0 || l[0].Cause != verdict.CauseThrottled {
		t.Fatalf("a hot board: %+v", l)
	}
	for _, want := range []string{"soft temperature limit", "its clock fell to 1.58 GHz", "83.7 °C"} {
		if !strings.Contains(l[0].Sentence, want) {
			t.Errorf("no %q in %q", want, l[0].Sentence)
		}
	}
}
