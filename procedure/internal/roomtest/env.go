// SPDX-License-Identifier: Apache-2.0

// Package roomtest is what tests of several rooms share.
package roomtest

import (
	"context"

	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/result"
)

// Env runs trials on this machine's CPU 0 at once, and appends their records to recs.
// unfinished is the record of a trial that an earlier part of the run began; nil: none.
func Env(recs *[]result.Record, unfinished *result.Record) *procedure.Env {
	stressor := func(cfg []result.Pair) string { return result.Get(cfg, "stressor") }
	return &procedure.Env{
		Bed: &lab.Testbed{Topology: lab.Here, CPUs: []int{0}},
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
