// SPDX-License-Identifier: Apache-2.0

package procedure

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/result"
	"boxdyno/unit"
	"boxdyno/verdict"
)

// A swallower is a fake box for connections: it takes rate of them a second, and
// memory more, once, from rest.
type swallower struct{ rate, memory, ceiling float64 }

func (b swallower) env() *Env {
	trial := func(_ context.Context, cfg []result.Pair, _ func(context.Context) (Outcome, error)) (result.Record, error) {
		rate, _ := strconv.ParseFloat(result.Get(cfg, "rate"), 64)
		d, err := time.ParseDuration(result.Get(cfg, "duration"))
		if err != nil {
			return result.Record{}, err
		}
		rate = min(rate, b.ceiling)
		opened := math.Round(rate * d.Seconds())
		passed := min(opened, math.Floor(b.memory+b.rate*d.Seconds()))
		r := result.Record{Config: cfg, Status: result.Passed, Load: &result.Load{Offered: unit.FrameRate(rate), Peak: unit.FrameRate(rate)}, Account: &result.Account{Accepted: int64(opened)}}
		if passed < opened {
			r.Status, r.Reason = result.Failed, "connections failed"
		}
		r.Values = []result.Value{value("connections_opened", opened), value("connections_failed", opened-passed), value("connections_complete_cps", passed/d.Seconds())}
		return r, nil
	}
	return &Env{Bed: &lab.Testbed{Rest: func(time.Duration) {}}, Log: slog.New(slog.DiscardHandler), Trial: trial}
}

// The trial that confirms a limit is longer than all of the search without a failure.
func TestConnectionsAreConfirmedForLonger(t *testing.T) {
	box := swallower{200, 0, 4000} // the slower, the longer are the trials of a search
	env := box.env()
	trial, clean, confirmed := env.Trial, time.Duration(0), time.Duration(0)
	env.Trial = func(ctx context.Context, cfg []result.Pair, f func(context.Context) (Outcome, error)) (result.Record, error) {
		r, err := trial(ctx, cfg, f)
		d, _ := time.ParseDuration(result.Get(cfg, "duration"))
		switch kind := result.Get(cfg, "trial"); {
		case kind == "limit":
			confirmed = d
		case kind == "search" && r.Status == result.Passed:
			clean = max(clean, d)
		}
		return r, err
	}
	m := &connPoint{Connections: newConnections().(*Connections), env: env, effort: connEffortOf("quick"), ceiling: box.ceiling, out: Outcome{Status: result.Passed}}
	if err := m.highest(t.Context()); err != nil {
		t.Fatal(err)
	}
	if clean <= m.effort.trial || confirmed <= clean {
		t.Errorf("confirmed in %v, and a trial of the search was clean for %v", confirmed, clean)
	}
}

// Connections a second are those that a box takes without end, whatever its buckets and
// queues swallow at first.
func TestConnectionsBeyondMemory(t *testing.T) {
	for _, rate := range []float64{2e3, 20e3, 150e3} {
		for _, seconds := range []float64{0, 0.001, 0.01, 0.1, 0.25} {
			t.Run(fmt.Sprintf("%v with %v s", rate, seconds), func(t *testing.T) {
				box := swallower{rate, rate * seconds, 400e3}
				m := &connPoint{Connections: newConnections().(*Connections), env: box.env(), effort: connEffortOf("quick"), ceiling: box.ceiling, out: Outcome{Status: result.Passed}}
				if err := m.highest(t.Context()); err != nil {
					t.Fatal(err)
				}
				v := figure(t, m.out, "connections_cps")
				if math.Abs(v.Value/rate-1) > 0.01 || v.Hi == nil || *v.Hi < rate*0.999 {
					t.Errorf("found %v to %v: %v", v.Value, v.Hi, m.out.Warnings)
				}
				if told := strings.Contains(strings.Join(m.out.Warnings, ";"), "bursts of"); told && seconds == 0 || !told && seconds >= 0.01 {
					t.Errorf("memory of %v s: %v", seconds, m.out.Warnings)
				}
			})
		}
	}
}

// The rate that a subject captures without loss is what it counts without end, whatever
// buffers swallow, where a longer trial can tell.
func TestCaptureBeyondMemory(t *testing.T) {
	const rate = 50e3
	for _, seconds := range []float64{0, 0.01, 0.1, 0.25, 1} {
		t.Run(fmt.Sprint(seconds), func(t *testing.T) {
			box := swallower{rate, rate * seconds, 400e3}
			trial := func(ctx context.Context, cfg []result.Pair, _ func(context.Context) (Outcome, error)) (result.Record, error) {
				r, err := box.env().Trial(ctx, cfg, nil)
				passed := r.Account.Accepted - int64(r.Values[1].Value)
				r.Account.Received = passed
				r.Values = []result.Value{value("counting_rate_fps", r.Values[2].Value)}
				return r, err
			}
			m := &capturePoint{Capture: newCaptureOf(nil), ceiling: 400e3, effort: captureEffortOf("quick"), env: &Env{Bed: &lab.Testbed{}, Trial: trial}, out: Outcome{Status: result.Passed}, emptied: -1}
			m.pause = func(context.Context, Outcome) error { return nil }
			if err := m.highest(t.Context()); err != nil {
				t.Fatal(err)
			}
			if v := figure(t, m.out, "lossless_fps"); math.Abs(v.Value/rate-1) > 0.01 || v.Hi == nil || *v.Hi < rate*0.999 {
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
		p.top.bits = top
		trial := func(_ context.Context, cfg []result.Pair, _ func(context.Context) (Outcome, error)) (result.Record, error) {
			load, _ := strconv.ParseFloat(result.Get(cfg, "rate"), 64)
			frames, err := strconv.ParseFloat(result.Get(cfg, "frames"), 64)
			lasts := frames * mean * 8 / load
			const all = 1_000_000
			passed := min(1, rate*(lasts+seconds)/(load*lasts))
			r := result.Record{Status: result.Passed, Load: &result.Load{Offered: unit.FrameRate(load / 3600)}, Account: &result.Account{Accepted: all, Received: int64(all * passed)}}
			if passed < 1 {
				r.Status = result.Failed
			}
			r.Values = []result.Value{value("capture_offered_bps", load), value("counting_rate_fps", load*passed/3600)}
			return r, err
		}
		env := &Env{Bed: &lab.Testbed{}, Trial: trial}
		m := &idsPoint{IDS: p, out: Outcome{Status: result.Passed}}
		m.listen = &capturePoint{Capture: p.listener(""), env: env, out: Outcome{Status: result.Passed}, ceiling: 10e6}
		m.pause = func(context.Context, Outcome) error { return nil }
		if err := m.hunt(t.Context()); err != nil {
			t.Fatal(err)
		}
		out := m.outcome()
		if v := figure(t, out, "ids_rate_bps"); v.Value > rate*1.03 || v.Value < rate*0.9 { // its interval is a tenth wide
			t.Errorf("memory of %v s: found %v: %v", seconds, v.Value, out.Warnings)
		}
	}
}

// judgedRecord is a trial's record as the runner would have it.
func judgedRecord(cfg []result.Pair, o Outcome) result.Record {
	r := result.Record{Config: cfg, Status: o.Status, Reason: o.Reason, Values: o.Values, Load: o.Load, Account: o.Account, Phases: o.Phases, Warnings: o.Warnings}
	r.Status, r.Reason = verdict.Validity(r, o.Ceiling)
	return r
}

// A point whose criterion stays open after its visits asks for more, each with a few
// trials, and no other does.
func TestOpenCriterionIsVisitedMore(t *testing.T) {
	testutil.Computed(t)
	for _, c := range []struct {
		asked float64
		open  bool
	}{{20e3, true}, {10e3, false}, {24e3, false}, {0, false}} {
		bed := build(t, "mem", map[string]string{"capacity": "20000", "queue": "8", "ceiling": "60000"})
		trials := 0
		one := func(ctx context.Context, cfg []result.Pair, f func(context.Context) (Outcome, error)) (result.Record, error) {
			trials++
			o, err := f(ctx)
			return judgedRecord(cfg, o), err
		}
		env := &Env{Bed: bed, Log: slog.New(slog.DiscardHandler), Trial: one, Criteria: []result.Criterion{{Metric: "throughput_fps", Min: &c.asked}}}
		env.Once = func(ctx context.Context, _ string, cfg []result.Pair, f func(context.Context) (Outcome, error)) (result.Record, error) {
			return one(ctx, cfg, f)
		}
		n, before := 1, 0
		visited := func() {
			if n > visits && trials-before > visitAsks+2 {
				t.Errorf("asked for %v: visit %d took %d trials", c.asked, n, trials-before)
			}
			before = trials
		}
		env.Pause = func(found Outcome) bool {
			if visited(); found.Extra != (n >= visits) {
				t.Errorf("asked for %v: after %d visits extra is %v", c.asked, n, found.Extra)
			}
			n++
			return true
		}
		_, err := newForward().Run(t.Context(), env)
		if visited(); err != nil {
			t.Fatal(err)
		}
		want := visits
		if c.open {
			want = mostVisits
		}
		if n != want {
			t.Errorf("asked for %v: %d visits, want %d", c.asked, n, want)
		}
	}
}
