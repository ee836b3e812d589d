// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"boxdyno/internal/testutil"
	"boxdyno/reference/boards"
	"boxdyno/reference/sizing"
	"boxdyno/result"
	"boxdyno/runner"
	"boxdyno/store"
)

// Own runs stand first, with their interval; a run that cannot be read is named and left
// out.
func TestSizeOfOwnRuns(t *testing.T) {
	testutil.Computed(t)
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	runs := filepath.Join(state, "boxdyno", "runs")
	lo, hi := 190e6, 210e6
	b, err := result.Create(filepath.Join(runs, "20260101-000000-crypto"), result.Run{Schema: result.Schema, ID: "one", Kind: "real", Start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Machines: []result.Machine{{Name: "attic", Board: "Raspberry Pi 4 Model B Rev 1.4"}}})
	if err != nil {
		t.Fatal(err)
	}
	err = b.Append(result.Record{Schema: result.Schema, ID: "crypto aes-cbc-128", Procedure: "crypto", Status: result.Passed, Config: []result.Pair{{Key: "cipher", Value: "aes-cbc-128"}},
		Values: []result.Value{{Metric: "encrypt_bytes_per_s", Unit: "B/s", Value: 200e6, Lo: &lo, Hi: &hi}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(runs, "20260102-000000-broken"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(runs, "20260102-000000-broken", result.RunFile), []byte(`{"schema":1,"id`), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"size", "--for", "crypto", "--cipher", "aes-cbc-128", "--load", "1GB/s"}
	code, out, errw := call(t.Context(), runner.Plugins(), args...)
	lines := strings.Split(out, "\n")
	if code != 0 || len(lines) < 4 || !strings.HasPrefix(lines[3], "attic [rpi-4-b] ") || !strings.Contains(lines[3], " own ") || !strings.Contains(lines[3], " 5 (5 to 6) ") || !strings.Contains(lines[3], " 175 ") {
		t.Errorf("exit code %d\n%s%s", code, out, errw)
	}
	if !strings.Contains(errw, "left out ") || !strings.Contains(errw, "broken") {
		t.Errorf("standard error: %q", errw)
	}
	if code, out, _ := call(t.Context(), runner.Plugins(), append(args, "--published", "--quiet")...); code != 0 || strings.Contains(out, "attic") {
		t.Errorf("--published: exit code %d\n%s", code, out)
	}
}

// Of a large library, runs of simulated boxes are not read, and trials are let go.
func TestSizeReadsWhatItNeeds(t *testing.T) {
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	point := result.Record{Schema: result.Schema, ID: "crypto aes-cbc-128", Procedure: "crypto", Status: result.Passed, Config: []result.Pair{{Key: "cipher", Value: "aes-cbc-128"}},
		Values: []result.Value{{Metric: "encrypt_bytes_per_s", Unit: "B/s", Value: 200e6}}}
	trial, other := point, point
	trial.ID, trial.Parent = point.ID+"/1", point.ID
	other.ID, other.Config = "crypto aes-xts-256", []result.Pair{{Key: "cipher", Value: "aes-xts-256"}}
	var dirs []string
	for i, kind := range []string{"real", "memory"} {
		dir := filepath.Join(state, "boxdyno", "runs", "run-"+kind)
		dirs = append(dirs, dir)
		b, err := result.Create(dir, result.Run{Schema: result.Schema, ID: kind, Kind: kind, Start: time.Date(2026, 1, 1+i, 0, 0, 0, 0, time.UTC), Machines: []result.Machine{{Name: "attic"}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(b.Append(trial), b.Append(point), b.Append(other), b.Close()); err != nil {
			t.Fatal(err)
		}
	}
	a := &app{plugins: runner.Plugins(), out: io.Discard, err: io.Discard}
	runs, err := a.ownRuns(t.Context(), sizing.Job{Kind: sizing.Crypto, Cipher: "aes-cbc-128", Direction: "encrypt"}, place{})
	if err != nil || len(runs) != 1 || runs[0].Run.ID != "real" || len(runs[0].Records) != 1 || runs[0].Records[0].ID != point.ID {
		t.Errorf("of %v: %+v, %v", dirs, runs, err)
	}
}

// Of a drawn library, the few runs that size reads have the same answer as all of them.
func TestSizeOfTheRunsItNeeds(t *testing.T) {
	testutil.Computed(t)
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 24))
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	one := func(of ...string) string { return of[random.IntN(len(of))] }
	const runs = 240 // so many that three boxes and more are sized each way
	for i := range runs {
		r := result.Run{Schema: result.Schema, ID: fmt.Sprintf("run%03d", i), Kind: one("real", "real", "real", "memory"), Topology: "sandbox",
			Start: time.Date(2026, 1, 1, random.IntN(runs), 0, 0, 0, time.UTC)}
		for range 1 + random.IntN(2) {
			r.Machines = append(r.Machines, result.Machine{Name: "attic", Board: one("Raspberry Pi 4 Model B Rev 1.4", "Raspberry Pi 5 Model B Rev 1.0"), CPU: "A72", Kind: one("", "", "", "emulated")})
		}
		procedure := "crypto"
		if random.IntN(2) == 0 {
			r.Topology, procedure = sizing.Fleet, "fleet-crypto"
		}
		dir := filepath.Join(state, "boxdyno", "runs", r.ID)
		head, err := json.Marshal(r)
		if err = errors.Join(err, os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, result.RunFile), head, 0o644)); err != nil {
			t.Fatal(err)
		}
		var lines []byte
		for n := range 1 + random.IntN(3) {
			p := result.Record{Schema: result.Schema, ID: fmt.Sprint("point", n), Procedure: procedure, Status: result.Status(one("passed", "failed", "invalid")),
				Config: []result.Pair{{Key: "cipher", Value: one("aes-cbc-128", "aes-cbc-128", "aes-xts-256")}, {Key: "heat", Value: one("0", "0", "0", "0", "10m")}},
				Values: []result.Value{{Metric: one("encrypt_bytes_per_s", "encrypt_bytes_per_s", "decrypt_bytes_per_s"), Unit: "B/s", Value: float64(random.IntN(20)) * 1e6, Bound: result.Bound(one("", "", "<=", ">="))}}}
			if procedure != "crypto" {
				p.Config = append(p.Config, result.Pair{Key: "nodes", Value: one("1", "1", "2", "4", "500")})
			}
			line, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			lines = append(append(lines, line...), '\n')
		}
		if err := os.WriteFile(filepath.Join(dir, result.TrialsFile), lines, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	a := &app{plugins: runner.Plugins(), out: io.Discard, err: io.Discard}
	l, err := place{}.open(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	listed, err := l.Runs(t.Context(), store.Filter{})
	if err = errors.Join(err, l.Close()); err != nil || len(listed) != runs {
		t.Fatalf("%d runs are listed of %d: %v", len(listed), runs, err)
	}
	var all []sizing.Run
	for _, r := range listed {
		run, recs, err := result.Open(r.Dir)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, sizing.Run{Run: run, Records: recs})
	}
	for _, direction := range []string{"encrypt", "decrypt"} {
		j := sizing.Job{Kind: sizing.Crypto, Cipher: "aes-cbc-128", Direction: direction}
		few, err := a.ownRuns(t.Context(), j, place{})
		if err != nil {
			t.Fatal(err)
		}
		want := sizing.Own(j, all)
		if d := cmp.Diff(want, sizing.Own(j, few)); d != "" {
			t.Errorf("seed %d, %s, %d runs read (-all, +those):\n%s", seed, direction, len(few), d)
		}
		if len(few) > runs/2 || len(want) < 3 {
			t.Errorf("seed %d, %s: %d runs were read of %d, for %d boxes", seed, direction, len(few), runs, len(want))
		}
	}
}

// A run that the index has of another machine is named with it, and no folder of that name
// is read here.
func TestSizeOfRunsElsewhere(t *testing.T) {
	state, away := t.TempDir(), t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	dir := filepath.Join(away, "run")
	b, err := result.Create(dir, result.Run{Schema: result.Schema, ID: "one", Kind: "real", Start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Machines: []result.Machine{{Name: "attic", Board: "Raspberry Pi 4 Model B Rev 1.4"}}})
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(b.Append(result.Record{Schema: result.Schema, ID: "crypto aes-cbc-128", Procedure: "crypto", Status: result.Passed, Config: []result.Pair{{Key: "cipher", Value: "aes-cbc-128"}},
		Values: []result.Value{{Metric: "encrypt_bytes_per_s", Unit: "B/s", Value: 200e6}}}), b.Close())
	if err != nil {
		t.Fatal(err)
	}
	if code, _, errw := call(t.Context(), runner.Plugins(), "index", away); code != 0 {
		t.Fatal(errw)
	}
	db, err := sql.Open("sqlite", filepath.Join(state, "boxdyno", "index.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(`UPDATE bundles SET host = 'garage'; UPDATE folders SET host = 'garage'`); err != nil {
		t.Fatal(err)
	}
	code, out, errw := call(t.Context(), runner.Plugins(), "size", "--for", "crypto", "--cipher", "aes-cbc-128", "--load", "1GB/s")
	if code != 0 || strings.Contains(out, "attic") || !strings.Contains(errw, "left out "+dir+": it is on garage, not here") {
		t.Errorf("exit code %d\n%s%s", code, out, errw)
	}
}

// Boards of one's own that were measured together are counted by that, and shown for each
// number of them, with what they share.
func TestSizeOfBoardsTogether(t *testing.T) {
	testutil.Computed(t)
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	pi := result.Machine{Name: "b1", Board: "Raspberry Pi 4 Model B Rev 1.4"}
	b, err := result.Create(filepath.Join(state, "boxdyno", "runs", "20260101-000000-fleet-hpl-mpi"), result.Run{Schema: result.Schema, ID: "one", Kind: "real", Topology: "fleet", Start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Machines: []result.Machine{pi, pi},
		Environments: [][]result.Pair{{{Key: result.SharedKey, Value: "switch=9USD,9W;fans=0USD,0W,meter=command;shelf=10USD,0W"}}}})
	if err != nil {
		t.Fatal(err)
	}
	for n, rate := range map[string]float64{"1": 10e9, "2": 16e9, "4": 24e9} {
		err := b.Append(result.Record{Schema: result.Schema, ID: "hpl-mpi " + n, Procedure: "fleet-hpl-mpi", Status: result.Passed, Config: []result.Pair{{Key: "nodes", Value: n}},
			Values: []result.Value{{Metric: "hpl_rate", Unit: "flop/s", Value: rate}},
			Energy: []result.Energy{{Meter: "plug", Covers: "wall", Per: "GFLOP", Joules: 100, Seconds: 5, Readings: 9, Work: 1}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	code, out, errw := call(t.Context(), runner.Plugins(), "size", "--for", "hpl", "--load", "20GFLOPS", "--shared", "switch=60USD,5W")
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, errw)
	}
	for _, want := range []string{
		" own ", " 4 (3 to 4) ", "What Raspberry Pi 4 Model B Rev 1.4 (fleet) [rpi-4-b] did together, measured:",
		"4       24 GFLOPS  6 GFLOPS   60 %              20  5         1.042    0.96 GFLOPS  210  0.1143 GFLOPS", "counted by what they did together",
		", shared switch 60 USD 5 W\n", "  Raspberry Pi 4 Model B Rev 1.4 (fleet) [rpi-4-b] from two on: shared shelf, 10 USD, 0 W idle, 0 W loaded, run one: as stated\n", "shared fans, 0 USD, 0 W idle, 0 W loaded, run one: as stated: no reading of command fell into trials\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("nothing says %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "shared switch, 9 USD") {
		t.Errorf("a part that --shared replaces is listed:\n%s", out)
	}
}

// What boxes.yaml declares as shared counts once in size, unless a run or --shared says
// otherwise of that name.
func TestSizeOfDeclaredParts(t *testing.T) {
	testutil.Computed(t)
	config := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", config)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	write := func(text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Join(config, "boxdyno"), 0o700), os.WriteFile(filepath.Join(config, "boxdyno", "boxes.yaml"), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	price := func(args ...string) float64 {
		t.Helper()
		code, out, errw := call(t.Context(), runner.Plugins(), append([]string{"size", "--for", "hpl", "--load", "50GFLOPS", "--board", "rpi-4-b", "--published", "--json"}, args...)...)
		var r sizing.Result
		if err := json.Unmarshal([]byte(out), &r); code != exitOK || err != nil || len(r.Rows) == 0 || r.Rows[0].Price == nil {
			t.Fatalf("exit code %d, %v: %s%s", code, err, out, errw)
		}
		return r.Rows[0].Price.Value
	}
	without := price()
	write("shared: {switch: {usd: 60, watts: 8}, fans: {usd: 15, meter: command}}\n")
	for _, c := range []struct {
		more float64
		args []string
	}{{75, nil}, {0, []string{"--shared", "none"}}, {25, []string{"--shared", "switch=10USD,1W"}}, {80, []string{"--shared", "rack=5USD"}}} {
		if got := price(c.args...) - without; got != c.more {
			t.Errorf("%v: %g USD more, want %g", c.args, got, c.more)
		}
	}
	_, out, _ := call(t.Context(), runner.Plugins(), "size", "--for", "hpl", "--load", "50GFLOPS", "--board", "rpi-4-b", "--published", "--shared", "fans=1USD")
	if !strings.Contains(out, ", shared fans 1 USD 0 W, shared switch 60 USD 8 W (boxes.yaml)\n") {
		t.Error(out)
	}
	w := fleetWords{}
	parts, at, err := w.parts(&runner.Plan{})
	if err != nil || result.PartsText(parts) != "fans=15USD,0W,meter=command;switch=60USD,8W" || at != "the file of boxes" {
		t.Errorf("%v at %s, %v", parts, at, err)
	}
	plan := runner.Plan{Lab: runner.Entry{Set: []runner.Setting{{Key: "shared", Values: []runner.Word{{Text: "rack=5USD", At: "line 1"}}}}}}
	if parts, _, err := w.parts(&plan); err != nil || result.PartsText(parts) != "rack=5USD,0W" {
		t.Errorf("%v, %v", parts, err)
	}
	w.shared = []string{"none"}
	if err := w.meters(&plan, []string{"b1"}); err != nil || plan.Lab.Get("shared").Values[0].Text != "none" {
		t.Errorf("%+v, %v", plan.Lab, err)
	}
	write("shared: {switch: {usd: -60}}\n")
	if code, _, errw := call(t.Context(), runner.Plugins(), "size", "--for", "hpl", "--published"); code != exitUsage || !strings.Contains(errw, "shared part switch: its price is -60 USD") {
		t.Errorf("exit code %d: %s", code, errw)
	}
}

// On a terminal of 80 columns no line is longer, and columns that are left out are named.
func TestTablesOfNarrowTerminals(t *testing.T) {
	j := sizing.Job{Kind: sizing.Crypto, Cipher: "twofish-cbc-256", Direction: "encrypt", Load: 250 << 20}
	r, err := sizing.Plan(j, sizing.Published(j), sizing.Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	runs := []store.Run{{Dir: "/runs/20261128-023854-rfc2544", Procedures: []string{"latency", "back-to-back", "recovery", "throughput", "loss-curve"}, Box: "attic", Kind: "memory", Points: 80, Verdict: result.Passed, Tags: []string{"before-the-update"}}}
	lo, hi := 186.62e3, 187.24e3
	s := store.Series{Unit: "frame/s", Better: 1, Settings: []result.Pair{{Key: "service", Value: "route"}, {Key: "frame_size", Value: "64"}}, Notes: []string{"3 of 8 figures are bounds of what the box carries, and in no level", "2 runs are too few to tell a change from noise: it takes 6 or more"}}
	for _, run := range []string{"20261128-023854-forward", "20261128-043812-forward"} {
		s.Points = append(s.Points, store.Point{Run: run, Version: "0.2.0+118.g99c0360", Value: lo, Lo: &lo, Hi: &hi, N: 3, Environment: []store.Difference{
			{Key: "kernel", Before: "6.1.0-28-arm64 aarch64", After: "6.12.6-arm64 aarch64"}, {Key: "mitigations", Before: "off", After: "auto"}}})
	}
	s.Changes = []store.Change{{At: 1, Run: s.Points[1].Run, Before: lo, After: hi, Share: new(0.0033), P: 7.1e-7, Better: true, Environment: s.Points[1].Environment}}
	list, err := boardsOf("", "ports>=2 aes memory>=4 idle<=3 load<=10")
	if err != nil || len(list.Unknown) == 0 {
		t.Fatalf("%d boards are unknown: %v", len(list.Unknown), err)
	}
	for width, said := range map[int]string{0: "", 80: "too narrow for"} {
		var size, kept, history, matching, unknown strings.Builder
		if err := errors.Join(sizeText(&size, width, r), runTable(&kept, width, "/runs", runs), historyText(&history, width, store.History{Metric: "throughput_fps", Series: []store.Series{s}}, 0),
			boardTable(&matching, width, boardList{Matches: boards.All()}), boardTable(&unknown, width, boardList{Unknown: list.Unknown})); err != nil {
			t.Fatal(err)
		}
		for _, s := range []string{size.String(), kept.String(), history.String(), matching.String(), unknown.String()} {
			if strings.Contains(s, "too narrow for") != (said != "") {
				t.Errorf("at %d:\n%s", width, s)
			}
			for line := range strings.Lines(s) {
				if n := utf8.RuneCountInString(strings.TrimRight(line, " \n")); width > 0 && n > width {
					t.Errorf("%d columns of %d: %s", n, width, line)
				}
			}
		}
	}
}
