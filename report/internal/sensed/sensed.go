// SPDX-License-Identifier: Apache-2.0

// Package sensed says what a series of telemetry is to a reader: a temperature, a clock,
// frames lost at a place.
package sensed

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"boxdyno/result"
)

// hwmon shows a thermal zone once more, as a chip of that name.
const thermalChip = "thermal_thermal_zone"

// The orders of temperatures: that of a zone itself, and that of a zone by hwmon, which is
// drawn where the zone itself was not read.
const (
	ZoneOrder  = 0
	TwiceOrder = 2
)

// A Line is what one series is to a reader. Lines of one Row are drawn together.
type Line struct {
	Kind, Row, Name string  // Kind: softirq, throttled, temperature, clock, power, drops
	Order           float64 // of its row, else of itself
	Scale           float64 // of the series' values
}

// Of says what is drawn of a series: of the tester's nothing, where it is another
// machine than the DUT. Several answers are added up by row and name.
func Of(s result.Series) (out []Line) {
	if s.OfTester() {
		return nil
	}
	label := func(key string) string { return result.Get(s.Labels, key) }
	say := func(kind, row, name string, order float64) {
		out = append(out, Line{kind, row, name, order, 1})
	}
	if s.Place != "" && s.Counter {
		say("drops", string(s.Place), "lost", float64(slices.Index(result.Places, s.Place)))
	}
	number := func(text string) float64 {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return math.Inf(1)
		}
		return n
	}
	switch s.Name {
	case "node_cpu_seconds_total":
		row, at := "CPU "+label("cpu"), number(label("cpu"))
		switch label("mode") {
		case "softirq":
			say("softirq", row, "softirq", at)
			say("softirq", row, "all work", at)
		case "user", "nice", "system", "irq":
			say("softirq", row, "all work", at)
		case "steal":
			say("softirq", row, "stolen", at)
		}
	case "node_thermal_zone_temp":
		say("temperature", "", sensor(s), ZoneOrder)
	case "node_hwmon_temp_celsius":
		order := float64(ZoneOrder + 1)
		if strings.HasPrefix(label("chip"), thermalChip) {
			order = TwiceOrder
		}
		say("temperature", "", sensor(s), order)
	case "boxdyno_rpi_arm_clock_hertz":
		say("clock", "", "measured by the firmware", 0)
	case "node_cpu_frequency_hertz":
		say("clock", "", "said by the hardware\x00"+label("cpu"), 2)
	case "node_cpu_scaling_frequency_hertz":
		say("clock", "", "claimed\x00"+label("cpu"), 3)
	case "boxdyno_power_watts", "node_hwmon_power_watt", "node_rapl_package_joules_total", "node_rapl_psys_joules_total", "node_hwmon_energy_joule_total":
		say("power", "", sensor(s), 0)
	case "boxdyno_rpi_throttled":
		if flag, now := strings.CutSuffix(label("flag"), " now"); now { // what has occurred may have done so before the run
			say("throttled", flag, "flag", 0)
		}
	case "node_hwmon_in_lcrit_alarm":
		say("throttled", "voltage alarm", "flag", 1)
	case "node_cooling_device_cur_state":
		if kind := label("type"); strings.HasPrefix(kind, "cpufreq") || strings.HasPrefix(kind, "Processor") {
			say("throttled", "cooling by "+kind+" "+label("name"), "state", 2)
			if most := number(label("max_state")); most > 0 && !math.IsInf(most, 1) {
				out[len(out)-1].Scale = 1 / most
			}
		}
	case "boxdyno_cpu_core_throttled_seconds_total", "boxdyno_cpu_package_throttled_seconds_total":
		row := "package " + label("package")
		if core := label("core"); core != "" {
			row += ", core " + core
		}
		say("throttled", row, "share of time", 3)
	}
	return out
}

// sensor is a sensor's in words: "cpu-thermal", "coretemp Core 0", "RAPL package-0".
func sensor(s result.Series) string {
	get := func(key string) string { return result.Get(s.Labels, key) }
	var words []string
	switch s.Name {
	case "node_thermal_zone_temp":
		words = []string{cmp.Or(get("type"), "zone "+get("zone"))}
	case "node_hwmon_temp_celsius":
		words = []string{cmp.Or(get("chip_name"), get("chip")), cmp.Or(get("label"), get("sensor"))}
	default:
		words = []string{cmp.Or(get("meter"), get("chip")), get("label")}
		if get("label") == "" && get("sensor") != "" && get("sensor") != "power1" {
			words[1] = get("sensor")
		}
		if state := get("state"); state != "" {
			words = append(words, "("+state+")")
		}
	}
	return cmp.Or(strings.TrimSpace(strings.Join(words, " ")), "a meter without a name")
}
