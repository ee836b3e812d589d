// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"

	"boxdyno/result"
)

// A Holder is a run that has figures of a metric.
type Holder struct {
	Run
	Settings [][]result.Pair // of each series that its figures are in
	Machines string          // names, boards and processors of all its machines
}

// Holders lists the runs that have a figure of a metric above zero which is no upper bound,
// in a series whose settings are wanted: the oldest first, each once.
func (x *Index) Holders(ctx context.Context, metric string, wanted func(settings []result.Pair) bool) (out []Holder, err error) {
	series, err := x.series(ctx, Query{Metric: metric})
	if errors.Is(err, ErrNoSeries) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	settings := map[int64][][]result.Pair{}
	for _, s := range series {
		if !wanted(s.pairs) {
			continue
		}
		var run int64
		err := x.each(ctx, `SELECT DISTINCT run FROM figures WHERE series = ? AND value > 0 AND bound <> ?`, []any{s.key, string(result.AtMost)}, func(row []driver.Value) error {
			if err := take(row, &run); err != nil {
				return err
			}
			settings[run] = append(settings[run], s.pairs)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if len(settings) == 0 {
		return nil, nil
	}
	runs, err := x.Runs(ctx, Filter{})
	if err != nil {
		return nil, err
	}
	machines := map[int64]string{}
	for _, r := range runs {
		of := settings[r.key]
		if of == nil {
			continue
		}
		m, known := machines[r.environment]
		if !known {
			pairs, err := x.environment(ctx, r.environment)
			if err != nil {
				return nil, err
			}
			m = machinesIn(pairs)
			machines[r.environment] = m
		}
		out = append(out, Holder{r, of, m})
	}
	return out, nil
}

// machinesIn is the part of a run's circumstances that says on which machines it ran.
func machinesIn(circumstances []result.Pair) string {
	var b strings.Builder
	for _, p := range circumstances {
		switch what, _, _ := strings.Cut(p.Key, " of machine "); what {
		case "machine", "board", "CPU":
			b.WriteString(p.Key + "=" + p.Value + "\n")
		}
	}
	return b.String()
}
