// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"boxdyno/result"
	"boxdyno/stat"
)

// A foundSeries is one of the index.
type foundSeries struct {
	key    int64
	unit   string
	better int
	pairs  []result.Pair
}

// has says whether p holds for the series. One without the setting has what records leave
// unsaid.
func (f foundSeries) has(p result.Pair) bool {
	return slices.Contains(f.pairs, p) || result.Get(f.pairs, p.Key) == "" && slices.Contains(result.Unsaid, p)
}

// series are those of q, whatever the time.
func (x *Index) series(ctx context.Context, q Query) (found []foundSeries, err error) {
	where := slices.Clone(q.Where)
	if q.Box != "" {
		where = append(where, result.Pair{Key: "box", Value: q.Box})
	}
	if q.Procedure != "" {
		where = append(where, result.Pair{Key: "procedure", Value: q.Procedure})
	}
	rows, err := x.db.QueryContext(ctx, x.sql(`SELECT key, unit, better, settings FROM series WHERE metric = ?`), q.Metric)
	if err != nil {
		return nil, fmt.Errorf("read the index: %w", err)
	}
	defer rows.Close()
	var all []foundSeries
	for rows.Next() {
		var f foundSeries
		var settings string
		if err := rows.Scan(&f.key, &f.unit, &f.better, &settings); err != nil {
			return nil, fmt.Errorf("read the index: %w", err)
		}
		if err := json.Unmarshal([]byte(settings), &f.pairs); err != nil {
			return nil, fmt.Errorf("read the index: %w: make it anew with boxdyno index --rebuild", err)
		}
		all = append(all, f)
		if !slices.ContainsFunc(where, func(p result.Pair) bool { return !f.has(p) }) {
			found = append(found, f)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read the index: %w", err)
	}
	switch {
	case len(all) == 0:
		names, err := x.Metrics(ctx)
		if err != nil {
			return nil, err
		}
		if len(names) == 0 {
			return nil, fmt.Errorf("%w: no run in the index has any", ErrNoSeries)
		}
		return nil, fmt.Errorf("%w as %s: the runs have %s", ErrNoSeries, q.Metric, strings.Join(names, ", "))
	case len(found) == 0:
		for _, p := range where { // the first condition that no series meets
			var values []string
			for _, f := range all {
				if f.has(p) {
					values = nil
					break
				}
				if v := result.Get(f.pairs, p.Key); v != "" && !slices.Contains(values, v) {
					values = append(values, v)
				}
			}
			if values != nil {
				slices.SortFunc(values, natural)
				return nil, fmt.Errorf("%w of %s with %s=%s: %s is %s", ErrNoSeries, q.Metric, p.Key, p.Value, p.Key, strings.Join(values, ", "))
			}
		}
		return nil, fmt.Errorf("%w of %s where all of these hold", ErrNoSeries, q.Metric)
	}
	return found, nil
}

// Metrics are the names of all metrics in the index, sorted.
func (x *Index) Metrics(ctx context.Context) (names []string, err error) {
	rows, err := x.db.QueryContext(ctx, `SELECT DISTINCT metric FROM series ORDER BY metric`)
	if err != nil {
		return nil, fmt.Errorf("read the index: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, fmt.Errorf("read the index: %w", err)
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

// heads are the runs of q's time, on this machine if they are there. Read as a whole they
// take less time than one by one.
func (x *Index) heads(ctx context.Context, q Query) (map[int64]Point, error) {
	places, err := x.places(ctx)
	if err != nil {
		return nil, err
	}
	query := `SELECT key, id, start_ns, version, environment FROM runs WHERE start_ns >= ?`
	args := []any{int64(math.MinInt64)}
	if !q.Since.IsZero() {
		args[0] = q.Since.UnixNano()
	}
	if !q.Until.IsZero() {
		query, args = query+" AND start_ns < ?", append(args, q.Until.UnixNano())
	}
	rows, err := x.db.QueryContext(ctx, x.sql(query), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	heads := make(map[int64]Point, len(places))
	for rows.Next() {
		var h Point
		var key, ns int64
		if err := rows.Scan(&key, &h.Run, &ns, &h.Version, &h.environment); err != nil {
			return nil, err
		}
		if p, ok := places[key]; ok { // else its bundle is gone
			h.Start, h.Host, h.Dir = time.Unix(0, ns).UTC(), p.host, p.dir
			heads[key] = h
		}
	}
	return heads, rows.Err()
}

// points are a series' runs, the oldest first.
func (x *Index) points(ctx context.Context, series int64, heads map[int64]Point, environments map[int64][]result.Pair) (out []Point, err error) {
	// The index has them in the order of runs and ordinals.
	rows, err := x.db.QueryContext(ctx, x.sql(`SELECT run, value, lo, hi, bound FROM figures WHERE series = ? ORDER BY run, ordinal`), series)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var last int64
	var values []float64
	var bounds []result.Bound
	var p Point
	end := func() {
		h, ok := heads[last]
		if len(values) == 0 || !ok {
			return
		}
		lo, hi := p.Lo, p.Hi
		p = h
		if p.N = len(values); p.N > 1 {
			s := stat.Summarize(values)
			p.Value, p.Lo, p.Hi = s.Center, &s.Lo, &s.Hi
		} else {
			p.Value, p.Lo, p.Hi = values[0], lo, hi
		}
		p.Bound = boundOf(bounds)
		out = append(out, p)
	}
	for rows.Next() {
		var run int64
		var value float64
		var lo, hi *float64
		var bound string
		if err := rows.Scan(&run, &value, &lo, &hi, &bound); err != nil {
			return nil, err
		}
		if run != last || len(values) == 0 {
			end()
			last, values, bounds = run, values[:0], bounds[:0]
		}
		values, bounds = append(values, value), append(bounds, result.Bound(bound))
		p.Lo, p.Hi = lo, hi
	}
	end()
	if err := rows.Err(); err != nil {
		return nil, err
	}
	for i := range out {
		key := out[i].environment
		if environments[key] == nil {
			if environments[key], err = x.environment(ctx, key); err != nil {
				return nil, err
			}
		}
		out[i].circumstances = environments[key]
	}
	slices.SortFunc(out, func(a, b Point) int {
		if c := a.Start.Compare(b.Start); c != 0 {
			return c
		}
		return cmp.Or(strings.Compare(a.Run, b.Run), strings.Compare(a.Dir, b.Dir))
	})
	return out, nil
}

// boundOf is what repeats know together: the median of any with a bound is no exact one.
func boundOf(all []result.Bound) result.Bound {
	for _, b := range all {
		if b != result.Exactly {
			return b
		}
	}
	return result.Exactly
}

type place struct{ host, dir string }

// places are where runs are, on this machine if they are there.
func (x *Index) places(ctx context.Context) (map[int64]place, error) {
	rows, err := x.db.QueryContext(ctx, `SELECT run, host, dir FROM bundles WHERE problem = ''`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[int64]place{}
	for rows.Next() {
		var run int64
		var p place
		if err := rows.Scan(&run, &p.host, &p.dir); err != nil {
			return nil, err
		}
		was, ok := all[run]
		ours, wasOurs := p.host == x.host, was.host == x.host
		if !ok || ours && !wasOurs || ours == wasOurs && p.dir < was.dir {
			all[run] = p
		}
	}
	return all, rows.Err()
}

func (x *Index) environment(ctx context.Context, key int64) (pairs []result.Pair, err error) {
	var text string
	if err := x.db.QueryRowContext(ctx, x.sql(`SELECT pairs FROM environments WHERE key = ?`), key).Scan(&text); err != nil {
		return nil, err
	}
	return pairs, json.Unmarshal([]byte(text), &pairs)
}
