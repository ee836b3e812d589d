// SPDX-License-Identifier: Apache-2.0

package tui

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"boxdyno/result"
)

// A gauge is a row of one sensor, or of the most that several say.
type gauge struct {
	label  string
	says   string // whose it is
	tell   func(float64) string
	figure *figure
	least  float64 // the curve spans at least so much; 0: it begins at 0
	or     bool    // not told where the row before it, or that before, is
}

type sensorBlock struct {
	brief, whole []gauge // each kind once; each sensor
	throttle     []sign
}

func newSensorBlock(h *history) (b sensorBlock) {
	heat := h.where("node_thermal_zone_temp", "node_hwmon_temp_celsius")
	b.add(h, "Temperature", heat, "", celsius, 5)
	if len(heat) > 0 {
		says := sensor(h.series[heat[0]])
		if len(heat) > 1 {
			says = fmt.Sprintf("hottest of %d", len(heat))
		}
		b.brief = append(b.brief, gauge{label: "Temperature", says: says, tell: celsius, figure: h.most(keptLong, heat...), least: 5})
	}
	hertz := func(v float64) string { return si(v, "Hz") }
	for _, c := range []struct{ series, says string }{
		{"boxdyno_rpi_arm_clock_hertz", "firmware, measured"},
		{"node_cpu_frequency_hertz", "hardware"},
		{"node_cpu_scaling_frequency_hertz", "cpufreq, asked for"},
	} {
		of := h.where(c.series)
		if len(of) == 0 {
			continue
		}
		says := c.says
		if len(of) > 1 {
			says = fmt.Sprintf("%s, most of %d", strings.TrimSuffix(says, " for"), len(of))
		}
		b.brief = append(b.brief, gauge{label: "Clock", says: says, tell: hertz, figure: h.most(keptLong, of...)})
		b.add(h, "Clock", of, c.says, hertz, 0)
	}
	b.power(h)
	b.add(h, "Fan", h.where("node_hwmon_fan_rpm"), "", func(v float64) string {
		if math.IsNaN(v) {
			return absent
		}
		return fmt.Sprintf("%.0f rpm", v)
	}, 0)
	b.throttle = signs(h)
	return b
}

// power has each meter. In brief it is that of the whole box by the first one, else
// of the chips whose power is known, else of the processor's packages.
func (b *sensorBlock) power(h *history) {
	watts := func(v float64) string { return si(v, "W") }
	box := h.where("boxdyno_power_watts")
	b.add(h, "Power", box, "", watts, 0)
	or := false
	for i, brief := range [][]int{box[:min(len(box), 1)], h.where("node_hwmon_power_watt"), h.where("node_rapl_package_joules_total")} {
		if i > 0 {
			b.add(h, "Power", brief, "", watts, 0)
		}
		if len(brief) == 0 {
			continue
		}
		says := sensor(h.series[brief[0]])
		if len(brief) > 1 {
			says = fmt.Sprintf("sum of %d: %s...", len(brief), says)
		}
		b.brief = append(b.brief, gauge{label: "Power", says: says, tell: watts, figure: h.sum(keptLong, 1, brief...), or: or})
		or = true
	}
}

func (b *sensorBlock) add(h *history, label string, of []int, says string, tell func(float64) string, least float64) {
	for _, i := range of {
		b.whole = append(b.whole, gauge{label: label, says: strings.TrimSpace(sensor(h.series[i]) + " " + says), tell: tell, figure: h.sum(keptLong, 1, i), least: least})
	}
}

// sensor is whose value a series is: a meter with the state that was measured and its
// accuracy, or a chip, zone or CPU.
func sensor(s result.Series) string {
	get := func(key string) string { return result.Get(s.Labels, key) }
	either := func(a, b string) string {
		if get(a) != "" {
			return get(a)
		}
		return get(b)
	}
	words := []string{either("chip_name", "chip"), get("type"), either("label", "sensor")}
	if meter := get("meter"); meter != "" {
		words = []string{meter, get("state"), get("accuracy")}
	}
	for _, key := range []string{"zone", "cpu"} {
		if v := get(key); v != "" {
			words = append(words, key+" "+v)
		}
	}
	return clean(strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " "))
}

// lines are a row each; whole: each sensor, not only each kind.
func (b sensorBlock) lines(m *model, whole bool) (lines []line) {
	list := b.brief
	if whole {
		list = b.whole
	}
	told := false
	for _, g := range list {
		if told = told && g.or; !told && g.figure.seen() {
			told = true
			lines = append(lines, line{g.text(m), plain})
		}
	}
	return append(lines, b.throttled(m)...)
}

func (g gauge) text(m *model) string {
	text := left(g.label, labelled) + right(g.tell(m.value(g.figure)), figures) + "  "
	columns := m.columns(g.figure, labelled+figures+said+4)
	low, high := span(columns)
	says := g.says
	if low < high {
		says = left(says, said-width(ranged(g, low, high))-1) + " " + ranged(g, low, high)
	}
	text += left(says, said)
	if g.least == 0 {
		return m.spark(text, g.figure, 0, math.NaN())
	}
	middle := (low + high) / 2
	return m.spark(text, g.figure, math.Min(low, middle-g.least/2), math.Max(high, middle+g.least/2))
}

// ranged is what the curve spans.
func ranged(g gauge, low, high float64) string {
	return g.tell(low) + " to " + g.tell(high)
}

// A sign is one of the things that say that the box is held back.
type sign struct {
	series int
	word   func(v float64) string // "" where it is not given
	past   bool                   // it is over
}

func signs(h *history) (list []sign) {
	for i, s := range h.series {
		get := func(key string) string { return clean(result.Get(s.Labels, key)) }
		on := func(word string) func(float64) string {
			return func(v float64) string {
				if v > 0 {
					return word
				}
				return ""
			}
		}
		switch kind := get("type"); {
		case s.Name == "boxdyno_rpi_throttled":
			list = append(list, sign{i, on(get("flag")), strings.HasSuffix(get("flag"), "has occurred")})
		case s.Name == "node_hwmon_in_lcrit_alarm":
			list = append(list, sign{i, on("under-voltage (" + sensor(s) + ")"), false})
		case s.Name == "node_cooling_device_cur_state" && (strings.HasPrefix(kind, "cpufreq") || strings.HasPrefix(kind, "Processor")):
			list = append(list, sign{i, func(v float64) string {
				if v > 0 {
					return fmt.Sprintf("%s at %g of %s", kind, v, get("max_state"))
				}
				return ""
			}, false})
		case s.Name == "node_cpu_core_throttles_total" || s.Name == "node_cpu_package_throttles_total":
			word := "package throttled"
			if s.Name == "node_cpu_core_throttles_total" {
				word = "core throttled"
			}
			list = append(list, sign{i, on(word), false})
		}
	}
	return list
}

// throttled says in words what holds the box back; nothing where nobody would say it.
func (b sensorBlock) throttled(m *model) []line {
	var now, past []string
	known := false
	for _, s := range b.throttle {
		v := m.history.now[s.series]
		if math.IsNaN(v) {
			continue
		}
		known = true
		switch word := s.word(v); {
		case word == "" || slices.Contains(now, word):
		case s.past:
			past = append(past, word)
		default:
			now = append(now, word)
		}
	}
	switch {
	case now != nil:
		return []line{{left("! Throttled", labelled) + strings.Join(append(now, past...), "; "), alarm}}
	case past != nil:
		return []line{{left("Throttled", labelled) + "not now; since the boot: " + strings.Join(past, ", "), plain}}
	case known:
		return []line{{left("Throttled", labelled) + "no", plain}}
	}
	return nil
}
