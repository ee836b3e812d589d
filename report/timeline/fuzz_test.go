// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"boxdyno/result"
	"boxdyno/unit"
)

// FuzzTimeline reads telemetry that anybody wrote: instants and rates of any kind.
func FuzzTimeline(f *testing.F) {
	f.Add(10.0, int64(0), int64(100_000_000), int64(200_000_000), 1.0)
	f.Add(1e300, int64(0), int64(1)<<62, int64(-1)<<62, 1e308)
	f.Add(1e-300, int64(5e9), int64(0), int64(1)<<62, -1.0)
	f.Add(50.0, int64(0), int64(9e17), int64(-5), 3.0)
	f.Fuzz(func(t *testing.T, rate float64, a, b, c int64, v float64) {
		series := []result.Series{{Name: "node_thermal_zone_temp", Unit: "°C"}, {Name: "node_cpu_seconds_total", Unit: "s", Counter: true,
			Labels: []result.Pair{{Key: "cpu", Value: "0"}, {Key: "mode", Value: "softirq"}}}}
		head, err := json.Marshal(result.TelemetryHead{Schema: result.Schema, Rate: rate, Series: series})
		if err != nil {
			return // a number that JSON has not
		}
		var file bytes.Buffer
		zip := gzip.NewWriter(&file)
		fmt.Fprintf(zip, "%s\n", head)
		var lines []byte
		for i, at := range []int64{a, b, c, a, c} {
			lines = result.AppendBatch(lines, result.Batch{At: unit.Instant(at), Values: []float64{v, v * float64(i)}})
		}
		_, _ = zip.Write(lines)
		_ = zip.Close()
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, result.TelemetryFile), file.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		in, err := result.OpenTelemetry(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		d, err := Read(in, result.Run{}, nil)
		if err == nil && d != nil && (d.Steps < 0 || d.Steps > 2*mostSteps) {
			t.Errorf("%d steps", d.Steps)
		}
	})
}
