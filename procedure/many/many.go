// SPDX-License-Identifier: Apache-2.0

// Package many has several boards carry out a procedure together. Each runs it by package
// far; their trials are one trial here:
//
//	board 1  far.Run --ask--\                    /-- f --> ready --\          /--> outcome --\
//	board 2  far.Run --ask---+--> env.Trial ----+--- f --> ready ---+-- At --+---> outcome ---+--> sum, spread, skew,
//	board N  far.Run --ask--/    (one record)    \-- f --> ready --/          \--> outcome --/     each board's own
//
// All begin their work at one instant of this machine's clock, and each says when it did.
// A board that is missing, hot, throttled or late makes the trial invalid by its name.
package many

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"boxdyno/internal/guard"
	"boxdyno/lab"
	"boxdyno/link"
	"boxdyno/procedure"
	"boxdyno/procedure/far"
	"boxdyno/procedure/internal/metrics"
	"boxdyno/procedure/internal/param"
	"boxdyno/result"
	"boxdyno/unit"
)

// A Shelf is the boards that a run chooses from.
type Shelf interface {
	Names() []string
	// Dial returns the session with a board, which stays open. A board that is not there is
	// a *host.Missing.
	Dial(ctx context.Context, name string) (*link.Conn, error)
	// Heat is the board's highest temperature in degrees Celsius (0: it has no sensor), and
	// how often it was throttled since boot (-1: it is now).
	Heat(c *link.Conn) (celsius float64, throttles int64)
}

// Lab is the name of the topology of a fleet.
const Lab = "fleet"

// Prefix begins the names of procedures that boards carry out together.
const Prefix = "fleet-"

// mostBoards are more than a fleet has.
const mostBoards = 100_000

// Spec is a procedure that boards of the shelf carry out together; inner is one that a board
// carries out by itself.
func Spec(inner procedure.Spec, shelf Shelf) procedure.Spec {
	s := inner
	s.Name, s.Lab, s.Needs = Prefix+inner.Name, Lab, 0
	s.Doc = "several boards of a fleet at once: " + inner.Doc
	s.Names = append([]string{"nodes"}, inner.Names...)
	s.Metrics = slices.Concat(labelled(inner.Metrics), declared)
	s.Trials = nil
	s.New = func() procedure.Procedure {
		return &together{carried: newCarried(inner, newChosen(shelf, 1, mostBoards)), sums: s.Metrics}
	}
	return s
}

// labelled are the metrics that are shown, which are summed.
func labelled(all []result.Metric) (out []result.Metric) {
	for _, m := range all {
		if m.Label != "" {
			out = append(out, m)
		}
	}
	return out
}

// Topology is a fleet's. machines asks boards what they are.
func Topology(shelf Shelf, machines func(ctx context.Context) []result.Machine) lab.Spec {
	return lab.Spec{Name: Lab, Doc: "boards of a fleet, which carry out procedures together", New: func() lab.Topology {
		return &bed{shelf: shelf, machines: machines, metered: param.NewCount(0, 0, mostBoards)}
	}}
}

type bed struct {
	shelf    Shelf
	machines func(context.Context) []result.Machine
	boxes    string
	shared   shared
	metered  param.Count
}

// shared are parts as a parameter, each checked.
type shared []result.Part

func (s *shared) String() string { return result.PartsText(*s) }

func (s *shared) Set(text string) error {
	parts, err := result.ParseParts(text)
	if err == nil {
		*s = parts
	}
	return err
}

func (b *bed) Flags(fs *flag.FlagSet) {
	fs.StringVar(&b.boxes, "boxes", "all", "the boards that were selected, as words with + between them")
	fs.Var(&b.shared, "shared", "`parts` that the boards share, such as switch=60USD,6..8W, with semicolons between them; none: they share nothing")
	fs.Var(&b.metered, "metered", "`boards` that one meter of all sees, whether they serve or not; 0: there is none, or it sees those that serve alone")
}

// Sketch implements lab.Topology.
func (b *bed) Sketch() (lab.Facts, error) {
	return lab.Facts{Topology: Lab, Kind: "real", TesterCPU: -1}, nil
}

func (b *bed) Build(ctx context.Context) (*lab.Testbed, error) {
	facts, err := b.Sketch()
	if err != nil {
		return nil, err
	}
	tb := &lab.Testbed{Facts: facts, Means: apart{}}
	tb.Machines = b.machines(ctx)
	if len(tb.Machines) == 0 {
		tb.Machines = []result.Machine{{Name: "no board answers", Kind: "real"}}
	}
	tb.Settings = []result.Pair{{Key: "boards", Value: strconv.Itoa(len(b.shelf.Names()))}}
	if b.metered.Value > 0 {
		tb.Settings = append(tb.Settings, result.Pair{Key: result.MeteredKey, Value: b.metered.String()})
	}
	if len(b.shared) > 0 {
		tb.Settings = append(tb.Settings, result.Pair{Key: result.SharedKey, Value: result.PartsText(b.shared)})
	}
	return tb, nil
}

// apart is a lab.Far of several boards: procedures ask each of them.
type apart struct{}

func (apart) Conn() *link.Conn                                     { return nil }
func (apart) Allowed() []int                                       { return nil }
func (apart) Environment() []result.Pair                           { return nil }
func (apart) Busy(context.Context, time.Duration) (float64, error) { return 0, nil }

// together is a procedure of several boards.
type together struct {
	carried
	sums metrics.List
}

// Flags implements Procedure.
func (p *together) Flags(fs *flag.FlagSet) { p.flags(fs, "`boards` that work at once") }

// Check implements Procedure. Whether parameters fit a board, that says when it is asked.
func (p *together) Check(*lab.Testbed) error { return p.check() }

// Estimate implements Procedure.
func (p *together) Estimate() (int, time.Duration) {
	n, d := p.inner.Estimate()
	return n, d + 2*time.Second
}

// stated is the subset as a trial's configuration has it: in full, or by a hash of it.
func stated(names []string) string {
	if len(names) <= 16 {
		return strings.Join(names, "+")
	}
	h := fnv.New32a()
	h.Write([]byte(strings.Join(names, " ")))
	return fmt.Sprintf("%d-boards-%08x", len(names), h.Sum32())
}

// A member is a board and its far.Run.
type member struct {
	name      string
	conn      *link.Conn
	throttles int64
	asks      chan ask
	done      chan struct{} // closed once far.Run has returned
	out       procedure.Outcome
	err       error
	pending   *ask
	arrived   bool // in this trial, where all begin; of the goroutine that carries out pending.f
}

// An ask is a trial that a board's procedure comes to.
type ask struct {
	cfg    []result.Pair
	f      func(context.Context) (procedure.Outcome, error)
	answer chan answered
}

type answered struct {
	rec result.Record
	err error
}

const (
	// atCompare is with how many boards clocks are compared side by side: more would be in
	// each other's way.
	atCompare = 4
	// patience is how long the last board may take for a step after the first.
	patience = time.Minute
)

// Run implements Procedure.
func (p *together) Run(ctx context.Context, env *procedure.Env) (o procedure.Outcome, err error) {
	names := p.names(env)
	members, unfit, err := p.gather(ctx, names)
	if members == nil {
		return unfit, err
	}
	ctx, cancel := context.WithCancel(ctx)
	b := &barrier{}
	clocks := make(chan struct{}, atCompare)
	params := p.params()
	var g *gathering // nil: each does a work of its own
	if p.spec.Joint {
		g = newGathering(len(members))
	}
	for i, m := range members {
		with := &far.With{Clocks: clocks, Begin: func(ctx context.Context) (unit.Instant, error) {
			m.arrived = true
			return b.arrive(ctx)
		}}
		if g != nil {
			with.Gather = func(ctx context.Context, mine []byte) ([][]byte, int, error) { return g.give(ctx, i, mine) }
		}
		guard.Go(func() {
			defer close(m.done)
			m.out, m.err = far.Run(ctx, m.conn, p.spec.Name, params, p.envOf(m), with)
			if g != nil {
				g.leave(m.name)
			}
		})
	}
	defer func() {
		cancel()
		for _, m := range members {
			<-m.done
		}
	}()
	r := rounds{p: p}
	for {
		open, why, err := p.step(ctx, members, g)
		if err != nil {
			return o, err
		}
		if why != "" {
			r.gone = why
			break
		}
		if !open {
			break
		}
		cfg := append(common(members), result.Pair{Key: "boards", Value: stated(names)})
		rec, err := env.Trial(ctx, cfg, func(ctx context.Context) (procedure.Outcome, error) { return p.trial(ctx, members, b, g) })
		if err == nil && len(rec.Boards) != len(members) {
			err = fmt.Errorf("the trial's record has %d boards, want %d", len(rec.Boards), len(members))
		}
		for i, m := range members {
			a := answered{err: err}
			if err == nil {
				a.rec = own(rec, rec.Boards[i])
			}
			m.pending.answer <- a
			m.pending = nil
		}
		if err != nil {
			return o, err
		}
		r.add(rec)
		if g != nil && rec.Status != result.Passed {
			break // the others' part of the work has no end
		}
	}
	return r.outcome(members), nil
}

// several is the sentences of all boards as one: those of the first, and how many more.
func several(whys []string) string {
	const most = 3
	whys = slices.DeleteFunc(slices.Clone(whys), func(s string) bool { return s == "" })
	text := strings.Join(whys[:min(len(whys), most)], "; ")
	if n := len(whys) - most; n > 0 {
		text += fmt.Sprintf("; and %d more", n)
	}
	return text
}

// envOf is where a board's procedure runs: its trials wait for those of the others.
func (p *together) envOf(m *member) *procedure.Env {
	return &procedure.Env{
		Trial: func(ctx context.Context, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
			a := ask{cfg, f, make(chan answered, 1)}
			select {
			case m.asks <- a:
			case <-ctx.Done():
				return result.Record{}, ctx.Err()
			}
			select {
			case got := <-a.answer:
				return got.rec, got.err
			case <-ctx.Done():
				return result.Record{}, ctx.Err()
			}
		},
		Unfinished: func([]result.Pair) *result.Record { return nil },
		Pause:      func(procedure.Outcome) bool { return true },
	}
}

// step waits until every board has come to its next trial, or to its end: open is false
// then. why says which board makes it impossible to go on.
func (p *together) step(ctx context.Context, members []*member, g *gathering) (open bool, why string, err error) {
	late := time.NewTimer(time.Hour)
	defer late.Stop()
	ended := 0
	whys := make([]string, len(members))
	begin := time.Now()
	for i, m := range members {
		select {
		case a := <-m.asks:
			m.pending = &a
		case <-m.done:
			ended++
			whys[i] = m.ended()
			switch {
			case g == nil:
			case g.refusal(i) != "":
				whys[i] = "board " + m.name + ": " + g.refusal(i)
			case g.refused(i):
				whys[i] = "" // that of the one which left says why
			}
		case <-late.C:
			whys[i] = fmt.Sprintf("board %s is late: others came to this trial %v before", m.name, time.Since(begin).Round(time.Second))
		case <-ctx.Done():
			return false, "", ctx.Err()
		}
		late.Reset(max(patience, 2*time.Since(begin)))
	}
	why = several(whys)
	if why == "" && ended > 0 && ended < len(members) {
		for _, m := range members {
			if m.pending == nil {
				why = fmt.Sprintf("board %s ended its procedure before others", m.name)
				break
			}
		}
	}
	return ended == 0, why, nil
}

// ended says why a board's procedure ended otherwise than well, "" if it did not.
func (m *member) ended() string {
	switch {
	case m.err != nil:
		return "board " + m.name + ": " + strings.TrimPrefix(procedure.Sentence(m.err), m.name+": ")
	case m.out.Status != result.Passed && m.out.Status != "":
		return fmt.Sprintf("board %s: %s: %s", m.name, m.out.Status, m.out.Reason)
	}
	return ""
}

// common is what the boards' trials have in common.
func common(members []*member) (cfg []result.Pair) {
	for _, p := range members[0].pending.cfg {
		if !slices.ContainsFunc(members, func(m *member) bool { return result.Get(m.pending.cfg, p.Key) != p.Value }) {
			cfg = append(cfg, p)
		}
	}
	return cfg
}

// own is a board's part of a trial's record.
func own(rec result.Record, b result.Board) result.Record {
	rec.Status, rec.Reason, rec.Values, rec.Usage, rec.Copies, rec.Warnings = b.Status, b.Reason, b.Values, b.Usage, b.Copies, b.Warnings
	rec.Boards = nil
	return rec
}

var byLate = func(a, b result.Board) int { return cmp.Compare(a.Late, b.Late) }
