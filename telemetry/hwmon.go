// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"cmp"
	"context"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"boxdyno/result"
	"boxdyno/unit"
)

// hwmonKinds are Documentation/hwmon/sysfs-interface.rst's, with node_exporter's
// names. Files hold thousandths of the base unit, power and energy millionths.
var hwmonKinds = map[string]struct {
	name    string
	unit    unit.Symbol
	scale   float64
	counter bool
	help    string
}{
	"temp":   {"node_hwmon_temp_celsius", "°C", 1e-3, false, "temperature"},
	"fan":    {"node_hwmon_fan_rpm", "rpm", 1, false, "speed of a fan"},
	"pwm":    {"node_hwmon_pwm", "1", 1, false, "how hard a fan is driven, from 0 to 255"},
	"in":     {"node_hwmon_in_volts", "V", 1e-3, false, "voltage"},
	"curr":   {"node_hwmon_curr_amps", "A", 1e-3, false, "current"},
	"power":  {"node_hwmon_power_watt", "W", 1e-6, false, "power"},
	"energy": {"node_hwmon_energy_joule_total", "J", 1e-6, true, "energy used"},
}

// meterAccuracy is what data sheets state, by chip; the shunt's own tolerance
// comes on top where it is outside of the chip.
var meterAccuracy = map[string]string{
	"ina219":  "1 % over temperature (INA219A; B: 0.5 %), without the shunt",
	"ina226":  "0.1 % gain error, without the shunt",
	"ina260":  "0.5 % over temperature, shunt included",
	"ina3221": "0.25 % gain error, without the shunt",
}

var hwmonFile = regexp.MustCompile(`^((temp|fan|in|curr|power|energy)[0-9]+)_(input|average)$|^((pwm)[0-9]+)$`)

// newHwmon reads the chips of sys/class/hwmon at 2 Hz: one on I2C or behind a
// super I/O blocks for milliseconds.
func newHwmon(ctx context.Context, m *Machine) (Collector, error) {
	root := m.root()
	dirs := numbered(root, "sys/class/hwmon/hwmon*")
	chips, count := make([]string, len(dirs)), map[string]int{}
	for i, dir := range dirs {
		chips[i] = chipLabel(root, dir)
		count[chips[i]]++
	}
	p, used := &polled{}, map[string]bool{}
	for i, dir := range dirs {
		name, chip := sysText(root, path.Join(dir, "name")), chips[i]
		if count[chip] > 1 && name != "" && cleanLabel(name) != chip { // several chips of one device
			chip += "_" + cleanLabel(name)
		}
		if used[chip] {
			chip += "_" + path.Base(dir)
		}
		used[chip] = true
		p.add(ctx, "hwmon chip "+chip, m.pollEvery(sensorEvery), chipSensors(root, dir, chip, name))
	}
	return p.found()
}

func chipSensors(root fs.FS, dir, chip, name string) *group {
	g := &group{}
	for _, file := range numbered(root, dir+"/*") {
		base := path.Base(file)
		if name == "rpi_volt" && base == "in0_lcrit_alarm" { // the firmware's under-voltage flag; there is no in0_input
			_ = g.add(root, file, 1, result.Series{Name: "node_hwmon_in_lcrit_alarm", Unit: "1",
				Labels: []result.Pair{{Key: "chip", Value: chip}, {Key: "sensor", Value: "in0"}, {Key: "chip_name", Value: name}},
				Help:   "1: the supply is below 4.63 V, or was since the kernel last asked the firmware"})
			continue
		}
		match := hwmonFile.FindStringSubmatch(base)
		if match == nil {
			continue
		}
		id, kind := match[1]+match[4], match[2]+match[5]
		if _, err := fs.Stat(root, path.Join(dir, id+"_input")); match[3] == "average" && err == nil { // the same once more
			continue
		}
		k := hwmonKinds[kind]
		labels := []result.Pair{{Key: "chip", Value: chip}, {Key: "sensor", Value: id}}
		if name != "" {
			labels = append(labels, result.Pair{Key: "chip_name", Value: name})
		}
		label := sysText(root, path.Join(dir, id+"_label"))
		if label != "" {
			labels = append(labels, result.Pair{Key: "label", Value: label})
		}
		if kind == "power" || kind == "energy" {
			covers := hwmonPart(name, label)
			if _, err := fs.Stat(root, path.Join(dir, "energy"+strings.TrimPrefix(id, "power")+"_input")); kind == "power" && err == nil || name == "amd_energy" && !strings.HasPrefix(label, "Esocket") {
				covers = "" // the chip counts the same energy itself; a socket's counts its cores'
			}
			labels = append(labels, meterLabels(strings.TrimSpace(name+" "+chip+" "+label), covers, meterAccuracy[name])...)
			g.mean = max(g.mean, averaged(root, dir, id, match[3]))
		}
		_ = g.add(root, file, k.scale, result.Series{Name: k.name, Labels: labels, Unit: k.unit, Counter: k.counter, // what cannot be opened is absent
			Help: k.help + " (hwmon)"})
	}
	if name == "ina3221" { // its driver shows no power
		for n := '1'; n <= '3'; n++ {
			label := sysText(root, dir+"/in"+string(n)+"_label")
			g.product("in"+string(n), "curr"+string(n), result.Series{Name: "boxdyno_power_watts", Unit: "W",
				Labels: meterLabels(strings.TrimSpace(name+" "+chip+" channel "+string(n)+" "+label), hwmonPart(name, label), meterAccuracy[name]),
				Help:   "voltage times current of a channel (hwmon)"})
		}
		g.mean = averaged(root, dir, "", "input")
	}
	return g
}

// conversion is the longest that a chip takes for a power that it does not average.
const conversion = 50 * time.Millisecond

// averaged is how long a chip averages a power (Documentation/hwmon/sysfs-interface.rst),
// or a conversion takes where it does not say.
func averaged(root fs.FS, dir, id, kind string) time.Duration {
	file, otherwise := "update_interval", conversion
	if kind == "average" {
		file, otherwise = id+"_average_interval", time.Second
	}
	if ms := parseNumber([]byte(sysText(root, path.Join(dir, file)))); ms > 0 && ms < 1e6 {
		return max(time.Duration(ms*1e6), conversion)
	}
	return otherwise
}

// The parts of a machine that meters cover.
const (
	coversWall     = "wall"     // the machine with its power supply
	coversBoard    = "board"    // the board's supply, by the name that the board's maker gave the line
	coversLine     = "line"     // the supply line that the chip sits in: which one, only its wiring tells
	coversRails    = "rails"    // the outputs of a power management IC that it measures
	coversPackage  = "package"  // processor packages
	coversMemory   = "memory"   // DRAM
	coversPlatform = "platform" // what the vendor wired to RAPL's psys
	coversGraphics = "graphics" // a graphics chip or card
	coversCommand  = "command"  // what the user's meter sees
)

// hwmonCovers is what a chip's power covers by its driver's documentation; of others,
// a line.
var hwmonCovers = map[string]string{
	"amdgpu": coversGraphics, "i915": coversGraphics, "xe": coversGraphics, "nouveau": coversGraphics, "radeon": coversGraphics,
	"fam15h_power": coversPackage,
}

// boardLines are labels of lines that feed the whole of a board (Jetson Linux
// Developer Guide, power monitors).
var boardLines = []string{"VDD_IN", "POM_5V_IN"}

func hwmonPart(chip, label string) string {
	if slices.Contains(boardLines, label) {
		return coversBoard
	}
	return cmp.Or(hwmonCovers[chip], coversLine)
}

// meterLabels name a power meter, what it covers, and its accuracy where it is
// documented. A series without covers is in no joules.
func meterLabels(meter, covers, accuracy string) []result.Pair {
	labels := []result.Pair{{Key: "meter", Value: meter}}
	if covers != "" {
		labels = append(labels, result.Pair{Key: "covers", Value: covers})
	}
	if accuracy != "" {
		labels = append(labels, result.Pair{Key: "accuracy", Value: accuracy})
	}
	return labels
}

// chipLabel is node_exporter's: type and name of the device, "platform_coretemp_0"
// for sys/devices/platform/coretemp.0/hwmon/hwmon1; else the chip's name, else
// the directory's.
func chipLabel(root fs.FS, dir string) string {
	if link, err := fs.ReadLink(root, dir); err == nil {
		device := path.Dir(path.Clean(link))
		if path.Base(device) == "hwmon" {
			device = path.Dir(device)
		}
		kind, name := path.Base(path.Dir(device)), path.Base(device)
		if name != "virtual" && name != "devices" && name != "." && name != ".." {
			return cleanLabel(kind + "_" + name)
		}
	}
	if name := sysText(root, path.Join(dir, "name")); name != "" {
		return cleanLabel(name)
	}
	return path.Base(dir)
}

var notLabel = regexp.MustCompile(`[^a-z0-9:_]`)

func cleanLabel(s string) string {
	return strings.Trim(notLabel.ReplaceAllString(strings.ToLower(s), "_"), "_")
}
