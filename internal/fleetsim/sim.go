// SPDX-License-Identifier: Apache-2.0

// Package fleetsim has boards of a fleet in this process, for tests and proofs: the agent's
// own code, with a procedure that loads nothing.
package fleetsim

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"time"

	"boxdyno/agent"
	"boxdyno/lab"
	"boxdyno/link"
	"boxdyno/procedure"
	"boxdyno/procedure/far"
	"boxdyno/result"
	"boxdyno/unit"
)

// A Board is how a simulated board does.
type Board struct {
	Speed   float64                           // naps a second
	Clock   time.Duration                     // its clock is ahead of this machine's
	Late    *time.Duration                    // its work is said to begin so long after the common instant and to last as long as it should, however late it wakes; nil: as it was
	Spoil   func(n int, o *procedure.Outcome) // changes the outcome of trial n, from 1; nil: nothing does
	Held    func(ctx context.Context, n int)  // is called before trial n begins its work; nil: nothing is
	Shown   func(n int)                       // is called when trial n is carried out
	Works   func(on bool)                     // is called when a nap begins and when it ends; nil: nothing is
	Joint   bool                              // its naps are one work with those of the others, which it gathers in every trial
	Gathers func(n int) error                 // of Joint: is called before trial n gathers; nil: nothing is
	Gives   []byte                            // of Joint: what it gives the others first, and whose refusal it does not mind; nil: nothing
}

// Spec is the procedure of a board: naps of a time, in rounds.
func (b *Board) Spec() procedure.Spec {
	return procedure.Spec{
		Name: "nap", Doc: "waits, for tests of fleets", Alone: true, Joint: b.Joint,
		Metrics: []result.Metric{{Name: "naps_rate", Label: "naps", Group: "Naps", Unit: "1/s", Better: 1, Heads: true, Help: "naps a second"}},
		Joules:  []procedure.Joule{procedure.Worked("naps_rate", "nap", 1, "")},
		New:     func() procedure.Procedure { return &nap{board: b, lasts: 100 * time.Millisecond, rounds: 2} },
	}
}

// Now is the board's clock.
func (b *Board) Now() unit.Instant { return unit.Now() + unit.Instant(b.Clock) }

// Open begins what one session may ask for, as agent.Open does.
func (b *Board) Open(ctx context.Context, folder, version string) (find func(string) link.Handler, end func() error) {
	return agent.Open(ctx, folder, version, nil, far.Methods([]procedure.Spec{b.Spec()})...)
}

type nap struct {
	board  *Board
	lasts  time.Duration
	rounds int
}

func (p *nap) Flags(fs *flag.FlagSet) {
	fs.DurationVar(&p.lasts, "lasts", p.lasts, "`time` of a nap")
	fs.IntVar(&p.rounds, "rounds", p.rounds, "`naps`")
}

func (p *nap) Check(*lab.Testbed) error { return nil }

func (p *nap) Estimate() (int, time.Duration) { return p.rounds, time.Duration(p.rounds) * p.lasts }

func (p *nap) Run(ctx context.Context, env *procedure.Env) (o procedure.Outcome, err error) {
	for n := range p.rounds {
		rec, err := env.Trial(ctx, []result.Pair{{Key: "trial", Value: strconv.Itoa(n + 1)}}, func(ctx context.Context) (procedure.Outcome, error) {
			return p.one(ctx, env, n+1)
		})
		if err != nil {
			return o, err
		}
		o.Status, o.Reason, o.Values = rec.Status, rec.Reason, rec.Values
	}
	return o, nil
}

func (p *nap) one(ctx context.Context, env *procedure.Env, n int) (o procedure.Outcome, err error) {
	if p.board.Shown != nil {
		p.board.Shown(n)
	}
	if p.board.Held != nil {
		p.board.Held(ctx, n)
	}
	if p.board.Gathers != nil {
		if err := p.board.Gathers(n); err != nil {
			return o, err
		}
	}
	ahead := unit.Instant(p.board.Clock)
	exact := env.Together != nil && p.board.Late != nil
	var begin unit.Instant
	if env.Together != nil { // the instant is of the board's clock
		at, err := env.Together(ctx)
		if err != nil {
			return o, err
		}
		if begin = at - ahead; exact {
			begin += unit.Instant(*p.board.Late)
		}
		if err := until(ctx, begin); err != nil {
			return o, err
		}
	}
	if !exact {
		begin = unit.Now()
	}
	if p.board.Works != nil {
		p.board.Works(true)
		defer p.board.Works(false)
	}
	if err := until(ctx, begin+unit.Instant(p.lasts)); err != nil {
		return o, err
	}
	here := 0
	if p.board.Joint {
		var all [][]byte
		if p.board.Gives != nil {
			_, _, _ = env.Gathered(ctx, p.board.Gives)
		}
		if all, here, err = env.Gathered(ctx, []byte("done")); err != nil || string(all[0]) != "done" {
			return procedure.Outcome{Status: result.Failed, Reason: fmt.Sprintf("%q, %v", all, err)}, nil
		}
	}
	end := unit.Now()
	if exact {
		end = begin + unit.Instant(p.lasts)
	}
	o.Status = result.Passed
	o.Phases = []result.Phase{{Name: "work", Begin: begin + ahead, End: end + ahead}}
	if here == 0 {
		o.Values = []result.Value{{Metric: "naps_rate", Unit: "1/s", Value: p.board.Speed}}
	}
	if p.board.Spoil != nil {
		p.board.Spoil(n, &o)
	}
	return o, nil
}

func until(ctx context.Context, at unit.Instant) error {
	late := time.NewTimer(time.Duration(at - unit.Now()))
	defer late.Stop()
	select {
	case <-late.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
