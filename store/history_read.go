// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"context"
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
	rows, err := x.db.QueryContext(ctx, x.sql(query), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	heads := map[int64]*Point{}
	for rows.Next() {
		h := new(Point)
		var key, ns int64
		if err := rows.Scan(&key, &h.Run, &ns, &h.Version, &h.environment); err != nil {
			return nil, err
		}
		h.Start = time.Unix(0, ns).UTC()
		heads[key] = h
	}
	aside.Wait()
	for key, h := range heads {
		p, ok := places[key]
		if !ok { // its bundle is gone
			delete(heads, key)
			continue
		}
		h.Host, h.Dir = p.host, p.dir
	}
	return heads, errors.Join(rows.Err(), lost)
}

// figures are the values of a series, a run's together, in the order of its points.
func (x *Index) figures(ctx context.Context, series int64) (all []figureOf, err error) {
	// The index has them in the order of runs and ordinals.
	rows, err := x.db.QueryContext(ctx, x.sql(`SELECT run, value, lo, hi, bound FROM figures WHERE series = ? ORDER BY run, ordinal`), series)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var f figureOf
		if err := rows.Scan(&f.run, &f.value.Value, &f.value.Lo, &f.value.Hi, &f.value.Bound); err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, rows.Err()
}

// A figureOf is one repeat's value in a run.
type figureOf struct {
	run   int64
	value result.Value
}

// points are a series' runs, the oldest first.
func (x *Index) points(ctx context.Context, figures []figureOf, heads map[int64]*Point, environments map[int64][]result.Pair) (out []Point, err error) {
	found := make([]*Point, 0, len(figures)) // they sort faster than points
	for len(figures) > 0 {
		run := figures[0].run
		n := slices.IndexFunc(figures, func(f figureOf) bool { return f.run != run })
		if n < 0 {
			n = len(figures)
		}
		repeats := figures[:n]
		figures = figures[n:]
		head := heads[run]
		if head == nil {
			continue
		}
		p := *head
		if p.N = n; n > 1 {
			values := make([]float64, n)
			for i, f := range repeats {
				values[i] = f.value.Value
			}
			s := stat.Summarize(values)
			p.Value, p.Lo, p.Hi = s.Center, &s.Lo, &s.Hi
		} else {
			p.Value, p.Lo, p.Hi = repeats[0].value.Value, repeats[0].value.Lo, repeats[0].value.Hi
		}
		p.Bound = boundOf(repeats)
		if environments[p.environment] == nil {
			if environments[p.environment], err = x.environment(ctx, p.environment); err != nil {
				return nil, err
			}
		}
		p.circumstances = environments[p.environment]
		found = append(found, &p)
	}
	slices.SortFunc(found, func(a, b *Point) int {
		if c := a.Start.Compare(b.Start); c != 0 {
			return c
		}
		return cmp.Or(strings.Compare(a.Run, b.Run), strings.Compare(a.Dir, b.Dir))
	})
	for _, p := range found {
		out = append(out, *p)
	}
	return out, nil
}

// boundOf is what repeats know together: the median of any with a bound is no exact one.
func boundOf(repeats []figureOf) result.Bound {
	for _, f := range repeats {
		if f.value.Bound != result.Exactly {
			return f.value.Bound
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
