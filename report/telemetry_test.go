// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

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
	head := result.TelemetryHead{Schema: result.Schema, Start: origin, Rate: 10}
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
	run, recs = firewall()
	run.ID, run.Role, run.Criteria, run.Warnings = "20260314T092653Z-board", "", nil, nil
	run.Topology, run.Kind = "wire2", "real"
	run.Environments, run.NotMeasured, run.Deviations = nil, nil, nil
	run.Command = []string{"boxdyno", "run", "forward", "--set", "frame_size=64"}
	var points []string
	for _, r := range recs {
		if r.Parent == "" && r.Procedure != selfTest {
			points = append(points, r.ID)
		}
	}
	recs = slices.DeleteFunc(recs, func(r result.Record) bool {
		return r.Parent != selfTest && !slices.Contains(points[:2], r.ID) && !slices.Contains(points[:2], r.Parent)
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

func readTimeline(t testing.TB, dir string, run result.Run, recs []result.Record) (*Timeline, error) {
	t.Helper()
	in, err := result.OpenTelemetry(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	return ReadTimeline(in, run, recs)
}

// board is the document that a page of it is made from.
func board(t testing.TB, sensors bool) (Document, []result.Record) {
	t.Helper()
	run, recs, dir := boardRun(t, sensors)
	d := Summarize(run, recs)
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
					if l.Name += nasty; l.Row != "" {
						l.Row += nasty
					}
				}
			}
			d.Timeline.Remarks = []string{nasty}
		}
		f, err := os.Create(filepath.Join(dir, name+".html"))
		if err == nil {
			err = HTML(f, d, recs)
		}
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (d *Timeline) lineOf(kind, row, name string) *Line {
	for _, p := range d.Panels {
		for i, l := range p.Lines {
			if p.Kind == kind && l.Row == row && (name == "" || l.Name == name) {
				return &p.Lines[i]
			}
		}
	}
	return nil
}

func TestTimelineGolden(t *testing.T) {
	for name, sensors := range map[string]bool{"board": true, "bare": false} {
		d, _ := board(t, sensors)
		lines, err := json.Marshal(d.Timeline)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []string{`{"kind":`, `{"row":`, `{"name":`, `"gaps":`} {
			lines = bytes.ReplaceAll(lines, []byte(at), []byte("\n"+at))
		}
		golden(t, filepath.Join("testdata", name+"-timeline.json"), append(lines, '\n'))
		d.Timeline = nil
		var b bytes.Buffer
		if err := JSON(&b, d); err != nil {
			t.Fatal(err)
		}
		golden(t, filepath.Join("testdata", name+".json"), b.Bytes())
		b.Reset()
		if err := Text(&b, d); err != nil {
			t.Fatal(err)
		}
		golden(t, filepath.Join("testdata", name+".txt"), b.Bytes())
	}
}

func TestTimelineOfABoard(t *testing.T) {
	d, recs := board(t, true)
	x := d.Timeline
	if len(x.Gaps) != 1 || x.Gaps[0].Cut != 0 {
		t.Fatalf("gaps %+v, want the one of 0.7 s", x.Gaps)
	}
	if from, to := float64(x.Gaps[0].From)/1e9, float64(x.Gaps[0].To)/1e9; from < 2.1 || from > 2.21 || to < 2.89 || to > 3 {
		t.Errorf("the gap is from %v to %v s, want 2.2 to 2.9", from, to)
	}
	for _, p := range x.Panels {
		for _, l := range p.Lines {
			if l.Mean != nil && (len(l.Mean) != x.Steps || !math.IsNaN(l.Mean[25])) {
				t.Errorf("%s %s %s has %d of %d steps, and %v in the gap", p.Kind, l.Row, l.Name, len(l.Mean), x.Steps, l.Mean[25])
			}
		}
	}
	// What was lost is drawn, in trials alone: no frame before, none twice.
	for _, c := range []struct {
		place result.Place
		rate  float64
	}{{result.Softnet, 4000}, {result.DUTNIC, 900_000}} {
		l := x.lineOf("drops", string(c.place), "lost")
		if l == nil {
			t.Fatalf("no line of %s", c.place)
		}
		var sum, want, before float64
		for i, v := range l.Mean {
			if !math.IsNaN(v) {
				sum += v * float64(x.Step) / 1e9
			}
			if at := unit.Instant(i) * unit.Instant(x.Step); v > 0 && !slices.ContainsFunc(recs, func(r result.Record) bool {
				return result.Get(r.Config, "trial") == "overload" && at+unit.Instant(x.Step) > r.Begin && at < r.End+1e9
			}) {
				before += v
			}
		}
		for _, r := range recs {
			if result.Get(r.Config, "trial") == "overload" {
				want += c.rate * float64(r.Phases[0].End-r.Phases[0].Begin) / 1e9
			}
		}
		for i, v := range l.InGaps {
			sum += v * float64(x.Gaps[i].To-x.Gaps[i].From) / 1e9
		}
		if math.Abs(sum/want-1) > 0.05 || before > 0 { // a step beside the gap is not all sampled
			t.Errorf("%s: %.0f frames are drawn, want %.0f; %v outside of overload", c.place, sum, want, before)
		}
	}
	if x.lineOf("drops", string(result.Qdisc), "") != nil {
		t.Error("a counter that stood still is drawn")
	}
	if l := x.lineOf("clock", "", "claimed, CPUs 0-3"); l == nil || l.Mean[len(l.Mean)-1] != 1.8e9 {
		t.Errorf("the claimed clock of all CPUs is %+v", l)
	}
	if l := x.lineOf("clock", "", "measured by the firmware"); l == nil || l.Mean[len(l.Mean)-1] != 1.5e9 || l.Mean[0] != 1.8e9 {
		t.Errorf("the measured clock is %+v", l)
	}
	if l := x.lineOf("throttled", "soft temperature limit", ""); l == nil || l.Mean[0] != 0 || l.Mean[len(l.Mean)-1] != 1 {
		t.Errorf("the soft limit is %+v", l)
	}
	for _, never := range []string{"under-voltage", "throttling"} {
		if x.lineOf("throttled", never, "") != nil {
			t.Errorf("%s was not set in this run, and is drawn", never)
		}
	}
	var sensors []string
	for _, p := range x.Panels {
		if p.Kind == "temperature" {
			for _, l := range p.Lines {
				sensors = append(sensors, l.Name)
			}
		}
	}
	if !slices.Equal(sensors, []string{"cpu-thermal", "rp1_adc temp1"}) {
		t.Errorf("temperatures %q: hwmon's copy of a zone is drawn, or a sensor is not", sensors)
	}
	power := x.lineOf("power", "", "Shelly plug")
	if !math.IsNaN(power.Mean[70]) || math.IsNaN(power.Mean[50]) || power.InGaps != nil {
		t.Errorf("the plug that did not answer is %v", power.Mean[50:90])
	}
	w := d.Watched
	if w.Hottest == nil || w.Hottest.Of != "cpu-thermal" || w.Slowest == nil || w.Slowest.Value != 1.5e9 || w.Busiest == nil || w.Busiest.CPU != "1" || w.Busiest.Softirq < 0.8 || len(w.Lost) != 2 {
		t.Errorf("watched %+v", w)
	}
}

func TestTimelineWithoutSensors(t *testing.T) {
	d, _ := board(t, false)
	var kinds []string
	for _, p := range d.Timeline.Panels {
		kinds = append(kinds, p.Kind)
	}
	if !slices.Equal(kinds, []string{"softirq", "drops"}) {
		t.Errorf("panels %q", kinds)
	}
	want := "This machine told nothing of: clock, throttling, temperature, power (rapl: to read RAPL's energy counters in /sys/class/powercap takes root)."
	if !slices.Equal(d.Timeline.Remarks, []string{want}) {
		t.Errorf("remarks %q, want %q", d.Timeline.Remarks, want)
	}
	if d.Watched.Hottest != nil || d.Watched.Slowest != nil || d.Watched.Watts != nil {
		t.Errorf("watched %+v", d.Watched)
	}
}

// A single is telemetry of one series.
func single(t testing.TB, s result.Series, parts ...[]Mark) string {
	t.Helper()
	dir := t.TempDir()
	b, err := result.Create(dir, result.Run{Schema: result.Schema})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for _, part := range parts {
		line, _ := json.Marshal(result.TelemetryHead{Schema: result.Schema, Rate: 10, Series: []result.Series{s}})
		line = append(line, '\n')
		for i, m := range part {
			line = result.AppendBatch(line, result.Batch{At: m.At, Values: []float64{m.Value}})
			if i%1000 == 999 || i == len(part)-1 {
				if err := b.Sample(line); err != nil {
					t.Fatal(err)
				}
				line = line[:0]
			}
		}
	}
	return dir
}

var (
	heatSeries = result.Series{Name: "node_thermal_zone_temp", Unit: "°C"}
	dropSeries = result.Series{Name: "node_softnet_dropped_total", Unit: "frame", Counter: true, Place: result.Softnet}
)

// Of a long run no peak is lost, and the mean is that of all samples.
func TestTimelineKeepsPeaks(t *testing.T) {
	const n = 100_000 // 2.8 h
	heat, lost := make([]Mark, n), make([]Mark, n)
	total := 0.0
	for i := range n {
		at := unit.Instant(i) * 1e8
		heat[i] = Mark{at, 50 + float64(i)/n}
		if i == 61_234 {
			heat[i].Value = 91
			total += 7000
		}
		lost[i] = Mark{at, total}
	}
	hot, err := readTimeline(t, single(t, heatSeries, heat), result.Run{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	drops, err := readTimeline(t, single(t, dropSeries, lost), result.Run{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []*Timeline{hot, drops} {
		if x.Steps > mostSteps || x.Steps < mostSteps/3 || int64(x.Steps)*x.Step < n*1e8-x.Step || len(x.Gaps) != 0 {
			t.Errorf("%d steps of %d ns, gaps %v", x.Steps, x.Step, x.Gaps)
		}
	}
	step := func(x *Timeline) int { return int(61_234 * 1e8 / x.Step) }
	h := hot.lineOf("temperature", "", "zone")
	if i := step(hot); h.Hi[i] != 91 || h.Mean[i] > 51.5 || h.Mean[i] < 50.5 || h.Lo[i] > 50.7 {
		t.Errorf("about the peak: %v, %v to %v", h.Mean[i], h.Lo[i], h.Hi[i])
	}
	l := drops.lineOf("drops", "softnet", "lost")
	sum := 0.0
	for i, v := range l.Mean {
		sum += v * float64(drops.Step) / 1e9
		if v > 0 && i != step(drops) && i != step(drops)-1 {
			t.Errorf("frames were lost in step %d", i)
		}
	}
	if math.Abs(sum-7000) > 1e-6 || math.Abs(l.Hi[step(drops)]-70_000) > 1 {
		t.Errorf("%v frames, at most %v a second; want 7000 and 70000", sum, l.Hi[step(drops)])
	}
}

// The page of a large machine that was watched for long stays small.
func TestTimelineIsBounded(t *testing.T) {
	const cpus, n = 128, 3000
	dir := t.TempDir()
	b, err := result.Create(dir, result.Run{Schema: result.Schema})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	head := result.TelemetryHead{Schema: result.Schema, Rate: 10}
	for cpu := range cpus {
		c := fmt.Sprint(cpu)
		for _, mode := range []string{"user", "softirq", "steal"} {
			head.Series = append(head.Series, result.Series{Name: "node_cpu_seconds_total", Labels: pair("cpu", c, "mode", mode), Unit: "s", Counter: true})
		}
		head.Series = append(head.Series, result.Series{Name: "node_cpu_scaling_frequency_hertz", Labels: pair("cpu", c), Unit: "Hz"},
			result.Series{Name: "node_hwmon_temp_celsius", Labels: pair("chip", "coretemp", "label", "Core "+c), Unit: "°C"},
			result.Series{Name: "node_softnet_dropped_total", Labels: pair("cpu", c), Counter: true, Place: result.Places[cpu%len(result.Places)]},
			result.Series{Name: "boxdyno_power_watts", Labels: pair("meter", c), Unit: "W"})
	}
	line, _ := json.Marshal(head)
	line = append(line, '\n')
	values := make([]float64, len(head.Series))
	for i := range n {
		for k := range values {
			values[k] += float64((i*7+k*13)%29) / 300
		}
		if line = result.AppendBatch(line, result.Batch{At: unit.Instant(i) * 1e8, Values: values}); i%100 == 99 {
			if err := b.Sample(line); err != nil {
				t.Fatal(err)
			}
			line = nil
		}
	}
	x, err := readTimeline(t, dir, result.Run{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > 1<<20 {
		t.Errorf("%d octets of a timeline", len(data))
	}
	rows := map[string]bool{}
	for _, p := range x.Panels {
		for _, l := range p.Lines {
			rows[p.Kind+l.Row] = true
		}
		if p.Kind != "softirq" && len(p.Lines) > mostRows || len(p.Lines) > 3*mostRows {
			t.Errorf("%s has %d lines", p.Kind, len(p.Lines))
		}
	}
	if clock := x.lineOf("clock", "", ""); clock == nil || clock.Name != "claimed, mean of 128 CPUs, from the slowest to the fastest" || !(clock.Lo[100] < clock.Mean[100] && clock.Mean[100] < clock.Hi[100]) {
		t.Errorf("the clocks are %.200v", clock)
	}
	if len(x.Remarks) != 4 || !strings.HasPrefix(x.Remarks[0], "Of 128 CPUs the 16") {
		t.Errorf("remarks %q", x.Remarks)
	}
}

// The pause of a resumed run is no time of the axis, and counters begin anew.
func TestTimelineOfAResumedRun(t *testing.T) {
	part := func(from unit.Instant, first float64) (out []Mark) {
		for i := range 50 {
			out = append(out, Mark{from + unit.Instant(i)*1e8, first + float64(i)*10})
		}
		return out
	}
	x, err := readTimeline(t, single(t, dropSeries, part(5e9, 1e6), part(3605e9, 3)), result.Run{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if x.Steps > 115 || len(x.Gaps) != 1 || x.Gaps[0].From != 99e8 || x.Gaps[0].To != 3605e9 || x.Gaps[0].Cut != 35951e8-10e8 {
		t.Fatalf("%d steps, gaps %+v", x.Steps, x.Gaps)
	}
	l := x.lineOf("drops", "softnet", "lost")
	for i, v := range l.Mean {
		if !math.IsNaN(v) && math.Abs(v-100) > 1e-6 {
			t.Errorf("step %d: %v frame/s, want 100", i, v)
		}
	}
	if !math.IsNaN(l.Mean[55]) || !math.IsNaN(l.InGaps[0]) || math.IsNaN(l.Mean[70]) {
		t.Errorf("in the pause %v and %v, after it %v", l.Mean[55], l.InGaps[0], l.Mean[70])
	}
}

// What a counter grew by is in the steps and the gaps, once.
func TestTimelineLosesNoGrowth(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var marks []Mark
		at, v, want := unit.Instant(rapid.Int64Range(0, 1e12).Draw(r, "from")), 0.0, 0.0
		var begins []result.Record
		for i := range rapid.IntRange(2, 400).Draw(r, "n") {
			if i > 0 {
				at += unit.Instant(rapid.OneOf(rapid.Int64Range(1, 2e8), rapid.Int64Range(1, 4e9)).Draw(r, "after"))
				grows := rapid.SampledFrom([]float64{0, 0, 1, 1000}).Draw(r, "grows")
				v, want = v+grows, want+grows
			}
			marks = append(marks, Mark{at, v})
			if rapid.Bool().Draw(r, "trial") {
				begins = append(begins, result.Record{Parent: "p", Begin: at + 5e7, End: at + 1e8})
			}
		}
		dir := single(t, dropSeries, marks)
		defer os.RemoveAll(dir)
		in, err := result.OpenTelemetry(dir)
		if err != nil {
			r.Fatal(err)
		}
		defer in.Close()
		x := &timeline{tracks: newTracks(), readAll: trialBegins(begins)}
		for b, err := in.Next(); err == nil; b, err = in.Next() {
			x.head(in.Head)
			x.batch(b)
		}
		d := x.finish(result.Run{}, begins)
		k := x.list[0]
		var sum, time float64
		for _, c := range k.steps {
			sum, time = sum+c.sum, time+c.time
		}
		for _, n := range k.gaps {
			sum += n
		}
		sum += k.carried.sum
		if math.Abs(sum-want) > 1e-6*max(want, 1) || d.Steps > mostSteps {
			r.Errorf("%v of %v are drawn in %d steps", sum, want, d.Steps)
		}
		gaps := 0.0
		for _, g := range x.gaps {
			gaps += float64(g.To - g.From)
		}
		if all := float64(at - marks[0].At); math.Abs(time+k.carried.time+gaps-all) > 1 {
			r.Errorf("%v ns were sampled and %v were not, of %v", time, gaps, all)
		}
	})
}

// A damaged file gives what stands before the damage, and an error.
func TestTimelineOfADamagedFile(t *testing.T) {
	run, recs, dir := boardRun(t, true)
	whole, err := readTimeline(t, dir, run, recs)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, result.TelemetryFile)
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	write := func(data []byte) {
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	recs[len(recs)-1].End += 60e9 // the run went on
	write(data[:len(data)/2])
	x, err := readTimeline(t, dir, run, recs)
	if err == nil || !strings.Contains(err.Error(), "cut short or damaged") || x == nil || x.Steps >= whole.Steps || len(x.Panels) != len(whole.Panels) {
		t.Errorf("cut in the middle: %v", err)
	}
	write([]byte("garbage"))
	if x, err := readTimeline(t, dir, run, recs); x != nil || err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("garbage: %v (%v)", x, err)
	}
}

func TestPointsInFiles(t *testing.T) {
	for text, p := range map[string]Points{
		`[]`:                      {},
		`[0,1,null,0.1235,45.67]`: {0, 1, math.NaN(), 0.12345678, 45.6712},
		`[-3,9999,12340,1.8e+09]`: {-3, 9999, 12345, 1.8e9},
		`[1.2e-05,1234]`:          {0.000012, 1234.4},
	} {
		data, err := json.Marshal(p)
		var back Points
		if err == nil {
			err = json.Unmarshal(data, &back)
		}
		if err != nil || string(data) != text || len(back) != len(p) {
			t.Errorf("%v is %s, want %s, and reads back as %v (%v)", p, data, text, back, err)
		}
	}
}

// The counted loop of soak stands at both ends of its trials.
func TestTimelineHasTheCountedLoop(t *testing.T) {
	val := func(metric string, v float64) result.Value { return result.Value{Metric: metric, Value: v} }
	recs := []result.Record{
		{Parent: "p", Begin: 2e9, End: 3e9, Values: []result.Value{val("loop_before_rps", 5), val("loop_after_rps", 3)}},
		{Parent: "p", Begin: 1e9, End: 15e8, Values: []result.Value{val("loop_before_rps", 6)}},
	}
	x, err := readTimeline(t, single(t, heatSeries, []Mark{{1e9, 40}, {11e8, 41}}), result.Run{}, recs)
	if err != nil {
		t.Fatal(err)
	}
	l := x.lineOf("loop", "", "")
	if l == nil || !slices.Equal(l.Marks, []Mark{{1e9, 6}, {2e9, 5}, {3e9, 3}}) {
		t.Errorf("%+v", l)
	}
}

// What a box ends after a subject had its copy is no loss.
func TestTimelineOfCaptures(t *testing.T) {
	routing := result.Series{Name: "node_network_receive_otherhost_dropped_total", Unit: "frame", Counter: true, Place: result.Routing}
	for _, c := range []struct {
		series    result.Series
		procedure string
		drawn     bool
	}{{routing, "forward", true}, {routing, captureProcedure, false}, {dropSeries, captureProcedure, true}} {
		recs := []result.Record{{Procedure: selfTest}, {Procedure: c.procedure, Parent: "p", Begin: 1e9, End: 2e9}}
		x, err := readTimeline(t, single(t, c.series, []Mark{{1e9, 0}, {11e8, 40}, {12e8, 90}}), result.Run{}, recs)
		if err != nil {
			t.Fatal(err)
		}
		if got := x.lineOf("drops", string(c.series.Place), "lost") != nil; got != c.drawn {
			t.Errorf("%s of %s: drawn is %v", c.series.Name, c.procedure, got)
		}
	}
}
