// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"

	"boxdyno/host"
	"boxdyno/result"
)

// rapl is the energy counters of x86 packages and their parts
// (Documentation/power/powercap/powercap.rst). A package's own counter includes
// its core and uncore, not always its dram; psys is the whole platform where the
// vendor wired it. They come from a model inside the processor, without a
// documented accuracy, and the board's other parts are not in them.
type rapl struct {
	group
	wraps []wrap
}

const raplPackage = "node_rapl_package_joules_total"

// raplCovers is what zones cover; core and uncore are in their package.
var raplCovers = map[string]string{"package": coversPackage, "dram": coversMemory, "psys": coversPlatform}

// A wrap unrolls a counter that starts again after span.
type wrap struct {
	span, last, base float64
}

// unroll is the counter as if it did not wrap. Between two calls it may wrap once:
// a package at 200 W takes 20 minutes.
func (w *wrap) unroll(v float64) float64 {
	if math.IsNaN(v) {
		return v
	}
	if v < w.last {
		w.base += w.span
	}
	w.last = v
	return w.base + v
}

// newRAPL returns *host.Missing where the counters are root's: since 2020 they are,
// because they betray what other programs compute (CVE-2020-8694).
func newRAPL(_ context.Context, m *Machine) (Collector, error) {
	root := m.root()
	r := &rapl{}
	for _, dir := range numbered(root, "sys/class/powercap/intel-rapl:*") { // AMD's have the same name; intel-rapl-mmio counts a package again
		zone, index := sysText(root, dir+"/name"), "0"
		if i := strings.LastIndexByte(zone, '-'); i > 0 {
			if _, err := strconv.Atoi(zone[i+1:]); err == nil {
				zone, index = zone[:i], zone[i+1:]
			}
		}
		span := parseNumber([]byte(sysText(root, dir+"/max_energy_range_uj"))) * 1e-6
		if zone == "" || !(span > 0) {
			continue
		}
		labels := append([]result.Pair{{Key: "index", Value: index}, {Key: "path", Value: path.Base(dir)}}, meterLabels("RAPL "+sysText(root, dir+"/name"), raplCovers[zone], "")...)
		err := r.add(root, dir+"/energy_uj", 1e-6, result.Series{Name: "node_rapl_" + cleanLabel(zone) + "_joules_total", Labels: labels, Unit: "J", Counter: true,
			Help: "energy of this part of the processor, by the processor's own model (RAPL)"})
		if errors.Is(err, fs.ErrPermission) {
			return nil, errors.Join(host.Privilege("read RAPL's energy counters in /sys/class/powercap"), r.Close())
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("RAPL: %w", err), r.Close())
		}
		r.wraps = append(r.wraps, wrap{span: span})
	}
	if len(r.series) == 0 {
		return nil, ErrAbsent
	}
	return r, nil
}

func (r *rapl) Read(dst []float64) error {
	for i, s := range r.sensors {
		dst[i] = r.wraps[i].unroll(s.value())
	}
	return nil
}
