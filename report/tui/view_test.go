// SPDX-License-Identifier: Apache-2.0

package tui

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"boxdyno/result"
	"boxdyno/unit"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares got with the file name; a difference is left in name.got.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err == nil && bytes.Equal(got, want) {
		os.Remove(name + ".got")
		return
	}
	if err := os.WriteFile(name+".got", got, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Errorf("%s differs from what is made now (%s.got, %v): compare them, and accept with go test ./report/tui -update", name, name, err)
}

var styles = regexp.MustCompile("\x1b\\[[0-9;]*m")

// screenOf is what m draws, without styles, after a check that it fits.
func screenOf(t *testing.T, m *model) string {
	t.Helper()
	text := styles.ReplaceAllString(m.draw(), "")
	lines := strings.Split(text, "\n")
	if len(lines) != m.height {
		t.Errorf("%d lines on a screen of %d", len(lines), m.height)
	}
	for _, l := range lines {
		if n := utf8.RuneCountInString(l); n > m.width {
			t.Errorf("%d columns on a screen of %d: %q", n, m.width, l)
		}
		if strings.ContainsFunc(l, func(r rune) bool { return r < ' ' }) {
			t.Errorf("a line steers the terminal: %q", l)
		}
	}
	return text + "\n"
}

// recorded is a model and the looks at a run's telemetry, twice a second.
func recorded(t *testing.T, dir string) (Options, []Look) {
	t.Helper()
	r, err := result.OpenTelemetry(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	looks := []Look{{}}
	var begin unit.Instant
	for {
		b, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if begin == 0 {
			begin = b.At
		}
		last := &looks[len(looks)-1]
		if b.At-begin > unit.Instant(len(looks))*unit.Instant(lookEvery) {
			looks = append(looks, Look{})
			last = &looks[len(looks)-1]
		}
		last.At = b.At
		last.CPU = time.Duration(b.At-begin) / 200
		// A Look has what each collector read last.
		last.Batches = append(slices.DeleteFunc(last.Batches, func(was result.Batch) bool { return was.First == b.First }), b)
	}
	return Options{Series: r.Head.Series, Machine: "testbox, virtual machine", Kernel: "Linux 6.18.5 x86_64", Rate: r.Head.Rate}, looks
}

func lab(series string, labels ...string) result.Series {
	s := result.Series{Name: series, Counter: strings.HasSuffix(series, "_total")}
	for i := 0; i < len(labels); i += 2 {
		s.Labels = append(s.Labels, result.Pair{Key: labels[i], Value: labels[i+1]})
	}
	return s
}

// pi is a Raspberry Pi 4 that grows hot, as telemetry's documented one, with a port
// that vanishes and a meter that goes silent.
func pi() (Options, []Look) {
	frames := lab("node_network_receive_packets_total", "device", "eth0")
	lost := lab("node_network_receive_missed_errors_total", "device", "eth0")
	lost.Place = result.DUTNIC
	series := []result.Series{
		frames, lab("node_network_receive_bytes_total", "device", "eth0"), lost,
		lab("node_network_receive_packets_total", "device", "usb0"), lab("node_network_transmit_packets_total", "device", "usb0"),
		lab("node_thermal_zone_temp", "zone", "0", "type", "cpu-thermal"),
		lab("node_hwmon_temp_celsius", "chip", "thermal_thermal_zone0", "sensor", "temp1", "chip_name", "cpu_thermal"),
		lab("boxdyno_rpi_arm_clock_hertz"),
		lab("node_cpu_scaling_frequency_hertz", "cpu", "0"), lab("node_cpu_scaling_frequency_hertz", "cpu", "1"),
		lab("boxdyno_power_watts", "meter", "shelly plug s"),
		lab("node_hwmon_power_watt", "chip", "i2c_ina219", "chip_name", "ina219", "meter", "ina219 i2c_ina219", "accuracy", "0.5 %"),
		lab("boxdyno_rpi_throttled", "flag", "throttled now"), lab("boxdyno_rpi_throttled", "flag", "throttling has occurred"),
		lab("node_hwmon_in_lcrit_alarm", "chip", "rpi_volt", "sensor", "in0"),
		lab("node_cooling_device_cur_state", "name", "0", "type", "gpio-fan", "max_state", "1"),
		lab("node_hwmon_fan_rpm", "chip", "cooling_fan", "sensor", "fan1"),
		lab("node_memory_MemTotal_bytes"), lab("node_memory_MemAvailable_bytes"), lab("node_memory_SwapTotal_bytes"), lab("node_memory_SwapFree_bytes"),
		lab("node_rapl_package_joules_total", "index", "0", "meter", "RAPL package-0"),
	}
	for cpu := range 4 {
		for _, mode := range []string{"user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"} {
			series = append(series, lab("node_cpu_seconds_total", "cpu", fmt.Sprint(cpu), "mode", mode))
		}
	}
	nan := math.NaN()
	var looks []Look
	for k := range 60 {
		s := float64(k) / 2
		hot := math.Min(61.3+s, 83.7)
		throttled, clock, usb, meter := 0.0, 1800457088.0, 50*s, 5.2+s/20
		if hot > 80 {
			throttled, clock = 1, 1.58e9
		}
		if k > 40 {
			usb, meter = nan, nan
		}
		v := []float64{148810 * s, 60 * 148810 * s, 300 * math.Max(s-20, 0), usb, usb, hot, hot, clock, 1.8e9, 1.8e9, meter, meter - 0.4,
			throttled, throttled, 0, 1, nan, 3.9e9, 3.1e9, 1e8, 9e7, nan}
		for cpu := range 4 {
			soft := s / float64(1+cpu) * 0.9
			v = append(v, s*0.02, 0, s*0.03, s*0.93-soft, s*0.01, 0, soft, s*0.01)
		}
		looks = append(looks, Look{At: unit.Instant(1e9 + s*1e9), CPU: time.Duration(4e6 * s), Batches: []result.Batch{{At: unit.Instant(1e9 + s*1e9), Values: v}}})
	}
	looks[len(looks)-1].Gaps, looks[len(looks)-1].Longest = 2, 350e6
	looks[len(looks)-1].Warnings = []string{"telemetry has no rapl: needs root", "collector plug failed,\nand is absent where it does: \x1b[2Jno answer for 5s"}
	return Options{Series: series, Machine: "raspberrypi, Raspberry Pi 4 Model B Rev 1.4", Kernel: "Linux 6.12.20 aarch64", Rate: 10}, looks
}

// many is a machine of 96 cores and 30 ports, of which one core is busy.
func many() (Options, []Look) {
	o := Options{Machine: "big", Rate: 10, ASCII: true}
	var values []float64
	for cpu := range 96 {
		busy := 0.05
		if cpu == 37 {
			busy = 0.99
		}
		o.Series = append(o.Series, lab("node_cpu_seconds_total", "cpu", fmt.Sprint(cpu), "mode", "idle"), lab("node_cpu_seconds_total", "cpu", fmt.Sprint(cpu), "mode", "softirq"))
		values = append(values, 1-busy, busy)
	}
	for port := range 30 {
		o.Series = append(o.Series, lab("node_network_receive_packets_total", "netns", "dut", "device", fmt.Sprintf("veth%d", port)))
		values = append(values, float64(port))
	}
	var looks []Look
	for k := range 9 {
		at := unit.Instant(k) * 5e8
		b := result.Batch{At: at}
		for _, v := range values {
			b.Values = append(b.Values, v*float64(k)/2)
		}
		looks = append(looks, Look{At: at, Batches: []result.Batch{b}})
	}
	return o, looks
}

func TestScreens(t *testing.T) {
	sandbox, run := recorded(t, "testdata/sandbox")
	board, hot := pi()
	big, load := many()
	for _, c := range []struct {
		name          string
		o             Options
		looks         []Look
		width, height int
		keys          string
	}{
		{"sandbox-80x24", sandbox, run, 80, 24, ""},
		{"sandbox-120x40", sandbox, run, 120, 40, ""},
		{"sandbox-ports", sandbox, run, 100, 40, "3"},
		{"sandbox-slow", sandbox, run, 80, 24, "--"},
		{"pi-80x24", board, hot, 80, 24, ""},
		{"pi-120x40", board, hot, 120, 40, ""},
		{"pi-cpus", board, hot, 80, 24, "2"},
		{"pi-sensors", board, hot, 80, 24, "4"},
		{"many-80x24", big, load, 80, 24, ""},
		{"many-cpus-end", big, load, 80, 24, "2" + strings.Repeat("j", 200)},
		{"help", board, hot, 80, 24, "?"},
		{"bare", Options{Rate: 10, Series: []result.Series{lab("node_load1")}}, []Look{{At: 5}}, 80, 24, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newModel(c.o)
			m.width, m.height = c.width, c.height
			for _, l := range c.looks {
				m.look(l)
			}
			screenOf(t, m)
			for _, k := range c.keys {
				m.press(string(k))
				screenOf(t, m)
			}
			golden(t, filepath.Join("testdata", c.name+".txt"), []byte(screenOf(t, m)))
			for width := range 130 {
				m.width, m.height = width, width/2
				if m.height > 0 {
					screenOf(t, m)
				}
			}
		})
	}
}

// The view stands still while it is paused, and misses nothing.
func TestPause(t *testing.T) {
	o, looks := pi()
	m := newModel(o)
	still := newModel(o)
	for i, l := range looks {
		m.look(l)
		if i == 30 {
			still.press("p")
		}
		before := still.draw()
		if drawn := still.look(l); i >= 30 && (drawn || still.draw() != before) {
			t.Fatal("a paused view moved")
		}
	}
	if got := screenOf(t, still); !strings.Contains(got, "PAUSED") {
		t.Errorf("nothing says that it stands still:\n%s", got)
	}
	still.press("p")
	if m.shown = m.steps; screenOf(t, still) != screenOf(t, m) {
		t.Errorf("after the pause:\n%s\nwithout one:\n%s", screenOf(t, still), screenOf(t, m))
	}
}

// Rates are over the time between a collector's own reads, and hold until the next.
func TestRates(t *testing.T) {
	h := newHistory([]result.Series{lab("a_total"), lab("b_total"), lab("c")})
	f, g := h.sum(9, 1, 0), h.sum(9, 1, 2)
	at := func(s float64) unit.Instant { return unit.Instant(s * 1e9) }
	batch := func(s, v float64) []result.Batch {
		return []result.Batch{{At: at(s), Values: []float64{v}}, {At: at(s), First: 2, Values: []float64{v}}}
	}
	nan := math.NaN()
	for i, c := range []struct{ s, v, want float64 }{
		{1, 100, nan}, {1.5, 110, 20}, {1.5, 110, 20}, {2.5, 110, 0}, {3, 109.99, 0}, {3.5, 5, 10}, {4, nan, nan}, {4.5, 6, nan}, {5, 8, 4},
	} {
		h.step(batch(c.s, c.v))
		if got := f.mean(h.steps, 1); got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("step %d at %g s: %g a second, want %g", i, c.s, got, c.want)
		}
		if got := g.mean(h.steps, 1); got != c.v && !math.IsNaN(c.v) {
			t.Errorf("step %d: gauge %g, want %g", i, got, c.v)
		}
	}
	if got := f.grown(); got != 17 {
		t.Errorf("it grew by %g, want 17", got)
	}
	if got := f.columns(9, 3, 3); !slices.Equal(got, []float64{20, 10.0 / 3, 4}) {
		t.Errorf("columns %v", got)
	}
	h.step(nil) // the ring forgets its first step
	if got := f.columns(10, 1, 10); !math.IsNaN(got[0]) || got[9] != 4 {
		t.Errorf("columns %v", got)
	}
	if !f.seen() || h.sum(9, 1, 1).seen() {
		t.Error("a series is seen if and only if it had a value")
	}
}

func TestSpark(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		values    []float64
		low, high float64
		ascii     bool
		want      string
	}{
		{[]float64{0, 0.5, 1, nan, 2, -1}, 0, 1, false, "▁▅█ █▁"},
		{[]float64{0, 0.5, 1, nan}, 0, 1, true, "_=# "},
		{[]float64{3, 3}, 3, 3, false, "▁▁"},
		{[]float64{nan, nan}, nan, nan, false, "  "},
		{nil, 0, 1, false, ""},
	} {
		if got := spark(c.values, c.low, c.high, c.ascii); got != c.want {
			t.Errorf("%v from %g to %g: %q, want %q", c.values, c.low, c.high, got, c.want)
		}
	}
}

func BenchmarkStep(b *testing.B) {
	o, looks := pi()
	m := newModel(o)
	for i := range b.N {
		m.look(looks[i%len(looks)])
		m.draw()
	}
}
