// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"testing"

	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/result"
	"boxdyno/unit"
)

// The rate that a subject captures without loss is what it counts without end, whatever
// buffers swallow, where a longer trial can tell.
func TestCaptureBeyondMemory(t *testing.T) {
	const rate = 50e3
	for _, seconds := range []float64{0, 0.01, 0.1, 0.25, 1} {
		t.Run(fmt.Sprint(seconds), func(t *testing.T) {
			box := roomtest.Swallower{Rate: rate, Memory: rate * seconds, Ceiling: 400e3}
			trial := func(ctx context.Context, cfg []result.Pair, _ func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
				r, err := box.Env().Trial(ctx, cfg, nil)
				passed := r.Account.Accepted - int64(r.Values[1].Value)
				r.Account.Received = passed
				r.Values = []result.Value{figures.Value("counting_rate_fps", r.Values[2].Value)}
				return r, err
			}
			m := &capturePoint{Capture: newCaptureOf(nil), ceiling: 400e3, effort: captureEffortOf("quick"), env: &procedure.Env{Bed: &lab.Testbed{}, Trial: trial}, out: procedure.Outcome{Status: result.Passed}, emptied: -1}
			m.pause = func(context.Context, procedure.Outcome) error { return nil }
			if err := m.highest(t.Context()); err != nil {
				t.Fatal(err)
			}
			if v := roomtest.Figure(t, m.out, "lossless_fps"); math.Abs(v.Value/rate-1) > 0.01 || v.Hi == nil || *v.Hi < rate*0.999 {
				t.Errorf("found %v to %v: %v", v.Value, v.Hi, m.out.Warnings)
			}
		})
	}
}

// The load that an IDS inspects is what goes on without end, whatever its ring swallows.
func TestIDSBeyondMemory(t *testing.T) {
	testutil.Computed(t)
	const rate, top, mean = 10e6, 20e6, 402.8 // octets of a frame of the mix
	for _, seconds := range []float64{0, 0.1, 0.5, 1} {
		p := newIDS().(*IDS)
		p.top.Bits = top
		trial := func(_ context.Context, cfg []result.Pair, _ func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
			load, _ := strconv.ParseFloat(result.Get(cfg, "rate"), 64)
			frames, err := strconv.ParseFloat(result.Get(cfg, "frames"), 64)
			lasts := frames * mean * 8 / load
			const all = 1_000_000
			passed := min(1, rate*(lasts+seconds)/(load*lasts))
			r := result.Record{Status: result.Passed, Load: &result.Load{Offered: unit.FrameRate(load / 3600)}, Account: &result.Account{Accepted: all, Received: int64(all * passed)}}
			if passed < 1 {
				r.Status = result.Failed
			}
			r.Values = []result.Value{figures.Value("capture_offered_bps", load), figures.Value("counting_rate_fps", load*passed/3600)}
			return r, err
		}
		env := &procedure.Env{Bed: &lab.Testbed{}, Trial: trial}
		m := &idsPoint{IDS: p, ceiling: 10e6, out: procedure.Outcome{Status: result.Passed}}
		m.listen = &capturePoint{Capture: p.listener(""), env: env, out: procedure.Outcome{Status: result.Passed}, ceiling: 10e6}
		m.pause = func(context.Context, procedure.Outcome) error { return nil }
		if err := m.hunt(t.Context()); err != nil {
			t.Fatal(err)
		}
		out := m.outcome()
		if v := roomtest.Figure(t, out, "ids_rate_bps"); v.Value > rate*1.03 || v.Value < rate*0.9 { // its interval is a tenth wide
			t.Errorf("memory of %v s: found %v: %v", seconds, v.Value, out.Warnings)
		}
	}
}
