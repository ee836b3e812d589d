// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"flag"
	"slices"
	"testing"
	"time"

	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/telemetry"
	"boxdyno/unit"
)

// A twin is a procedure of two trials at one time.
type twin struct {
	round func() ([]procedure.Outcome, error)
}

func (*twin) Flags(*flag.FlagSet)            {}
func (*twin) Check(*lab.Testbed) error       { return nil }
func (*twin) Estimate() (int, time.Duration) { return 2, time.Second }
func (p *twin) Run(ctx context.Context, env *procedure.Env) (o procedure.Outcome, err error) {
	cfgs := [][]result.Pair{{{Key: "from", Value: "b1"}}, {{Key: "from", Value: "b3"}}}
	recs, err := env.Trials(ctx, cfgs, func(context.Context) ([]procedure.Outcome, error) { return p.round() })
	if err == nil && (result.Get(recs[0].Config, "from") != "b1" || result.Get(recs[1].Config, "from") != "b3") {
		o.Status, o.Reason = result.Failed, "the records are in another order"
	}
	return o, err
}

// boardMeters is a collector of one counter, and of meters of boards.
type boardMeters struct{ *tallyCollector }

func (c boardMeters) Series() []result.Series {
	all := c.tallyCollector.Series()[:1]
	for _, of := range []string{"b1", "b3", "switch", "all"} {
		all = append(all, result.Series{Name: "watts", Unit: "W", Labels: []result.Pair{{Key: "of", Value: of}}, Help: "watts"})
	}
	return all
}

func (c boardMeters) Read(dst []float64) error {
	for i := range dst {
		dst[i] = 5
	}
	dst[0] = float64(c.n.Load())
	return nil
}

// Trials at one time have each a record, and what telemetry saw of its own boards meanwhile. A
// resumed run carries out all of them where one is missing, and keeps those that are finished.
func TestTrialsAtOneTime(t *testing.T) {
	testutil.Privileged(t) // of the lock of whoever measures
	testutil.NoLeaks(t)
	x := &tallyCollector{}
	rounds := 0
	round := func() ([]procedure.Outcome, error) {
		rounds++
		x.n.Add(3)
		var outs []procedure.Outcome
		for _, pair := range [][]string{{"b1", "b2"}, {"b3", "b4"}} {
			begin := unit.Now()
			time.Sleep(20 * time.Millisecond)
			outs = append(outs, procedure.Outcome{
				Status: result.Passed, Boards: []result.Board{{Name: pair[0]}, {Name: pair[1]}}, Phases: []result.Phase{{Name: "traffic", Begin: begin, End: unit.Now()}},
				Values: []result.Value{{Metric: "steps", Unit: "1", Value: float64(rounds)}},
			})
		}
		return outs, nil
	}
	c := (&fake{kind: "real"}).catalogue()
	c.Procedures = []procedure.Spec{{Name: "twin", Doc: "two at once", Alone: true, New: func() procedure.Procedure { return &twin{round} }}}
	c.Collectors = []telemetry.Spec{{Name: "x", Doc: "a test", Default: true, New: func(context.Context, *telemetry.Machine) (telemetry.Collector, error) { return boardMeters{x}, nil }}}
	p := resolved(t, c, "procedures: [twin]\n")
	m := &memory{}
	check := func(run result.Run, recs []result.Record, err error, values ...float64) {
		t.Helper()
		if err != nil || len(recs) != 3 {
			t.Fatalf("%d records: %v", len(recs), err)
		}
		for i, want := range [][]string{{"b1", "switch", "all"}, {"b3", "switch", "all"}} {
			r := recs[slices.IndexFunc(recs, func(r result.Record) bool { return result.Get(r.Config, "from") == want[0] })]
			var seen []string
			grew := 0.0
			for _, d := range r.Digests {
				if of := result.Get(run.Series[d.Series].Labels, "of"); of != "" {
					seen = append(seen, of)
				} else if run.Series[d.Series].Name == "x_total" {
					grew = d.Growth
				}
			}
			if !slices.Equal(seen, want) || grew != 3 || r.Status != result.Passed || r.Values[0].Value != values[i] || r.End-r.Begin < unit.Instant(40*time.Millisecond) || r.Phases[0].Begin < r.Begin || r.Phases[0].End > r.End {
				t.Errorf("%s: %s, meters of %q, grew by %v in %v: %+v", r.ID, r.Status, seen, grew, time.Duration(r.End-r.Begin), r.Values)
			}
		}
	}
	run, recs, err := Run(t.Context(), p, m, Options{Catalogue: c})
	check(run, recs, err, 1, 1)
	done := slices.DeleteFunc(last(m.appended), func(r result.Record) bool { return r.Parent == "" || result.Get(r.Config, "from") == "b3" })
	again, recs, err := Run(t.Context(), p, m, Options{Catalogue: c, Header: run, Done: done, Resume: true})
	check(again, recs, err, 1, 2)
	if rounds != 2 {
		t.Errorf("%d rounds", rounds)
	}
}
