// SPDX-License-Identifier: Apache-2.0

package procedure

import (
	"context"
	"strconv"
	"testing"
	"time"

	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/result"
	"boxdyno/search"
	"boxdyno/unit"
)

// The load of which most is counted is found from below, from above and on a level, and
// none is offered above the ceiling.
func TestCaptureClimbs(t *testing.T) {
	cliff := func(rate float64) float64 { return min(rate, max(3000-2*rate, 0)) } // most at 1000
	flat := func(rate float64) float64 { return min(rate, 1000) }
	for _, c := range []struct {
		counted       func(float64) float64
		from, ceiling unit.FrameRate
		low, high     unit.FrameRate // where the load found lies
		least         float64        // counted there
	}{
		{cliff, 500, 1e9, 950, 1025, 950},
		{cliff, 1400, 1e9, 950, 1025, 950},
		{cliff, 1000, 1e9, 1000, 1000, 1000},
		{cliff, 500, 700, 700, 700, 700},
		{flat, 300, 1e9, 950, 1200, 950},
		{flat, 3000, 1e9, 3000, 3000, 1000},
		{func(rate float64) float64 { // more than 1000 cannot be offered
			if rate > 1000 {
				return 0
			}
			return rate
		}, 2000, 1e9, 930, 1000, 930},
	} {
		found, ok := climb(c.from, c.ceiling, func(rate unit.FrameRate) (float64, bool) {
			if rate > c.ceiling {
				t.Errorf("%v was offered, and the ceiling is %v", rate, c.ceiling)
			}
			return c.counted(float64(rate)), true
		})
		if !ok || found < c.low || found > c.high || c.counted(float64(found)) < c.least {
			t.Errorf("from %v: %v, %v", c.from, found, ok)
		}
	}
	if _, ok := climb(500, 1e9, func(rate unit.FrameRate) (float64, bool) { return float64(rate), rate < 600 }); ok {
		t.Error("it goes on where nothing can be offered")
	}
}

// With rate most there is one figure, the median of what was counted at one load, and that
// frames are lost there is no failure; a subject that fails under overload leaves a limit.
func TestCaptureMost(t *testing.T) {
	n := 0
	trial := func(counts bool) func(context.Context, []result.Pair, func(context.Context) (Outcome, error)) (result.Record, error) {
		return func(_ context.Context, cfg []result.Pair, _ func(context.Context) (Outcome, error)) (result.Record, error) {
			n++
			rate, err := strconv.ParseFloat(result.Get(cfg, "rate"), 64)
			if err != nil {
				t.Fatal(err)
			}
			if !counts {
				return result.Record{Status: result.Failed, Reason: "sniffer was ended"}, nil
			}
			if n%3 == 0 || rate > 1100 { // the tester is held up, or can offer no more
				return result.Record{Status: result.Invalid}, nil
			}
			return result.Record{
				Status: result.Failed, Load: &result.Load{Offered: unit.FrameRate(rate)}, Account: &result.Account{Accepted: 100, Received: 90},
				Values: []result.Value{value("counting_rate_fps", min(rate, 1000)), value("frames_lost", 10)},
			}, nil
		}
	}
	m := &capturePoint{Capture: newCaptureOf(nil), env: &Env{Bed: &lab.Testbed{}, Trial: trial(true)}}
	assign(t, m.Flags, map[string]string{"rate": "most"})
	if err := m.overload(t.Context(), 800); err != nil {
		t.Fatal(err)
	}
	if v := figure(t, m.out, "counting_overload_fps"); m.out.Status != result.Passed || v.Value != 1000 || v.N != overloads || figure(t, m.out, "frames_lost").Value != 10 {
		t.Errorf("%+v", m.out)
	}
	for rate, want := range map[string]result.Status{"search": result.Passed, "most": result.Failed} {
		m = &capturePoint{Capture: newCaptureOf(nil), env: &Env{Bed: &lab.Testbed{}, Trial: trial(false)}, out: Outcome{Status: result.Passed}}
		assign(t, m.Flags, map[string]string{"rate": rate})
		if err := m.overload(t.Context(), 800); err != nil || m.out.Status != want || len(m.out.Values) != 0 || len(m.out.Warnings)+len(m.out.Reason) == 0 {
			t.Errorf("rate %s: %+v, %v", rate, m.out, err)
		}
	}
}

// The limit of a subject of known speed is found.
func TestCaptureSearch(t *testing.T) {
	testutil.Privileged(t)
	testutil.TwoCPUs(t) // on one, no limit is searched
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	const cost = 500 * time.Microsecond // a sleep takes some 60 us more
	t.Run("search", func(t *testing.T) {
		o, recs := captureBench(t, &fakeSniffer{sleep: cost, stop: new(int)}, map[string]string{"buffer": "65536"})
		if o.Status == result.Invalid {
			t.Skipf("the tester was held up: %s", o.Reason)
		}
		v := figure(t, o, "lossless_fps")
		if v.Value < 200 || v.Value > 1.3/cost.Seconds() {
			t.Errorf("%v frame/s without loss, and it can count 2000 at most (%d trials)", v.Value, len(recs))
		}
	})
	t.Run("most", func(t *testing.T) {
		o, recs := captureBench(t, &fakeSniffer{sleep: cost, stop: new(int)}, map[string]string{"buffer": "65536", "rate": "most"})
		if most := measuredOf(t, o, "counting_overload_fps"); most < 0.3/cost.Seconds() || most > 1.5/cost.Seconds() {
			t.Errorf("%v frame/s counted at most, and it can count 2000 (%d trials)", most, len(recs))
		}
	})
}

// A longer trial that was disturbed says nothing of the rate, unless each one loses.
func TestCaptureLimitDisturbed(t *testing.T) {
	for _, c := range []struct {
		clean int // trial from which on nothing is lost
		want  float64
	}{{0, 1e5}, {2, 1e5}, {3, 8e4}, {5, 8e4}, {99, 0}} {
		trials := 0
		trial := func(_ context.Context, cfg []result.Pair, _ func(context.Context) (Outcome, error)) (result.Record, error) {
			rate, _ := strconv.ParseFloat(result.Get(cfg, "rate"), 64)
			r := result.Record{Status: result.Passed, Load: &result.Load{Offered: unit.FrameRate(rate)}, Account: &result.Account{Accepted: 1000, Received: 1000}, DUT: &result.DUTWork{Waited: 0.02}}
			if trials < c.clean {
				r.Status, r.Account.Received, r.Account.Drops = result.Failed, 990, []result.Term{{Place: result.DUTNIC, N: 10}}
			}
			trials++
			return r, nil
		}
		once := func(context.Context, string, []result.Pair, func(context.Context) (Outcome, error)) (result.Record, error) {
			return result.Record{Status: result.Passed}, nil
		}
		p := newCaptureOf(nil)
		assign(t, p.Flags, map[string]string{"frame_size": "64"})
		m := &capturePoint{Capture: p, env: &Env{Bed: &lab.Testbed{}, Trial: trial, Once: once}}
		if err := m.limit(t.Context(), search.Limit{Lower: 1e5, AtCeiling: true, Clean: 3}, 0); err != nil {
			t.Fatal(err)
		}
		found := result.Record{Values: m.out.Values}
		v := found.Value("lossless_fps")
		if c.want == 0 && (v != nil || trials != confirmations*attempts) || c.want > 0 && (v == nil || v.Value != c.want || trials != c.clean+1) {
			t.Errorf("clean from %d on: %+v after %d trials", c.clean, v, trials)
		}
	}
}

// Frames that are counted long after they were sent are lost to a search.
func TestCaptureLags(t *testing.T) {
	m := &capturePoint{Capture: &Capture{}}
	step := search.Step{Rate: 1000, Duration: time.Second}
	rec := result.Record{Status: result.Failed, Load: &result.Load{Offered: 1000}, Account: &result.Account{Accepted: 1000, Received: 1000}, Values: []result.Value{value("frames_lag", 400)}}
	if got := m.saw(step, rec); got.Loss != 0.4 || !got.Valid || got.Doubt != 0 {
		t.Errorf("%+v", got)
	}
	rec.Status = result.Passed
	if got := m.saw(step, rec); got.Loss != 0 {
		t.Errorf("it keeps up: %+v", got)
	}
}
