// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"boxdyno/report"
	"boxdyno/report/text"
	"boxdyno/result"
	"boxdyno/unit"
)

// soakRun is made up: a board with a sensor and a meter that gets hot, throttles,
// fails one stressor, hangs in another, and has two that cannot run there.
func soakRun() (result.Run, []result.Record) {
	run, _ := report.Firewall()
	run.ID, run.Role, run.Criteria, run.Warnings, run.Topology, run.Kind = "20260314T092653Z-soak", "", nil, nil, "here", "real"
	run.Command = []string{"boxdyno", "run", "soak", "--set", "class=cpu", "--set", "each=2s"}
	run.NotMeasured, run.Deviations, run.Backend = nil, nil, nil
	run.Metrics = []result.Metric{{Name: "bogo_ops_rate", Unit: "1/s", Better: 1, Help: "a second"}}
	run.Series = []result.Series{
		{Name: "node_thermal_zone_temp", Unit: "°C"}, {Name: "boxdyno_power_watts", Unit: "W"},
		{Name: "boxdyno_rpi_throttled", Labels: []result.Pair{{Key: "flag", Value: "throttled"}}, Unit: "1"},
		{Name: "boxdyno_rpi_throttled", Labels: []result.Pair{{Key: "flag", Value: "throttled occurred"}}, Unit: "1"},
	}
	const point = "soak/cpu#1"
	cfg := []result.Pair{{Key: "class", Value: "cpu"}, {Key: "stressors", Value: "class"}, {Key: "each", Value: "2s"}}
	var recs []result.Record
	add := func(name string, status result.Status, reason string, ops, clock, heat float64, throttled float64) {
		now := unit.Instant(len(recs)) * 2.3e9
		r := result.Record{
			Schema: result.Schema, ID: fmt.Sprintf("%s/%d stressor=%s stress_ng=0.15.06", point, len(recs)+1, name), Parent: point, Procedure: "soak", Repeat: 1,
			Config: append(cfg[:3:3], result.Pair{Key: "stressor", Value: name}, result.Pair{Key: "stress_ng", Value: "0.15.06"}),
			Start:  report.Origin.Add(time.Duration(now)), Begin: now, End: now + 2.2e9, Status: status, Reason: reason,
		}
		val := func(metric string, u unit.Symbol, v float64) {
			r.Values = append(r.Values, result.Value{Metric: metric, Unit: u, Value: v})
		}
		if clock > 0 {
			val("loop_before_rps", "1/s", 2.4e8)
			val("loop_after_rps", "1/s", clock*2.4e8)
			r.Usage = []result.Usage{{Subject: "stress-ng " + name, CPU: 7_900_000_000, PeakMemory: 21 << 20, Source: "cpu.stat, memory.peak"}}
			r.Energy = []result.Energy{{Meter: "RAPL package-0", Covers: "package", Joules: 2, Seconds: 2, Readings: 20}, {Meter: "Shelly", Covers: "wall", Joules: 12.8, Seconds: 2, Readings: 2}}
			r.Digests = []result.Digest{{Series: 0, N: 20, Min: heat - 5, Mean: heat - 2, Max: heat}, {Series: 2, N: 20, Max: throttled}, {Series: 3, N: 20, Max: 1}}
		}
		if ops > 0 {
			val("bogo_ops", "1", ops)
			val("bogo_ops_rate", "1/s", ops/2)
			val("bogo_ops_cpu_rate", "1/s", ops/7.9)
			val("standstill_s", "s", 0.03)
		}
		recs = append(recs, r)
	}
	add("af-alg", result.Skipped, result.KnownCause+"this kernel has no AF_ALG sockets", 0, 1, 45, 0)
	add("atomic", result.Passed, "", 1234, 1, 48, 0)
	add("cpu", result.Passed, "", 2948, 0.99, 61, 0)
	add("hash", result.Failed, "hash: wrong sum of block 7", 12, 0.92, 72, 0)
	add("matrix", result.Passed, "", 17_176, 0.71, 84, 1)
	recs[len(recs)-1].Warnings = []string{"the machine stalled for 1.4 s"}
	add("smi", result.Skipped, "disabled 'smi' as it may hang or reboot the machine", 0, 0, 0, 0)
	add("vecmath", result.Failed, "it hung: it did not end within 22s and was killed", 0, 0.73, 80, 1)
	last := recs[len(recs)-1]
	recs = append(recs, result.Record{
		Schema: result.Schema, ID: point, Procedure: "soak", Config: cfg, Repeat: 1, Start: report.Origin, End: last.End, Status: result.Failed,
		Reason: "failed: hash (hash: wrong sum of block 7); vecmath (it hung: it did not end within 22s and was killed)",
		Values: []result.Value{{Metric: "stressors_passed", Unit: "1", Value: 3}, {Metric: "stressors_failed", Unit: "1", Value: 2}, {Metric: "stressors_skipped", Unit: "1", Value: 1}, {Metric: "stressors_known", Unit: "1", Value: 1}},
	})
	return run, recs
}

func TestSoakSaysWhatMatters(t *testing.T) {
	run, recs := soakRun()
	d := report.Summarized(run, recs)
	if want := "3 of 7 stressors passed, 2 failed, 1 failed for a known cause, 1 skipped: hash, vecmath."; d.Sentence != want || d.Verdict != result.Failed {
		t.Errorf("%s: %q, want %q", d.Verdict, d.Sentence, want)
	}
	s := d.Rows[0].Block.(*report.Soak)
	m := s.Stressors[4]
	if *m.Temperature != 84 || *m.Watts != 6.4 || *m.Throttled != 1 || *m.Clock < 0.70 || *m.Clock > 0.72 || *s.Stressors[1].Throttled != 0 {
		t.Errorf("matrix: %+v", m)
	}
	if s.Stressors[5].Temperature != nil || s.Stressors[5].Clock != nil {
		t.Errorf("smi did not run and has figures: %+v", s.Stressors[5])
	}
	// A board without sensors has no columns for them.
	run.Series = nil
	for i := range recs {
		recs[i].Energy = nil
	}
	var b bytes.Buffer
	if err := text.Terminal(&b, report.Summarized(run, recs)); err != nil {
		t.Fatal(err)
	}
	for _, absent := range []string{"°C", " W", "throttled"} {
		if head := b.String()[strings.Index(b.String(), "stressor  "):]; strings.Contains(head[:strings.Index(head, "\n")], absent) {
			t.Errorf("without sensors there is a column %q", absent)
		}
	}
}

// Of a run that broke off the report says in which stressor.
func TestSoakSaysWhereItBrokeOff(t *testing.T) {
	run, recs := soakRun()
	recs = recs[:len(recs)-2]
	recs[5].Status, recs[5].Reason = result.Running, ""
	recs = append(recs, result.Record{ID: "soak/cpu#1", Procedure: "soak", Config: recs[0].Config[:3], Repeat: 1, Status: result.Running})
	d := report.Summarized(run, recs)
	if !strings.Contains(d.Sentence, "the run broke off in smi") {
		t.Errorf("%q", d.Sentence)
	}
}
