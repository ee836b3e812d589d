// SPDX-License-Identifier: Apache-2.0

package many

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"boxdyno/internal/testutil"
	"boxdyno/report"
	"boxdyno/result"
	"boxdyno/runner"
	"boxdyno/telemetry"
)

// planted are meters whose watts are those of simulated boards: the wall, each board, and the
// switch.
type planted struct {
	series  []result.Series
	working map[string]*atomic.Bool
}

func (p *planted) Series() []result.Series { return p.series }

func (p *planted) Read(dst []float64) error {
	wall, n := 0., 0
	of := map[string]float64{}
	for name, on := range p.working {
		of[name] = 2
		if on.Load() {
			n++
			of[name] = 5
		}
		wall += of[name]
	}
	of["switch"] = 6
	if n > 0 {
		of["switch"] = 8
	}
	of["all+switch"] = wall + of["switch"]
	for i, s := range p.series {
		dst[i] = of[result.Get(s.Labels, "of")]
	}
	return nil
}

// Meters of the wall, of each of three boards and of the switch run at once. Each has its own
// figure of a unit of work, and what the boards took is counted once.
func TestMetersOfBoardsAndOfTheWall(t *testing.T) {
	testutil.Unraced(t, "boards begin at one instant")
	testutil.Alone(t)
	b := newBench(t, 3)
	meters := &planted{working: map[string]*atomic.Bool{}}
	for name, sim := range b.boards {
		on := &atomic.Bool{}
		meters.working[name], sim.Works, sim.Speed = on, on.Store, 100
	}
	for _, of := range []string{"all+switch", "b1", "b2", "b3", "switch"} {
		meters.series = append(meters.series, result.Series{Name: "boxdyno_power_watts", Unit: "W", Labels: []result.Pair{{Key: "meter", Value: "plug of " + of}, {Key: "covers", Value: "wall"}, {Key: "of", Value: of}}})
	}
	catalogue := runner.Catalogue{Collectors: []telemetry.Spec{{Name: "plug", Doc: "planted watts", Default: true, New: func(context.Context, *telemetry.Machine) (telemetry.Collector, error) { return meters, nil }}}}
	catalogue.Procedures = append(catalogue.Procedures, Spec(b.boards["b1"].Spec(), b))
	catalogue.Labs = append(catalogue.Labs, Topology(b, func(context.Context) []result.Machine {
		return []result.Machine{{Name: "b1", Kind: "real"}, {Name: "b2", Kind: "real"}, {Name: "b3", Kind: "real"}}
	}))
	p, err := runner.Parse("plan", []byte("lab: {use: fleet, shared: \"switch=60USD,6..8W\"}\ntelemetry: {rate: 50}\nprocedures:\n  - {use: fleet-nap, nodes: [1, 2], lasts: 500ms, most_skew: 0.9}\n"))
	if err == nil {
		p, err = p.Resolve(catalogue)
	}
	if err != nil {
		t.Fatal(err)
	}
	header := result.Run{Schema: result.Schema, ID: "planted"}
	bundle, err := result.Create(t.TempDir()+"/run", header)
	if err != nil {
		t.Fatal(err)
	}
	run, recs, err := runner.Run(t.Context(), p, bundle, runner.Options{Catalogue: catalogue, Header: header})
	if closed := bundle.Close(); err != nil || closed != nil {
		t.Fatal(err, closed)
	}
	points := 0
	for _, r := range recs {
		if r.Parent != "" {
			continue
		}
		points++
		n, _ := strconv.ParseFloat(result.Get(r.Config, "nodes"), 64)
		if len(r.Energy) != 5 {
			t.Fatalf("%s: %s %s: %+v, %q", r.ID, r.Status, r.Reason, r.Energy, run.Warnings)
		}
		for _, e := range r.Energy {
			serves := slices.ContainsFunc(r.Boards, func(x result.Board) bool { return x.Name == e.Of })
			want := map[bool]float64{true: 5. / 100}[serves]
			switch e.Of {
			case "all+switch":
				want = (5*n + 2*(3-n) + 8) / (100 * n)
			case "switch":
				want = 8 / (100 * n)
			}
			if want == 0 && e.Work != 0 || want > 0 && !(math.Abs(e.JoulesPer()/want-1) < .02) {
				t.Errorf("%s by %s: %g J for %g naps, want %g J each", r.ID, e.Meter, e.Joules, e.Work, want)
			}
		}
	}
	if points != 2 {
		t.Fatalf("%d points: %+v", points, recs)
	}
	d := report.Summarize(run, recs)
	i := slices.IndexFunc(d.Tables, func(x report.Table) bool { return strings.HasPrefix(x.Title, "Energy for each nap") })
	if i < 0 {
		t.Fatalf("no table of energy: %+v", d.Tables)
	}
	table := fmt.Sprintf("%+v", d.Tables[i])
	for _, want := range []string{"1 board that worked", "2 boards that worked", "what they share", "wall of all, switch", "wall of b1"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table has no %q: %s", want, table)
		}
	}
	for _, row := range d.Rows {
		if len(row.Apart) != 1 {
			t.Fatalf("%s: %+v", row.ID, row.Apart)
		}
		a := row.Apart[0]
		n := float64(a.Boards)
		for what, x := range map[string][2]float64{"boards": {a.Watts, 5 * n}, "switch": {a.SharedWatts, 8}, "rate": {a.Rate, 100 * n}, "before": {*a.Before, 2 * n}} {
			if !(math.Abs(x[0]/x[1]-1) < .02) {
				t.Errorf("%d boards: %s %g, want %g", a.Boards, what, x[0], x[1])
			}
		}
		if a.Idle != 0 || len(a.Meters) != a.Boards {
			t.Errorf("%+v: the boards' own meters see nothing beside them", a)
		}
	}
}
