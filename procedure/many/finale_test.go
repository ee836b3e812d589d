// SPDX-License-Identifier: Apache-2.0

package many

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"boxdyno/link"
	"boxdyno/procedure"
	"boxdyno/procedure/far"
	"boxdyno/procedure/rfc2544"
	"boxdyno/result"
	"boxdyno/unit"
)

// Pairs whose searches end one after another are offered what each carries from one instant on. A pair
// without a limit, or that dies meanwhile, keeps nobody; it has no figure of that trial. One that does
// not come keeps the others for a while, and takes no figure of theirs but those of that trial.
func TestPairsAtOnce(t *testing.T) {
	for _, c := range []string{"all come", "one hangs", "one comes too late", "one has no limit", "one fails first", "one dies while it waits", "one dies in it", "one is late", "one is short", "one asks twice"} {
		b := newBench(t, 4)
		r := pairsOf(t, nil)
		r.p, r.arms, r.lasts = PairsSpec(rfc2544.ArmSpec, b).New().(*pairs), true, time.Millisecond
		r.p.skew.v = 1
		missing := c == "one hangs" || c == "one comes too late"
		if missing {
			r.waits = 50 * time.Millisecond // earlier or later, b3 goes on
		}
		slow, alone := make(chan struct{}), make(chan struct{}) // until b1 waits, until b3 has ended
		var mu sync.Mutex
		began := map[string]unit.Instant{}
		r.run = func(ctx context.Context, conn *link.Conn, _ string, _ []result.Pair, env *procedure.Env, with *far.With) (o procedure.Outcome, err error) {
			trial := func(kind string) (rec result.Record, err error) {
				return env.Trial(ctx, []result.Pair{{Key: "trial", Value: kind}}, func(ctx context.Context) (procedure.Outcome, error) {
					if kind == procedure.AtOnce && c == "one dies in it" && conn.Name == "b1" {
						r.members[0].conn.Fail(errors.New("nothing is heard from it"))
						return procedure.Outcome{}, conn.Err()
					}
					o, err := sent(ctx, with)
					o.Status, o.Values = "", nil
					if kind == procedure.AtOnce {
						mu.Lock()
						began[conn.Name] = o.Began.At
						mu.Unlock()
						if o.Account.Received = 8; c == "one is late" && conn.Name == "b1" {
							o.Began.At += unit.Instant(2 * time.Millisecond)
							o.Phases[0].Begin, o.Phases[0].End = o.Began.At, o.Began.At+unit.Instant(time.Millisecond)
							time.Sleep(time.Duration(o.Phases[0].End - unit.Now()))
						}
						if c == "one is short" && conn.Name == "b1" {
							o.Phases[0].End = o.Phases[0].Begin + unit.Instant(time.Millisecond/2)
						}
					}
					return o, err
				})
			}
			if _, err := trial("search"); err != nil {
				return o, err
			}
			o = procedure.Outcome{Status: result.Passed, Values: []result.Value{{Metric: "throughput_fps", Value: 10000}}}
			switch {
			case conn.Name == "b3":
				<-slow
				defer close(alone)
			case missing:
				close(slow)
				<-alone
				if c == "one hangs" {
					return o, errors.New("it has not ended")
				}
			case c == "one has no limit":
				close(slow)
				return o, nil
			case c == "one fails first":
				close(slow)
				return o, errors.New("it is broken")
			case c == "one dies while it waits":
				time.AfterFunc(10*time.Millisecond, func() { // earlier or later, the other one goes on
					r.members[0].conn.Fail(errors.New("nothing is heard from it"))
					close(slow)
				})
			default:
				close(slow)
			}
			if _, err = trial(procedure.AtOnce); err == nil && c == "one asks twice" && conn.Name == "b1" {
				_, err = trial(procedure.AtOnce)
			}
			return o, err
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		outs := r.round(ctx, [][2]int{{0, 1}, {2, 3}})
		switch o := outs[1]; {
		case ctx.Err() != nil || o.Status != result.Passed || value(o.Values, "throughput_fps") != 10000:
			t.Errorf("%s: %v, %s %s %+v", c, ctx.Err(), o.Status, o.Reason, o.Values)
		case missing:
			if want := notAtOnce + "not all pairs had ended their searches within 50ms"; len(o.Values) != 1 || !slices.Equal(o.Warnings, []string{want}) {
				t.Errorf("%s: %+v %q", c, o.Values, o.Warnings)
			}
		case value(o.Values, "at_once_fps") != 7200 || value(o.Values, "at_once_lost") != 0.2:
			t.Errorf("%s: %+v", c, o.Values)
		}
		o := outs[0]
		switch want := map[string]string{"one hangs": "board b1: it has not ended", "one fails first": "board b1: it is broken", "one asks twice": "board b1: it asks a second time for the trial of all pairs", "one dies while it waits": "board b1: nothing is heard from it", "one dies in it": "board b1: nothing is heard from it"}[c]; {
		case want != "":
			if o.Status != result.Invalid || o.Reason != want {
				t.Errorf("%s: %s %q", c, o.Status, o.Reason)
			}
		case c == "all come":
			if o.Status != result.Passed || value(o.Values, "at_once_fps") != 7200 || began["b1"] != began["b3"] || len(o.Phases) != 2 || o.Phases[1].Begin != began["b1"] || o.Phases[0].End > began["b1"] {
				t.Errorf("%s: %v, %+v", c, began, o)
			}
		default:
			if o.Status != result.Passed || !math.IsNaN(value(o.Values, "at_once_fps")) || len(o.Phases) != 1 || (c != "one has no limit") != (len(o.Warnings) == 1) {
				t.Errorf("%s: %+v", c, o)
			}
		}
	}
}

// The lead of the next last trial doubles where a pair heard of an instant too late.
func TestPairsAtOnceLead(t *testing.T) {
	r := pairsOf(t, nil)
	r.p, r.arms, r.lasts = PairsSpec(rfc2544.ArmSpec, newBench(t, 4)).New().(*pairs), true, time.Millisecond
	r.run = func(ctx context.Context, _ *link.Conn, _ string, _ []result.Pair, env *procedure.Env, with *far.With) (o procedure.Outcome, err error) {
		for _, kind := range []string{"search", procedure.AtOnce} {
			_, err = env.Trial(ctx, []result.Pair{{Key: "trial", Value: kind}}, func(ctx context.Context) (procedure.Outcome, error) {
				o, err := sent(ctx, with)
				if kind == procedure.AtOnce {
					o.Began.Heard = heardLead / 2
				}
				return o, err
			})
		}
		return procedure.Outcome{Status: result.Passed}, err
	}
	lead := time.Duration(0)
	for n := range 2 {
		r.round(t.Context(), [][2]int{{0, 1}, {2, 3}})
		if was := lead; r.last.lead != 2*max(was, r.barrier.lead) || r.barrier.lead >= 2*leadLeast {
			t.Errorf("round %d: %v after %v, and %v for the first trial", n, r.last.lead, was, r.barrier.lead)
		}
		lead = r.last.lead
	}
}
