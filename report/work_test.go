// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"boxdyno/report"
	"boxdyno/result"
	"boxdyno/unit"
)

// workRun is made up: a program on one CPU of a board with a meter, on all of its CPUs,
// of which one is slower, another program with two figures, and one that is not there.
func workRun() (result.Run, []result.Record) {
	run, _ := report.Firewall()
	run.ID, run.Role, run.Criteria, run.Warnings, run.Topology, run.Kind = "20260314T092653Z-cpu", "", nil, nil, "here", "real"
	run.Command = []string{"boxdyno", "run", "cpu", "--set", "subject=dhrystone,7-zip,sysbench", "--set", "parallel=1,all"}
	run.NotMeasured, run.Deviations, run.Backend = nil, nil, nil
	run.Metrics = []result.Metric{{Name: "dhrystones_per_s", Unit: "1/s", Better: 1, Help: "runs a second"}}
	of := func(meter, covers string) []result.Pair {
		return []result.Pair{{Key: "meter", Value: meter}, {Key: "covers", Value: covers}}
	}
	run.Series = []result.Series{
		{Name: "boxdyno_power_watts", Labels: of("Shelly", "wall"), Unit: "W"}, {Name: "node_rapl_package_joules_total", Labels: of("RAPL package-0", "package"), Unit: "J", Counter: true},
		{Name: "boxdyno_power_watts", Labels: of("PMIC rails", "rails"), Unit: "W"}, {Name: "boxdyno_power_reading_watts", Labels: of("manual", "")[:1], Unit: "W"},
	}
	run.Telemetry = []result.Telemetry{{Reading: "5.2W idle"}}
	var recs []result.Record
	val := func(metric string, u unit.Symbol, v float64) result.Value {
		return result.Value{Metric: metric, Unit: u, Value: v}
	}
	point := func(status result.Status, reason, subject, parallel string, watts float64, copies []result.Copy, values ...result.Value) {
		id := fmt.Sprintf("cpu/%s-%s#1", subject, parallel)
		cfg := []result.Pair{{Key: "subject", Value: subject}, {Key: "parallel", Value: parallel}, {Key: "core_type", Value: "0"}}
		now := unit.Instant(len(recs)) * 2e9
		trial := result.Record{
			Schema: result.Schema, ID: id + "/2 trial=1", Parent: id, Procedure: "cpu", Repeat: 1, Status: status, Reason: reason, Start: report.Origin.Add(time.Duration(now)), Begin: now, End: now + 1e9,
			Config: append(cfg[:3:3], result.Pair{Key: "trial", Value: "1"}, result.Pair{Key: "on_cpus", Value: "3"}, result.Pair{Key: "compiler", Value: "gcc_(Debian_12.2.0-14)_12.2.0"}, result.Pair{Key: "flags", Value: "-O2"}),
			Values: []result.Value{val("loop_before_rps", "1/s", 2e8), val("loop_after_rps", "1/s", 1.9e8)},
		}
		var energy []result.Energy
		if idle := 3.0; watts > 0 { // three rounds of 1 s
			done := 3 * values[0].Value / 1e6
			energy = []result.Energy{
				{Meter: "Shelly", Covers: "wall", Joules: 3 * watts, Seconds: 3, Readings: 6, Per: "million Dhrystones", Trials: 3, Work: done, Idle: &idle},
				{Meter: "RAPL package-0", Covers: "package", Accuracy: "5 %", Joules: watts, Seconds: 3, Readings: 30, Per: "million Dhrystones", Trials: 3, Work: done},
			}
		}
		if status != result.Skipped {
			recs = append(recs, trial)
		}
		for i := range values {
			low, high := 0.99*values[i].Value, 1.01*values[i].Value
			values[i].Lo, values[i].Hi, values[i].N = &low, &high, 3
		}
		recs = append(recs, result.Record{
			Schema: result.Schema, ID: id, Procedure: "cpu", Config: cfg, Repeat: 1, Status: status, Reason: reason, Start: report.Origin, Begin: now, End: now + 15e8, Copies: copies, Values: values, Energy: energy,
		})
	}
	point(result.Passed, "", "dhrystone", "1", 4, nil, val("dhrystones_per_s", "1/s", 12e6), val("dmips", "1", 12e6/1757), val("copies", "1", 1), val("work_cpu_s", "s", 1.01), val("subject_memory_bytes", "B", 6e6))
	var copies []result.Copy
	for c, rate := range []float64{12e6, 11e6, 9e6, 12.5e6} {
		copies = append(copies, result.Copy{CPU: c, Values: []result.Value{val("dhrystones_per_s", "1/s", rate)}})
	}
	point(result.Passed, "", "dhrystone", "all", 6.5, copies, val("dhrystones_per_s", "1/s", 44.5e6), val("dmips", "1", 44.5e6/1757), val("copies", "1", 4), val("work_cpu_s", "s", 4.02), val("subject_memory_bytes", "B", 24e6))
	point(result.Passed, "", "7-zip", "1", 0, nil, val("compress_ips", "1/s", 1.5e9), val("decompress_ips", "1/s", 2.2e9), val("copies", "1", 1))
	point(result.Skipped, "missing the program sysbench: run apt-get install -y sysbench", "sysbench", "1", 0, nil)
	return run, recs
}

// Figures of copies are told together and one by one.
func TestWorkTables(t *testing.T) {
	run, recs := workRun()
	d := report.Summarized(run, recs)
	got := printed(t, d)
	for _, want := range []string{
		"Computing, on this machine's CPUs",
		"dhrystone 1 12.0 M/s 11.9–12.1 M", "dhrystone 1 1 1.01 s 6.00 MB", "clock after a round: 95.0 %",
		"dhrystone all 44.5 M/s 44.1–44.9 M", "each copy: 9.00–12.5 M/s Dhrystones", "dhrystone all 4 4.02 s 24.0 MB",
		"7-zip 1 1.50 G/s 1.49–1.51 G/s 2.20 G/s",
		"sysbench 1 -",
		"run apt-get install -y sysbench",
		"compiler gcc (Debian 12.2.0-14) 12.2.0, flags -O2",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the text lacks %q:\n%s", want, got)
		}
	}
	at := -1
	for _, row := range []string{"dhrystone 1", "dhrystone all", "sysbench 1 -"} {
		next := strings.Index(got, row)
		if next <= at {
			t.Errorf("%s does not stand in its place", row)
		}
		at = next
	}
	w := d.Rows[slicesIndex(d.Rows, "all CPUs")].Block.(*report.Work)
	if len(w.Figures) != 2 || *w.Figures[0].Slowest != 9e6 || *w.Figures[0].Fastest != 12.5e6 {
		t.Errorf("%+v", w.Figures)
	}
	if s := report.Summarized(run, only(recs, "cpu/dhrystone-1#1")).Summary; s != "cpu, dhrystone, 1 CPU: 12.0 M/s Dhrystones, 6.83 k DMIPS." {
		t.Errorf("%q", s)
	}
}

// A program that did not have its CPU is no fault of a tester: there is none.
func TestStarvedProgram(t *testing.T) {
	run, recs := workRun()
	starved := recs[0]
	starved.ID, starved.Status, starved.Reason = starved.Parent+"/3 trial=2", result.Invalid, "dhrystone had 80.0 % of CPU 3"
	d := report.Summarized(run, append(recs, starved))
	if got := printed(t, d); !strings.Contains(got, "1 trial was invalid: the program did not have its CPUs to itself; excluded") || strings.Contains(got, "limited by the tester") {
		t.Error(got)
	}
}

func slicesIndex(rows []report.Row, name string) int {
	for i, r := range rows {
		if strings.Contains(r.Name, name) {
			return i
		}
	}
	return 0
}
