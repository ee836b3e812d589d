// SPDX-License-Identifier: Apache-2.0

package many

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"boxdyno/internal/guard"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/param"
	"boxdyno/result"
)

// A chosen is the boards that a point takes of a shelf.
type chosen struct {
	shelf Shelf
	nodes param.Count
	hot   param.Count // degrees Celsius above which a board does not begin
}

// newChosen takes least boards to most.
func newChosen(shelf Shelf, least, most int) chosen {
	return chosen{shelf: shelf, nodes: param.NewCount(least, least, most), hot: param.NewCount(85, 0, 150)}
}

// flags are its parameters; nodes says what boards do.
func (c *chosen) flags(fs *flag.FlagSet, nodes string) {
	fs.Var(&c.nodes, "nodes", nodes)
	fs.Var(&c.hot, "hot", "`degrees` Celsius above which a board is too hot to begin; 0: none is")
}

func (c *chosen) check() error {
	if n := len(c.shelf.Names()); c.nodes.Value > n {
		return fmt.Errorf("nodes %d: %d boards were selected", c.nodes.Value, n)
	}
	return nil
}

// names are the boards of env's point.
func (c *chosen) names(env *procedure.Env) []string {
	return Subset(c.shelf.Names(), c.nodes.Value, env.Seed, env.Repeat)
}

// Subset is the boards of a point: names in an order that the seed decides, from another
// place on in each repeat, so that repeats take other boards for as long as there are any.
func Subset(names []string, nodes int, seed uint64, repeat int) (out []string) {
	sorted := slices.Sorted(slices.Values(names))
	order := rand.New(rand.NewPCG(seed, 0)).Perm(len(sorted))
	for i := range min(nodes, len(sorted)) {
		out = append(out, sorted[order[((repeat-1)*nodes+i)%len(sorted)]])
	}
	return out
}

const atOnce = 32 // boards that are dialled side by side

// gather begins a session with each board of names. members is nil where one is not fit to
// begin: unfit says which.
func (c *chosen) gather(ctx context.Context, names []string) (_ []*member, unfit procedure.Outcome, err error) {
	hot := c.hot.Value
	members, whys := make([]*member, len(names)), make([]string, len(names))
	var all guard.Group
	turn := make(chan struct{}, atOnce)
	for i, name := range names {
		all.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			m := &member{name: name, asks: make(chan ask), done: make(chan struct{})}
			var err error
			if m.conn, err = c.shelf.Dial(ctx, name); err != nil {
				why := strings.TrimPrefix(procedure.Sentence(err), "missing ")
				whys[i] = "board " + name + " is missing: " + strings.TrimPrefix(why, "board "+name+" ")
				return
			}
			celsius, throttles := c.shelf.Heat(m.conn)
			m.throttles = throttles
			switch {
			case throttles < 0:
				whys[i] = "board " + name + " is throttled"
			case hot > 0 && celsius > float64(hot):
				whys[i] = fmt.Sprintf("board %s is hot: %.0f degrees Celsius, and %d are the most", name, celsius, hot)
			}
			members[i] = m
		})
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return nil, unfit, err
	}
	if why := several(whys); why != "" {
		return nil, procedure.Outcome{Status: result.Invalid, Reason: why, Boards: absent(names, why)}, nil
	}
	return members, unfit, nil
}

func absent(names []string, why string) (bs []result.Board) {
	for _, n := range names {
		b := result.Board{Name: n, Status: result.Skipped, Reason: "the point was not begun"}
		if strings.Contains(why, "board "+n+" is") {
			b.Status, b.Reason = result.Invalid, why
		}
		bs = append(bs, b)
	}
	return bs
}

// heat is a board's temperature in degrees Celsius, and whether it was throttled since it was
// asked last.
func (c *chosen) heat(m *member) (celsius float64, throttled bool) {
	celsius, n := c.shelf.Heat(m.conn)
	throttled = n < 0 || n > m.throttles
	m.throttles = max(n, 0)
	return celsius, throttled
}

// A carried is a procedure that chosen boards carry out, all from one instant.
type carried struct {
	chosen
	spec  procedure.Spec
	inner procedure.Procedure
	skew  share
}

func newCarried(inner procedure.Spec, c chosen) carried {
	return carried{chosen: c, spec: inner, inner: inner.New(), skew: share{0.02}}
}

func (c *carried) flags(fs *flag.FlagSet, nodes string) {
	c.chosen.flags(fs, nodes)
	fs.Var(&c.skew, "most_skew", "`share` of a trial's work by which a board may begin late, clock error included; above 1: by more than it lasts")
	c.inner.Flags(fs)
}

func (c *carried) check() error {
	if err := c.chosen.check(); err != nil {
		return err
	}
	return c.inner.Check(nil)
}

// params are those of the inner procedure.
func (c *carried) params() (ps []result.Pair) {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	c.inner.Flags(fs)
	fs.VisitAll(func(f *flag.Flag) { ps = append(ps, result.Pair{Key: f.Name, Value: f.Value.String()}) })
	return ps
}

// late says by how much a board began too late for so many seconds of work; "": it did not.
func (c *carried) late(b result.Board, seconds float64) string {
	off := b.Late.Abs() + b.ClockError
	if off.Seconds() <= c.skew.v*seconds {
		return ""
	}
	return fmt.Sprintf("board %s began up to %v from the common instant, more than %g %% of %.3g s of work", b.Name, off.Round(10*time.Microsecond), 100*c.skew.v, seconds)
}

// mostShare of a trial of 0.1 s is as long as boards may be apart that are ready.
const mostShare = 200

// A share is a part of a whole, or so many times the whole.
type share struct{ v float64 }

func (s *share) String() string { return strconv.FormatFloat(s.v, 'g', -1, 64) }

func (s *share) Set(text string) error {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v > 0 && v <= mostShare) {
		return fmt.Errorf("%q is no share: want a number above 0, at most %d", text, mostShare)
	}
	s.v = v
	return nil
}
