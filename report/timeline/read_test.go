// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"boxdyno/internal/testutil"
	"boxdyno/report"
	"boxdyno/result"
	"boxdyno/unit"
)

// A single is telemetry of one series.
func single(t testing.TB, s result.Series, parts ...[]report.Mark) string {
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
	heat, lost := make([]report.Mark, n), make([]report.Mark, n)
	total := 0.0
	for i := range n {
		at := unit.Instant(i) * 1e8
		heat[i] = report.Mark{At: at, Value: 50 + float64(i)/n}
		if i == 61_234 {
			heat[i].Value = 91
			total += 7000
		}
		lost[i] = report.Mark{At: at, Value: total}
	}
	hot, err := readIn(t, single(t, heatSeries, heat), result.Run{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	drops, err := readIn(t, single(t, dropSeries, lost), result.Run{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []*report.Timeline{hot, drops} {
		if x.Steps > mostSteps || x.Steps < mostSteps/3 || int64(x.Steps)*x.Step < n*1e8-x.Step || len(x.Gaps) != 0 {
			t.Errorf("%d steps of %d ns, gaps %v", x.Steps, x.Step, x.Gaps)
		}
	}
	step := func(x *report.Timeline) int { return int(61_234 * 1e8 / x.Step) }
	h := lineIn(hot, "temperature", "", "zone")
	if i := step(hot); h.Hi[i] != 91 || h.Mean[i] > 51.5 || h.Mean[i] < 50.5 || h.Lo[i] > 50.7 {
		t.Errorf("about the peak: %v, %v to %v", h.Mean[i], h.Lo[i], h.Hi[i])
	}
	l := lineIn(drops, "drops", "softnet", "lost")
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
	testutil.Computed(t)
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
			head.Series = append(head.Series, result.Series{Name: "node_cpu_seconds_total", Labels: labels("cpu", c, "mode", mode), Unit: "s", Counter: true})
		}
		head.Series = append(head.Series, result.Series{Name: "node_cpu_scaling_frequency_hertz", Labels: labels("cpu", c), Unit: "Hz"},
			result.Series{Name: "node_hwmon_temp_celsius", Labels: labels("chip", "coretemp", "label", "Core "+c), Unit: "°C"},
			result.Series{Name: "node_softnet_dropped_total", Labels: labels("cpu", c), Counter: true, Place: result.Places[cpu%len(result.Places)]},
			result.Series{Name: "boxdyno_power_watts", Labels: labels("meter", c), Unit: "W"})
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
	x, err := readIn(t, dir, result.Run{}, nil)
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
	if clock := lineIn(x, "clock", "", ""); clock == nil || clock.Name != "claimed, mean of 128 CPUs, from the slowest to the fastest" || !(clock.Lo[100] < clock.Mean[100] && clock.Mean[100] < clock.Hi[100]) {
		t.Errorf("the clocks are %.200v", clock)
	}
	if len(x.Remarks) != 4 || !strings.HasPrefix(x.Remarks[0], "Of 128 CPUs the 16") {
		t.Errorf("remarks %q", x.Remarks)
	}
}

// The pause of a resumed run is no time of the axis, and counters begin anew.
func TestTimelineOfAResumedRun(t *testing.T) {
	part := func(from unit.Instant, first float64) (out []report.Mark) {
		for i := range 50 {
			out = append(out, report.Mark{At: from + unit.Instant(i)*1e8, Value: first + float64(i)*10})
		}
		return out
	}
	x, err := readIn(t, single(t, dropSeries, part(5e9, 1e6), part(3605e9, 3)), result.Run{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if x.Steps > 115 || len(x.Gaps) != 1 || x.Gaps[0].From != 99e8 || x.Gaps[0].To != 3605e9 || x.Gaps[0].Cut != 35951e8-10e8 {
		t.Fatalf("%d steps, gaps %+v", x.Steps, x.Gaps)
	}
	l := lineIn(x, "drops", "softnet", "lost")
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
		var marks []report.Mark
		at, v, want := unit.Instant(rapid.Int64Range(0, 1e12).Draw(r, "from")), 0.0, 0.0
		var begins []result.Record
		for i := range rapid.IntRange(2, 400).Draw(r, "n") {
			if i > 0 {
				at += unit.Instant(rapid.OneOf(rapid.Int64Range(1, 2e8), rapid.Int64Range(1, 4e9)).Draw(r, "after"))
				grows := rapid.SampledFrom([]float64{0, 0, 1, 1000}).Draw(r, "grows")
				v, want = v+grows, want+grows
			}
			marks = append(marks, report.Mark{At: at, Value: v})
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
		x := &timeline{tracks: newTracks(), readAll: trialBegins(begins), most: mostSteps}
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

// The counted loop of soak stands at both ends of its trials.
func TestTimelineHasTheCountedLoop(t *testing.T) {
	val := func(metric string, v float64) result.Value { return result.Value{Metric: metric, Value: v} }
	recs := []result.Record{
		{Parent: "p", Begin: 2e9, End: 3e9, Values: []result.Value{val("loop_before_rps", 5), val("loop_after_rps", 3)}},
		{Parent: "p", Begin: 1e9, End: 15e8, Values: []result.Value{val("loop_before_rps", 6)}},
	}
	x, err := readIn(t, single(t, heatSeries, []report.Mark{{At: 1e9, Value: 40}, {At: 11e8, Value: 41}}), result.Run{}, recs)
	if err != nil {
		t.Fatal(err)
	}
	l := lineIn(x, "loop", "", "")
	if l == nil || !slices.Equal(l.Marks, []report.Mark{{At: 1e9, Value: 6}, {At: 2e9, Value: 5}, {At: 3e9, Value: 3}}) {
		t.Errorf("%+v", l)
	}
}

// What a box ends after a subject had its copy, or a replay's counter at its port, is no loss.
func TestTimelineOfCaptures(t *testing.T) {
	routing := result.Series{Name: "node_network_receive_otherhost_dropped_total", Unit: "frame", Counter: true, Place: result.Routing}
	xdp := result.Series{Name: "node_ethtool_received_queue_0_xdp_drops", Unit: "1", Counter: true, Place: result.XDP}
	virtio := result.Series{Name: "node_ethtool_received_queue_0_drops", Unit: "1", Counter: true, Place: result.DUTNIC}
	ring := result.Series{Name: "node_network_receive_missed_errors_total", Unit: "frame", Counter: true, Place: result.DUTNIC}
	for _, c := range []struct {
		series    result.Series
		procedure string
		target    string
		drawn     bool
	}{
		{routing, "forward", "", true}, {routing, report.CaptureProcedure, "", false}, {dropSeries, report.CaptureProcedure, "", true}, {xdp, report.CaptureProcedure, "", true},
		{routing, "empty-box", "", false}, {routing, "ids-idle", "", false}, {dropSeries, "empty-box", "", true},
		{xdp, "replay", "box", false}, {virtio, "replay", "box", false}, {ring, "replay", "box", true}, {xdp, "replay", "", true}, {virtio, "replay", "", true},
	} {
		recs := []result.Record{{Procedure: report.SelfTestProcedure}, {Procedure: c.procedure, Parent: "p", Config: []result.Pair{{Key: "target", Value: c.target}}, Begin: 1e9, End: 2e9}}
		x, err := readIn(t, single(t, c.series, []report.Mark{{At: 1e9, Value: 0}, {At: 11e8, Value: 40}, {At: 12e8, Value: 90}}), result.Run{}, recs)
		if err != nil {
			t.Fatal(err)
		}
		if got := lineIn(x, "drops", string(c.series.Place), "lost") != nil; got != c.drawn {
			t.Errorf("%s of %s %s: drawn is %v", c.series.Name, c.procedure, c.target, got)
		}
	}
}

func lineIn(d *report.Timeline, kind, row, name string) *report.Line {
	for _, p := range d.Panels {
		for i, l := range p.Lines {
			if p.Kind == kind && l.Row == row && (name == "" || l.Name == name) {
				return &p.Lines[i]
			}
		}
	}
	return nil
}

func labels(kv ...string) (ps []result.Pair) {
	for i := 0; i < len(kv); i += 2 {
		ps = append(ps, result.Pair{Key: kv[i], Value: kv[i+1]})
	}
	return ps
}

func readIn(t testing.TB, dir string, run result.Run, recs []result.Record) (*report.Timeline, error) {
	t.Helper()
	in, err := result.OpenTelemetry(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	return Read(in, run, recs)
}
