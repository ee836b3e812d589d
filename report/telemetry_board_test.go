// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"boxdyno/report"
	"boxdyno/report/page"
	"boxdyno/report/timeline"
	"boxdyno/result"
	"boxdyno/unit"
)

// A told is what a made-up board would tell at any instant, in s.
type told struct {
	series result.Series
	at     func(s float64) float64
}

// written is the telemetry of what a board tells, as the sampler writes it: a collector
// (a run of series that every names by its period in samples) only where it changed,
// or a second after it was last written.
type written struct {
	t     testing.TB
	b     *result.Bundle
	all   []told
	every []int // by collector
	sizes []int // series of a collector
}

func (w *written) part(instants []float64, full func(s float64) bool) {
	head := result.TelemetryHead{Schema: result.Schema, Start: report.Origin, Rate: 10}
	for _, x := range w.all {
		head.Series = append(head.Series, x.series)
	}
	line, err := json.Marshal(head)
	if err != nil {
		w.t.Fatal(err)
	}
	line = append(line, '\n')
	last := make([][]float64, len(w.sizes))
	since := make([]float64, len(w.sizes))
	for n, s := range instants {
		first := 0
		for c, size := range w.sizes {
			if full(s) || n%w.every[c] == 0 || n == len(instants)-1 {
				values := make([]float64, size)
				for i := range values {
					values[i] = w.all[first+i].at(s)
				}
				at := s + float64(c)*1e-4
				same := slices.EqualFunc(values, last[c], func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) })
				if !same || at-since[c] >= 1 {
					line = result.AppendBatch(line, result.Batch{At: unit.Instant(at * 1e9), First: first, Values: values})
					last[c], since[c] = values, at
				}
			}
			first += size
		}
		if len(line) > 64<<10 || n == len(instants)-1 {
			if err := w.b.Sample(line); err != nil {
				w.t.Fatal(err)
			}
			line = nil
		}
	}
}

// ticks are every tenth of a second from a to b, without those in gaps.
func ticks(a, b float64, gaps ...[2]float64) (out []float64) {
	for i := 0; ; i++ {
		s := a + float64(i)/10
		if s > b+1e-9 {
			return out
		}
		if !slices.ContainsFunc(gaps, func(g [2]float64) bool { return s > g[0] && s < g[1] }) {
			out = append(out, s)
		}
	}
}

func pair(kv ...string) (ps []result.Pair) {
	for i := 0; i < len(kv); i += 2 {
		ps = append(ps, result.Pair{Key: kv[i], Value: kv[i+1]})
	}
	return ps
}

// boardRun is a made-up board that warms up over a run of a few points, throttles,
// and loses frames under overload; sensors: with clock, heat and power. Its telemetry
// is in dir.
func boardRun(t testing.TB, sensors bool) (run result.Run, recs []result.Record, dir string) {
	t.Helper()
	run, recs = report.Firewall()
	run.ID, run.Role, run.Criteria, run.Warnings = "20260314T092653Z-board", "", nil, nil
	run.Topology, run.Kind = "wire2", "real"
	run.Environments, run.NotMeasured, run.Deviations = nil, nil, nil
	run.Command = []string{"boxdyno", "run", "forward", "--set", "frame_size=64"}
	var points []string
	for _, r := range recs {
		if r.Parent == "" && r.Procedure != report.SelfTestProcedure {
			points = append(points, r.ID)
		}
	}
	recs = slices.DeleteFunc(recs, func(r result.Record) bool {
		return r.Parent != report.SelfTestProcedure && !slices.Contains(points[:2], r.ID) && !slices.Contains(points[:2], r.Parent)
	})
	end := 0.0
	var overloads [][2]float64
	for i := range recs {
		r := &recs[i]
		end = max(end, float64(r.End)/1e9)
		if r.Parent == "" {
			continue
		}
		stop := r.Begin + (r.End-r.Begin)*7/10
		r.Phases = []result.Phase{{Name: "traffic", Begin: r.Begin, End: stop}, {Name: "settle", Begin: stop, End: r.End}}
		if result.Get(r.Config, "trial") == "overload" {
			overloads = append(overloads, [2]float64{float64(r.Begin) / 1e9, float64(stop) / 1e9})
		}
	}
	overload := func(s float64) (sum float64) { // seconds of it until s
		for _, o := range overloads {
			sum += min(max(s-o[0], 0), o[1]-o[0])
		}
		return sum
	}
	loaded := func(s float64) bool { return overload(s+1e-6) > overload(s) }
	heat := func(s float64) float64 { return 48 + 37*(1-math.Exp(-s/2.5)) }
	capped := func(s float64) float64 { return map[bool]float64{true: 1}[heat(s) > 80] }
	tick := func(s float64) float64 { return math.Floor(s*100+1e-6) / 100 }

	w := &written{t: t}
	add := func(every int, all ...told) {
		w.all, w.every, w.sizes = append(w.all, all...), append(w.every, every), append(w.sizes, len(all))
	}
	var cpus []told
	for cpu := range 4 {
		share := [4]float64{0.02, 0.93, 0.11, 0}[cpu]
		time := func(mode string, at func(s float64) float64) {
			cpus = append(cpus, told{result.Series{Name: "node_cpu_seconds_total", Labels: pair("cpu", fmt.Sprint(cpu), "mode", mode), Unit: "s", Counter: true}, func(s float64) float64 { return 100 + tick(at(s)) }})
		}
		soft := func(s float64) float64 { return share*overload(s) + 0.01*s }
		time("user", func(s float64) float64 { return 0.04 * s })
		time("idle", func(s float64) float64 { return s - soft(s) - 0.04*s })
		time("softirq", soft)
	}
	add(1, cpus...)
	count := func(name string, place result.Place, rate float64) told {
		return told{result.Series{Name: name, Unit: "frame", Counter: true, Place: place}, func(s float64) float64 { return 7e6 + math.Floor(rate*overload(s)) }}
	}
	add(1, count("node_softnet_dropped_total", result.Softnet, 4000))
	add(10, count("node_ethtool_received_missed", result.DUTNIC, 900_000), count("node_ethtool_received_late", result.Qdisc, 0))
	if sensors {
		gauge := func(name string, u unit.Symbol, at func(s float64) float64, labels ...string) told {
			return told{result.Series{Name: name, Labels: pair(labels...), Unit: u}, at}
		}
		milli := func(v float64) float64 { return math.Round(v*1e3) / 1e3 }
		add(5, gauge("node_thermal_zone_temp", "°C", func(s float64) float64 { return milli(heat(s)) }, "zone", "0", "type", "cpu-thermal"))
		add(5,
			gauge("node_hwmon_temp_celsius", "°C", func(s float64) float64 { return milli(heat(s)) }, "chip", "thermal_thermal_zone0", "sensor", "temp1"),
			gauge("node_hwmon_temp_celsius", "°C", func(s float64) float64 { return milli(41 + s/4) }, "chip", "rp1", "sensor", "temp1", "chip_name", "rp1_adc"))
		clock := func(s float64) float64 { return 1.8e9 - 0.3e9*capped(s) }
		var clocks []told
		for cpu := range 4 {
			clocks = append(clocks, gauge("node_cpu_scaling_frequency_hertz", "Hz", func(float64) float64 { return 1.8e9 }, "cpu", fmt.Sprint(cpu)))
		}
		add(2, clocks...)
		add(5, gauge("boxdyno_rpi_arm_clock_hertz", "Hz", clock),
			gauge("boxdyno_rpi_throttled", "1", capped, "flag", "soft temperature limit now"),
			gauge("boxdyno_rpi_throttled", "1", func(float64) float64 { return 0 }, "flag", "under-voltage now"),
			gauge("boxdyno_rpi_throttled", "1", func(float64) float64 { return 1 }, "flag", "throttling has occurred"))
		add(10, gauge("boxdyno_power_watts", "W", func(s float64) float64 {
			if s > 6 && s < 7.5 {
				return math.NaN() // the plug does not answer
			}
			return 3.1 + 2.2*map[bool]float64{true: 1}[loaded(s)] + milli(heat(s))/60
		}, "meter", "Shelly plug"))
	}
	add(1, told{result.Series{Name: "boxdyno_sampler_lateness_seconds", Unit: "s"}, func(s float64) float64 { return math.Mod(s*0.7919, 1e-4) }})

	dir = t.TempDir()
	run.Series = nil
	for _, x := range w.all {
		run.Series = append(run.Series, x.series)
	}
	run.Telemetry = []result.Telemetry{{Rate: 10, Collectors: []string{"cpu"}, Absent: []string{"iio: nothing to read", "rapl: to read RAPL's energy counters in /sys/class/powercap takes root"}, From: 0, To: unit.Instant(end * 1e9)}}
	// What the sampler would say of a trial, from the same board.
	for i := range recs {
		r := &recs[i]
		if r.Parent == "" {
			continue
		}
		a, b := float64(r.Begin)/1e9, float64(r.Phases[0].End)/1e9
		for k, x := range w.all {
			va, vb := x.at(a), x.at(b)
			d := result.Digest{Series: k, N: 3, Min: min(va, vb), Mean: (va + vb) / 2, Max: max(va, vb)}
			if x.series.Counter {
				if d.Growth = vb - va; d.Growth == 0 {
					continue
				}
				d.Min, d.Mean, d.Max = 0, d.Growth/(b-a), d.Growth/(b-a)
			}
			if !math.IsNaN(d.Mean) {
				r.Digests = append(r.Digests, d)
			}
		}
	}
	b, err := result.Create(dir, run)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	w.b = b
	at := ticks(0, end, [2]float64{2.2, 2.9})
	begins := map[float64]bool{}
	for _, r := range recs {
		if r.Parent != "" {
			s := float64(r.Begin)/1e9 - 1e-3
			at, begins[s] = append(at, s), true
			s = float64(r.End)/1e9 + 1e-3
			at, begins[s] = append(at, s), true
		}
	}
	at = slices.DeleteFunc(at, func(s float64) bool { return s < 0 || s > 2.2 && s < 2.9 })
	slices.Sort(at)
	w.part(at, func(s float64) bool { return begins[s] })
	return run, recs, dir
}

func readTimeline(t testing.TB, dir string, run result.Run, recs []result.Record) (*report.Timeline, error) {
	t.Helper()
	in, err := result.OpenTelemetry(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	return timeline.Read(in, run, recs)
}

// board is the document that a page of it is made from.
func board(t testing.TB, sensors bool) (report.Document, []result.Record) {
	t.Helper()
	run, recs, dir := boardRun(t, sensors)
	d := report.Summarized(run, recs)
	var err error
	if d.Timeline, err = readTimeline(t, dir, run, recs); err != nil {
		t.Fatal(err)
	}
	return d, recs
}

// writeTimelinePages writes pages of a board with sensors, of one without, and of one
// with names that are markup.
func writeTimelinePages(t *testing.T, dir string) {
	for _, name := range []string{"board", "bare", "hostile-board"} {
		d, recs := board(t, name != "bare")
		if name == "hostile-board" {
			for i := range d.Timeline.Panels {
				for k := range d.Timeline.Panels[i].Lines {
					l := &d.Timeline.Panels[i].Lines[k]
					if l.Name += report.Nasty; l.Row != "" {
						l.Row += report.Nasty
					}
				}
			}
			d.Timeline.Remarks = []string{report.Nasty}
		}
		f, err := os.Create(filepath.Join(dir, name+".html"))
		if err == nil {
			err = page.Write(f, d, recs)
		}
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func lineOf(d *report.Timeline, kind, row, name string) *report.Line {
	for _, p := range d.Panels {
		for i, l := range p.Lines {
			if p.Kind == kind && l.Row == row && (name == "" || l.Name == name) {
				return &p.Lines[i]
			}
		}
	}
	return nil
}
