// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"boxdyno/internal/guard"
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
	if len(q.Boxes) == 1 {
		where = append(where, result.Pair{Key: "box", Value: q.Boxes[0]})
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
		if len(q.Boxes) > 1 && !slices.Contains(q.Boxes, result.Get(f.pairs, "box")) {
			continue
		}
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
			return nil, fmt.Errorf("%w as %s: no run has any figure yet", ErrNoSeries, q.Metric)
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
		if len(q.Boxes) > 1 {
			return nil, fmt.Errorf("%w of %s of the boxes %s where all of these hold", ErrNoSeries, q.Metric, strings.Join(q.Boxes, ", "))
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
func (x *Index) heads(ctx context.Context, q Query) (map[int64]*Point, error) {
	var places map[int64]place
	var lost error
	var aside guard.Group
	defer aside.Wait()
	aside.Go(func() { places, lost = x.places(ctx) })
	query, and := `SELECT key, id, start_ns, version, environment FROM runs`, " WHERE "
	var args []any
	if !q.Since.IsZero() {
		query, args, and = query+and+"start_ns >= ?", append(args, q.Since.UnixNano()), " AND "
	}
	if !q.Until.IsZero() {
		query, args = query+and+"start_ns < ?", append(args, q.Until.UnixNano())
	}
	heads := map[int64]*Point{}
	var order []*Point
	var key, ns int64
	err := x.each(ctx, query, args, func(row []driver.Value) error {
		h := new(Point)
		if err := take(row, &key, &h.Run, &ns, &h.Version, &h.environment); err != nil {
			return err
		}
		h.Start = time.Unix(0, ns).UTC()
		heads[key], order = h, append(order, h)
		return nil
	})
	aside.Wait()
	for key, h := range heads {
		p, ok := places[key]
		if !ok { // its bundle is gone
			delete(heads, key)
			continue
		}
		h.Host, h.Dir = p.host, p.dir
	}
	slices.SortFunc(order, func(a, b *Point) int { // most of them are, as they were entered
		if c := a.Start.Compare(b.Start); c != 0 {
			return c
		}
		return cmp.Or(strings.Compare(a.Run, b.Run), strings.Compare(a.Dir, b.Dir))
	})
	for i, h := range order {
		h.order = i
	}
	return heads, errors.Join(err, lost)
}

// figures are the values of a series, a run's together, in the order of its points.
func (x *Index) figures(ctx context.Context, series int64) (all []figureOf, err error) {
	var f figureOf
	// The index has them in the order of runs and ordinals.
	err = x.each(ctx, `SELECT run, value, lo, hi, bound FROM figures WHERE series = ? ORDER BY run, ordinal`, []any{series}, func(row []driver.Value) error {
		if err := take(row, &f.run, &f.value, &f.lo, &f.hi, &f.bound); err != nil {
			return err
		}
		all = append(all, f)
		return nil
	})
	return all, err
}

// A figureOf is one repeat's value in a run.
type figureOf struct {
	run    int64
	value  float64
	lo, hi *float64
	bound  string
}

// points are a series' runs, the oldest first.
func (x *Index) points(ctx context.Context, figures []figureOf, heads map[int64]*Point, environments map[int64][]result.Pair) (out []Point, err error) {
	type found struct {
		head    *Point
		repeats []figureOf
	}
	all := make([]found, 0, len(figures))
	for len(figures) > 0 {
		run := figures[0].run
		n := slices.IndexFunc(figures, func(f figureOf) bool { return f.run != run })
		if n < 0 {
			n = len(figures)
		}
		if head := heads[run]; head != nil {
			all = append(all, found{head, figures[:n]})
		}
		figures = figures[n:]
	}
	slices.SortFunc(all, func(a, b found) int { return a.head.order - b.head.order })
	out = make([]Point, len(all))
	for i, f := range all {
		p := &out[i]
		*p = *f.head
		if p.N = len(f.repeats); p.N > 1 {
			values := make([]float64, p.N)
			for i, r := range f.repeats {
				values[i] = r.value
			}
			s := stat.Summarize(values)
			p.Value, p.Lo, p.Hi = s.Center, &s.Lo, &s.Hi
		} else {
			p.Value, p.Lo, p.Hi = f.repeats[0].value, f.repeats[0].lo, f.repeats[0].hi
		}
		p.Bound = boundOf(f.repeats)
		if environments[p.environment] == nil {
			if environments[p.environment], err = x.environment(ctx, p.environment); err != nil {
				return nil, err
			}
		}
		p.circumstances = environments[p.environment]
	}
	return out, nil
}

// boundOf is what repeats know together: the median of any with a bound is no exact one.
func boundOf(repeats []figureOf) result.Bound {
	for _, f := range repeats {
		if b := result.Bound(f.bound); b != result.Exactly {
			return b
		}
	}
	return result.Exactly
}

type place struct{ host, dir string }

// places are where runs are, on this machine if they are there.
func (x *Index) places(ctx context.Context) (map[int64]place, error) {
	all := map[int64]place{}
	var run int64
	var p place
	err := x.each(ctx, `SELECT run, host, dir FROM bundles WHERE problem = ''`, nil, func(row []driver.Value) error {
		if err := take(row, &run, &p.host, &p.dir); err != nil {
			return err
		}
		was, ok := all[run]
		ours, wasOurs := p.host == x.host, was.host == x.host
		if !ok || ours && !wasOurs || ours == wasOurs && p.dir < was.dir {
			all[run] = p
		}
		return nil
	})
	return all, err
}

func (x *Index) environment(ctx context.Context, key int64) (pairs []result.Pair, err error) {
	var text string
	if err := x.db.QueryRowContext(ctx, x.sql(`SELECT pairs FROM environments WHERE key = ?`), key).Scan(&text); err != nil {
		return nil, err
	}
	return pairs, json.Unmarshal([]byte(text), &pairs)
}
