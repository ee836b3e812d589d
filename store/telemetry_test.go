// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"boxdyno/result"
	"boxdyno/store"
	"boxdyno/unit"
)

var start = time.Date(2026, 11, 21, 5, 0, 0, 123456789, time.UTC)

func head(n int) result.TelemetryHead {
	h := result.TelemetryHead{Schema: result.Schema, Start: start, Rate: 10}
	for i := range n {
		h.Series = append(h.Series, result.Series{
			Name: fmt.Sprintf("boxdyno_series_%d_total", i/2), Unit: "1", Help: "a number",
			Labels: []result.Pair{{Key: "place", Value: fmt.Sprintf("a \"%d\"\\\n", i%2)}, {Key: "cpu", Value: "0"}},
		})
	}
	return h
}

// bundle is a folder with one member of telemetry for each part.
func bundle(t require, parts ...[]byte) string {
	dir := t.TempDir()
	b, err := result.Create(dir, result.Run{Schema: result.Schema})
	for _, p := range parts {
		err = cmp.Or(err, b.Sample(p))
	}
	if err = errors.Join(err, b.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

type require interface {
	TempDir() string
	Fatal(...any)
}

// inTemp lets rapid's T have folders, which the test's T removes.
type inTemp struct {
	*rapid.T
	dirs *testing.T
}

func (t inTemp) TempDir() string { return t.dirs.TempDir() }

func read(t require, name string) []store.Sample {
	rows, err := parquet.ReadFile[store.Sample](name)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// line is how telemetry writes h.
func line(t require, h result.TelemetryHead) []byte {
	data, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	return append(data, '\n')
}

// TestParquetHolds compares the rows with what was sampled: each value that was there
// once, at its time, by its name.
func TestParquetHolds(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		tt := inTemp{r, t}
		var want []store.Sample
		var parts [][]byte
		series, at := 0, int64(0)
		for range rapid.IntRange(1, 4).Draw(r, "parts") {
			series += rapid.IntRange(0, 5).Draw(r, "more series") // they are only ever added
			h := head(series)
			part := line(tt, h)
			for range rapid.IntRange(0, 20).Draw(r, "batches") {
				at += rapid.Int64Range(0, 1e10).Draw(r, "after")
				b := result.Batch{At: unit.Instant(at)}
				b.First = rapid.IntRange(0, series).Draw(r, "first")
				for i := range rapid.IntRange(0, series-b.First).Draw(r, "values") {
					v := rapid.OneOf(rapid.Float64(), rapid.Just(math.NaN())).Draw(r, "value")
					b.Values = append(b.Values, v)
					if s := h.Series[b.First+i]; !math.IsNaN(v) && !math.IsInf(v, 0) {
						want = append(want, store.Sample{Name: s.Name, Labels: fmt.Sprintf(`place="a \"%d\"\\\n",cpu="0"`, (b.First+i)%2), Unit: "1", At: at, Time: start.Add(time.Duration(at)), Value: v})
					}
				}
				part = result.AppendBatch(part, b)
			}
			parts = append(parts, part)
		}
		dir := bundle(tt, parts...)
		name := filepath.Join(dir, store.ParquetFile)
		if cut, err := store.WriteParquet(dir, name, nil); err != nil || cut {
			r.Fatalf("cut %v, %v", cut, err)
		}
		got := read(tt, name)
		order := func(a, b store.Sample) int {
			return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Labels, b.Labels), cmp.Compare(a.At, b.At))
		}
		if !slices.IsSortedFunc(got, order) {
			r.Fatal("the rows are not sorted as the file says")
		}
		full := func(a, b store.Sample) int { return cmp.Or(order(a, b), cmp.Compare(a.Value, b.Value)) }
		slices.SortFunc(got, full)
		slices.SortFunc(want, full)
		if d := gocmp.Diff(want, got, gocmp.Transformer("utc", time.Time.UTC)); d != "" && len(want)+len(got) > 0 {
			r.Fatal(d)
		}
	})
}

// TestParquetGroups writes more than one row group.
func TestParquetGroups(t *testing.T) {
	const batches, wide = 300, 1000
	part := line(t, head(wide))
	values := make([]float64, wide)
	for i := range batches {
		values[0] = float64(i)
		part = result.AppendBatch(part, result.Batch{At: unit.Instant(i * 1e8), Values: values})
	}
	dir := bundle(t, part)
	name := filepath.Join(dir, store.ParquetFile)
	if _, err := store.WriteParquet(dir, name, nil); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, _ := f.Stat()
	p, err := parquet.OpenFile(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	if n := len(p.RowGroups()); n != 3 || p.NumRows() != batches*wide {
		t.Errorf("%d row groups of %d rows, not 3 of %d", n, p.NumRows(), batches*wide)
	}
	if len(p.RowGroups()[0].SortingColumns()) != 3 {
		t.Error("the file does not say how it is sorted")
	}
	if names, err := filepath.Glob(filepath.Join(dir, ".*")); len(names) != 0 {
		t.Error("left behind: ", names, err)
	}
}

// TestParquetOfBroken makes what there is of a run that was killed, and nothing of
// what is no telemetry.
func TestParquetOfBroken(t *testing.T) {
	whole := result.AppendBatch(line(t, head(1)), result.Batch{At: 1e9, Values: []float64{7}})
	dir := bundle(t, whole, result.AppendBatch(nil, result.Batch{At: 2e9, Values: []float64{8}}))
	log := filepath.Join(dir, result.TelemetryFile)
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, store.ParquetFile)
	if err := os.WriteFile(log, data[:len(data)-9], 0o644); err != nil {
		t.Fatal(err)
	}
	if cut, err := store.WriteParquet(dir, name, nil); err != nil || !cut {
		t.Errorf("cut %v, %v", cut, err)
	}
	if rows := read(t, name); len(rows) == 0 || rows[0].Value != 7 {
		t.Errorf("rows: %v", rows)
	}
	before, _ := os.ReadFile(name)

	garbage := bundle(t, whole, []byte("garbage\n"))
	_, err = store.WriteParquet(garbage, name, nil)
	if err == nil || !strings.Contains(err.Error(), "line 3") {
		t.Errorf("garbage: %v", err)
	}
	if after, _ := os.ReadFile(name); string(after) != string(before) {
		t.Error("a file that could not be made took the place of the one before")
	}
	if _, err := store.WriteParquet(t.TempDir(), name, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no telemetry: %v", err)
	}
	if _, err := store.WriteParquet(dir, filepath.Join(dir, "none", "x.parquet"), nil); err == nil {
		t.Error("a folder that is not there took a file")
	}
}
