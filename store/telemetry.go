// SPDX-License-Identifier: Apache-2.0

// Package store puts finished bundles into forms that others read: telemetry as
// Parquet.
package store

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"boxdyno/internal/files"
	"boxdyno/result"
)

// ParquetFile is a finished bundle's telemetry in Apache Parquet's form.
const ParquetFile = "telemetry.parquet"

// A Sample is a row of ParquetFile: one value of one series. What was absent has no
// row, and what has not changed may have none for up to a second.
type Sample struct {
	Name   string    `parquet:"name,dict"`   // as in result.Series: "node_cpu_seconds_total"
	Labels string    `parquet:"labels,dict"` // as Prometheus writes them: `cpu="0",mode="softirq"`
	Time   time.Time `parquet:"time,timestamp(nanosecond),delta"`
	At     int64     `parquet:"at_ns,delta"` // the run's clock, by which trials.jsonl says when it was what
	Value  float64   `parquet:"value"`       // base units
	Unit   string    `parquet:"unit,dict"`
}

// groupRows bounds the memory that writing takes: some 100 octets a row.
const groupRows = 100_000

// WriteParquet writes the telemetry of the bundle in dir to name, whole or not at
// all, in row groups of groupRows, each sorted by series and time. cut says that the
// telemetry lacks its end: the run was killed, or still goes on. A run without
// telemetry answers fs.ErrNotExist. The file is o's.
func WriteParquet(dir, name string, o *files.Owner) (cut bool, err error) {
	in, err := result.OpenTelemetry(dir)
	if err != nil {
		return false, err
	}
	defer in.Close()
	if err := files.Replace(name, o, func(f *os.File) error { return copySamples(f, in) }); err != nil {
		return in.Cut, fmt.Errorf("make %s: %w", name, err)
	}
	return in.Cut, nil
}

// copySamples leaves the closing of w to its caller.
func copySamples(w io.Writer, in *result.TelemetryReader) error {
	out := parquet.NewGenericWriter[Sample](w, parquet.Compression(&parquet.Zstd),
		parquet.SortingWriterConfig(parquet.SortingColumns(parquet.Ascending("name"), parquet.Ascending("labels"), parquet.Ascending("at_ns"))))
	group := make([]Sample, 0, groupRows)
	flush := func() error {
		slices.SortFunc(group, func(a, b Sample) int {
			return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Labels, b.Labels), cmp.Compare(a.At, b.At))
		})
		if _, err := out.Write(group); err != nil {
			return err
		}
		group = group[:0]
		return out.Flush()
	}
	var series []Sample // what the rows of a series have in common
	for {
		b, err := in.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		for _, s := range in.Head.Series[min(len(series), len(in.Head.Series)):] {
			series = append(series, Sample{Name: s.Name, Labels: labels(s.Labels), Unit: string(s.Unit)})
		}
		at := in.Head.Start.Add(time.Duration(b.At))
		for i, v := range b.Values {
			if math.IsNaN(v) {
				continue
			}
			s := series[b.First+i]
			s.Time, s.At, s.Value = at, int64(b.At), v
			if group = append(group, s); len(group) == groupRows {
				if err := flush(); err != nil {
					return err
				}
			}
		}
	}
	if len(group) > 0 {
		if err := flush(); err != nil {
			return err
		}
	}
	return out.Close()
}

var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// labels writes them as Prometheus' text format does.
func labels(pairs []result.Pair) string {
	var b strings.Builder
	for i, p := range pairs {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(p.Key + `="` + escape.Replace(strings.ToValidUTF8(p.Value, "\uFFFD")) + `"`)
	}
	return b.String()
}
