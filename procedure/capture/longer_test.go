// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/search"
	"boxdyno/unit"
)

// scripted searches the rate that a subject captures up to 1.6 Mframe/s, of which passes says
// how many frames a trial of that kind counts, and below 0 that it is invalid. It returns the
// point, and the outcomes at the pauses of its longer trials: what is known if a budget ends there.
func scripted(t *testing.T, akin []result.Record, passes func(kind string, rate, seconds float64) float64) (m *capturePoint, pauses []procedure.Outcome) {
	t.Helper()
	const ceiling = 1.6e6
	env := &procedure.Env{Bed: &lab.Testbed{Settings: []result.Pair{{Key: "ring", Value: "256"}}}, Akin: func(...string) []result.Record { return akin }}
	env.Trial = func(_ context.Context, cfg []result.Pair, _ func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		rate, err := strconv.ParseFloat(result.Get(cfg, "rate"), 64)
		d, derr := time.ParseDuration(result.Get(cfg, "duration"))
		all := rate * d.Seconds()
		passed := passes(result.Get(cfg, "trial"), rate, d.Seconds())
		r := result.Record{
			Status: result.Passed, Load: &result.Load{Offered: unit.FrameRate(rate)}, Account: &result.Account{Accepted: int64(all), Received: int64(min(passed, all))},
			Values: []result.Value{figures.Value("frames_offered", all)},
		}
		if r.Account.Lost() > 0 {
			r.Status, r.Reason = result.Failed, "frames were lost"
		}
		if passed < 0 {
			r = result.Record{Status: result.Invalid, Reason: "the tester was held up", Values: []result.Value{figures.Value("startup_s", 1)}}
		}
		return r, errors.Join(err, derr)
	}
	p := newCaptureOf(nil)
	m = &capturePoint{Capture: p, env: env, effort: captureEffortOf("quick"), ceiling: ceiling, out: procedure.Outcome{Status: result.Passed}, emptied: -1}
	m.pause = func(_ context.Context, found procedure.Outcome) error {
		if m.longer != nil {
			pauses = append(pauses, found)
		}
		return nil
	}
	s, err := search.New(p.searching().Name, ceiling/1.2, 800e3)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.hunt(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	return m, pauses
}

// known is a figure's bounds; 0: there is no lower one, or no upper one.
func known(o procedure.Outcome, metric string) (lo, hi float64, ok bool) {
	v := (&result.Record{Values: o.Values}).Value(metric)
	switch {
	case v == nil:
		return 0, 0, false
	case v.Bound == result.AtMost:
		return 0, v.Value, true
	}
	if lo = v.Value; v.Hi != nil {
		hi = *v.Hi
	}
	return lo, hi, true
}

func about(got, want float64) bool { return math.Abs(got-want) <= 0.01*want }

// A tester that is held up in all longer trials is no failure of the box. What buffers may have
// swallowed is not carried all the same, and nobody saw what is.
func TestCaptureDoubtedAndInvalid(t *testing.T) {
	m, pauses := scripted(t, nil, func(kind string, rate, seconds float64) float64 {
		switch kind {
		case "search":
			return 800e3 * seconds
		case "fill":
			return 600e3*seconds + 1e6
		}
		return -1
	})
	for i, o := range append(pauses, m.out) {
		lo, hi, ok := known(o, "lossless_fps")
		if o.Status != result.Passed || !ok || lo != 0 || !about(hi, 800e3) {
			t.Errorf("outcome %d: %s %s, %v to %v: %v", i, o.Status, o.Reason, lo, hi, o.Warnings)
		}
	}
	if r := (&result.Record{Values: m.out.Values}); len(pauses) < 5 || r.Value("startup_s") != nil || !strings.Contains(strings.Join(m.out.Warnings, ";"), "no longer trial was valid: the tester was held up") {
		t.Errorf("%s %s: %+v, %v", m.out.Status, m.out.Reason, m.out.Values, m.out.Warnings)
	}
}

// Where a search found no rate without loss and all longer trials are invalid, what the search
// lost beyond doubt is what is known.
func TestCaptureLossyAndInvalid(t *testing.T) {
	m, _ := scripted(t, nil, func(kind string, _, seconds float64) float64 {
		if kind == "search" {
			return 1
		}
		return -1
	})
	lo, hi, ok := known(m.out, "lossless_fps")
	if r := (&result.Record{Values: m.out.Values}); !ok || lo != 0 || hi <= 0 || m.out.Status != result.Failed || !strings.Contains(m.out.Reason, "down to") || r.Value("startup_s") != nil {
		t.Errorf("%s %s: %v to %v", m.out.Status, m.out.Reason, lo, hi)
	}
}

// What was carried at another point is tried, and no bound before it is: that trial was shorter.
func TestCaptureHintIsNoBound(t *testing.T) {
	const elsewhere = 700e3
	akin := func(rate unit.FrameRate, words ...result.Pair) result.Record {
		return result.Record{Status: result.Passed, Config: words, Load: &result.Load{Offered: rate}, Account: &result.Account{Accepted: 1000, Received: 1000}, Phases: []result.Phase{{End: unit.Instant(2 * time.Second)}}}
	}
	m, pauses := scripted(t, []result.Record{akin(elsewhere), akin(790e3, withoutPrecedence)}, func(kind string, rate, seconds float64) float64 {
		if kind == "limit" {
			return 600e3 * seconds
		}
		return 800e3 * seconds
	})
	noted := false
	for i, o := range pauses {
		lo, hi, ok := known(o, "lossless_fps")
		if strings.Contains(strings.Join(o.Warnings, ";"), "700") {
			if noted = true; !ok || lo != 0 || !about(hi, 800e3) {
				t.Errorf("pause %d: %v to %v: %v", i, lo, hi, o.Warnings)
			}
		}
	}
	if lo, hi, _ := known(m.out, "lossless_fps"); !noted || lo > 600e3 || hi < 600e3 {
		t.Errorf("noted %v, %v to %v: %v", noted, lo, hi, m.out.Warnings)
	}
}

// A rate that another point carried, and that is above what the subject counts without end, is
// not tried.
func TestCaptureHintAboveSustained(t *testing.T) {
	akin := result.Record{Status: result.Passed, Load: &result.Load{Offered: 700e3}, Account: &result.Account{Accepted: 1000, Received: 1000}, Phases: []result.Phase{{End: unit.Instant(2 * time.Second)}}}
	var rates []float64
	scripted(t, []result.Record{akin}, func(kind string, rate, seconds float64) float64 {
		switch kind {
		case "search":
			return 800e3 * seconds
		case "fill":
			return 600e3*seconds + 3e5
		}
		rates = append(rates, rate)
		return min(rate, 580e3) * seconds
	})
	if len(rates) < 3 || !about(rates[0], 800e3) || !about(rates[1], 600e3) {
		t.Errorf("%v", rates)
	}
}

// A rate at a stated loss ratio is not above one at which a longer trial lost more, nor above
// what the subject counts without end.
func TestCapturePDRIsRefuted(t *testing.T) {
	at := func(loss float64) func(float64) float64 { return func(float64) float64 { return loss } }
	for name, c := range map[string]struct {
		loss   func(rate float64) float64 // of a longer trial
		memory float64                    // of a subject that counts 600 kframe/s without end; 0: it counts 800
		lo, hi float64
	}{
		"not at all":                    {at(0), 0, 800e3, -1},
		"by less than it may be":        {at(0.004), 0, 800e3, -1},
		"everywhere":                    {at(0.05), 0, 0, -1},
		"at the highest":                {func(rate float64) float64 { return map[bool]float64{true: 0.05, false: 0.003}[rate > 700e3] }, 0, 640e3, 800e3},
		"by what is without end":        {func(rate float64) float64 { return max(0, 1-600e3/rate) }, 1e6, 600e3, 800e3},
		"by that, and all is lost":      {at(0.05), 1e6, 0, -1},
		"by that, and one disproves it": {at(0), 3e5, 800e3, -1},
	} {
		m, _ := scripted(t, nil, func(kind string, rate, seconds float64) float64 {
			switch {
			case kind == "limit":
				return rate * seconds * (1 - c.loss(rate))
			case kind == "fill" && c.memory > 0:
				return 600e3*seconds + c.memory
			}
			return 800e3 * seconds
		})
		lo, hi, ok := known(m.out, "counted_0_5pct_fps")
		if !ok || c.lo > 0 && !about(lo, c.lo) || c.lo == 0 && (lo != 0 || hi > 800e3) || c.hi > 0 && !about(hi, c.hi) {
			t.Errorf("%s: %v to %v", name, lo, hi)
		}
		if v := (&result.Record{Values: m.out.Values}).Value("counted_0_5pct_l1_bps"); v == nil || (v.Bound == result.AtMost) != (c.lo == 0) {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// A rate at which another point lost a little bounds the rate without loss, and is offered for
// longer to decide on the loose goal.
func TestCaptureDecidesOnTheRateGiven(t *testing.T) {
	const given = 400e3
	akin := result.Record{
		Status: result.Failed, Load: &result.Load{Offered: given}, Phases: []result.Phase{{End: unit.Instant(2 * time.Second)}},
		Account: &result.Account{Accepted: 800e3, Received: 799e3, Drops: []result.Term{{Place: result.DUTNIC, N: 1000}}},
	}
	var rates []float64
	m, pauses := scripted(t, []result.Record{akin}, func(kind string, rate, seconds float64) float64 {
		if kind != "limit" {
			return 800e3 * seconds
		}
		rates = append(rates, rate)
		switch {
		case rate > 500e3:
			return 0.9 * rate * seconds
		case rate > 300e3:
			return 0.997 * rate * seconds
		}
		return rate * seconds
	})
	if lo, hi, _ := known(m.out, "lossless_fps"); lo > 300e3 || lo < 200e3 || !about(hi, given) && hi > given {
		t.Errorf("without loss %v to %v: %v", lo, hi, rates)
	}
	if lo, hi, _ := known(m.out, "counted_0_5pct_fps"); !about(lo, given) || lo <= given || !about(hi, 800e3) {
		t.Errorf("0.5 %%: %v to %v: %v", lo, hi, rates)
	}
	if lo, hi, ok := known(pauses[0], "lossless_fps"); !ok || lo != 0 || hi != given {
		t.Errorf("before the first longer trial: %v to %v", lo, hi)
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
