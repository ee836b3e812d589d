// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"fmt"
	"strings"

	"boxdyno/result"
	"boxdyno/unit"
)

// throttled says what held the DUT's clock down while a trial ran, with clock and
// temperature as evidence; "" where nothing shows that. A low clock alone is none: a
// governor may have asked for it. Flags of what has occurred may be older than the trial.
func throttled(series []result.Series, digests []result.Digest) string {
	var why []string
	add := func(s string) {
		for _, have := range why {
			if have == s {
				return
			}
		}
		why = append(why, s)
	}
	var hottest, slowest float64
	for _, d := range digests {
		if d.Series < 0 || d.Series >= len(series) {
			continue
		}
		s := series[d.Series]
		if s.OfTester() {
			continue
		}
		label := func(key string) string { return result.Get(s.Labels, key) }
		switch s.Name {
		case "boxdyno_rpi_throttled":
			if flag := label("flag"); d.Max > 0 && !strings.HasSuffix(flag, "occurred") {
				add("the firmware set the flag \"" + flag + "\"")
			}
		case "node_cpu_core_throttles_total", "node_cpu_package_throttles_total":
			if d.Growth > 0 {
				add("the processor counted throttle events")
			}
		case "node_cooling_device_cur_state":
			if kind := label("type"); d.Max > 0 && (strings.HasPrefix(kind, "cpufreq") || strings.HasPrefix(kind, "Processor")) {
				add(fmt.Sprintf("cooling device %s was in state %.0f of %s", kind, d.Max, label("max_state")))
			}
		case "node_thermal_zone_temp", "node_hwmon_temp_celsius":
			hottest = max(hottest, d.Max)
		case "boxdyno_rpi_arm_clock_hertz", "node_cpu_frequency_hertz":
			if d.Min > 0 && (slowest == 0 || d.Min < slowest) {
				slowest = d.Min
			}
		}
	}
	if why == nil {
		return ""
	}
	if slowest > 0 {
		why = append(why, "its clock fell to "+unit.SI(slowest)+"Hz")
	}
	if hottest > 0 {
		why = append(why, fmt.Sprintf("it was %.1f °C hot", hottest))
	}
	return strings.Join(why, ", ")
}
