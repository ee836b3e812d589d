// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"strings"
	"testing"

	"boxdyno/result"
)

// A full CPU whose clock was held down meanwhile is throttled, with the evidence; flags of
// earlier, fans and a low clock alone are none.
func TestThrottledIsTheBottleneck(t *testing.T) {
	of := func(name, key, value string) result.Series {
		return result.Series{Name: name, Labels: []result.Pair{{Key: key, Value: value}, {Key: "max_state", Value: "4"}}}
	}
	series := []result.Series{
		of("boxdyno_rpi_throttled", "flag", "throttled"), of("boxdyno_rpi_throttled", "flag", "throttling has occurred"),
		of("boxdyno_rpi_arm_clock_hertz", "", ""), of("node_thermal_zone_temp", "zone", "0"),
		of("node_cooling_device_cur_state", "type", "cpufreq-cpu0"), of("node_cooling_device_cur_state", "type", "pwm-fan"),
		of("node_cpu_package_throttles_total", "package", "0"),
	}
	clock, heat := result.Digest{Series: 2, N: 3, Min: 1e9, Mean: 1.2e9, Max: 1.5e9}, result.Digest{Series: 3, N: 3, Min: 80, Mean: 82, Max: 84.2}
	for _, c := range []struct {
		name    string
		digests []result.Digest
		ran     float64
		want    []string // nil: another cause
	}{
		{"a flag of now", []result.Digest{{Series: 0, N: 3, Max: 1}, clock, heat}, 1, []string{`the flag "throttled"`, "its clock fell to 1.00 GHz", "84.2 °C"}},
		{"a cooling device", []result.Digest{{Series: 4, N: 3, Max: 2}, heat}, 1, []string{"cooling device cpufreq-cpu0 was in state 2 of 4", "84.2 °C"}},
		{"throttle events", []result.Digest{{Series: 6, N: 3, Growth: 5}}, 1, []string{"throttle events"}},
		{"a flag of earlier", []result.Digest{{Series: 1, N: 3, Max: 1}, clock, heat}, 1, nil},
		{"a fan", []result.Digest{{Series: 5, N: 3, Max: 2}, clock, heat}, 1, nil},
		{"a low clock alone", []result.Digest{clock, heat}, 1, nil},
		{"a CPU with time left", []result.Digest{{Series: 0, N: 3, Max: 1}, clock, heat}, 0.4, nil},
	} {
		r := lossy("route", term(result.DUTNIC, "receive ring full", 600))
		r.CPUs = []result.CPU{{CPU: 1, Role: "dut"}}
		r.DUT = &result.DUTWork{Threads: 1, Ran: c.ran}
		r.Digests = c.digests
		l := limitsOf(Case{Record: r, Series: series})
		if len(l) == 0 || (l[0].Cause == CauseThrottled) != (c.want != nil) {
			t.Errorf("%s: %+v", c.name, l)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(l[0].Sentence, w) {
				t.Errorf("%s: no %q in %q", c.name, w, l[0].Sentence)
			}
		}
	}
}
