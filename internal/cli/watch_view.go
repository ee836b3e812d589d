// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"boxdyno/result"
	"boxdyno/telemetry"
	"boxdyno/unit"
)

// A view is what a person wants to know of two looks at the latest values.
type view struct {
	series   []result.Series
	now, was []float64 // NaN: absent
	at       unit.Instant
	took     float64 // s between the looks
}

func newView(series []result.Series) *view {
	v := &view{series: series, now: make([]float64, len(series)), was: make([]float64, len(series))}
	for i := range series {
		v.now[i] = math.NaN()
	}
	return v
}

// look takes the latest values, and keeps those of the look before.
func (v *view) look(s *telemetry.Sampler) {
	copy(v.was, v.now)
	at := s.Latest(v.now)
	v.took, v.at = float64(at-v.at)/1e9, at
}

// rate is how much counter i grew a second; NaN where it is not known.
func (v *view) rate(i int) float64 {
	if d := v.now[i] - v.was[i]; d >= 0 && v.took > 0 {
		return d / v.took
	}
	return math.NaN()
}

// line is what is known, each thing behind two spaces.
func (v *view) line() string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, "  "+format, args...) }
	if busy, soft := v.cpu(); !math.IsNaN(busy) {
		say("cpu %5.1f %%  softirq %5.1f %%", 100*busy, 100*soft)
	}
	if t := v.most("node_thermal_zone_temp", "node_hwmon_temp_celsius"); !math.IsNaN(t) {
		say("%.1f °C", t)
	}
	if hz := v.most("node_cpu_scaling_frequency_hertz"); !math.IsNaN(hz) {
		say("%.2f GHz", hz/1e9)
	}
	if w := v.power(); !math.IsNaN(w) {
		say("%.2f W", w)
	}
	if d := v.drops(); d != "" {
		say("drops/s: %s", d)
	}
	return b.String()
}

// cpu is the share of all CPUs' time that was not idle, and that of softirq.
func (v *view) cpu() (busy, soft float64) {
	var all, idle float64
	for i, s := range v.series {
		r := v.rate(i)
		if s.Name != "node_cpu_seconds_total" || math.IsNaN(r) {
			continue
		}
		all += r
		switch result.Get(s.Labels, "mode") {
		case "idle", "iowait":
			idle += r
		case "softirq":
			soft += r
		}
	}
	return 1 - idle/all, soft / all // NaN where there are none
}

// most is the greatest of the gauges of any of these names.
func (v *view) most(names ...string) float64 {
	most := math.NaN()
	for i, s := range v.series {
		if slices.Contains(names, s.Name) && !math.IsNaN(v.now[i]) && !(v.now[i] <= most) {
			most = v.now[i]
		}
	}
	return most
}

// power is that of the whole box by the first meter that has one, else that of the
// chips whose power is known, else that of the processor's packages.
func (v *view) power() float64 {
	var chips, packages float64
	none := math.NaN()
	seen := map[string]bool{}
	for i, s := range v.series {
		switch {
		case s.Name == "boxdyno_power_watts" && !math.IsNaN(v.now[i]):
			return v.now[i]
		case s.Name == "node_hwmon_power_watt" && !math.IsNaN(v.now[i]):
			chips += v.now[i]
			seen["chips"] = true
		case s.Name == "node_rapl_package_joules_total" && !math.IsNaN(v.rate(i)):
			packages += v.rate(i)
			seen["packages"] = true
		}
	}
	switch {
	case seen["chips"]:
		return chips
	case seen["packages"]:
		return packages
	}
	return none
}

// drops are frames lost a second, by place in path order; "none" where counters of
// lost frames are read and stand still, "" where none is read.
func (v *view) drops() string {
	by := map[result.Place]float64{}
	known := false
	for i, s := range v.series {
		if r := v.rate(i); s.Place != "" && !math.IsNaN(r) {
			known = true
			by[s.Place] += r
		}
	}
	if !known {
		return ""
	}
	var words []string
	for _, p := range result.Places {
		if by[p] > 0 {
			words = append(words, fmt.Sprintf("%s %.0f", p, by[p]))
		}
	}
	if words == nil {
		return "none"
	}
	return strings.Join(words, ", ")
}
