// SPDX-License-Identifier: Apache-2.0

package roomtest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/crew"
	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/unit"
	"boxdyno/verdict"
)

// A Bench is a run of several procedures: it shares what the runner lets them share.
type Bench struct {
	T    *testing.T
	Bed  *lab.Testbed
	Recs []result.Record
	once map[string]result.Record
	Own  map[string]int // trials that were really carried out, by procedure
	Sent []transmitted
}

// A transmitted is a load and what became of it.
type transmitted struct {
	Load    engine.Load
	Reports []engine.TxReport
}

// A LoggedBackend keeps what its transmitters report.
type LoggedBackend struct {
	engine.Backend
	sent *[]transmitted
}

func (l LoggedBackend) OpenTransmitter(ctx context.Context, lanes []host.Port, cpu int) (engine.Transmitter, error) {
	t, err := l.Backend.OpenTransmitter(ctx, lanes, cpu)
	if err != nil {
		return nil, err
	}
	return loggedTransmitter{t, l.sent}, err
}

// OpenCrew opens n senders, each on any CPU.
func (l LoggedBackend) OpenCrew(ctx context.Context, lanes []host.Port, n int) (engine.Transmitter, error) {
	t, err := crew.Open(ctx, l.Backend, lanes, slices.Repeat([]int{-1}, n))
	if err != nil {
		return nil, err
	}
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

// NewBench builds the topology until the test ends. Other topologies than mem need root.
func NewBench(t *testing.T, topology string, bedSet map[string]string) *Bench {
	t.Helper()
	if topology != "mem" {
		testutil.Privileged(t)
		testutil.Alone(t)
	}
	b := &Bench{T: t, Bed: Build(t, topology, bedSet), once: map[string]result.Record{}, Own: map[string]int{}}
	b.Bed.Engine = LoggedBackend{b.Bed.Engine, &b.Sent}
	return b
}

// Run carries out one point of the procedure at the parameters.
func (b *Bench) Run(spec procedure.Spec, set map[string]string) procedure.Outcome {
	b.T.Helper()
	name, p := spec.Name, spec.New()
	Assign(b.T, p.Flags, set)
	if err := p.Check(b.Bed); err != nil {
		b.T.Fatal(err)
	}
	trial := func(parent string) func(context.Context, []result.Pair, func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		return func(ctx context.Context, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
			o, err := f(ctx)
			if err != nil {
				return result.Record{}, err
			}
			what, _, _ := strings.Cut(parent, "/") // of what a run does once, as the runner has it
			r := result.Record{Parent: parent, Procedure: what, Config: cfg, Status: o.Status, Reason: o.Reason, Values: o.Values, Load: o.Load, Account: o.Account, Phases: o.Phases, KPIs: o.KPIs, Samples: o.Samples, Warnings: o.Warnings}
			r.Status, r.Reason = verdict.Validity(r, o.Ceiling)
			b.Recs = append(b.Recs, r)
			b.Own[parent]++
			return r, nil
		}
	}
	cached := func(ctx context.Context, parent string, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		key := fmt.Sprint(parent, set, cfg)
		if r, ok := b.once[key]; ok {
			return r, nil
		}
		r, err := trial(parent)(ctx, cfg, f)
		b.once[key] = r
		return r, err
	}
	out, err := p.Run(b.T.Context(), &procedure.Env{Bed: b.Bed, Trial: trial(name), Shared: cached, Once: cached})
	if err != nil {
		b.T.Fatal(name, err)
	}
	return out
}

// GoOn is the pause of a run that has no other points, and a budget.
func GoOn(procedure.Outcome) bool { return true }

// A Swallower is a fake box for connections: it takes rate of them a second, and
// memory more, once, from rest.
type Swallower struct{ Rate, Memory, Ceiling float64 }

// Env is that box as a procedure meets it: Trial reads the load from the trial's identity.
func (b Swallower) Env() *procedure.Env {
	trial := func(_ context.Context, cfg []result.Pair, _ func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		rate, _ := strconv.ParseFloat(result.Get(cfg, "rate"), 64)
		d, err := time.ParseDuration(result.Get(cfg, "duration"))
		if err != nil {
			return result.Record{}, err
		}
		rate = min(rate, b.Ceiling)
		opened := math.Round(rate * d.Seconds())
		passed := min(opened, math.Floor(b.Memory+b.Rate*d.Seconds()))
		r := result.Record{Config: cfg, Status: result.Passed, Load: &result.Load{Offered: unit.FrameRate(rate), Peak: unit.FrameRate(rate)}, Account: &result.Account{Accepted: int64(opened)}}
		if passed < opened {
			r.Status, r.Reason = result.Failed, "connections failed"
		}
		r.Values = []result.Value{figureOf("connections_opened", opened), figureOf("connections_failed", opened-passed), figureOf("connections_complete_cps", passed/d.Seconds())}
		return r, nil
	}
	return &procedure.Env{Bed: &lab.Testbed{Means: timeless{}}, Trial: trial}
}

// timeless has no time that passes.
type timeless struct{}

func (timeless) Rest(time.Duration) {}

// figureOf is a figure as a record has it.
func figureOf(metric string, v float64) result.Value { return result.Value{Metric: metric, Value: v} }

// Serving has the testbed in memory serve as f says; inner is what served before.
func (b *Bench) Serving(f func(ctx context.Context, inner lab.Server, s lab.Service) error) {
	b.Bed.Means = serving{b.Bed.Means.(memory), f}
}

type memory interface {
	lab.Pather
	lab.Rester
	lab.Server
}

type serving struct {
	memory
	f func(ctx context.Context, inner lab.Server, s lab.Service) error
}

func (v serving) Serve(ctx context.Context, s lab.Service) error { return v.f(ctx, v.memory, s) }
