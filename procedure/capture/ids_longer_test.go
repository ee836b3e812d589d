// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/frame"
	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/search"
	"boxdyno/unit"
)

// A load of an IDS above which nothing was too much is a lower bound.
func TestIDSWithoutUpperBound(t *testing.T) {
	testutil.Computed(t)
	for upper, bound := range map[unit.FrameRate]result.Bound{0: result.AtLeast, 140e6: result.Exactly} {
		for _, came := range []result.Status{result.Passed, result.Invalid} {
			m, pauses := idsScripted(t, search.Limit{Lower: 120e6, Upper: upper, Clean: 1, Interim: true}, nil, search.Sustained{}, func(int, float64) result.Status { return came })
			for i, o := range append(pauses, m.outcome()) {
				r := result.Record{Values: o.Values}
				v, fps := r.Value("ids_rate_bps"), r.Value("ids_rate_fps")
				if v == nil || v.Bound != bound || fps == nil || fps.Bound != bound || strings.Contains(strings.Join(o.Warnings, ";"), "the limit may be higher") != (upper == 0) || strings.Contains(strings.Join(o.Warnings, ";"), "and 0") {
					t.Errorf("%s, outcome %d: %+v, %+v: %v", came, i, v, fps, o.Warnings)
				}
			}
		}
	}
}

// idsScripted are the longer trials of an IDS whose search found l in trials seen, of which
// came says what became, one after another.
func idsScripted(t *testing.T, l search.Limit, seen []search.Seen, s search.Sustained, came func(n int, rate float64) result.Status) (*idsPoint, []procedure.Outcome) {
	t.Helper()
	var pauses []procedure.Outcome
	trials := 0
	env := &procedure.Env{Bed: &lab.Testbed{}}
	env.Trial = func(_ context.Context, cfg []result.Pair, _ func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		rate, err := strconv.ParseFloat(result.Get(cfg, "rate"), 64)
		const all = 1_000_000
		r := result.Record{Status: result.Passed, Load: &result.Load{Offered: unit.FrameRate(rate / 3600)}, Account: &result.Account{Accepted: all, Received: all}}
		r.Values = []result.Value{figures.Value("capture_offered_bps", rate)}
		switch r.Status = came(trials, rate); r.Status {
		case result.Failed:
			r.Account.Received, r.Reason = all/2, "frames were lost"
		case result.Invalid:
			r = result.Record{Status: result.Invalid, Reason: "the tester was held up", Values: []result.Value{figures.Value("startup_s", 1)}}
		}
		trials++
		return r, err
	}
	p := newIDS().(*IDS)
	m := &idsPoint{IDS: p, out: procedure.Outcome{Status: result.Passed}}
	m.listen = &capturePoint{Capture: p.listener(""), env: env, out: procedure.Outcome{Status: result.Passed}, ceiling: 10e6}
	m.pause = func(_ context.Context, o procedure.Outcome) error {
		pauses = append(pauses, o)
		return nil
	}
	m.found = &idsHunt{seen: seen}
	m.found.carried = result.Record{Status: result.Passed, Load: &result.Load{Offered: 1}, Account: &result.Account{Accepted: 1, Received: 1}}
	if err := m.confirm(t.Context(), l, 50e6, s); err != nil {
		t.Fatal(err)
	}
	return m, pauses
}

// A load that buffers may have swallowed has no lower bound while no longer trial is valid.
func TestIDSDoubtedAndInvalid(t *testing.T) {
	testutil.Computed(t)
	s := search.Sustained{Rate: 60e6, Memory: 3e9, Longest: time.Minute}
	m, pauses := idsScripted(t, search.Limit{Lower: 80e6, Upper: 100e6, Clean: 3, Lossy: 2}, nil, s, func(int, float64) result.Status { return result.Invalid })
	for i, o := range append(pauses, m.outcome()) {
		if lo, hi, ok := known(o, "ids_rate_bps"); !ok || lo != 0 || hi != 80e6 || o.Status != result.Passed || (&result.Record{Values: o.Values}).Value("startup_s") != nil {
			t.Errorf("outcome %d: %s %s, %v to %v", i, o.Status, o.Reason, lo, hi)
		}
	}
}

// A trial that was invalid or in doubt bounds no load from above.
func TestIDSLossBeyondDoubt(t *testing.T) {
	testutil.Computed(t)
	lossy := func(rate unit.FrameRate, loss, doubt unit.LossRatio, valid bool) search.Seen {
		return search.Seen{Step: search.Step{Rate: rate}, Offered: rate, Loss: loss, Doubt: doubt, Valid: valid}
	}
	seen := []search.Seen{lossy(100e6, 0.3, 0, true), lossy(70e6, 0.1, 0.2, true), lossy(50e6, 0.5, 0, false)}
	for name, c := range map[string]struct {
		seen  []search.Seen
		upper unit.FrameRate
		came  func(n int, rate float64) result.Status
		lo    float64
		hi    float64
		want  result.Status
	}{
		"longer trials are invalid":    {seen, 100e6, func(int, float64) result.Status { return result.Invalid }, 0, 100e6, result.Failed},
		"one is carried":               {seen, 100e6, func(int, float64) result.Status { return result.Passed }, 80e6, 100e6, result.Passed},
		"one loses":                    {seen, 100e6, func(n int, _ float64) result.Status { return []result.Status{result.Failed, result.Invalid}[min(n, 1)] }, 0, 80e6, result.Failed},
		"nothing is lost beyond doubt": {seen[1:], 0, func(int, float64) result.Status { return result.Invalid }, -1, 0, result.Invalid},
	} {
		m, pauses := idsScripted(t, search.Limit{Upper: c.upper, Lossy: 3}, c.seen, search.Sustained{}, c.came)
		lo, hi, ok := known(m.outcome(), "ids_rate_bps")
		if o := m.outcome(); o.Status != c.want || ok != (c.lo >= 0) || ok && (!about(lo, c.lo) && lo != c.lo || !about(hi, c.hi)) || (&result.Record{Values: o.Values}).Value("startup_s") != nil {
			t.Errorf("%s: %s %s, %v to %v", name, o.Status, o.Reason, lo, hi)
		}
		for i, o := range pauses {
			if _, hi, ok := known(o, "ids_rate_bps"); ok != (c.lo >= 0) || ok && hi < c.hi*0.99 {
				t.Errorf("%s, pause %d: %s %s, at most %v", name, i, o.Status, o.Reason, hi)
			}
		}
	}
}

// Traffic that was made to know how long a trial is, is what the trial sends; what is not sent
// is closed.
func TestIDSTrafficIsMadeOnce(t *testing.T) {
	p := newIDS().(*IDS)
	mix, err := frame.NewAppMix(frame.AppMix{Seed: 3, Rate: 5e6, Duration: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	p.traffic = writeCapture(t, mix)
	m := &idsPoint{IDS: p, ceiling: 1e6, listen: &capturePoint{Capture: p.listener(""), env: &procedure.Env{Bed: &lab.Testbed{}}}}
	long := func(rate unit.BitRate) *idsTraffic {
		d, err := m.length(t.Context(), rate, time.Second)
		if err != nil || d <= 0 {
			t.Fatalf("a trial of 1 s lasts %v: %v", d, err)
		}
		return m.ahead
	}
	for at, again := range map[unit.BitRate]bool{1e6: false, 2e6: true} {
		first := long(1e6)
		end, err := m.prepare(t.Context(), at, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if (m.traffic != first) != again || m.ahead != nil {
			t.Errorf("a trial of %v after the length at 1 Mbit/s: made again is %v, left is %v", at, !again, m.ahead)
		}
		if err := end(); err != nil {
			t.Error(err)
		}
	}
	left := &closedSource{}
	m.ahead = &idsTraffic{parts: []engine.Part{{Source: left}}}
	if err := m.forget(); err != nil || !left.closed || m.ahead != nil {
		t.Errorf("closed is %v: %v", left.closed, err)
	}
}

type closedSource struct {
	frame.Source
	closed bool
}

func (s *closedSource) Close() error {
	s.closed = true
	return nil
}
