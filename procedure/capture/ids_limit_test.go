// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"boxdyno/internal/limit"
	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/search"
	"boxdyno/unit"
)

// goesOn is the pause of a run that comes back.
func goesOn(context.Context, procedure.Outcome) error { return nil }

// What the search found and a longer trial did not bear out is no lower bound.
func TestIDSLimitIsDoubted(t *testing.T) {
	testutil.Computed(t)
	trials := 0
	lost := []int64{50, 0}
	env := &procedure.Env{Bed: &lab.Testbed{}, Trial: func(context.Context, []result.Pair, func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		n := lost[min(trials, 1)]
		trials++
		return result.Record{Status: result.Passed, Load: &result.Load{}, Account: &result.Account{Accepted: 1000, Received: 1000 - n}}, nil
	}}
	m := &idsPoint{IDS: newIDS().(*IDS), listen: &capturePoint{Capture: newCaptureOf(nil), env: env}, pause: goesOn}
	if err := m.limit(t.Context(), search.Limit{Lower: 50e6, AtCeiling: true, Clean: 3}, 50e6); err != nil {
		t.Fatal(err)
	}
	r := result.Record{Values: m.out.Values}
	v := r.Value("ids_rate_bps")
	if v == nil || v.Bound != result.Exactly || v.Value >= 50e6 || v.Hi == nil || *v.Hi != 50e6 || trials != 2 {
		t.Errorf("%+v after %d trials", v, trials)
	}
}

// A box that loses a little at every load that was searched is offered less.
func TestIDSLimitBelowTheSearch(t *testing.T) {
	testutil.Computed(t)
	for _, c := range []struct {
		clean int // trial from which on nothing is lost
		want  float64
	}{{2, 100e6 * limit.StepDown * limit.StepDown * limit.StepDown}, {99, 0}} {
		trials := 0
		env := &procedure.Env{Bed: &lab.Testbed{}, Trial: func(context.Context, []result.Pair, func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
			r := result.Record{Status: result.Passed, Load: &result.Load{}, Account: &result.Account{Accepted: 1000, Received: 1000}}
			if trials < c.clean {
				r.Status, r.Account.Received = result.Failed, 990
			}
			trials++
			return r, nil
		}}
		m := &idsPoint{IDS: newIDS().(*IDS), listen: &capturePoint{Capture: newCaptureOf(nil), env: env}, pause: goesOn}
		if err := m.limit(t.Context(), search.Limit{Lossy: 9, Upper: 120e6}, 100e6); err != nil {
			t.Fatal(err)
		}
		r := result.Record{Values: m.out.Values}
		v := r.Value("ids_rate_bps")
		switch {
		case c.want == 0 && (v == nil || v.Bound != result.AtMost || v.Value >= 50e6 || m.listen.out.Status != result.Failed):
			t.Errorf("%+v, %s", v, m.listen.out.Status)
		case c.want > 0 && (v == nil || math.Abs(v.Value/c.want-1) > 1e-9 || v.Hi == nil || math.Abs(*v.Hi*limit.StepDown/c.want-1) > 1e-9 || v.Bound != result.Exactly):
			t.Errorf("%+v, want %v", v, c.want)
		}
	}
}

// Where another point showed what is inspected of a load that is too much, the first load
// is somewhat above that. Nothing else of that point is told.
func TestIDSSearchBeginsFromOtherPoints(t *testing.T) {
	overload := func(rate float64, lost int64, d time.Duration) result.Record {
		return result.Record{
			Status: result.Failed, Load: &result.Load{Offered: 1000}, Account: &result.Account{Accepted: 1000, Received: 1000 - lost},
			Values: []result.Value{figures.Value("capture_offered_bps", rate), figures.Value("counting_rate_fps", 300)}, Phases: []result.Phase{{End: unit.Instant(d)}},
		}
	}
	const ms = time.Millisecond
	for _, c := range []struct {
		akin []result.Record
		loss float64
		want float64
	}{
		{nil, 0, 20e6},
		{[]result.Record{overload(20e6, 700, 400*ms)}, 0, 7.2e6},
		{[]result.Record{overload(20.1e6, 700, 400*ms)}, 0, 1.2 * 6.03e6}, // the tester sent a little faster
		{[]result.Record{overload(20e6, 700, 400*ms), overload(10e6, 200, 400*ms)}, 0, 9.6e6},
		{[]result.Record{overload(20e6, 100, 400*ms)}, 0, 20e6},   // no load is above the top
		{[]result.Record{overload(20e6, 700, 300*ms)}, 0, 20e6},   // shorter than those of the search
		{[]result.Record{overload(200e6, 700, 400*ms)}, 0, 20e6},  // above the top
		{[]result.Record{overload(20e6, 40, 400*ms)}, 0, 20e6},    // hardly too much
		{[]result.Record{overload(20e6, 300, 400*ms)}, 0.4, 20e6}, // no more than may be lost
		{[]result.Record{{Status: result.Invalid}}, 0, 20e6},
	} {
		p := newIDS().(*IDS)
		p.length, p.top.Bits, p.loss.value = 400*ms, 20e6, c.loss
		var cfg []result.Pair
		env := &procedure.Env{Bed: &lab.Testbed{}, Akin: func(...string) []result.Record { return c.akin }}
		env.Trial = func(_ context.Context, words []result.Pair, _ func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
			cfg = words
			asked, err := strconv.ParseFloat(result.Get(cfg, "rate"), 64)
			return overload(asked, 900, p.length), err
		}
		m := &idsPoint{IDS: p, listen: &capturePoint{Capture: p.listener(""), env: env}}
		var o procedure.Outcome
		m.pause = func(_ context.Context, found procedure.Outcome) error {
			o = found
			return &leftError{found}
		}
		var left *leftError
		if err := m.hunt(t.Context()); !errors.As(err, &left) {
			t.Fatal(err)
		}
		rate, err := strconv.ParseFloat(result.Get(cfg, "rate"), 64)
		if err != nil || math.Abs(rate/c.want-1) > 1e-9 || result.Get(cfg, "trial") != "descend" {
			t.Errorf("%v: %v; want %v", c.akin, cfg, c.want)
		}
		r := result.Record{Values: o.Values}
		if told := r.Value("counting_overload_fps") != nil; told != (c.want == 20e6) {
			t.Errorf("%v: counted at %v, told as of the highest load: %v", c.akin, rate, told)
		}
		if v := r.Value("ids_rate_bps"); o.Status != result.Failed || v == nil || v.Bound != result.AtMost || math.Abs(v.Value/rate-1) > 1e-6 || v.N != 1 {
			t.Errorf("%v: %s: %s: %+v; want at most what its own trial lost", c.akin, o.Status, o.Reason, v)
		}
	}
}

// A guess that is not too much gives way to the highest load; the guess's own trial counts.
func TestIDSGuessTooLow(t *testing.T) {
	testutil.Computed(t)
	p := newIDS().(*IDS)
	p.length, p.top.Bits = 400*time.Millisecond, 100e6
	trial := func(rate, carried float64) result.Record {
		const all = 1_000_000
		return result.Record{
			Status: result.Passed, Load: &result.Load{Offered: unit.FrameRate(rate / 3600)},
			Account: &result.Account{Accepted: all, Received: int64(all * min(1, carried/rate))},
			Values:  []result.Value{figures.Value("capture_offered_bps", rate)}, Phases: []result.Phase{{End: unit.Instant(p.length)}},
		}
	}
	var rates []float64
	env := &procedure.Env{Bed: &lab.Testbed{}, Akin: func(...string) []result.Record { return []result.Record{trial(50e6, 20e6)} }}
	env.Once = func(context.Context, string, []result.Pair, func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		return result.Record{}, nil
	}
	env.Trial = func(_ context.Context, cfg []result.Pair, _ func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		rate, err := strconv.ParseFloat(result.Get(cfg, "rate"), 64)
		rates = append(rates, rate)
		return trial(rate, 80e6), err
	}
	m := &idsPoint{IDS: p, ceiling: 10e6, listen: &capturePoint{Capture: p.listener(""), env: env, ceiling: 10e6}}
	m.pause = func(context.Context, procedure.Outcome) error { return nil }
	if err := m.hunt(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(rates) < 2 || math.Abs(rates[0]/24e6-1) > 1e-9 || rates[1] != 100e6 {
		t.Errorf("offered %v, want 24e6, 100e6 and then others", rates)
	}
	found := result.Record{Values: m.outcome().Values}
	if v := found.Value("ids_rate_bps"); v == nil || v.Value > 80e6 || v.Value < 70e6 || v.Hi == nil || *v.Hi < 80e6 {
		t.Errorf("%+v, and the limit is 80e6", v)
	}
}

// Whenever a run stops the search of a box with a known limit, the interval that it has
// found by then holds that limit.
func TestIDSInterimHoldsTheLimit(t *testing.T) {
	testutil.Computed(t)
	const (
		top       = 20e6
		slowStart = 20 * time.Second
	)
	for seed := range uint64(6) {
		chance := rand.New(rand.NewPCG(seed, 0))
		known := top * math.Exp(-2.5*chance.Float64()+0.5)
		p := newIDS().(*IDS)
		p.length, p.top.Bits = 400*time.Millisecond, top
		env := &procedure.Env{Bed: &lab.Testbed{}, Once: func(context.Context, string, []result.Pair, func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
			return result.Record{}, nil
		}}
		trials := 0
		env.Trial = func(_ context.Context, cfg []result.Pair, _ func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
			trials++
			rate, err := strconv.ParseFloat(result.Get(cfg, "rate"), 64)
			if err != nil {
				t.Fatal(err)
			}
			if chance.IntN(10) == 0 {
				return result.Record{Status: result.Invalid, Load: &result.Load{}, Account: &result.Account{}}, nil
			}
			const all = 1_000_000
			r := result.Record{Status: result.Passed, Load: &result.Load{Offered: unit.FrameRate(rate / 3600)}, Account: &result.Account{Accepted: all, Received: all}}
			if rate > known {
				r.Status, r.Account.Received = result.Failed, int64(all*known/rate)
			}
			r.Values = []result.Value{figures.Value("capture_offered_bps", rate), figures.Value("counting_rate_fps", min(rate, known)/3600)}
			r.Phases = []result.Phase{{Name: "traffic", Begin: unit.Instant(slowStart), End: unit.Instant(slowStart + p.length)}}
			r.End = r.Phases[0].End
			return r, nil
		}
		if seed%2 == 1 { // a point at a rate that was given came before
			env.Akin = func(...string) []result.Record {
				r, _ := env.Trial(t.Context(), []result.Pair{{Key: "rate", Value: strconv.Itoa(top)}}, nil)
				r.Phases = []result.Phase{{Name: "traffic", End: unit.Instant(p.length)}}
				return []result.Record{r}
			}
		}
		m := &idsPoint{IDS: p, ceiling: 10e6, out: procedure.Outcome{Status: result.Passed}}
		m.listen = &capturePoint{Capture: p.listener(""), env: env, out: procedure.Outcome{Status: result.Passed}, ceiling: 10e6}
		check := func(o procedure.Outcome, what string) {
			for _, v := range o.Values {
				if v.Metric != "ids_rate_bps" {
					continue
				}
				if v.Bound == result.AtMost {
					if v.Value < known*0.9999 {
						t.Fatalf("seed %d, %s: at most %v, and the limit is %v", seed, what, v.Value, known)
					}
					continue
				}
				if *v.Lo > known*1.0001 || v.Hi != nil && *v.Hi < known*0.9999 {
					t.Fatalf("seed %d, %s: %v to %v %s, and the limit is %v", seed, what, *v.Lo, v.Hi, v.Bound, known)
				}
			}
		}
		longer := false
		m.pause = func(_ context.Context, o procedure.Outcome) error {
			if longer && o.Next == 0 {
				t.Fatalf("seed %d: a visit after longer ones was not announced as one", seed)
			}
			if longer = o.Next > 0; longer && o.Next < slowStart {
				t.Fatalf("seed %d: a visit of %v is announced, and each trial takes %v beside its traffic", seed, o.Next, slowStart)
			}
			check(o, fmt.Sprintf("after %d trials", trials))
			if v := o.Values; len(v) == 0 && o.Status == result.Passed {
				t.Fatalf("seed %d: after %d trials it passed without a figure", seed, trials)
			}
			return nil
		}
		if err := m.hunt(t.Context()); err != nil || !longer {
			t.Fatalf("seed %d: %v; the longer trials were announced: %v", seed, err, longer)
		}
		o := m.outcome()
		check(o, "in the end")
		found := result.Record{Values: o.Values}
		if v := found.Value("ids_rate_bps"); o.Status == result.Passed && (v == nil || v.Value < 0.7*min(known, top)) {
			t.Fatalf("seed %d: the limit is %v, and found was %+v", seed, known, v)
		}
	}
}

// A stallingBox inspects so many bit/s, and its receive ring holds some frames. Something holds
// its CPU up in a share of the trials, at equal distances.
type stallingBox struct {
	inspects  float64
	ring      float64
	lasts     time.Duration // of a stall
	often     time.Duration // from one to the next
	share     float64       // of the trials
	chance    *rand.Rand
	trials    int
	frameBits float64
}

// carries is the load at which the ring outlasts each stall, but for the share that may be lost.
func (b *stallingBox) carries(may float64) float64 {
	left := b.lasts.Seconds() - may*b.often.Seconds()
	return min(b.inspects/(1-may), b.ring/left*b.frameBits)
}

// offer is the record of frames that were offered at a rate.
func (b *stallingBox) offer(rate, frames float64) result.Record {
	b.trials++
	took := frames * b.frameBits / rate
	lost := frames * max(0, 1-b.inspects/rate)
	r := result.Record{Status: result.Passed, Load: &result.Load{Offered: unit.FrameRate(rate / b.frameBits)}, DUT: &result.DUTWork{}}
	if stalls := math.Round(took / b.often.Seconds()); b.chance.Float64() < b.share {
		ring := stalls * max(0, rate/b.frameBits*b.lasts.Seconds()-b.ring)
		lost = min(frames, lost+ring)
	}
	n := int64(lost)
	r.Account = &result.Account{Accepted: int64(frames), Received: int64(frames) - n, Drops: []result.Term{{Place: result.DUTNIC, Name: "receive ring full", N: n}}}
	if n > 0 {
		r.Status, r.Reason = result.Failed, "frames were lost"
	}
	r.Values = []result.Value{figures.Value("capture_offered_bps", rate), figures.Value("counting_rate_fps", (1-lost/frames)*rate/b.frameBits), figures.Value("frames_lost", lost)}
	return r
}

// A box whose CPU is held up gives a load with an interval. What its ring outlasts is carried
// where each trial has stalls. Where some have them, both ends are between that and what the
// box inspects: a trial that lost is taken as it is.
func TestIDSOfAStallingBox(t *testing.T) {
	testutil.Computed(t)
	for seed := range uint64(8) {
		chance := rand.New(rand.NewPCG(seed, 7))
		b := &stallingBox{inspects: 20e6 * math.Exp(-1.5*chance.Float64()), ring: 256, often: 400 * time.Millisecond, chance: chance, share: 1, frameBits: 402.8 * 8}
		b.lasts = time.Duration((0.05 + 0.2*chance.Float64()) * float64(time.Second))
		least, want := b.carries(1e-4), b.carries(1e-4)
		if seed%2 == 1 { // only now and then
			b.share, want = 0.2, b.inspects
		}
		p := newIDS().(*IDS)
		p.length, p.top.Bits = 400*time.Millisecond, 25e6
		env := &procedure.Env{Bed: &lab.Testbed{Settings: []result.Pair{{Key: "ring", Value: "256"}}}}
		env.Trial = func(_ context.Context, cfg []result.Pair, _ func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
			rate, err := strconv.ParseFloat(result.Get(cfg, "rate"), 64)
			frames, ferr := strconv.ParseFloat(result.Get(cfg, "frames"), 64)
			return b.offer(rate, frames), errors.Join(err, ferr)
		}
		m := &idsPoint{IDS: p, ceiling: 10e6, out: procedure.Outcome{Status: result.Passed}}
		m.listen = &capturePoint{Capture: p.listener(""), env: env, out: procedure.Outcome{Status: result.Passed}, ceiling: 10e6}
		m.pause = func(_ context.Context, o procedure.Outcome) error {
			if v := (&result.Record{Values: o.Values}).Value("ids_rate_bps"); o.Status != result.Invalid && v == nil {
				t.Errorf("seed %d: %s after %d trials: %s", seed, o.Status, b.trials, o.Reason)
			}
			return nil
		}
		if err := m.hunt(t.Context()); err != nil {
			t.Fatal(err)
		}
		o := m.outcome()
		v := (&result.Record{Values: o.Values}).Value("ids_rate_bps")
		if v == nil || v.Lo == nil || v.Bound == result.AtMost || *v.Lo > 1.03*want || *v.Lo < 0.85*least || v.Hi != nil && *v.Hi < least || b.trials > 24 {
			t.Errorf("seed %d: %+v after %d trials, and %v is carried: %v", seed, v, b.trials, want, o.Warnings)
		}
	}
}
