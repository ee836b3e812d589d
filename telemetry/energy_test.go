// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"boxdyno/internal/testutil"
	"boxdyno/result"
	"boxdyno/unit"
)

// Known answers: powers whose integral is known, with the readings that a meter gives.
func TestEnergyOfReadings(t *testing.T) {
	const second = unit.Instant(time.Second)
	nan := math.NaN()
	type at struct{ second, value float64 }
	ramp := []at{{0, 10}, {1, 12}, {2, 14}, {3, 16}, {4, 18}} // 10 W, and 2 W more each second
	joules := []at{{0, 100}, {1, 107}, {1.001, 107.007}, {2, 114}, {2.999, 120.993}, {3, 121}, {9, 163}}
	for _, c := range []struct {
		name     string
		counter  bool
		over     float64 // s that a reading is a mean over
		readings []at
		from, to float64
		want     result.Energy // Joules, Seconds, Readings
	}{
		{"a power that rises", false, 0, ramp, 0, 4, result.Energy{Joules: 56, Seconds: 4, Readings: 5}},
		{"cut: the ends have the nearest reading's power", false, 0, ramp, 0.5, 2.5, result.Energy{Joules: 6 + 13 + 7, Seconds: 2, Readings: 2}},
		{"one reading", false, 0, ramp, 1.75, 2.25, result.Energy{Joules: 7, Seconds: 0.5, Readings: 1}},
		{"none inside: that of before does not count", false, 0, ramp, 1.25, 1.75, result.Energy{}},
		{"idle before and after", false, 0, []at{{0, 1}, {0.9, 1}, {1, 9}, {2, 9}, {2.1, 1}}, 1, 2, result.Energy{Joules: 9, Seconds: 1, Readings: 2}},
		{"a mean that reaches back before the load", false, 1, []at{{1.5, 5}, {2.5, 9}}, 1, 3, result.Energy{Joules: 18, Seconds: 2, Readings: 1}},
		{"a hole is not bridged", false, 0, []at{{0, 4}, {1, 4}, {7, 8}, {8, 8}, {9, 8}}, 0, 4, result.Energy{Joules: 16, Seconds: 4, Readings: 2}},
		{"most of it a hole", false, 0, []at{{0, 4}, {1, 4}, {19, 8}, {20, 8}}, 0, 20, result.Energy{}},
		{"absent values", false, 0, []at{{0, 4}, {1, nan}, {2, 4}}, 0, 2, result.Energy{Joules: 8, Seconds: 2, Readings: 2}},
		{"a repeated reading is one", false, 0, []at{{0, 4}, {1, 4}, {1, 4}, {1, 4}, {2, 10}}, 0, 2, result.Energy{Joules: 11, Seconds: 2, Readings: 3}},
		{"a counter", true, 0, joules, 1, 3, result.Energy{Joules: 14, Seconds: 2, Readings: 5}},
		{"read right before and after", true, 0, joules, 1.0005, 2.9995, result.Energy{Joules: 14, Seconds: 2, Readings: 5}},
		{"read too early: the next one counts", true, 0, joules, 0.5, 3, result.Energy{Joules: 14, Seconds: 2, Readings: 5}},
		{"a counter that began anew", true, 0, []at{{0, 50}, {1, 3}}, 0, 1, result.Energy{}},
		{"a counter read once", true, 0, []at{{0.5, 50}}, 0, 1, result.Energy{}},
		{"nothing", false, 0, nil, 0, 1, result.Energy{}},
	} {
		m := &powerMeter{of: result.Series{Counter: c.counter}}
		clock := &dated0{over: time.Duration(c.over * 1e9)}
		for _, r := range c.readings {
			clock.at = unit.Instant(r.second * 1e9)
			m.read(&part{c: clock}, r.value, clock.at)
		}
		got := m.energy(unit.Instant(c.from*float64(second)), unit.Instant(c.to*float64(second)))
		if got.Seconds == 0 {
			got = result.Energy{}
		}
		if !near(got.Joules, c.want.Joules) || !near(got.Seconds, c.want.Seconds) || got.Readings != c.want.Readings {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// dated0 is a collector of one series that says when it was measured.
type dated0 struct {
	dial
	at   unit.Instant
	over time.Duration
}

func (d *dated0) Measured(int) (unit.Instant, time.Duration) { return d.at, d.over }

// A recorded board's INA219 and RAPL whose powers the test moves, watched as a run is:
// the joules are those of the power that the test set.
func TestJoulesOfAMovedPower(t *testing.T) {
	testutil.NoLeaks(t)
	r := record(t, "ina219")
	energy := map[string]string{}
	for i, zone := range []string{"intel-rapl:0", "intel-rapl:0:0", "intel-rapl:1"} {
		dir := "sys/class/powercap/" + zone + "/"
		name := []string{"package-0", "core", "package-1"}[i]
		for file, data := range map[string]string{"name": name, "max_energy_range_uj": "262143328850", "energy_uj": "5000000"} {
			r.root[dir+file] = &fstest.MapFile{Data: []byte(data)}
		}
		energy[name] = dir + "energy_uj"
	}
	m := r.machine()
	m.polls = 5 * time.Millisecond
	m.Ask.Reading = "3W idle"
	s, err := Start(t.Context(), m, Options{Names: []string{"hwmon", "iio", "rapl", "reading"}, Rate: MaxRate})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	if n := s.Meters(); n != 3 {
		t.Errorf("%d meters, want hwmon's, IIO's and RAPL's: the typed power and a part of a package are none", n)
	}
	set := func(watts float64) {
		r.set("sys/devices/platform/soc/fe804000.i2c/i2c-1/1-0040/hwmon/hwmon0/power1_input", fmt.Sprintf("%.0f", watts*1e6))
		r.set("sys/bus/iio/devices/iio:device0/in_power2_raw", fmt.Sprintf("%.0f", watts/20e-3))
	}
	uj := map[string]float64{"package-0": 5e6, "core": 5e6, "package-1": 5e6}
	spend := func(name string, joules float64) {
		uj[name] += joules * 1e6
		r.set(energy[name], fmt.Sprintf("%.0f", uj[name]))
	}
	const rapl = "RAPL package-0"
	last := func(of *powerMeter) (r powerReading) { // zero: there is none
		s.do(func() {
			if n := len(of.readings); n > 0 {
				r = of.readings[n-1]
			}
		})
		return r
	}
	var counter *powerMeter
	var chips []*powerMeter
	for _, one := range s.meters {
		if one.of.Unit == "W" {
			chips = append(chips, one)
		} else if result.Get(one.of.Labels, "meter") == rapl {
			counter = one
		}
	}
	all := func(ok func(r powerReading) bool) func() bool {
		return func() bool {
			return !slices.ContainsFunc(chips, func(m *powerMeter) bool { return !ok(last(m)) })
		}
	}
	for _, watts := range []float64{2, 12.5, 0.5} {
		set(99) // before the load, and of no figure
		until(t, "the chips read the power of before", all(func(r powerReading) bool { return near(r.value, 99) }))
		s.Begin()
		set(watts)
		until(t, "the chips read the load", all(func(r powerReading) bool { return near(r.value, watts) }))
		s.Traffic(true)
		from := last(counter).at
		until(t, "the chips read in the load", all(func(r powerReading) bool { return r.at-r.over >= from }))
		spend("package-0", 3) // J, 1 of them its cores', and 4
		spend("core", 1)
		spend("package-1", 4)
		s.Traffic(false)
		to := last(counter).at
		set(77)
		until(t, "the chips read the power of after", all(func(r powerReading) bool { return near(r.value, 77) }))
		s.End()
		took := float64(to-from) / 1e9
		want := map[string]float64{"ina219 i2c_1_1_0040": watts * took, "ina219 iio:device0": watts * took, rapl + " + RAPL package-1": 7}
		for _, e := range s.Energy(from, to) {
			j, ok := want[e.Meter]
			if delete(want, e.Meter); !ok || math.Abs(e.Joules/j-1) > 0.01 || math.Abs(e.Seconds/took-1) > 0.01 {
				t.Errorf("at %v W: %+v, want %v J in %v s", watts, e, j, took)
			}
			if e.Meter[0] == 'i' && (e.Covers != "line" || e.Accuracy != meterAccuracy["ina219"]) || e.Meter[0] == 'R' && e.Covers != "package" {
				t.Errorf("%s covers %q by %q", e.Meter, e.Covers, e.Accuracy)
			}
		}
		if len(want) > 0 {
			t.Errorf("at %v W no energy by %v", watts, want)
		}
	}
}

// The driver of an INA3221 shows voltages and currents: a channel's power is their
// product, and none of it covers another.
func TestINA3221(t *testing.T) {
	r := record(t, "none")
	for file, data := range map[string]string{
		"name": "ina3221", "in1_input": "5000", "curr1_input": "2000", "in1_label": "VDD_IN",
		"in2_input": "1000", "curr2_input": "500", "in3_input": "900", // channel 3 has no shunt
	} {
		r.root["sys/class/hwmon/hwmon0/"+file] = &fstest.MapFile{Data: []byte(data)}
	}
	c := collect(t, r.machine(), newHwmon)
	defer closed(t, c)
	got := map[string]float64{}
	for i, s := range c.Series() {
		if isMeter(s) {
			until(t, "a value", func() bool { return !math.IsNaN(readAll(t, c)[i]) })
			got[result.Get(s.Labels, "meter")+" covers "+result.Get(s.Labels, "covers")] = readAll(t, c)[i]
		}
	}
	want := map[string]float64{"ina3221 ina3221 channel 1 VDD_IN covers board": 10, "ina3221 ina3221 channel 2 covers line": 0.5}
	equal(t, "powers", got, want)
}

func readAll(t *testing.T, c Collector) []float64 {
	t.Helper()
	dst := make([]float64, len(c.Series()))
	if err := c.Read(dst); err != nil {
		t.Fatal(err)
	}
	return dst
}
