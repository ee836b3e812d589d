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

// What a tunnel's gateways swallow at first is no throughput of it.
func TestVPNBeyondMemory(t *testing.T) {
	const rate = 20e3
	b := newSuiteBench(t, "mem", map[string]string{"capacity": "0", "ceiling": "80000", "dut.policer": fmt.Sprint(int(rate)), "dut.policer_burst": "2000"})
	b.bed.Direct = func(bool) error { return nil }
	p := newVPN().(*VPN)
	assign(t, p.Flags, map[string]string{"tunnel": "none", "traffic": "udp"})
	trial := func(ctx context.Context, cfg []result.Pair, f func(context.Context) (Outcome, error)) (result.Record, error) {
		o, err := f(ctx)
		return judgedRecord(cfg, o), err
	}
	env := &Env{Bed: b.bed, Log: slog.New(slog.DiscardHandler), Trial: trial}
	env.Once = func(ctx context.Context, _ string, cfg []result.Pair, f func(context.Context) (Outcome, error)) (result.Record, error) {
		return trial(ctx, cfg, f)
	}
	m := &vpnPoint{VPN: p, env: env, out: Outcome{Status: result.Passed}}
	if err := m.forwarded(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v := figure(t, m.out, "throughput_fps"); math.Abs(v.Value/rate-1) > 0.01 {
		t.Errorf("throughput %v of a bucket of %v: %v", v.Value, rate, m.out.Warnings)
	}
	if v := figure(t, m.out, "burst_frames"); math.Abs(v.Value/2000-1) > 0.1 {
		t.Errorf("a bucket of 2000 frames is found as %v", v.Value)
	}
}

// judgedRecord is a trial's record as the runner would have it.
func judgedRecord(cfg []result.Pair, o Outcome) result.Record {
	r := result.Record{Config: cfg, Status: o.Status, Reason: o.Reason, Values: o.Values, Load: o.Load, Account: o.Account, Phases: o.Phases, Warnings: o.Warnings}
	r.Status, r.Reason = verdict.Validity(r, o.Ceiling)
	return r
}
