// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"boxdyno/procedure"
	"boxdyno/result"
)

// A slow is a point of a made-up run, in virtual time.
type slow struct {
	visit   time.Duration // that each visit takes
	guess   time.Duration // that it is estimated to take
	says    int           // per cent of visit that the procedure says of each after the first; 0: it says nothing
	visits  int           // until it is over
	decides int           // visits until its criterion is decided; 0: it has none
	widths  []float64     // of its interval after each visit
}

// play visits points until the schedule says that time is over. It returns the order,
// when each visit began, and when the last one ended.
func play(budget time.Duration, points []slow) (order []int, begins []time.Duration, end time.Duration) {
	s := &schedule{budget: budget}
	for _, p := range points {
		s.slots = append(s.slots, slot{estimate: p.guess, width: 1, decides: p.decides > 0})
	}
	for {
		i, more := s.next(end)
		if !more {
			return order, begins, end
		}
		p := points[i]
		order, begins = append(order, i), append(begins, end)
		end += p.visit
		s.visited(i, p.visit)
		n := s.slots[i].visits
		s.slots[i].decides = n < p.decides
		s.slots[i].over = n >= p.visits
		s.slots[i].width = p.widths[n-1]
		s.slots[i].next = p.visit * time.Duration(p.says) / 100
	}
}

func drawSlow(t *rapid.T) slow {
	p := slow{
		visit:  time.Duration(rapid.IntRange(1, 10_000).Draw(t, "visit ms")) * time.Millisecond,
		guess:  time.Duration(rapid.IntRange(1, 5_000).Draw(t, "guess ms")) * time.Millisecond,
		visits: rapid.IntRange(1, 7).Draw(t, "visits"),
		says:   rapid.IntRange(0, 300).Draw(t, "says"),
	}
	if rapid.IntRange(0, 4).Draw(t, "one in five") == 0 {
		p.decides = rapid.IntRange(1, p.visits).Draw(t, "decides")
	}
	for range p.visits {
		p.widths = append(p.widths, rapid.Float64Range(0, 1).Draw(t, "width"))
	}
	return p
}

// Whatever the visits take, a run ends in its budget or by one visit later, it visits
// something, and the same run has the same order.
func TestScheduleKeepsItsBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		points := rapid.SliceOfN(rapid.Custom(drawSlow), 1, 20).Draw(t, "points")
		budget := time.Duration(rapid.IntRange(1, 200_000).Draw(t, "budget ms")) * time.Millisecond
		order, begins, end := play(budget, points)
		if len(order) == 0 {
			t.Fatal("nothing was visited")
		}
		for n, i := range order {
			if n > 0 && begins[n] >= budget {
				t.Fatalf("visit %d begins at %v of %v", n, begins[n], budget)
			}
			need := 1 // visits until its length is known
			if says := points[i].says; says > 0 && says < 100 {
				need = 2
			}
			if had := len(slices.DeleteFunc(slices.Clone(order[:n]), func(o int) bool { return o != i })); had >= need && begins[n]+points[i].visit > budget+time.Microsecond {
				t.Fatalf("visit %d of point %d begins at %v, and it is known to take %v of %v", n, i, begins[n], points[i].visit, budget)
			}
		}
		if last := points[order[len(order)-1]].visit; end > budget+last {
			t.Fatalf("it ends at %v, more than one visit after %v", end, budget)
		}
		if again, _, _ := play(budget, points); !slices.Equal(order, again) {
			t.Fatalf("%v, and then %v", order, again)
		}
		left := 0
		for i, p := range points {
			if n := len(slices.DeleteFunc(slices.Clone(order), func(o int) bool { return o != i })); n < p.visits {
				left++
			}
		}
		if all, _, _ := play(0, points); left == 0 && len(all) != len(order) {
			t.Fatalf("%d visits with time to spare, %d without a budget", len(order), len(all))
		}
	})
}

// A criterion that half of the budget decides is decided before any point without one
// is visited.
func TestScheduleDecidesFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		points := rapid.SliceOfN(rapid.Custom(drawSlow), 1, 12).Draw(t, "points")
		var need time.Duration
		for _, p := range points {
			need += p.visit * time.Duration(p.decides)
		}
		if need == 0 {
			t.Skip("no point decides")
		}
		order, _, _ := play(4*need+100*time.Second, points)
		visits := make([]int, len(points))
		for _, i := range order {
			open := slices.ContainsFunc(points, func(p slow) bool {
				return visits[slices.IndexFunc(points, func(q slow) bool { return &q.widths[0] == &p.widths[0] })] < p.decides
			})
			if visits[i]++; open && points[i].decides < visits[i] {
				t.Fatalf("point %d is visited while a criterion is open: %v", i, order)
			}
		}
	})
}

// A criterion that cannot be decided leaves half of the budget to points that were
// never visited, and takes its visits after them.
func TestScheduleLeavesTime(t *testing.T) {
	widths := slices.Repeat([]float64{0.5}, 100)
	never := slow{visit: time.Second, guess: time.Second, visits: 100, decides: 100, widths: widths}
	once := slow{visit: time.Second, guess: time.Second, visits: 5, widths: widths}
	order, _, end := play(20*time.Second, []slow{once, never, once, once})
	want := append(append(slices.Repeat([]int{1}, 11), 0, 2, 3), slices.Repeat([]int{1}, 6)...)
	if !slices.Equal(order, want) || end != 20*time.Second {
		t.Errorf("%v until %v, want %v", order, end, want)
	}
}

// A visit that its procedure says is longer or shorter than those before is begun if there is
// time for that.
func TestScheduleKnowsTheNextVisit(t *testing.T) {
	const s8, s40 = 8 * time.Second, 40 * time.Second
	for _, c := range []struct {
		longest, next time.Duration
		want          bool
	}{{s8, 0, true}, {s8, 29 * time.Second, true}, {s8, 31 * time.Second, false}, {s40, 0, false}, {s40, 29 * time.Second, true}} {
		s := &schedule{budget: 90 * time.Second, begun: true, slots: []slot{{visits: 3, longest: c.longest, next: c.next}}}
		if _, more := s.next(60 * time.Second); more != c.want {
			t.Errorf("of %v after one of %v: %v", c.next, c.longest, more)
		}
	}
}

// A visit is expected to be longer than its procedure says by as much as earlier ones were. One
// that was shorter, or that an earlier part of the run made, changes nothing.
func TestScheduleLearnsFromWhatWasSaid(t *testing.T) {
	const second = time.Second
	for _, c := range []struct {
		took   time.Duration
		stored bool
		want   time.Duration
	}{{16 * second, false, 20 * second}, {8 * second, false, 10 * second}, {2 * second, false, 10 * second}, {16 * second, true, 10 * second}} {
		s := &schedule{budget: time.Minute, slots: []slot{{estimate: second}}}
		s.visited(0, 40*second) // said by nobody
		s.slots[0].next, s.slots[0].stored = 8*second, c.stored
		s.visited(0, c.took)
		s.slots[0].next = 10 * second
		if got := s.expect(0); got != c.want {
			t.Errorf("10 s are said, after a visit of %v instead of 8 s: %v, want %v", c.took, got, c.want)
		}
	}
}

// The widest interval has the next visit, and less so the more it has had.
func TestScheduleWidest(t *testing.T) {
	at := func(w ...float64) slow {
		return slow{visit: time.Second, guess: time.Second, visits: len(w), widths: w}
	}
	order, _, _ := play(9*time.Second, []slow{at(0.1, 0.1, 0.1), at(0.9, 0.9, 0.1, 0.1), at(0.5, 0, 0)})
	if want := []int{0, 1, 2, 1, 1, 2, 0, 0, 1}; !slices.Equal(order, want) {
		t.Errorf("%v, want %v", order, want)
	}
	order, _, _ = play(0, []slow{at(1, 1), at(1), at(1, 1, 1)})
	if want := []int{0, 1, 2, 0, 2, 2}; !slices.Equal(order, want) {
		t.Errorf("without a budget %v, want %v", order, want)
	}
}

// A point whose visits are spoilt waits longer after each, and is visited all the same
// where no other is left.
func TestScheduleWaits(t *testing.T) {
	s := &schedule{budget: time.Minute}
	for i := range 4 {
		s.slots = append(s.slots, slot{estimate: time.Second, width: 1, decides: i == 1, blank: i == 1})
	}
	var order []int
	for n := range 14 {
		i, more := s.next(time.Duration(n) * time.Second)
		if !more {
			t.Fatal("it is over")
		}
		order = append(order, i)
		s.visited(i, time.Second)
		s.slots[i].over = i != 1 && s.slots[i].visits == 3 || s.slots[i].visits == 5
	}
	if want := []int{1, 0, 1, 2, 3, 1, 0, 2, 3, 1, 0, 2, 3, 1}; !slices.Equal(order, want) {
		t.Errorf("%v, want %v", order, want)
	}
}

func TestWidthOf(t *testing.T) {
	ms := []result.Metric{{Name: "rate", Better: 1}, {Name: "offered"}}
	v := func(metric string, lo, hi float64, b result.Bound) result.Value {
		v := result.Value{Metric: metric, Value: lo, Lo: &lo, Bound: b}
		if hi > 0 {
			v.Hi = &hi
		}
		return v
	}
	open := v("rate", 75, 0, ">=")
	open.Open = true
	for _, c := range []struct {
		vs   []result.Value
		want float64
	}{
		{nil, 1}, {[]result.Value{v("offered", 1, 9, "")}, 1}, {[]result.Value{v("rate", 75, 100, "")}, 0.25}, {[]result.Value{v("rate", 75, 0, "")}, 1},
		{[]result.Value{v("rate", 75, 0, ">=")}, 0}, {[]result.Value{open}, 1}, {[]result.Value{{Metric: "rate", Value: 3, Bound: result.AtMost}}, 1}, {[]result.Value{{Metric: "rate", Value: 3}}, 0}, {[]result.Value{v("rate", 75, 100, ""), v("rate", 50, 100, "")}, 0.5},
	} {
		if got := widthOf(c.vs, ms); got != c.want {
			t.Errorf("%+v: %v, want %v", c.vs, got, c.want)
		}
	}
}

// A run with a budget ends in it: points that it has no time for are named, what others
// found so far is kept, and a resumed run measures nothing twice.
func TestBudget(t *testing.T) { synctest.Test(t, inBudget) }

func inBudget(t *testing.T) {
	const budget = 2 * time.Second
	f := &fake{trial: func(string) (procedure.Outcome, error) {
		time.Sleep(60 * time.Millisecond)
		return procedure.Outcome{Status: result.Passed}, nil
	}}
	c := f.catalogue()
	p := resolved(t, c, "procedures:\n  - {use: probe, kind: b, level: [1, 2, 3, 4, 5, 6]}\nbudget: 2s\n")
	if p.Budget != budget {
		t.Fatalf("the budget is %v", p.Budget)
	}
	least := 0.0
	criteria := []result.Criterion{{Text: "never measured", Metric: "steps", Where: []result.Pair{{Key: "level", Value: "4"}}, Min: &least}}
	m := &memory{}
	begin := time.Now()
	run, recs, err := Run(context.Background(), p, m, Options{Catalogue: c, Header: result.Run{Criteria: criteria}})
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > budget {
		t.Errorf("the run took %v", took)
	}
	b := run.Budget
	if b == nil || b.Seconds != 2 || len(b.NotMeasured) == 0 || len(b.Ended)+len(b.NotMeasured) > 6 || len(run.NotMeasured) != len(b.NotMeasured) {
		t.Fatalf("%+v, %q", b, run.NotMeasured)
	}
	if got := slices.IndexFunc(f.ran, func(s string) bool { return !strings.HasPrefix(s, "self-test") }); !strings.HasPrefix(f.ran[got], "b/4/") {
		t.Errorf("the criterion's point does not come first: %q", f.ran)
	}
	for _, r := range recs {
		if r.Parent == "" && slices.Contains(b.Ended, r.ID) && (!r.Finished() || !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "ended by the time budget") })) {
			t.Errorf("%s: %s %q", r.ID, r.Status, r.Warnings)
		}
		if slices.Contains(b.NotMeasured, r.ID) {
			t.Errorf("%s has a record", r.ID)
		}
	}
	// Cut off amid a trial, it goes on with what its trials left of the budget.
	for cut := 1; cut < len(m.appended); cut += 3 {
		done := last(m.appended[:cut])
		rest := &fake{}
		again, err := Parse("run.json", m.run.Plan)
		if err == nil {
			again, err = again.Resolve(rest.catalogue())
		}
		if err != nil {
			t.Fatal(err)
		}
		header := run
		header.Environments, header.Budget, header.NotMeasured = header.Environments[:1], nil, nil
		resumed := &memory{}
		if _, _, err := Run(context.Background(), again, resumed, Options{Catalogue: rest.catalogue(), Header: header, Done: done, Resume: true}); err != nil {
			t.Fatal(err)
		}
		for _, r := range resumed.appended {
			if i := slices.IndexFunc(done, func(d result.Record) bool { return d.ID == r.ID }); i >= 0 && kept(done[i]) {
				t.Errorf("cut after %d: %s is measured again", cut, r.ID)
			}
		}
	}
}

// A resumed run decides by what was left of the budget before each trial, to the nanosecond:
// whatever its own set-up takes, and however long it stood still.
func TestResumeDecidesByTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{left: true, trial: func(string) (procedure.Outcome, error) {
			time.Sleep(60 * time.Millisecond)
			return procedure.Outcome{Status: result.Passed}, nil
		}}
		m := &memory{}
		run, recs, err := Run(t.Context(), resolved(t, f.catalogue(), "procedures:\n  - {use: probe, kind: b, level: [1, 2]}\nbudget: 10s\n"), m, Options{Catalogue: f.catalogue()})
		if err != nil || len(recs) != 2*5+1 {
			t.Fatalf("%v: %d records", err, len(recs))
		}
		for cut := 1; cut < len(m.appended); cut++ {
			rest := &fake{left: true, first: func(*probe) error { time.Sleep(7 * time.Millisecond); return nil }}
			again, err := Parse("run.json", m.run.Plan)
			if err == nil {
				again, err = again.Resolve(rest.catalogue())
			}
			if err != nil {
				t.Fatal(err)
			}
			done := last(m.appended[:cut])
			header := run
			header.Environments, header.Budget = header.Environments[:1], nil
			_, recs, err := Run(t.Context(), again, &memory{}, Options{Catalogue: rest.catalogue(), Header: header, Done: done, Resume: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range recs {
				n, _, _ := strings.Cut(r.ID, " ")
				if slices.ContainsFunc(done, func(d result.Record) bool { return kept(d) && d.ID != r.ID && strings.HasPrefix(d.ID, n+" ") }) {
					t.Errorf("cut after %d: %s is carried out beside what is stored", cut, r.ID)
				}
			}
		}
	})
}

// A point that has nothing left to do but to decide a criterion is visited again only
// while a budget lasts and the criterion is open, and is not called cut off.
func TestExtraVisits(t *testing.T) {
	for _, c := range []struct {
		budget string
		least  float64
		trials int
	}{{"0", 5, 1}, {"20s", 5, 4}, {"20s", 50, 1}, {"20s", -1, 1}} {
		f := &fake{extra: true}
		cat := f.catalogue()
		p := resolved(t, cat, "procedures:\n  - {use: probe, kind: b, level: 1}\nbudget: "+c.budget+"\n")
		run, recs, err := Run(context.Background(), p, &memory{}, Options{Catalogue: cat, Header: result.Run{Criteria: []result.Criterion{{Text: "steps", Metric: "steps", Min: &c.least}}}})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(f.ran) - 1; n != c.trials { // but for the self-test
			t.Errorf("budget %s, at least %v: %d trials, want %d: %q", c.budget, c.least, n, c.trials, f.ran)
		}
		if b := run.Budget; b != nil && len(b.Ended) > 0 {
			t.Errorf("budget %s, at least %v: %v is said to be cut off", c.budget, c.least, b.Ended)
		}
		if i := slices.IndexFunc(recs, func(r result.Record) bool { return r.Parent == "" && r.Procedure == "probe" }); i < 0 || recs[i].Status != result.Passed {
			t.Errorf("budget %s, at least %v: %+v", c.budget, c.least, recs)
		}
	}
}

// No trial is begun that would not end in time if it lasts as long as the latest of its kind.
// Of an earlier part of the run, what is left is what was left then.
func TestSpentAndLeft(t *testing.T) {
	v := &visited{lasted: map[string]time.Duration{"rate": 50 * time.Minute, "search": time.Minute}}
	x := &execution{plan: Plan{Budget: time.Hour}, clock: clock{start: time.Now().Add(-30 * time.Minute)}, every: []*visited{v}}
	env := x.env(v, nil)
	for kind, want := range map[string]bool{"rate": true, "search": false, "fill": false} {
		if got := env.Spent(kind); got != want {
			t.Errorf("%s: spent %v, want %v", kind, got, want)
		}
	}
	if left := env.Left(); left > 30*time.Minute || left < 10*time.Minute {
		t.Errorf("%v are left", left)
	}
	v.left = nil
	x.stored = map[string][]stored{"": {{"rate", []time.Duration{2 * time.Minute, time.Minute}}}}
	if first, second := env.Left(), env.Left(); first != 2*time.Minute || second != time.Minute || env.Spent("rate") || !env.Spent("search") {
		t.Errorf("%v and %v were left, spent %v", first, second, env.Spent("rate"))
	}
}

// The time left is shared by the points at which no load is known to be carried yet, and that
// the run comes back to.
func TestLeftIsShared(t *testing.T) {
	low := 5.0
	known := procedure.Outcome{Values: []result.Value{{Metric: "steps", Unit: "1", Value: low, Lo: &low}}}
	less := procedure.Outcome{Values: []result.Value{{Metric: "steps", Unit: "1", Value: low, Bound: result.AtMost}}}
	f := &fake{}
	c := f.catalogue()
	c.Procedures[0].Metrics[0].Better = 1
	at := func(v visited) *visited { v.Procedure = "probe"; return &v }
	own := at(visited{begun: true, found: less})
	for name, x := range map[string]struct {
		others []*visited
		want   float64
	}{
		"alone":                      {nil, 1},
		"others know a load":         {[]*visited{at(visited{begun: true, found: known}), at(visited{begun: true, found: known})}, 1},
		"one knows only what is not": {[]*visited{at(visited{begun: true, found: less}), at(visited{begun: true, found: known})}, 1. / 2},
		"one knows nothing":          {[]*visited{at(visited{begun: true}), at(visited{begun: true, found: less})}, 1. / 3},
		"one has not begun":          {[]*visited{at(visited{due: 4})}, 1. / 2},
		"one has one visit":          {[]*visited{at(visited{due: 1})}, 1},
		"one is over":                {[]*visited{at(visited{begun: true, over: true, found: less})}, 1},
	} {
		run := &execution{o: Options{Catalogue: c}, plan: Plan{Budget: time.Hour}, clock: clock{start: time.Now()}, every: append([]*visited{own}, x.others...)}
		if got := run.left(own).Seconds() / run.visiting().Seconds(); math.Abs(got/x.want-1) > 0.01 {
			t.Errorf("%s: %v of the time, want %v", name, got, x.want)
		}
	}
}
