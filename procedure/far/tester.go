// SPDX-License-Identifier: Apache-2.0

package far

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"boxdyno/internal/guard"
	"boxdyno/link"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/unit"
)

// Check asks the box behind c whether a procedure's parameters fit it. What the box lacks is
// a *host.Missing.
func Check(ctx context.Context, c *link.Conn, name string, params []result.Pair) error {
	_, err := checkMethod.Call(ctx, c, procedureArgs{Name: name, Params: params})
	return err
}

// mostTrials are more than a procedure of a whole machine has.
const mostTrials = 10_000

// With is the other boxes of a procedure that several carry out together.
type With struct {
	// Begin returns the instant at which all begin a trial's work, once all are ready.
	Begin func(ctx context.Context) (unit.Instant, error)
	// Gather returns what all boxes give, and which of it is this one's, once each has; nil:
	// they do no work together.
	Gather func(ctx context.Context, mine []byte) (all [][]byte, here int, err error)
	// Pair is the board that this one sends to; nil: it sends to none.
	Pair *Pair
	// Clocks has room for as many boxes as may compare clocks side by side.
	Clocks chan struct{}
}

// Run has the box behind c carry out a procedure. Its trials are env's; instants in their
// outcomes are of this machine's clock. It returns once the procedure has ended there, or at
// once if ctx or the connection has. with is nil for a box alone.
func Run(ctx context.Context, c *link.Conn, name string, params []result.Pair, env *procedure.Env, with *With) (o procedure.Outcome, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := &tester{conn: c, env: env, with: with, items: make(chan item)}
	made := procedureArgs{Name: name, Params: params, Together: with != nil}
	method, args := string(runMethod), any(made)
	var passing *link.Server
	switch {
	case with != nil && with.Gather != nil:
		method = string(jointMethod)
	case with != nil && with.Pair != nil:
		method, args = string(pairMethod), with.Pair.args(made)
		passing = with.Pair.passing(func(subject string, data []byte) error {
			_, err := passedMethod.Call(ctx, c, call{Subject: subject, Data: data})
			return err
		})
		defer func() {
			cancel()
			passing.Wait()
			with.Pair.end(ctx)
		}()
	}
	guard.Go(func() {
		defer close(t.items)
		t.end = c.Stream(ctx, method, args, nil, func(raw json.RawMessage) error {
			var i item
			if err := json.Unmarshal(raw, &i); err != nil {
				return fmt.Errorf("%s sent of %s what cannot be read: %w", c.Name, name, err)
			}
			if i.Kind == callItem && i.Call != nil && passing != nil {
				passing.Take(ctx, i.Call.Subject, i.Call.Reply, i.Call.Data)
				return nil
			}
			select {
			case t.items <- i:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	trials := 0
	var first error // of a trial, after which the procedure is to end
	for i := range t.items {
		if i.Kind == trialItem || first != nil {
			trials++
		}
		switch {
		case trials > mostTrials:
			err = fmt.Errorf("%s asks for more than %d trials of %s", c.Name, mostTrials, name)
		case first != nil:
			_ = t.answer(ctx, answer{Error: first.Error()}) // its last outcome wants none
		case i.Kind == trialItem:
			rec, terr := t.trial(ctx, i.Config)
			if terr != nil {
				first = terr
				if c.Err() == nil {
					err = t.answer(ctx, answer{Error: terr.Error()})
				}
				break
			}
			rec.Digests = nil // the procedure reads none
			err = t.answer(ctx, answer{Record: &rec})
		case i.Kind == unfinishedItem:
			a := answer{Record: env.Unfinished(i.Config)}
			if a.Record != nil {
				a.Age = time.Since(a.Record.Start)
			}
			err = t.answer(ctx, a)
		case i.Kind == pauseItem:
			err = t.answer(ctx, answer{Go: env.Pause(found(i))})
		case i.Kind == gatherItem:
			err = t.gather(ctx, i.Data)
		case i.Kind == outcomeItem:
			o = found(i)
		default:
			err = fmt.Errorf("%s asks for %q", c.Name, link.Cut(i.Kind, 40))
		}
		if err != nil {
			cancel()
			for range t.items {
			}
			break
		}
	}
	return o, cmp.Or(first, err, t.end)
}

// A tester is this end of a procedure.
type tester struct {
	conn  *link.Conn
	env   *procedure.Env
	with  *With
	items chan item // closed when the procedure has ended
	end   error     // how
}

func (t *tester) answer(ctx context.Context, a answer) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	_, err := answerMethod.Call(ctx, t.conn, a)
	return err
}

// clockReadings are taken anew for each trial: clocks drift apart.
const clockReadings = 8

// wellKnown is the error at which the clock of one of many boxes is known well enough.
const wellKnown = 300 * time.Microsecond

// trial lets the box carry out a trial of env's.
func (t *tester) trial(ctx context.Context, cfg []result.Pair) (result.Record, error) {
	return t.env.Trial(ctx, cfg, func(ctx context.Context) (procedure.Outcome, error) {
		clock, err := t.clock(ctx)
		if err == nil {
			err = t.answer(ctx, answer{Go: true})
		}
		if err != nil {
			return procedure.Outcome{}, err
		}
		gathered := make(chan error, 1)
		gathering := false
		var heard [2]time.Duration // the least and the most before the instant that the box can have heard of it
		ctx, stop := context.WithCancel(ctx)
		defer func() {
			if stop(); gathering {
				<-gathered
			}
		}()
		for waited := false; ; {
			select {
			case err := <-gathered:
				if gathering = false; err != nil {
					return procedure.Outcome{}, err
				}
			case i, more := <-t.items:
				switch {
				case !more && t.end != nil:
					return procedure.Outcome{}, t.end
				case !more:
					return procedure.Outcome{}, fmt.Errorf("the procedure ended on %s in a trial", t.conn.Name)
				case i.Kind == readyItem && waited:
					return procedure.Outcome{}, fmt.Errorf("%s asks a second time in a trial when to begin", t.conn.Name)
				case i.Kind == readyItem && t.with != nil:
					if heard, err = t.together(ctx, clock); err != nil {
						return procedure.Outcome{}, err
					}
					waited = true
					continue
				case i.Kind == gatherItem:
					if gathering { // the box has its answer, or would not ask again
						if err := <-gathered; err != nil {
							gathering = false
							return procedure.Outcome{}, err
						}
					}
					gathering = true // beside: its own part of the work may fail meanwhile
					guard.Go(func() { gathered <- t.gather(ctx, i.Data) })
					continue
				case i.Kind != outcomeItem:
					return procedure.Outcome{}, fmt.Errorf("%s asks for %q in a trial", t.conn.Name, link.Cut(i.Kind, 40))
				}
				o := here(found(i), clock)
				if o.Began = (procedure.Began{}); i.Began != 0 {
					o.Began = procedure.Began{At: clock.Here(i.Began), Error: clock.Error, Heard: min(max(i.Heard, heard[0]), heard[1])}
				}
				return o, i.Failure.err(t.conn.Name)
			case <-ctx.Done():
				return procedure.Outcome{}, ctx.Err()
			}
		}
	})
}

func (t *tester) clock(ctx context.Context) (link.ClockOffset, error) {
	if t.with != nil {
		select {
		case t.with.Clocks <- struct{}{}:
			defer func() { <-t.with.Clocks }()
		case <-ctx.Done():
			return link.ClockOffset{}, ctx.Err()
		}
	}
	if t.with == nil {
		return t.conn.Clock(ctx, clockReadings)
	}
	best, err := t.conn.Clock(ctx, 1)
	for n := 1; n < clockReadings && err == nil && best.Error > wellKnown; n++ {
		var next link.ClockOffset
		if next, err = t.conn.Clock(ctx, 1); next.Error < best.Error {
			best = next
		}
	}
	return best, err
}

// together answers with the instant at which all boxes begin, of the box's clock. By this machine's
// clock the box hears of it after the answer has left, and before that is acknowledged: so long
// before the instant, at least and at most.
func (t *tester) together(ctx context.Context, clock link.ClockOffset) (heard [2]time.Duration, err error) {
	at, err := t.with.Begin(ctx)
	if err != nil {
		return heard, err
	}
	heard[1] = time.Duration(at - unit.Now())
	err = t.answer(ctx, answer{At: at + unit.Instant(clock.Offset)})
	heard[0] = time.Duration(at - unit.Now())
	return heard, err
}

// gather answers with what all boxes gave. That another one is gone is the box's to judge.
func (t *tester) gather(ctx context.Context, mine []byte) error {
	if t.with == nil || t.with.Gather == nil {
		return fmt.Errorf("%s asks for other boxes, and works alone", t.conn.Name)
	}
	all, here, err := t.with.Gather(ctx, mine)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return t.answer(ctx, answer{Error: err.Error()})
	}
	return t.answer(ctx, answer{All: all, Here: here})
}

func found(i item) procedure.Outcome {
	if i.Outcome == nil {
		return procedure.Outcome{}
	}
	return *i.Outcome
}

// here is o with the instants of this machine.
func here(o procedure.Outcome, clock link.ClockOffset) procedure.Outcome {
	for i := range o.Phases {
		p := &o.Phases[i]
		p.Begin, p.End = clock.Here(p.Begin), clock.Here(p.End)
	}
	for _, ks := range [][]result.KPI{o.KPIs, o.Samples} {
		for i := range ks {
			ks[i].Begin, ks[i].End = clock.Here(ks[i].Begin), clock.Here(ks[i].End)
		}
	}
	return o
}
