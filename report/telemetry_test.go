// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"boxdyno/report"
	"boxdyno/report/text"
	"boxdyno/result"
	"boxdyno/unit"
)

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
		if err := text.JSON(&b, d); err != nil {
			t.Fatal(err)
		}
		golden(t, filepath.Join("testdata", name+".json"), folded(b.Bytes()))
		b.Reset()
		if err := text.Terminal(&b, d); err != nil {
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
		l := lineOf(x, "drops", string(c.place), "lost")
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
	if lineOf(x, "drops", string(result.Qdisc), "") != nil {
		t.Error("a counter that stood still is drawn")
	}
	if l := lineOf(x, "clock", "", "claimed, CPUs 0-3"); l == nil || l.Mean[len(l.Mean)-1] != 1.8e9 {
		t.Errorf("the claimed clock of all CPUs is %+v", l)
	}
	if l := lineOf(x, "clock", "", "measured by the firmware"); l == nil || l.Mean[len(l.Mean)-1] != 1.5e9 || l.Mean[0] != 1.8e9 {
		t.Errorf("the measured clock is %+v", l)
	}
	if l := lineOf(x, "throttled", "soft temperature limit", ""); l == nil || l.Mean[0] != 0 || l.Mean[len(l.Mean)-1] != 1 {
		t.Errorf("the soft limit is %+v", l)
	}
	for _, never := range []string{"under-voltage", "throttling"} {
		if lineOf(x, "throttled", never, "") != nil {
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
	power := lineOf(x, "power", "", "Shelly plug")
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
	want := "Telemetry recorded nothing of: clock, throttling, temperature, power (rapl: to read RAPL's energy counters in /sys/class/powercap takes root)."
	if !slices.Equal(d.Timeline.Remarks, []string{want}) {
		t.Errorf("remarks %q, want %q", d.Timeline.Remarks, want)
	}
	if d.Watched.Hottest != nil || d.Watched.Slowest != nil || d.Watched.Watts != nil {
		t.Errorf("watched %+v", d.Watched)
	}
}

func TestPointsInFiles(t *testing.T) {
	for text, p := range map[string]report.Points{
		`[]`:                      {},
		`[0,1,null,0.1235,45.67]`: {0, 1, math.NaN(), 0.12345678, 45.6712},
		`[-3,9999,12340,1.8e+09]`: {-3, 9999, 12345, 1.8e9},
		`[1.2e-05,1234]`:          {0.000012, 1234.4},
	} {
		data, err := json.Marshal(p)
		var back report.Points
		if err == nil {
			err = json.Unmarshal(data, &back)
		}
		if err != nil || string(data) != text || len(back) != len(p) {
			t.Errorf("%v is %s, want %s, and reads back as %v (%v)", p, data, text, back, err)
		}
	}
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
