// SPDX-License-Identifier: Apache-2.0

package far

import (
	"context"
	"errors"
	"sync"
	"time"

	"boxdyno/agent"
	"boxdyno/lab"
	"boxdyno/link"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/unit"
)

// Methods are the agent's, for one tester; specs are the procedures that it carries out. The
// joint ones among them, and paired ones, have methods of their own.
func Methods(specs []procedure.Spec, paired ...procedure.Spec) []agent.Method {
	b := &box{}
	joint := &box{}
	for _, s := range specs {
		if s.Joint {
			joint.specs = append(joint.specs, s)
		} else {
			b.specs = append(b.specs, s)
		}
	}
	joint.with = b
	p := &pairing{box: &box{specs: paired, with: b}}
	return []agent.Method{
		agent.More(checkMethod, "whether a procedure's parameters fit this machine", b.check),
		agent.More(runMethod, "carries out a procedure that loads this machine; its trials are the tester's", b.run),
		agent.More(jointMethod, "carries out a procedure together with other boards, to which it opens ports", joint.run),
		agent.More(pairMethod, "carries out a procedure that sends to another board, which the tester asks for it", p.run),
		agent.More(passedMethod, "takes what another board answers", p.passed),
		agent.More(answerMethod, "answers what the procedure asked for", b.answered),
	}
}

// A box is the agent's end.
type box struct {
	specs []procedure.Spec
	with  *box // whose answers count; nil: its own

	mu  sync.Mutex
	now *carried // nil: no procedure is carried out
}

// A carried is a procedure that is carried out, for a call whose context is ctx.
type carried struct {
	ctx     context.Context
	answers chan answer
	over    chan struct{} // closed when it is
}

// begin makes c the procedure that is carried out, once that has ended for which the tester does
// not wait any more: with the next point it does not wait until that is taken down.
func (b *box) begin(c *carried) error {
	for {
		b.mu.Lock()
		now := b.now
		if now == nil {
			b.now = c
		}
		b.mu.Unlock()
		switch {
		case now == nil:
			return nil
		case now.ctx.Err() == nil:
			return errors.New("a procedure is carried out already")
		}
		select {
		case <-now.over:
		case <-c.ctx.Done():
			return c.ctx.Err()
		}
	}
}

func (b *box) ended(c *carried) {
	b.mu.Lock()
	b.now = nil
	b.mu.Unlock()
	close(c.over)
}

// bed is this machine as the DUT.
func bed(ctx context.Context) (*lab.Testbed, error) { return lab.NewHere().Build(ctx) }

func (b *box) check(ctx context.Context, _ *link.Request, a procedureArgs) (none agent.None, err error) {
	p, err := a.made(b.specs)
	if err != nil {
		return none, err
	}
	machine, err := bed(ctx)
	if err != nil {
		return none, err
	}
	return none, p.Check(machine)
}

func (b *box) answered(ctx context.Context, _ *link.Request, a answer) (none agent.None, err error) {
	b.mu.Lock()
	var answers chan answer // nil takes none
	if b.now != nil {
		answers = b.now.answers
	}
	b.mu.Unlock()
	select {
	case answers <- a:
		return none, nil
	default:
		return none, errors.New("no procedure waits for an answer")
	}
}

func (b *box) run(ctx context.Context, req *link.Request, a procedureArgs) (none agent.None, err error) {
	return none, b.carry(ctx, a, bed, func(i item) error { return req.Send(ctx, i) })
}

// carry carries a out in a testbed, whose items send sends to the tester.
func (b *box) carry(ctx context.Context, a procedureArgs, bed func(context.Context) (*lab.Testbed, error), send func(item) error) (err error) {
	p, err := a.made(b.specs)
	if err != nil {
		return err
	}
	answers := make(chan answer, 1)
	if b.with != nil {
		b = b.with
	}
	c := &carried{ctx, answers, make(chan struct{})}
	if err := b.begin(c); err != nil {
		return err
	}
	defer b.ended(c)
	machine, err := bed(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, machine.Close()) }()
	var asking sync.Mutex // a procedure that gathers does so beside
	ask := func(ctx context.Context, i item) (a answer, err error) {
		asking.Lock()
		defer asking.Unlock()
		if err := send(i); err != nil {
			return a, err
		}
		select {
		case a = <-answers:
		case <-ctx.Done():
			return a, ctx.Err()
		}
		if a.Error != "" {
			err = errors.New(a.Error)
		}
		return a, err
	}
	env := &procedure.Env{Bed: machine}
	var begins unit.Instant // of the trial's work
	var heard time.Duration // so long before
	if a.Together {
		env.Together = func(ctx context.Context) (unit.Instant, error) {
			a, err := ask(ctx, item{Kind: readyItem})
			begins, heard = a.At, time.Duration(a.At-unit.Now())
			return a.At, err
		}
	}
	if a.Together {
		env.Gather = func(ctx context.Context, mine []byte) ([][]byte, int, error) {
			a, err := ask(ctx, item{Kind: gatherItem, Data: mine})
			if err == nil && (a.Here < 0 || a.Here >= len(a.All)) {
				err = errors.New("the tester answers without this machine's part")
			}
			return a.All, a.Here, err
		}
	}
	env.Trial = func(ctx context.Context, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		a, err := ask(ctx, item{Kind: trialItem, Config: cfg})
		if err == nil && a.Go {
			begins = 0
			o, ferr := f(ctx)
			i := item{Kind: outcomeItem, Outcome: &o, Failure: fails(ferr)}
			if begins != 0 && len(o.Phases) > 0 {
				i.Began, i.Heard = o.Phases[0].Begin, heard
			}
			a, err = ask(ctx, i)
		}
		if err == nil && a.Record == nil {
			err = errors.New("the tester answers without a record")
		}
		if err != nil {
			return result.Record{}, err
		}
		return *a.Record, nil
	}
	env.Once = func(ctx context.Context, key string, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		return env.Trial(ctx, append([]result.Pair{{Key: OnceKey, Value: key}}, cfg...), f)
	}
	env.Unfinished = func(cfg []result.Pair) *result.Record {
		a, err := ask(ctx, item{Kind: unfinishedItem, Config: cfg})
		if err != nil || a.Record == nil {
			return nil
		}
		a.Record.Start = time.Now().Add(-a.Age) // by this machine's clock
		return a.Record
	}
	env.Pause = func(found procedure.Outcome) bool {
		a, err := ask(ctx, item{Kind: pauseItem, Outcome: &found})
		return err == nil && a.Go
	}
	o, err := p.Run(ctx, env)
	if err != nil {
		return err
	}
	return send(item{Kind: outcomeItem, Outcome: &o})
}
