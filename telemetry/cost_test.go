// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The tick's own share of all sensors of a PC, from real files of a temporary
// folder: sysfs answers about as fast.
func BenchmarkSensors(b *testing.B) {
	dir := b.TempDir()
	for name, f := range record(b, "x86-pc").root {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			b.Fatal(err)
		}
		err := os.WriteFile(path, f.Data, 0o644)
		if f.Mode&os.ModeSymlink != 0 {
			_ = os.Remove(path)
			err = os.Symlink(strings.TrimSpace(string(f.Data)), path)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	m := &Machine{Root: os.DirFS(dir)}
	var all []Collector
	var dst []float64
	for _, create := range []func() (Collector, error){
		func() (Collector, error) { return newHwmon(b.Context(), m) },
		func() (Collector, error) { return newThermal(b.Context(), m) },
		func() (Collector, error) { return newRAPL(b.Context(), m) },
		func() (Collector, error) { return newThrottles(b.Context(), m) },
		func() (Collector, error) { return newCPUFreq(b.Context(), m) },
	} {
		c, err := create()
		if err != nil {
			b.Fatal(err)
		}
		defer closed(b, c)
		all, dst = append(all, c), append(dst, make([]float64, len(c.Series()))...)
	}
	b.ReportAllocs()
	for b.Loop() {
		rest := dst
		for _, c := range all {
			n := len(c.Series())
			if err := c.Read(rest[:n]); err != nil {
				b.Fatal(err)
			}
			rest = rest[n:]
		}
	}
	b.ReportMetric(float64(len(dst)), "series")
}
