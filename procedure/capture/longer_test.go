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
	return scriptedIn(t, akin, nil, passes)
}

// scriptedIn is scripted in a run with a budget, of which left says how much is left after so
// many trials, the latest of that kind; nil: there is none.
func scriptedIn(t *testing.T, akin []result.Record, left func(latest string, trials int) time.Duration, passes func(kind string, rate, seconds float64) float64) (m *capturePoint, pauses []procedure.Outcome) {
	t.Helper()
	const ceiling = 1.6e6
	latest, trials := "", 0
	env := &procedure.Env{Bed: &lab.Testbed{Settings: []result.Pair{{Key: "ring", Value: "256"}}}, Akin: func(...string) []result.Record { return akin }}
	if left != nil {
		env.Left = func() time.Duration { return left(latest, trials) }
	}
	env.Trial = func(_ context.Context, cfg []result.Pair, _ func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		rate, err := strconv.ParseFloat(result.Get(cfg, "rate"), 64)
		d, derr := time.ParseDuration(result.Get(cfg, "duration"))
		all := rate * d.Seconds()
		latest, trials = result.Get(cfg, "trial"), trials+1
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

// elsewhere is a trial of 300 s at another point, at a rate that is given. That share of the CPU
// was the hypervisor's.
func elsewhere(rate unit.FrameRate, lost int64, steal float64) result.Record {
	const d = 300 * time.Second
	all := int64(d.Seconds()) * int64(rate)
	r := result.Record{Status: result.Passed, Load: &result.Load{Offered: rate}, Account: &result.Account{Accepted: all, Received: all - lost}, Phases: []result.Phase{{End: unit.Instant(d)}}}
	if lost > 0 {
		r.Status, r.DUT = result.Failed, &result.DUTWork{}
		r.Account.Drops = []result.Term{{Place: result.DUTNIC, N: lost}}
		r.CPUs = []result.CPU{{Role: "dut", Steal: steal}}
	}
	return r
}

// A loss at another point bounds the rate only where nothing excuses it, and until a trial as
// long carried as much.
func TestCaptureLossElsewhere(t *testing.T) {
	up700 := func(kind string, rate, seconds float64) float64 {
		if kind == "limit" {
			return min(rate, 700e3) * seconds
		}
		return 800e3 * seconds
	}
	held := func(kind string, rate, seconds float64) float64 {
		if kind == "limit" {
			return -1
		}
		return 800e3 * seconds
	}
	for name, c := range map[string]struct {
		akin   []result.Record
		passes func(kind string, rate, seconds float64) float64
		least  float64 // that the rate is below, before the end
		lo, hi float64 // the interval holds them
		warns  bool
	}{
		"in doubt, and more was carried":          {[]result.Record{elsewhere(50e3, 10, 0.05), elsewhere(100e3, 0, 0), elsewhere(200e3, 0, 0)}, up700, 700e3, 200e3, 700e3, false},
		"beyond doubt, and more was carried":      {[]result.Record{elsewhere(50e3, 10, 0), elsewhere(100e3, 0, 0), elsewhere(200e3, 0, 0)}, up700, 700e3, 200e3, 700e3, true},
		"beyond doubt, until more is carried":     {[]result.Record{elsewhere(50e3, 10, 0)}, up700, 50e3, 200e3, 700e3, true},
		"at two points, and between was carried":  {[]result.Record{elsewhere(50e3, 10, 0), elsewhere(100e3, 0, 0), elsewhere(300e3, 9e6, 0)}, up700, 300e3, 200e3, 300e3, true},
		"in doubt, and no longer trial was valid": {[]result.Record{elsewhere(50e3, 10, 0.05)}, held, 800e3, 0, 800e3, false},
		"beyond, and no longer trial was valid":   {[]result.Record{elsewhere(50e3, 10, 0)}, held, 50e3, 0, 50e3, false},
	} {
		m, pauses := scripted(t, c.akin, c.passes)
		for i, o := range append(pauses, m.out) {
			lo, hi, ok := known(o, "lossless_fps")
			if !ok || lo > 1.01*c.hi || hi > 0 && hi < 0.99*c.least || i == len(pauses) && (lo < 0.99*c.lo || hi < 0.99*c.hi) {
				t.Errorf("%s: outcome %d: %v to %v: %v", name, i, lo, hi, o.Warnings)
			}
		}
		if warns := strings.Contains(strings.Join(m.out.Warnings, ";"), "no sharp limit: another point of the run lost frames at 50"); warns != c.warns {
			t.Errorf("%s: %v", name, m.out.Warnings)
		}
	}
}

// Where a search found no rate without loss, buffers may be why a longer trial below it has none.
func TestCaptureFillsBelowTheSearch(t *testing.T) {
	overload := 0.0
	m, _ := scripted(t, nil, func(kind string, rate, seconds float64) float64 {
		switch kind {
		case "search":
			return 0.97 * rate * seconds
		case "fill":
			overload = rate
			return rate * (0.5*seconds + 0.8)
		}
		return rate * seconds
	})
	if lo, _, ok := known(m.out, "lossless_fps"); !ok || !about(lo, 0.5*overload) {
		t.Errorf("%v is carried, and %v is counted without end: %v", lo, 0.5*overload, m.out.Warnings)
	}
}

// What the longer trial at another point's rate tells is in the rate without loss, too.
func TestCaptureGivenRateRefutes(t *testing.T) {
	const given = 400e3
	for name, c := range map[string]struct {
		akin    result.Record
		carries float64
		warns   bool
	}{
		"it was a disturbance": {elsewhere(given, 1e5, 0), 450e3, true},
		"it loses there":       {elsewhere(given, 1e5, 0.05), 300e3, false},
	} {
		seen := 0.0 // carried by a longer trial so far
		refuted := math.Inf(1)
		after := 0
		m, pauses := scripted(t, []result.Record{c.akin}, func(kind string, rate, seconds float64) float64 {
			switch {
			case kind != "limit":
				return 800e3 * seconds
			case rate <= c.carries:
				seen = max(seen, rate)
				return rate * seconds
			}
			if refuted = min(refuted, rate); about(rate, given) {
				after = 1
			}
			return map[bool]float64{true: 0.9, false: 0.997}[rate > 500e3] * rate * seconds
		})
		for i, o := range append(pauses, m.out) {
			lo, hi, _ := known(o, "lossless_fps")
			if hi > 0 && hi < 0.99*min(given, c.carries) || lo > 1.01*c.carries {
				t.Errorf("%s: outcome %d: %v to %v: %v", name, i, lo, hi, o.Warnings)
			}
		}
		lo, hi, _ := known(m.out, "lossless_fps")
		if !about(lo, seen) || !about(hi, refuted) || (after == 0) != c.warns {
			t.Errorf("%s: %v to %v, and %v was carried, %v lost", name, lo, hi, seen, refuted)
		}
		if warns := strings.Contains(strings.Join(m.out.Warnings, ";"), "no sharp limit: another point of the run lost frames at 400"); warns != c.warns {
			t.Errorf("%s: %v", name, m.out.Warnings)
		}
	}
}

// Where the only longer trial was at a lower rate than the search found, that rate is the figure.
func TestCaptureReservedTrial(t *testing.T) {
	left := func(latest string, _ int) time.Duration {
		return map[bool]time.Duration{true: 8 * time.Second, false: 30 * time.Second}[latest == "fill" || latest == "limit"]
	}
	offered := 0.0
	_, pauses := scriptedIn(t, []result.Record{elsewhere(830e3, 600, 0)}, left, func(kind string, rate, seconds float64) float64 {
		if kind == "limit" && offered == 0 {
			offered = rate
		}
		return 800e3 * seconds
	})
	if len(pauses) < 2 || offered == 0 || offered > 400e3 {
		t.Fatalf("%d pauses, %v is offered", len(pauses), offered)
	}
	if lo, hi, ok := known(pauses[1], "lossless_fps"); !ok || !about(lo, offered) || hi < 800e3 {
		t.Errorf("%v to %v, and %v was carried: %v", lo, hi, offered, pauses[1].Warnings)
	}
}

// A search that is left after trials that lost nothing has an upper bound by an overload, or
// none: then its rate is a lower bound.
func TestCaptureSearchLeftEarly(t *testing.T) {
	for carries, loses := range map[float64]bool{1000e3: true, 1e9: false} {
		for trials := range 5 {
			left := func(_ string, n int) time.Duration {
				return map[bool]time.Duration{true: 50 * time.Second, false: 100 * time.Second}[n > trials]
			}
			m, pauses := scriptedIn(t, nil, left, func(_ string, rate, seconds float64) float64 { return min(rate, carries) * seconds })
			for i, o := range append(pauses, m.out) {
				v := (&result.Record{Values: o.Values}).Value("lossless_fps")
				if v == nil && i == 0 && o.Status == result.Invalid || v != nil && v.Bound == result.AtMost && i == 0 && v.Value >= min(carries, 1.6e6/1.2) {
					continue // no longer trial yet
				}
				if v == nil || v.Lo == nil || *v.Lo > carries || v.Hi != nil && *v.Hi < min(carries, 1.6e6/1.2) || v.Hi == nil && (loses || v.Bound != result.AtLeast) {
					t.Errorf("%v, left after %d trials, outcome %d: %+v", carries, trials, i, v)
				}
				if told := strings.Contains(strings.Join(o.Warnings, ";"), "confirmed to lose frames: the limit may be higher"); v != nil && told != (v.Hi == nil && v.Value <= 1.6e6/1.2) {
					t.Errorf("%v, left after %d trials, outcome %d: %+v: %v", carries, trials, i, v, o.Warnings)
				}
			}
		}
	}
}
