// SPDX-License-Identifier: Apache-2.0

package many

import (
	"math"
	"strings"
	"testing"
	"time"

	"boxdyno/procedure"
	"boxdyno/procedure/rfc2544"
	"boxdyno/result"
	"boxdyno/unit"
)

// A pair's last trial counts if it offered what the pair carries by itself, and for as long as was
// asked for. What a queue took meanwhile is not in its rate. Without a steady course of the arrivals
// the rate is an upper bound.
func TestFinale(t *testing.T) {
	const begin, none = unit.Instant(1e9), -1
	steady := func(forwarded unit.FrameRate, lag time.Duration) *result.Load {
		return &result.Load{Forwarded: forwarded, Arrivals: &result.Arrivals{Steady: time.Second, Lag: lag}}
	}
	falling := steady(900, 0)
	falling.Arrivals.Falling = true
	for name, c := range map[string]struct {
		carries, standing float64 // by itself
		ramp              bool
		sent, came        int64
		lasts             float64 // s, from the first frame to the last one
		load              *result.Load
		rate, lost        float64
		bound             result.Bound
		want              string
	}{
		"all of it":          {1000, 0, false, 1000, 1000, 0.999, steady(990, 0), 1000, 0, result.Exactly, ""},
		"some lost":          {1000, 0, false, 1000, 900, 0.999, steady(900, 0), 900, 0.1, result.Exactly, ""},
		"a queue, then loss": {1000, 0, false, 1000, 900, 0.999, steady(800, 0), 800, 0.1, result.Exactly, ""}, // it took 100
		"a queue that grows": {1000, 0, false, 1000, 1000, 0.999, steady(912, 50*time.Millisecond), 1000 / 1.1, 0, result.AtMost, tooShort + "a queue grew by 50ms in half of it"},
		"a slower one":       {1000, 0, false, 1000, 1000, 0.999, steady(900, 50*time.Millisecond), 900, 0, result.AtMost, tooShort + "a queue grew by 50ms in half of it"},
		"a jitter":           {1000, 0, false, 1000, 1000, 0.999, steady(990, 4*time.Millisecond), 1000, 0, result.Exactly, ""},
		"a bucket, just now": {1000, 0, false, 1000, 990, 0.999, falling, 990, 0.01, result.AtMost, tooShort + "what came was not steady"},
		"no course":          {1000, 0, false, 1000, 1000, 0.999, &result.Load{}, 1000, 0, result.AtMost, tooShort + "what came was not steady"},
		"a lie":              {1000, 0, false, 1000, 900, 0.999, steady(9000, 0), 900, 0.1, result.Exactly, ""},
		"a tenth":            {1000, 0, false, 100, 100, 0.99, steady(100, 0), none, 0, "", notAtOnce + "it offered 100 frame/s, and carries 1e+03 by itself"},
		"more":               {1000, 0, false, 1100, 1000, 0.999, steady(900, 0), none, 0, "", notAtOnce + "it offered 1.1e+03 frame/s, and carries 1e+03 by itself"},
		"a standing start":   {1000, 500, true, 500, 500, 0.998, steady(500, 0), 500, 0, result.Exactly, ""},
		"without a ramp":     {1000, 500, false, 500, 500, 0.998, steady(500, 0), none, 0, "", notAtOnce + "it offered 500 frame/s, and carries 1e+03 by itself"},
		"half of the time":   {1000, 0, false, 1000, 1000, 0.4995, steady(1000, 0), none, 0, "", notAtOnce + "it offered its load for 0.5 s, and 1s were asked for"},
		"two frames":         {2, 0, false, 2, 2, 0.5, &result.Load{}, 2, 0, result.AtMost, tooShort + "what came was not steady"},
		"a frame":            {1.4, 0, false, 1, 1, 0, &result.Load{}, 1, 0, result.AtMost, tooShort + "what came was not steady"},
		"no limit":           {0, 0, false, 1000, 1000, 0.999, steady(1000, 0), none, 0, "", notAtOnce + "it offered 1e+03 frame/s, and carries 0 by itself"},
	} {
		r := &paired{p: PairsSpec(rfc2544.ArmSpec, newBench(t, 2)).New().(*pairs), lasts: time.Second}
		f := finale{r: r, from: &member{name: "b1"}, gentle: c.ramp, at: begin}
		end := begin + unit.Instant(c.lasts*1e9)
		f.judge(procedure.Outcome{Status: result.Passed, Began: procedure.Began{At: begin}, Phases: []result.Phase{{Begin: begin, End: end}},
			Load: c.load, Account: &result.Account{Accepted: c.sent, Received: c.came, Drops: []result.Term{{N: c.sent - c.came}}}}, begin, end)
		o := procedure.Outcome{Values: []result.Value{{Metric: "at_once_fps", Value: 1e9}}} // the board's own word
		if c.carries > 0 {
			o.Values = append(o.Values, result.Value{Metric: "throughput_fps", Value: c.carries})
		}
		if c.standing > 0 {
			o.Values = append(o.Values, result.Value{Metric: "standing_start_fps", Value: c.standing})
		}
		f.add(&o)
		if got := strings.Join(o.Warnings, "; "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		rec := result.Record{Values: o.Values}
		v, lost, offered := rec.Value("at_once_fps"), rec.Value("at_once_lost"), rec.Value("at_once_offered_fps")
		if (v == nil) != (c.rate == none) {
			t.Errorf("%s: %+v", name, o.Values)
		}
		if v == nil {
			continue
		}
		near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-6*b }
		if !near(v.Value, c.rate) || !near(lost.Value, c.lost) || !near(offered.Value, float64(c.sent)) || v.Bound != c.bound || (lost.Bound == result.AtLeast) != (v.Bound == result.AtMost) {
			t.Errorf("%s: %+v, %+v, %+v; want %g, %g lost", name, v, lost, offered, c.rate, c.lost)
		}
	}
}
