// SPDX-License-Identifier: Apache-2.0

package far

import (
	"context"
	"errors"
	"flag"
	"strings"
	"testing"
	"time"

	"boxdyno/agent"
	"boxdyno/lab"
	"boxdyno/link"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/unit"
)

// scripted is a procedure whose Run is a function.
type scripted struct {
	run func(ctx context.Context, env *procedure.Env) (procedure.Outcome, error)
}

func (*scripted) Flags(*flag.FlagSet)            {}
func (*scripted) Check(*lab.Testbed) error       { return nil }
func (*scripted) Estimate() (int, time.Duration) { return 1, 0 }
func (p *scripted) Run(ctx context.Context, env *procedure.Env) (procedure.Outcome, error) {
	return p.run(ctx, env)
}

// carrying is a box of this process that carries run out by the name of "scripted".
func carrying(t *testing.T, run func(ctx context.Context, env *procedure.Env) (procedure.Outcome, error)) *link.Conn {
	return carryingBy(t, nil, run)
}

// carryingBy is carrying by a box that says that now is its clock; nil: unit.Now.
func carryingBy(t *testing.T, now func() unit.Instant, run func(ctx context.Context, env *procedure.Env) (procedure.Outcome, error)) *link.Conn {
	spec := procedure.Spec{Name: "scripted", New: func() procedure.Procedure { return &scripted{run} }}
	return served(t, "b1", func(publish func(string, []byte) error) *link.Server {
		find, end := agent.Open(t.Context(), t.TempDir(), "", nil, Methods([]procedure.Spec{spec})...)
		t.Cleanup(func() {
			if err := end(); err != nil {
				t.Error(err)
			}
		})
		s := link.NewServer(find, publish)
		if now != nil {
			s.Now = now
		}
		return s
	})
}

// When a box heard of the start is bounded by this machine's clock, whatever the box says: its own
// word would have all boxes begin later and later, or hide that it hears too late.
func TestHeardIsBounded(t *testing.T) {
	for _, off := range []time.Duration{0, time.Hour, -time.Hour} {
		conn := carryingBy(t, func() unit.Instant { return unit.Now() + unit.Instant(off) }, func(ctx context.Context, env *procedure.Env) (o procedure.Outcome, err error) {
			_, err = env.Trial(ctx, nil, func(ctx context.Context) (o procedure.Outcome, err error) {
				_, err = env.Together(ctx) // no waiting: the box takes the instant for one of its own clock
				o.Phases = []result.Phase{{Begin: unit.Now(), End: unit.Now() + 1}}
				return o, err
			})
			return o, err
		})
		var at, asked unit.Instant
		with := &With{Clocks: make(chan struct{}, 1), Begin: func(context.Context) (unit.Instant, error) {
			asked = unit.Now()
			at = asked + unit.Instant(time.Minute)
			return at, nil
		}}
		var got procedure.Outcome
		var ended unit.Instant
		env := &procedure.Env{Trial: func(ctx context.Context, _ []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
			o, err := f(ctx)
			got, ended = o, unit.Now()
			return result.Record{Status: result.Passed}, err
		}}
		if _, err := Run(t.Context(), conn, "scripted", nil, env, with); err != nil {
			t.Fatal(err)
		}
		if h := got.Began.Heard; got.Began.At == 0 || h > time.Duration(at-asked) || h < time.Duration(at-ended) {
			t.Errorf("a clock that is %v off: heard %v before, and %v to %v are possible", off, h, time.Duration(at-ended), time.Duration(at-asked))
		}
	}
}

// A procedure whose tester has left may take its time to end: the next one waits for that, and only
// one whose tester waits is in its way.
func TestNextWaitsForTheEnd(t *testing.T) {
	begins, end := make(chan struct{}), make(chan struct{})
	runs := 0
	conn := carrying(t, func(ctx context.Context, _ *procedure.Env) (procedure.Outcome, error) {
		if runs++; runs == 1 {
			close(begins)
			<-ctx.Done()
			<-end
		}
		return procedure.Outcome{Status: result.Passed}, nil
	})
	ctx, leave := context.WithCancel(t.Context())
	first := make(chan error)
	go func() {
		_, err := Run(ctx, conn, "scripted", nil, &procedure.Env{}, nil)
		first <- err
	}()
	<-begins
	if _, err := Run(t.Context(), conn, "scripted", nil, &procedure.Env{}, nil); err == nil || !strings.Contains(err.Error(), "a procedure is carried out already") {
		t.Errorf("beside another one: %v", err)
	}
	leave()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	time.AfterFunc(100*time.Millisecond, func() { close(end) })
	if o, err := Run(t.Context(), conn, "scripted", nil, &procedure.Env{}, nil); err != nil || o.Status != result.Passed || runs != 2 {
		t.Errorf("after it: %v %v, %d runs", o.Status, err, runs)
	}
}

// A box that asks to begin when the others have begun, or twice, has a sentence for an answer;
// its procedure then ends there and here.
func TestReadyAfterTheOthers(t *testing.T) {
	once := func(ctx context.Context, env *procedure.Env) error {
		_, err := env.Trial(ctx, nil, func(ctx context.Context) (o procedure.Outcome, err error) {
			return o, env.Await(ctx)
		})
		return err
	}
	for name, c := range map[string]struct {
		run  func(ctx context.Context, env *procedure.Env) error
		want string
	}{
		"late": {func(ctx context.Context, env *procedure.Env) error {
			return errors.Join(once(ctx, env), once(ctx, env))
		}, "it was ready 1s after the others had begun"},
		"twice in a trial": {func(ctx context.Context, env *procedure.Env) error {
			_, err := env.Trial(ctx, nil, func(ctx context.Context) (o procedure.Outcome, err error) {
				return o, errors.Join(env.Await(ctx), env.Await(ctx))
			})
			return err
		}, "b1 asks a second time in a trial when to begin"},
		"asks on": {func(ctx context.Context, env *procedure.Env) error {
			for range 5 {
				_ = once(ctx, env)
			}
			return nil
		}, "it was ready 1s after the others had begun"},
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan struct{})
			conn := carrying(t, func(ctx context.Context, env *procedure.Env) (procedure.Outcome, error) {
				defer close(ended)
				return procedure.Outcome{}, c.run(ctx, env)
			})
			begun := 0
			with := &With{Clocks: make(chan struct{}, 1), Begin: func(context.Context) (unit.Instant, error) {
				if begun++; begun > 1 {
					return 0, errors.New("it was ready 1s after the others had begun")
				}
				return unit.Now(), nil
			}}
			env := &procedure.Env{Trial: func(ctx context.Context, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
				_, err := f(ctx)
				return result.Record{Status: result.Passed}, err
			}}
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			if _, err := Run(ctx, conn, "scripted", nil, env, with); err == nil || !strings.Contains(err.Error(), c.want) || ctx.Err() != nil {
				t.Errorf("%v, want %q", err, c.want)
			}
			<-ended
		})
	}
}
