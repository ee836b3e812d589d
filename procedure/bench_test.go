// SPDX-License-Identifier: Apache-2.0

package procedure

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/result"
	"boxdyno/unit"
	"boxdyno/verdict"
)

// A bench of suite procedures shares what the runner lets them share.
type suiteBench struct {
	t    *testing.T
	bed  *lab.Testbed
	recs []result.Record
	once map[string]result.Record
	own  map[string]int // trials that were really carried out, by procedure
	sent []transmitted
}

// A transmitted is a load and what became of it.
type transmitted struct {
	load    engine.Load
	reports []engine.TxReport
}

// A loggedBackend keeps what its transmitters report.
type loggedBackend struct {
	engine.Backend
	sent *[]transmitted
}

func (l loggedBackend) OpenTransmitter(ctx context.Context, lanes []host.Port, cpu int) (engine.Transmitter, error) {
	t, err := l.Backend.OpenTransmitter(ctx, lanes, cpu)
	return loggedTransmitter{t, l.sent}, err
}

type loggedTransmitter struct {
	engine.Transmitter
	sent *[]transmitted
}

func (l loggedTransmitter) Transmit(ctx context.Context, load engine.Load, streams ...engine.Stream) ([]engine.TxReport, error) {
	reports, err := l.Transmitter.Transmit(ctx, load, streams...)
	*l.sent = append(*l.sent, transmitted{load, reports})
	return reports, err
}

func newSuiteBench(t *testing.T, topology string, bedSet map[string]string) *suiteBench {
	t.Helper()
	if topology != "mem" {
		testutil.Privileged(t)
		testutil.Alone(t)
	}
	b := &suiteBench{t: t, bed: build(t, topology, bedSet), once: map[string]result.Record{}, own: map[string]int{}}
	b.bed.Engine = loggedBackend{b.bed.Engine, &b.sent}
	return b
}

func (b *suiteBench) run(spec Spec, set map[string]string) Outcome {
	b.t.Helper()
	name, p := spec.Name, spec.New()
	assign(b.t, p.Flags, set)
	if err := p.Check(b.bed); err != nil {
		b.t.Fatal(err)
	}
	trial := func(parent string) func(context.Context, []result.Pair, func(context.Context) (Outcome, error)) (result.Record, error) {
		return func(ctx context.Context, cfg []result.Pair, f func(context.Context) (Outcome, error)) (result.Record, error) {
			o, err := f(ctx)
			if err != nil {
				return result.Record{}, err
			}
			r := result.Record{Parent: parent, Config: cfg, Status: o.Status, Reason: o.Reason, Values: o.Values, Load: o.Load, Account: o.Account, Phases: o.Phases, KPIs: o.KPIs, Samples: o.Samples, Warnings: o.Warnings}
			r.Status, r.Reason = verdict.Validity(r, o.Ceiling)
			b.recs = append(b.recs, r)
			b.own[parent]++
			return r, nil
		}
	}
	cached := func(ctx context.Context, parent string, cfg []result.Pair, f func(context.Context) (Outcome, error)) (result.Record, error) {
		key := fmt.Sprint(parent, set, cfg)
		if r, ok := b.once[key]; ok {
			return r, nil
		}
		r, err := trial(parent)(ctx, cfg, f)
		b.once[key] = r
		return r, err
	}
	out, err := p.Run(b.t.Context(), &Env{Bed: b.bed, Log: slog.New(slog.DiscardHandler), Trial: trial(name), Shared: cached, Once: cached})
	if err != nil {
		b.t.Fatal(name, err)
	}
	return out
}

// goOn is the pause of a run that has no other points, and a budget.
func goOn(Outcome) bool { return true }

func build(t *testing.T, name string, set map[string]string) *lab.Testbed {
	t.Helper()
	for _, s := range lab.All {
		if s.Name != name {
			continue
		}
		if name != "mem" { // some counters are the machine's: other packages' tests must wait
			unlock, err := host.Lock(context.Background(), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(unlock)
		}
		top := s.New()
		assign(t, top.Flags, set)
		bed, err := top.Build(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := bed.Close(); err != nil {
				t.Error(err)
			}
		})
		return bed
	}
	t.Fatalf("there is no topology %s", name)
	return nil
}

func assign(t *testing.T, flags func(*flag.FlagSet), set map[string]string) {
	t.Helper()
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	flags(fs)
	for k, v := range set {
		if err := fs.Set(k, v); err != nil {
			t.Fatal(k, err)
		}
	}
}

func figure(t *testing.T, o Outcome, metric string) result.Value {
	t.Helper()
	for _, v := range o.Values {
		if v.Metric == metric {
			return v
		}
	}
	t.Fatalf("there is no %s in %+v, %s %s %v", metric, o.Values, o.Status, o.Reason, o.Warnings)
	return result.Value{}
}

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
		r.Values = []result.Value{figureOf("connections_opened", opened), figureOf("connections_failed", opened-passed), figureOf("connections_complete_cps", passed/d.Seconds())}
		return r, nil
	}
	return &Env{Bed: &lab.Testbed{Rest: func(time.Duration) {}}, Log: slog.New(slog.DiscardHandler), Trial: trial}
}

// figureOf is a figure as a record has it.
func figureOf(metric string, v float64) result.Value { return result.Value{Metric: metric, Value: v} }

// measuredOf is a figure of the outcome, which must be valid.
func measuredOf(t *testing.T, o Outcome, name string) float64 {
	t.Helper()
	if o.Status == result.Invalid {
		t.Skipf("the tester was held up: %s", o.Reason)
	}
	return figure(t, o, name).Value
}
