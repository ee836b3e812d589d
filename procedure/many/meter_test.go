// SPDX-License-Identifier: Apache-2.0

package many

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"boxdyno/internal/testutil"
	"boxdyno/reference/sizing"
	"boxdyno/result"
	"boxdyno/runner"
	"boxdyno/telemetry"
	"boxdyno/unit"
)

// One plug sees a shelf of four boards, of which 1, 2 or all serve, and their switch. A board
// takes 2 W idle and 5 W at work, the switch 6 W and 8 W. Joules of a unit of work come out
// right for each number, and boards that idle are told apart, up to what size says of them.
func TestMeterOfTheShelf(t *testing.T) {
	testutil.Long(t)
	b := newBench(t, 4)
	var working atomic.Int32
	for _, sim := range b.boards {
		sim.Speed = 100
		sim.Works = func(on bool) {
			if on {
				working.Add(1)
			} else {
				working.Add(-1)
			}
		}
	}
	plug := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := float64(working.Load())
		watts := 5*n + 2*(4-n) + 6
		if n > 0 {
			watts += 2
		}
		switch r.URL.Path {
		case "/shelly":
			fmt.Fprint(w, `{"type":"SHPLG-S"}`)
		case "/status":
			fmt.Fprintf(w, `{"meters":[{"power":%g,"total":0,"is_valid":true}]}`, watts)
		default:
			http.NotFound(w, r)
		}
	}))
	defer plug.Close()
	catalogue := runner.Catalogue{Collectors: slices.DeleteFunc(telemetry.All(), func(s telemetry.Spec) bool { return s.Name != "plug" })}
	catalogue.Procedures = append(catalogue.Procedures, Spec(b.boards["b1"].Spec(), b))
	catalogue.Labs = append(catalogue.Labs, Topology(b, func(context.Context) []result.Machine {
		m := result.Machine{Name: "b", Board: "Raspberry Pi 4 Model B Rev 1.4", Kind: "real"}
		return []result.Machine{m, m, m, m}
	}))
	text := fmt.Sprintf("lab: {use: fleet, metered: 4, shared: \"switch=60USD,6..8W,inside\"}\ntelemetry: {plug: \"%s\"}\nprocedures:\n  - {use: fleet-nap, nodes: [1, 2, 4], lasts: 5s, most_skew: 0.5}\n", plug.URL)
	p, err := runner.Parse("plan", []byte(text))
	if err == nil {
		p, err = p.Resolve(catalogue)
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir() + "/run"
	bundle, err := result.Create(dir, result.Run{Schema: result.Schema, ID: "shelf"})
	if err != nil {
		t.Fatal(err)
	}
	run, recs, err := runner.Run(t.Context(), p, bundle, runner.Options{Catalogue: catalogue, Header: result.Run{Schema: result.Schema, ID: "shelf"}})
	if err := bundle.Close(); err != nil {
		t.Error(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	near := func(what string, got *float64, want float64) {
		t.Helper()
		if got == nil || math.Abs(*got/want-1) > 0.02 {
			t.Errorf("%s: %v, want %g", what, got, want)
		} else {
			t.Logf("%s: %.4g, want %.4g", what, *got, want)
		}
	}
	points := 0
	for i, r := range recs {
		if r.Parent != "" {
			continue
		}
		points++
		n, _ := strconv.ParseFloat(result.Get(r.Config, "nodes"), 64)
		if len(r.Energy) != 1 || r.Energy[0].Idle == nil {
			t.Fatalf("%s: %s %s %+v", r.ID, r.Status, r.Reason, r.Energy)
		}
		e := r.Energy[0]
		whole := 5*n + 2*(4-n) + 8
		near(r.ID+", J a nap by the meter", new(e.JoulesPer()), whole/(100*n))
		near(r.ID+", W idle", e.Idle, 14)
		// The same as a job of size: naps are floating-point operations.
		recs[i].Procedure = "fleet-hpl-mpi"
		recs[i].Values = []result.Value{{Metric: "hpl_rate", Unit: unit.Symbol("FLOPS"), Value: r.Value("naps_rate").Value}}
	}
	if points != 3 {
		t.Fatalf("%d points of %+v, %q", points, recs, run.Warnings)
	}
	j := sizing.Job{Kind: sizing.HPL, Load: 300}
	plan, err := sizing.Plan(j, sizing.Own(j, []sizing.Run{{Run: run, Records: recs}}), sizing.Options{})
	i := slices.IndexFunc(plan.Rows, func(r sizing.Row) bool { return r.Fleet })
	if err != nil || len(plan.Rows) != 2 || i < 0 || len(plan.Rows[i].Steps) != 3 {
		t.Fatalf("%v, %+v", err, plan.Rows)
	}
	for _, s := range plan.Rows[i].Steps {
		n := float64(s.N)
		shared := 8.
		if s.N == 1 {
			shared = 0
		} else {
			near(fmt.Sprintf("%d: W shared", s.N), s.Parts, shared)
		}
		near(fmt.Sprintf("%d: W of boards", s.N), s.Watts, 5*n)
		near(fmt.Sprintf("%d: J", s.N), s.Joules, (5*n+shared)*1e9/(100*n))
		near(fmt.Sprintf("%d: of linear", s.N), s.Linear, 1)
	}
	if text := fmt.Sprint(plan.Rows[i].Figures); !strings.Contains(text, "those that idled took 2 W each") {
		t.Error(text)
	}
}

// What a plan says of shared parts is checked before the run begins.
func TestSharedOfAPlan(t *testing.T) {
	b := newBench(t, 1)
	catalogue := runner.Catalogue{}
	catalogue.Procedures = append(catalogue.Procedures, Spec(b.boards["b1"].Spec(), b))
	catalogue.Labs = append(catalogue.Labs, Topology(b, nil))
	for shared, want := range map[string]string{
		"switch=60USD,6..8W,inside;fans=15USD,meter=command": "", "none": "",
		"switch=60USD,volts=8": "volts=8", "switch=-8W": "-8 W", "switch=NaNW": "NaNW", "switch=InfW": "Inf", "switch=1W;switch=2W": "twice", "switch": "no shared part",
	} {
		p, err := runner.Parse("plan", fmt.Appendf(nil, "lab: {use: fleet, shared: \"%s\"}\nprocedures: [fleet-nap]\n", shared))
		if err == nil {
			_, err = p.Resolve(catalogue)
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", shared, err, want)
		}
	}
}

// A meter's power belongs to the sum of rates while all boards work.
func TestWhole(t *testing.T) {
	board := func(begin, end unit.Instant) result.Board {
		return result.Board{Phases: []result.Phase{{Name: "setup", Begin: 0, End: begin}, {Name: "work", Begin: begin, End: end}}}
	}
	for _, c := range []struct {
		boards     []result.Board
		begin, end unit.Instant
	}{
		{[]result.Board{board(101, 180), board(103, 190)}, 103, 180},
		{[]result.Board{board(101, 150), board(160, 190)}, 100, 200}, // never all at once
		{[]result.Board{board(101, 150), {}}, 100, 200},
	} {
		if p := whole(c.boards, 100, 200); p.Name != "together" || p.Begin != c.begin || p.End != c.end {
			t.Errorf("%+v, want %d to %d", p, c.begin, c.end)
		}
	}
}
