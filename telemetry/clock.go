// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"strconv"
	"time"

	"boxdyno/host"
	"boxdyno/result"
)

// MeasureClock runs a counted loop on cpus and returns the clock of each as a
// series with its value: before and after trials, for it takes span of each CPU,
// and 1 ms where that is 0. What cpufreq claims is another series.
func MeasureClock(span time.Duration, cpus ...int) ([]result.Series, []float64, error) {
	hz, err := host.Clock(span, cpus...)
	if err != nil {
		return nil, nil, err
	}
	series := make([]result.Series, len(cpus))
	for i, cpu := range cpus {
		series[i] = result.Series{Name: "boxdyno_cpu_clock_hertz", Labels: []result.Pair{{Key: "cpu", Value: strconv.Itoa(cpu)}}, Unit: "Hz",
			Help: "clock of a CPU, measured by a counted loop"}
	}
	return series, hz, nil
}
