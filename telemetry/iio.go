// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"io/fs"
	"math"
	"path"
	"regexp"
	"time"

	"boxdyno/result"
	"boxdyno/unit"
)

// iioKinds are the channels of a power meter. By Documentation/ABI/testing/
// sysfs-bus-iio, (raw + offset) x scale is in thousandths of the base unit.
var iioKinds = map[string]struct {
	name string
	unit unit.Symbol
	help string
}{
	"power":   {"boxdyno_power_watts", "W", "power"},
	"current": {"boxdyno_meter_amperes", "A", "current"},
	"voltage": {"boxdyno_meter_volts", "V", "voltage; of an INA2xx, channel 0 is the shunt's, 1 the bus's"},
}

var iioFile = regexp.MustCompile(`^in_((power|current|voltage)([0-9]*))_raw$`)

// newIIO reads power meters (INA2xx and their like) of sys/bus/iio at 2 Hz: those
// with a power channel. Other ADCs measure what nobody here knows.
func newIIO(ctx context.Context, m *Machine) (Collector, error) {
	root := m.root()
	p := &polled{}
	for _, dir := range numbered(root, "sys/bus/iio/devices/iio:device*") {
		if found, _ := fs.Glob(root, dir+"/in_power*_raw"); len(found) == 0 { // the pattern is good
			continue
		}
		name := sysText(root, dir+"/name")
		meter := name + " " + path.Base(dir)
		g := &group{mean: iioMean(root, dir)}
		for _, file := range numbered(root, dir+"/in_*_raw") {
			match := iioFile.FindStringSubmatch(path.Base(file))
			if match == nil {
				continue
			}
			scale := iioAttribute(root, dir, match[1], match[2], "scale", 1)
			if offset := iioAttribute(root, dir, match[1], match[2], "offset", 0); offset != 0 || math.IsNaN(scale) {
				continue // no power meter's channel has one
			}
			k := iioKinds[match[2]]
			_ = g.add(root, file, scale*1e-3, result.Series{Name: k.name, Unit: k.unit, Help: k.help + " (IIO)", // what cannot be opened is absent
				Labels: append(meterLabels(meter, coversLine, meterAccuracy[name]), result.Pair{Key: "channel", Value: match[1]})})
		}
		p.add(ctx, "IIO device "+meter, m.pollEvery(sensorEvery), g)
	}
	return p.found()
}

// iioMean is how long a value takes to be measured and averaged.
func iioMean(root fs.FS, dir string) time.Duration {
	one, n := parseNumber([]byte(sysText(root, dir+"/integration_time"))), parseNumber([]byte(sysText(root, dir+"/in_oversampling_ratio")))
	const shunt = 2 // and bus, one after the other
	if d := shunt * one * n; d > 0 && d < 1000 {
		return max(time.Duration(d*1e9), conversion)
	}
	return conversion
}

// iioAttribute is a channel's own attribute, or that of all channels of its kind.
func iioAttribute(root fs.FS, dir, channel, kind, attribute string, otherwise float64) float64 {
	for _, c := range []string{channel, kind} {
		if s := sysText(root, dir+"/in_"+c+"_"+attribute); s != "" {
			return parseNumber([]byte(s))
		}
	}
	return otherwise
}
