// SPDX-License-Identifier: Apache-2.0

// Package roomtest is what tests of several rooms share.
package roomtest

import (
	"context"
	"flag"
	"slices"
	"testing"

	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/link/hub"
	"boxdyno/procedure"
	"boxdyno/result"
)

// Env runs trials on this machine's CPU 0 at once, and appends their records to recs.
// unfinished is the record of a trial that an earlier part of the run began; nil: none.
func Env(recs *[]result.Record, unfinished *result.Record) *procedure.Env {
	stressor := func(cfg []result.Pair) string { return result.Get(cfg, "stressor") }
	return &procedure.Env{
		Bed: &lab.Testbed{Facts: lab.Facts{Topology: lab.Here, CPUs: []int{0}}},
		Unfinished: func(cfg []result.Pair) *result.Record {
			if unfinished == nil || stressor(cfg) != stressor(unfinished.Config) {
				return nil
			}
			return unfinished
		},
		Trial: func(ctx context.Context, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
			o, err := f(ctx)
			r := result.Record{Config: cfg, Status: o.Status, Reason: o.Reason, Values: o.Values, Usage: o.Usage, Copies: o.Copies, Warnings: o.Warnings}
			*recs = append(*recs, r)
			return r, err
		},
	}
}

// Assign sets parameters of what flags declares.
func Assign(t testing.TB, flags func(*flag.FlagSet), set map[string]string) {
	t.Helper()
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	flags(fs)
	for k, v := range set {
		if err := fs.Set(k, v); err != nil {
			t.Fatal(k, err)
		}
	}
}

// Figure is o's value of the metric, without which the test fails.
func Figure(t testing.TB, o procedure.Outcome, metric string) result.Value {
	t.Helper()
	for _, v := range o.Values {
		if v.Metric == metric {
			return v
		}
	}
	t.Fatalf("there is no %s in %+v, %s %s %v", metric, o.Values, o.Status, o.Reason, o.Warnings)
	return result.Value{}
}

// Measured is the figure of an outcome; the test is skipped where that is invalid.
func Measured(t testing.TB, o procedure.Outcome, metric string) float64 {
	t.Helper()
	if o.Status == result.Invalid {
		t.Skipf("the tester was held up: %s", o.Reason)
	}
	return Figure(t, o, metric).Value
}

// Declared fails the test for each value of o that is none of the metrics.
func Declared(t testing.TB, o procedure.Outcome, metrics []result.Metric) {
	t.Helper()
	for _, v := range o.Values {
		if !slices.ContainsFunc(metrics, func(m result.Metric) bool { return m.Name == v.Metric }) {
			t.Errorf("%s is not declared", v.Metric)
		}
	}
}

// Build builds a topology with the parameters, until the test ends. The machine is locked
// meanwhile, but for topology mem: some counters are the machine's.
func Build(t testing.TB, name string, set map[string]string) *lab.Testbed {
	t.Helper()
	i := slices.IndexFunc(lab.All, func(s lab.Spec) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("there is no topology %s", name)
	}
	if name != "mem" {
		unlock, err := host.Lock(context.Background(), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(unlock)
	}
	top := lab.All[i].New()
	Assign(t, top.Flags, set)
	if d, ok := top.(lab.Dialling); ok {
		d.DialBy(hub.Dial)
	}
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
