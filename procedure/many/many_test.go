// SPDX-License-Identifier: Apache-2.0

package many

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"boxdyno/host"
	"boxdyno/internal/fleetsim"
	"boxdyno/link"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/unit"
)

// A pipe carries a tester's messages to a board of this process.
type pipe struct {
	to   chan func()
	done chan struct{}
}

func (p *pipe) Octets() (sent, received uint64) { return 0, 0 }
func (p *pipe) Close()                          {}

// A boxed is a board behind a pipe.
type boxed struct {
	pipe
	server *link.Server
	ctx    context.Context
}

func (b *boxed) Publish(subject, reply string, data []byte) error {
	select {
	case b.to <- func() { b.server.Take(b.ctx, subject, reply, slices.Clone(data)) }:
		return nil
	case <-b.done:
		return errors.New("it is gone")
	}
}

// A bench is boards of this process.
type bench struct {
	t      *testing.T
	boards map[string]*fleetsim.Board
	gone   map[string]bool
	heat   map[string]float64
	skew   float64 // most_skew: a busy machine knows clocks badly

	mu    sync.Mutex
	conns map[string]*link.Conn
}

func (b *bench) Names() (names []string) {
	for n := range b.boards {
		names = append(names, n)
	}
	return names
}

func (b *bench) Heat(c *link.Conn) (float64, int64) { return b.heat[c.Name], 0 }

func (b *bench) Dial(_ context.Context, name string) (*link.Conn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.gone[name] {
		return nil, &host.Missing{What: "board " + name + " (it is silent)"}
	}
	sim := b.boards[name]
	ctx, cancel := context.WithCancel(context.Background())
	x := &boxed{pipe: pipe{to: make(chan func(), 1000), done: make(chan struct{})}, ctx: ctx}
	find, end := sim.Open(ctx, b.t.TempDir(), "v1")
	conn := link.Over(name, link.Hello{}, x, func() error { return nil })
	x.server = link.NewServer(find, func(subject string, data []byte) error {
		conn.Deliver(subject, slices.Clone(data))
		return nil
	})
	x.server.Now = sim.Now
	var all sync.WaitGroup
	all.Go(func() {
		for {
			select {
			case f := <-x.to:
				f()
			case <-x.done:
				return
			}
		}
	})
	b.t.Cleanup(func() {
		close(x.done)
		all.Wait()
		cancel()
		x.server.Wait()
		if err := end(); err != nil {
			b.t.Error(err)
		}
	})
	b.conns[name] = conn
	return conn, nil
}

func newBench(t *testing.T, n int) *bench {
	b := &bench{t: t, boards: map[string]*fleetsim.Board{}, gone: map[string]bool{}, heat: map[string]float64{}, skew: 100, conns: map[string]*link.Conn{}}
	for i := range n {
		b.boards[fmt.Sprintf("b%d", i+1)] = &fleetsim.Board{Speed: float64(i + 1), Clock: time.Duration(i) * time.Hour}
	}
	return b
}

// run carries out nodes boards' naps, and returns the trials' records beside. Boards begin at
// the common instant, but where Late says otherwise.
func (b *bench) run(ctx context.Context, nodes int, done []result.Record, set ...string) (procedure.Outcome, []result.Record, error) {
	p := Spec((&fleetsim.Board{Joint: b.boards["b1"].Joint}).Spec(), b).New().(*together)
	p.nodes.Value = nodes
	p.skew.v = b.skew
	for _, sim := range b.boards {
		if sim.Late == nil {
			sim.Late = new(time.Duration)
		}
	}
	var recs []result.Record
	env := &procedure.Env{Seed: 1, Repeat: 1}
	env.Trial = func(ctx context.Context, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		if n := len(recs); n < len(done) {
			recs = append(recs, done[n])
			return done[n], nil
		}
		o, err := f(ctx)
		rec := result.Record{Config: cfg, Status: o.Status, Reason: o.Reason, Values: o.Values, Boards: o.Boards, Phases: o.Phases}
		recs = append(recs, rec)
		return rec, err
	}
	o, err := p.Run(ctx, env)
	return o, recs, err
}

func value(vs []result.Value, name string) float64 {
	for _, v := range vs {
		if v.Metric == name {
			return v.Value
		}
	}
	return math.NaN()
}

// Boards whose clocks are hours apart begin together; rates are added up, each board's own
// are kept.
func TestTogether(t *testing.T) {
	b := newBench(t, 4)
	var mu sync.Mutex
	began := map[string][]unit.Instant{} // by this machine's clock
	for name, sim := range b.boards {
		sim.Spoil = func(_ int, o *procedure.Outcome) {
			mu.Lock()
			defer mu.Unlock()
			began[name] = append(began[name], o.Phases[0].Begin-unit.Instant(sim.Clock))
		}
	}
	o, recs, err := b.run(t.Context(), 4, nil)
	if err != nil || o.Status != result.Passed || value(o.Values, "naps_rate") != 10 || value(o.Values, "board_spread") != 3 {
		t.Fatalf("%s %s, %v, %v", o.Status, o.Reason, o.Values, err)
	}
	if len(recs) != 2 || len(o.Boards) != 4 {
		t.Fatalf("%d trials, %d boards", len(recs), len(o.Boards))
	}
	for n, r := range recs {
		at := r.Phases[0].Begin
		for _, x := range r.Boards {
			if x.Late != 0 || x.Phases[0].Begin != at || x.ClockError <= 0 || value(x.Values, "naps_rate") != b.boards[x.Name].Speed {
				t.Errorf("%+v", x)
			}
			if off := time.Duration(began[x.Name][n] - at); off.Abs() > x.ClockError {
				t.Errorf("%s began %v from the common instant, and its clock is known to %v", x.Name, off, x.ClockError)
			}
		}
	}
	// A resumed run asks no board again for what is finished.
	for _, x := range b.boards {
		x.Shown = func(n int) {
			if n == 1 {
				t.Error("a finished trial is carried out again")
			}
		}
	}
	if o, _, err := b.run(t.Context(), 4, recs[:1]); err != nil || o.Status != result.Passed || value(o.Values, "naps_rate") != 10 {
		t.Errorf("%s %s, %v", o.Status, o.Reason, err)
	}
}

// Whatever is wrong with a board makes the point invalid, or the trial, by its name.
func TestInvalidByName(t *testing.T) {
	for name, c := range map[string]struct {
		spoil  func(b *bench)
		status result.Status
		want   string
	}{
		"missing": {func(b *bench) { b.gone["b2"] = true }, result.Invalid, "board b2 is missing"},
		"hot":     {func(b *bench) { b.heat["b3"] = 99 }, result.Invalid, "board b3 is hot: 99 degrees"},
		"failed": {func(b *bench) {
			b.boards["b2"].Spoil = func(_ int, o *procedure.Outcome) { o.Status, o.Reason = result.Failed, "a wrong sum" }
		}, result.Failed, "board b2: a wrong sum"},
		"absurd figure": {func(b *bench) {
			b.boards["b2"].Spoil = func(_ int, o *procedure.Outcome) { o.Values[0].Value = 1e300 }
		}, result.Invalid, "board b2: it says that naps_rate is 1e+300"},
		"absurd instant": {func(b *bench) {
			b.boards["b2"].Spoil = func(_ int, o *procedure.Outcome) { o.Phases[0].Begin = math.MinInt64 / 2 }
		}, result.Invalid, "board b2: it says that it worked at an instant outside"},
		"no instant": {func(b *bench) {
			b.boards["b2"].Spoil = func(_ int, o *procedure.Outcome) { o.Phases = nil }
		}, result.Invalid, "board b2: it did not say when it began"},
		"dies": {func(b *bench) {
			b.boards["b2"].Held = func(_ context.Context, n int) {
				if n == 2 {
					b.mu.Lock()
					defer b.mu.Unlock()
					b.conns["b2"].Fail(errors.New("nothing was heard from b2 for 8s"))
				}
			}
		}, result.Invalid, "board b2: nothing was heard from b2"},
		"begins late": {func(b *bench) {
			late := 600 * time.Millisecond
			b.boards["b3"].Late, b.skew = &late, 5 // of 100 ms; as much is left to the others' clocks
		}, result.Invalid, "board b3 began up to"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 3)
			c.spoil(b)
			o, recs, err := b.run(t.Context(), 3, nil)
			if err != nil || o.Status != c.status || !strings.Contains(o.Reason, c.want) || strings.Contains(o.Reason, "b1") {
				t.Fatalf("%s %q, %v", o.Status, o.Reason, err)
			}
			for _, r := range recs {
				if r.Status != result.Passed && len(r.Values) > 0 {
					t.Errorf("a sum without a board: %v", r.Values)
				}
			}
			if value(o.Values, "naps_rate") == 6 && o.Status != result.Passed && name != "dies" {
				t.Errorf("%v", o.Values)
			}
		})
	}
}

// Subsets are the seed's, and repeats take other boards while there are any.
func TestSubset(t *testing.T) {
	names := []string{"f", "e", "d", "c", "b", "a"}
	seen := map[string]bool{}
	for repeat := 1; repeat <= 3; repeat++ {
		s := Subset(names, 2, 7, repeat)
		again := Subset([]string{"a", "b", "c", "d", "e", "f"}, 2, 7, repeat)
		if !slices.Equal(s, again) {
			t.Errorf("%v, and %v in another order", s, again)
		}
		for _, n := range s {
			if seen[n] {
				t.Errorf("%s serves twice in three repeats of 2 of 6", n)
			}
			seen[n] = true
		}
	}
	if slices.Equal(Subset(names, 6, 7, 1), Subset(names, 6, 8, 1)) {
		t.Error("another seed decides nothing else")
	}
	if one, two := Subset(names, 1, 7, 1), Subset(names, 2, 7, 1); one[0] != two[0] {
		t.Errorf("%v is no part of %v", one, two)
	}
}

// A board that says of no work, or of none within the trial, when it began is invalid.
func TestBoardBeganNothing(t *testing.T) {
	p := Spec((&fleetsim.Board{}).Spec(), newBench(t, 1)).New().(*together)
	work := []result.Phase{{Begin: 150, End: 180}}
	for name, c := range map[string]struct {
		phases []result.Phase
		began  unit.Instant
		want   result.Status
	}{
		"as it should":   {work, 150, result.Passed},
		"no work":        {[]result.Phase{}, 150, result.Invalid},
		"in 292 years":   {work, math.MaxInt64, result.Invalid},
		"292 years ago":  {work, math.MinInt64, result.Invalid},
		"after the work": {work, unit.Instant(time.Hour), result.Invalid},
	} {
		b := p.board(&member{name: "b1", conn: &link.Conn{}, pending: &ask{}}, nil,
			procedure.Outcome{Status: result.Passed, Phases: c.phases, Began: procedure.Began{At: c.began, Error: 1}}, nil, 150, 100, 200)
		o := procedure.Outcome{Boards: []result.Board{b}}
		if p.skew.v = 1; b.Status == c.want {
			p.judge(&o, 150)
		}
		if o.Status != c.want {
			t.Errorf("%s: %s %s, %q", name, b.Status, o.Status, b.Reason)
		}
	}
}
