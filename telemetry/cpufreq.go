// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
	"time"

	"boxdyno/result"
	"boxdyno/unit"
)

const cpufreqEvery = 200 * time.Millisecond

// newCPUFreq reads what cpufreq claims each policy's clock to be. On x86 and
// where firmware has the clock, an answer can take milliseconds, so it is asked
// beside the tick. CPUs of one policy share the value.
func newCPUFreq(ctx context.Context, m *Machine) (Collector, error) {
	root := m.root()
	p := &polled{}
	for _, dir := range numbered(root, "sys/devices/system/cpu/cpufreq/policy*") {
		g := &group{}
		cpus := strings.Fields(sysText(root, dir+"/affected_cpus"))
		if len(cpus) == 0 {
			cpus = []string{strings.TrimPrefix(path.Base(dir), "policy")}
		}
		for _, cpu := range cpus {
			labels := []result.Pair{{Key: "cpu", Value: cpu}}
			_ = g.add(root, dir+"/scaling_cur_freq", 1e3, result.Series{Name: "node_cpu_scaling_frequency_hertz", Labels: labels, Unit: "Hz", // what cannot be opened is absent
				Help: "clock that cpufreq claims, what it last asked for or the hardware's average (scaling_cur_freq)"})
			_ = g.add(root, dir+"/cpuinfo_cur_freq", 1e3, result.Series{Name: "node_cpu_frequency_hertz", Labels: labels, Unit: "Hz",
				Help: "clock that the hardware claims (cpuinfo_cur_freq, which only root reads)"})
		}
		p.add(ctx, "cpufreq "+path.Base(dir), cpufreqEvery, g)
	}
	return p.found()
}

// newResidency reads stats/time_in_state of each policy: a line a frequency in kHz and
// a time in units of 10 ms (Documentation/cpu-freq/cpufreq-stats.rst).
func newResidency(_ context.Context, m *Machine) (Collector, error) {
	c, root := &files{}, m.root()
	var errs []error
	for _, dir := range numbered(root, "sys/devices/system/cpu/cpufreq/policy*") {
		errs = append(errs, c.add(root, dir+"/stats/time_in_state", func(data []byte) (series []result.Series, _ func([]byte, []float64) error, err error) {
			for line := range bytes.Lines(data) {
				khz, _, ok := timeInState(line)
				if !ok {
					return nil, nil, fmt.Errorf("%q is not a frequency and a time", bytes.TrimSpace(line))
				}
				series = append(series, result.Series{Name: "boxdyno_cpufreq_seconds_total", Unit: "s", Counter: true,
					Labels: []result.Pair{{Key: "policy", Value: strings.TrimPrefix(path.Base(dir), "policy")}, {Key: "frequency", Value: strconv.FormatFloat(khz*1e3, 'f', 0, 64)}},
					Help:   "time that the policy's CPUs were at a clock, in Hz"})
			}
			return series, parseResidency, nil
		}))
	}
	return c.done(errors.Join(errs...))
}

func parseResidency(data []byte, dst []float64) error {
	for line := range bytes.Lines(data) {
		_, seconds, ok := timeInState(line)
		if !ok || len(dst) == 0 {
			break
		}
		dst[0], dst = seconds, dst[1:]
	}
	return nil
}

func timeInState(line []byte) (khz, seconds float64, ok bool) {
	a, b, found := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
	khz, seconds = parseNumber(a), parseNumber(b)/100
	return khz, seconds, found && !math.IsNaN(khz+seconds)
}

// newThrottles counts how often an x86 core or package was held down for its
// temperature, and for how long (Linux 5.10).
func newThrottles(_ context.Context, m *Machine) (Collector, error) {
	root := m.root()
	g := &group{}
	seen := map[string]bool{}
	for _, dir := range numbered(root, "sys/devices/system/cpu/cpu[0-9]*") {
		pack, core := sysText(root, dir+"/topology/physical_package_id"), sysText(root, dir+"/topology/core_id")
		of := []result.Pair{{Key: "package", Value: pack}}
		for _, c := range []struct {
			key, file, name string
			scale           float64
			unit            unit.Symbol
			labels          []result.Pair
			help            string
		}{
			{"core " + pack + " " + core, "core_throttle_count", "node_cpu_core_throttles_total", 1, "1", append(of[:1:1], result.Pair{Key: "core", Value: core}), "times that a core was throttled"},
			{"core time " + pack + " " + core, "core_throttle_total_time_ms", "boxdyno_cpu_core_throttled_seconds_total", 1e-3, "s", append(of[:1:1], result.Pair{Key: "core", Value: core}), "time that a core was throttled"},
			{"package " + pack, "package_throttle_count", "node_cpu_package_throttles_total", 1, "1", of, "times that a package was throttled"},
			{"package time " + pack, "package_throttle_total_time_ms", "boxdyno_cpu_package_throttled_seconds_total", 1e-3, "s", of, "time that a package was throttled"},
		} {
			if seen[c.key] { // threads of one core show the same
				continue
			}
			err := g.add(root, dir+"/thermal_throttle/"+c.file, c.scale, result.Series{Name: c.name, Labels: c.labels, Unit: c.unit, Counter: true, Help: c.help + " for its temperature (x86)"})
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, errors.Join(err, g.Close())
			}
			seen[c.key] = err == nil
		}
	}
	if len(g.series) == 0 {
		return nil, ErrAbsent
	}
	return g, nil
}
