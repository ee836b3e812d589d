// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"boxdyno/host"
	"boxdyno/result"
)

// collect is a collector of the machine as it is now.
func collect(t testing.TB, m *Machine, create func(context.Context, *Machine) (Collector, error)) Collector {
	t.Helper()
	c, err := create(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// later lets the goroutines of polled sensors ask once more.
func later() { time.Sleep(pmicEvery); synctest.Wait() }

func TestPi4Throttles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := record(t, "pi4-throttling")
		m := r.machine()
		thermal, hwmon, freq := collect(t, m, newThermal), collect(t, m, newHwmon), collect(t, m, newCPUFreq)
		box := &firmware{recorded: r}
		rpi, err := startThrottle(t.Context(), &throttle{box: box})
		if err != nil {
			t.Fatal(err)
		}
		words := func() (set []string) {
			for i, s := range rpi.Series()[:8] {
				if dst := values(t, rpi)[prom(s)]; dst == 1 {
					set = append(set, ThrottleBits[i].Word)
				} else if dst != 0 {
					t.Errorf("%s is %v", prom(s), dst)
				}
			}
			return set
		}
		for i, want := range []struct {
			flags     []string
			temp      float64
			alarm     float64
			clock, hw float64
		}{
			{nil, 61.3, 0, 1800457088, 1.8e9},
			{[]string{"soft temperature limit now", "frequency capping has occurred", "throttling has occurred", "soft temperature limit has occurred"}, 83.7, 0, 1.58e9, 1.58e9},
			{[]string{"under-voltage now", "soft temperature limit now", "under-voltage has occurred", "frequency capping has occurred", "throttling has occurred", "soft temperature limit has occurred"}, 83.7, 1, 1.58e9, 1.58e9},
			{[]string{"under-voltage has occurred", "frequency capping has occurred", "throttling has occurred", "soft temperature limit has occurred"}, 70.1, 0, 1800457088, 1.58e9},
		} {
			if i > 0 {
				r.step(i)
			}
			later()
			if got := words(); !slices.Equal(got, want.flags) {
				t.Errorf("step %d: flags %q, want %q", i, got, want.flags)
			}
			if got := values(t, rpi)["boxdyno_rpi_arm_clock_hertz"]; got != want.clock {
				t.Errorf("step %d: the firmware's clock is %v, want %v", i, got, want.clock)
			}
			equal(t, "thermal", values(t, thermal), map[string]float64{
				`node_thermal_zone_temp{zone="0",type="cpu-thermal"}`:                   want.temp,
				`node_cooling_device_cur_state{name="0",type="gpio-fan",max_state="1"}`: 0,
			})
			equal(t, "hwmon", values(t, hwmon), map[string]float64{
				`node_hwmon_temp_celsius{chip="thermal_thermal_zone0",sensor="temp1",chip_name="cpu_thermal"}`:       want.temp,
				`node_hwmon_in_lcrit_alarm{chip="soc:firmware_raspberrypi_hwmon",sensor="in0",chip_name="rpi_volt"}`: want.alarm,
			})
			all := map[string]float64{}
			for _, cpu := range []string{"0", "1", "2", "3"} {
				all[`node_cpu_scaling_frequency_hertz{cpu="`+cpu+`"}`] = 1.8e9 // what was asked for: it hides the throttling
				all[`node_cpu_frequency_hertz{cpu="`+cpu+`"}`] = want.hw
			}
			equal(t, "cpufreq", values(t, freq), all)

			bits, err := Throttled(m) // the same flags, from the older kernel's file
			if err != nil || !slices.Equal(ThrottleWords(bits), want.flags) {
				t.Errorf("step %d: sysfs has %q (%v), want %q", i, ThrottleWords(bits), err, want.flags)
			}
		}
		for _, c := range []Collector{thermal, hwmon, freq, rpi} {
			closed(t, c)
		}
		if !box.closed {
			t.Error("the mailbox is still open")
		}
	})
}

func TestThrottleSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := record(t, "pi4-throttling")
		r.step(1)
		// A firmware without commands is asked by its property, and has no clock.
		rpi, err := startThrottle(t.Context(), &throttle{box: &firmware{recorded: r, old: true}})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := values(t, rpi); len(got) != 8 || got[`boxdyno_rpi_throttled{flag="soft temperature limit now"}`] != 1 || got[`boxdyno_rpi_throttled{flag="under-voltage now"}`] != 0 {
			t.Errorf("by the property: %v", got)
		}
		// When it no longer answers sense, that is said once, and nothing is 0.
		r.set("vcio/get_throttled", "throttled=?")
		time.Sleep(2 * sensorStale)
		got, err := read(rpi)
		if err == nil || !strings.Contains(err.Error(), `"throttled=?`) || !math.IsNaN(got[`boxdyno_rpi_throttled{flag="throttled now"}`]) {
			t.Errorf("garbage: %v, %v", got, err)
		}
		if _, err := read(rpi); err != nil {
			t.Errorf("it is said again: %v", err)
		}
		r.step(3)
		later()
		if got := values(t, rpi)[`boxdyno_rpi_throttled{flag="under-voltage has occurred"}`]; got != 1 {
			t.Errorf("it does not come back: %v", got)
		}
		closed(t, rpi)

		if _, err := startPMIC(t.Context(), &firmware{recorded: r}); !errors.Is(err, ErrAbsent) {
			t.Errorf("the PMIC of a Raspberry Pi 4: %v, want %v", err, ErrAbsent)
		}
	})
	if _, err := openMailbox(&Machine{}); err != nil {
		var missing *host.Missing
		if !errors.Is(err, ErrAbsent) && !errors.As(err, &missing) {
			t.Errorf("this machine's mailbox: %v", err)
		}
	}
}

func TestThrottleWords(t *testing.T) {
	for bits, want := range map[uint32]string{
		0:          "",
		0x50005:    "under-voltage now, throttled now, under-voltage has occurred, throttling has occurred",
		0xe0008:    "soft temperature limit now, frequency capping has occurred, throttling has occurred, soft temperature limit has occurred",
		0x2:        "frequency capped now",
		0x80000010: "unknown bit 4, unknown bit 31",
	} {
		if got := strings.Join(ThrottleWords(bits), ", "); got != want {
			t.Errorf("%#x is %q, want %q", bits, got, want)
		}
	}
	for s, want := range map[string]uint32{"throttled=0x50005": 0x50005, "e0008\n": 0xe0008, "0": 0, "0x2": 2} {
		if got, err := ParseThrottled(s); err != nil || got != want {
			t.Errorf("%q is %#x (%v)", s, got, err)
		}
	}
	for _, s := range []string{"", "throttled=", "error=1", "0x100000000"} {
		if got, err := ParseThrottled(s); err == nil {
			t.Errorf("%q is %#x", s, got)
		}
	}
}

func TestPi5(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := record(t, "pi5")
		hwmon := collect(t, r.machine(), newHwmon)
		pmic, err := startPMIC(t.Context(), &firmware{recorded: r})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		equal(t, "hwmon", values(t, hwmon), map[string]float64{
			`node_hwmon_temp_celsius{chip="thermal_thermal_zone0",sensor="temp1",chip_name="cpu_thermal"}`:                  45.8,
			`node_hwmon_in_volts{chip="1000120000_pcie_1f000c8000_adc",sensor="in1",chip_name="rp1_adc"}`:                   1.476,
			`node_hwmon_temp_celsius{chip="1000120000_pcie_1f000c8000_adc",sensor="temp1",chip_name="rp1_adc"}`:             50.206,
			`node_hwmon_fan_rpm{chip="platform_cooling_fan",sensor="fan1",chip_name="pwmfan"}`:                              3054,
			`node_hwmon_pwm{chip="platform_cooling_fan",sensor="pwm1",chip_name="pwmfan"}`:                                  115,
			`node_hwmon_in_lcrit_alarm{chip="soc_107c000000:firmware_raspberrypi_hwmon",sensor="in0",chip_name="rpi_volt"}`: 0,
		})
		got := values(t, pmic)
		if len(got) != 1+14+12 {
			t.Errorf("%d series of the PMIC, want the sum, 14 voltages and 12 currents: %v", len(got), got)
		}
		// Rail by rail from the table: VDD_CORE 9.7614, 1V8_SYS 0.2896, 0V8_SW 0.2632, 3V3_SYS 0.2065, 1V1_SYS 0.1940,
		// HDMI 0.0693, DDR_VDD2 0.0086, 0V8_AON 0.0046, 3V3_ADC 0.0014, 3V3_DAC 0.0012.
		if w := got[`boxdyno_power_watts{meter="PMIC rails",covers="rails"}`]; math.Abs(w-10.7999) > 5e-4 {
			t.Errorf("the rails take %v W, want 10.8", w)
		}
		if v := got[`boxdyno_pmic_volts{rail="EXT5V"}`]; v != 5.06788 {
			t.Errorf("the supply has %v V", v)
		}
		if _, ok := got[`boxdyno_pmic_amperes{rail="EXT5V"}`]; ok {
			t.Error("the supply's current is not measured, and has a series")
		}
		// A rail less is no saving.
		r.set("vcio/pmic_read_adc", strings.Replace(string(r.root["vcio/pmic_read_adc"].Data), "VDD_CORE_A", "OTHER_A", 1))
		later()
		if got := values(t, pmic); !math.IsNaN(got[`boxdyno_power_watts{meter="PMIC rails",covers="rails"}`]) || !math.IsNaN(got[`boxdyno_pmic_amperes{rail="VDD_CORE"}`]) || got[`boxdyno_pmic_volts{rail="VDD_CORE"}`] != 0.8974594 {
			t.Errorf("without the current of a rail: %v", got)
		}
		closed(t, hwmon)
		closed(t, pmic)
	})
}

func TestParseRailsRefuses(t *testing.T) {
	for _, s := range []string{"", "error=1", "X_A current(0)=", "X_W power(0)=1W", "X_A current(0)=1V", "_A current(0)=1A", "A B C"} {
		if rails, err := ParseRails(s); err == nil {
			t.Errorf("%q is %v", s, rails)
		}
	}
}

func TestX86(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := record(t, "x86-pc")
		m := r.machine()
		hwmon, rapl, throttles, freq := collect(t, m, newHwmon), collect(t, m, newRAPL), collect(t, m, newThrottles), collect(t, m, newCPUFreq)
		synctest.Wait()
		chip := func(sensor, label string) string {
			return `node_hwmon_temp_celsius{chip="platform_coretemp_0",sensor="` + sensor + `",chip_name="coretemp",label="` + label + `"}`
		}
		equal(t, "hwmon", values(t, hwmon), map[string]float64{
			chip("temp1", "Physical id 0"): 55, chip("temp2", "Core 0"): 54, chip("temp3", "Core 1"): 52, chip("temp4", "Core 2"): 53, chip("temp5", "Core 3"): 50,
		})
		equal(t, "cpufreq", values(t, freq), map[string]float64{
			`node_cpu_scaling_frequency_hertz{cpu="0"}`: 1.699981e9, `node_cpu_scaling_frequency_hertz{cpu="1"}`: 1.699981e9,
		})
		equal(t, "throttles", values(t, throttles), map[string]float64{
			`node_cpu_core_throttles_total{package="0",core="0"}`: 5, `node_cpu_core_throttles_total{package="0",core="1"}`: 0,
			`node_cpu_core_throttles_total{package="1",core="0"}`: 0, `node_cpu_core_throttles_total{package="1",core="1"}`: 9,
			`node_cpu_package_throttles_total{package="0"}`: 30, `node_cpu_package_throttles_total{package="1"}`: 6,
		})
		pack := `node_rapl_package_joules_total{index="0",path="intel-rapl:0",meter="RAPL package-0",covers="package"}`
		core := `node_rapl_core_joules_total{index="0",path="intel-rapl:0:0",meter="RAPL core"}`
		const span = 262143.328850
		equal(t, "RAPL", values(t, rapl), map[string]float64{pack: 240422.366267, core: 118821.284256})
		r.step(1)
		equal(t, "RAPL before the wrap", values(t, rapl), map[string]float64{pack: 262143.328, core: 118831.284256})
		if got := values(t, throttles)[`node_cpu_core_throttles_total{package="0",core="0"}`]; got != 7 {
			t.Errorf("the core was throttled %v times, want 7", got)
		}
		r.step(2)
		equal(t, "RAPL after the wrap", values(t, rapl), map[string]float64{pack: span + 9.99915, core: 118836.284256})
		equal(t, "RAPL at rest", values(t, rapl), map[string]float64{pack: span + 9.99915, core: 118836.284256})
		for _, c := range []Collector{hwmon, rapl, throttles, freq} {
			closed(t, c)
		}
	})
}

func TestRAPLNeedsRoot(t *testing.T) {
	r := record(t, "x86-pc")
	var missing *host.Missing
	if c, err := newRAPL(t.Context(), &Machine{Root: locked{r.root, "energy_uj"}}); !errors.As(err, &missing) {
		t.Errorf("%v (%v), want a Missing", c, err)
	}
}

// locked is a tree in which some files are root's.
type locked struct {
	fs.FS
	suffix string
}

func (l locked) Open(name string) (fs.File, error) {
	if strings.HasSuffix(name, l.suffix) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return l.FS.Open(name)
}

func TestResidency(t *testing.T) {
	r := record(t, "pi4-throttling")
	c := collect(t, r.machine(), newResidency)
	at := func(f string) string { return `boxdyno_cpufreq_seconds_total{policy="0",frequency="` + f + `"}` }
	got := values(t, c)
	if len(got) != 13 || got[at("1800000000")] != 944.23 || got[at("600000000")] != 1123.05 {
		t.Errorf("%v", got)
	}
	r.step(1)
	if got := values(t, c)[at("1800000000")]; !near(got, 954.23) {
		t.Errorf("10 s later at 1.8 GHz: %v", got)
	}
	const stats = "sys/devices/system/cpu/cpufreq/policy0/stats/time_in_state"
	r.set(stats, "600000 1\n") // a driver loaded anew
	if got := values(t, c); got[at("600000000")] != 0.01 || !math.IsNaN(got[at("1800000000")]) {
		t.Errorf("with one line: %v", got)
	}
	closed(t, c)
	r.set(stats, "600000 1\nfast 2\n")
	if _, err := newResidency(t.Context(), r.machine()); err == nil || errors.Is(err, ErrAbsent) {
		t.Errorf("garbage: %v", err)
	}
}

func TestINA219(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := record(t, "ina219")
		hwmon, iio := collect(t, r.machine(), newHwmon), collect(t, r.machine(), newIIO)
		synctest.Wait()
		const accuracy = `accuracy="1 % over temperature (INA219A; B: 0.5 %), without the shunt"`
		equal(t, "hwmon", values(t, hwmon), map[string]float64{
			`node_hwmon_in_volts{chip="i2c_1_1_0040",sensor="in0",chip_name="ina219"}`:                                                                 0.007,
			`node_hwmon_in_volts{chip="i2c_1_1_0040",sensor="in1",chip_name="ina219"}`:                                                                 5.128,
			`node_hwmon_curr_amps{chip="i2c_1_1_0040",sensor="curr1",chip_name="ina219"}`:                                                              0.743,
			`node_hwmon_power_watt{chip="i2c_1_1_0040",sensor="power1",chip_name="ina219",meter="ina219 i2c_1_1_0040",covers="line",` + accuracy + `}`: 3.8,
		})
		channel := func(name, channel string) string {
			return name + `{meter="ina219 iio:device0",covers="line",` + accuracy + `,channel="` + channel + `"}`
		}
		equal(t, "IIO", values(t, iio), map[string]float64{
			channel("boxdyno_power_watts", "power2"): 3.8, channel("boxdyno_meter_amperes", "current3"): 0.743,
			channel("boxdyno_meter_volts", "voltage0"): 0.00743, channel("boxdyno_meter_volts", "voltage1"): 5.128,
		})
		// A chip that was pulled off is absent, not 0, and the others go on.
		r.set("sys/bus/iio/devices/iio:device0/in_power2_raw", "")
		later()
		if got := values(t, iio); !math.IsNaN(got[channel("boxdyno_power_watts", "power2")]) || got[channel("boxdyno_meter_amperes", "current3")] != 0.743 {
			t.Errorf("without power: %v", got)
		}
		closed(t, hwmon)
		closed(t, iio)
	})
}

// Names of chips that one device has several of, and of devices without a link.
func TestChipLabels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := record(t, "none")
		for name, data := range map[string]string{
			"4/name": "nct6779", "4/temp1_input": "30000", "4/power1_average": "1500000",
			"10/name": "nct6779", "10/temp1_input": "30000", "10/power1_average": "1500000", "10/power1_input": "2500000",
			"11/temp1_input": "31000",
		} {
			r.root["sys/class/hwmon/hwmon"+name] = &fstest.MapFile{Data: []byte(data)}
		}
		c := collect(t, r.machine(), newHwmon)
		synctest.Wait()
		var names []string
		for _, s := range c.Series() {
			names = append(names, result.Get(s.Labels, "chip")+" "+result.Get(s.Labels, "sensor"))
		}
		if want := []string{"nct6779 power1", "nct6779 temp1", "nct6779_hwmon10 power1", "nct6779_hwmon10 temp1", "hwmon11 temp1"}; !slices.Equal(names, want) {
			t.Errorf("%q, want %q", names, want)
		}
		dst := make([]float64, 5)
		if err := c.Read(dst); err != nil || !slices.Equal(dst, []float64{1.5, 30, 2.5, 30, 31}) {
			t.Errorf("%v (%v)", dst, err)
		}
		closed(t, c)
	})
}
