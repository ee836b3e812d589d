// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"bytes"
	"encoding/csv"
	"math"
	"strings"
	"testing"

	"boxdyno/report"
	"boxdyno/report/text"
	"boxdyno/result"
)

// Joules stand by each meter, never added, above idle where idle is known; a typed power
// and a meter without enough readings are in none.
func TestEnergyTables(t *testing.T) {
	run, recs := workRun()
	d := report.Summarized(run, recs)
	r := d.Rows[slicesIndex(d.Rows, "all CPUs")]
	if len(r.Energy) != 2 {
		t.Fatalf("%+v", r.Energy)
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if !(math.Abs(got/want-1) < 1e-9) {
			t.Errorf("%s: %g, want %g", what, got, want)
		}
	}
	wall, pack := r.Energy[0], r.Energy[1]
	near("wall", wall.JoulesPer, 6.5/44.5)
	near("wall above idle", *wall.AboveIdle, (6.5-3)/44.5)
	near("wall watts", wall.Watts, 6.5)
	near("package", pack.JoulesPer, 6.5/3/44.5)
	if pack.AboveIdle != nil || pack.Idle != nil {
		t.Errorf("nobody measured the idle package: %+v", pack)
	}
	got := strings.Join(strings.Fields(printed(t, d)), " ")
	for _, want := range []string{
		"Energy for each million Dhrystones, and what of it is above idle; W while it worked",
		"while it worked wall 146 mJ 78.7 mJ 6.50 6 ", "while it worked package 48.7 mJ - 2.17 30 ",
		"Shelly covers the wall; its documents state no accuracy; 3 W when idle, before the run", "RAPL package-0 covers the package; accuracy 5 %",
		"A power was typed in: 5.2W idle. It was read in one state, and is in no joules.",
		"No joules by PMIC rails, which covers the rails: too few of its readings fell into trials whose work can be counted: make trials longer.",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, printed(t, d))
		}
	}
	if strings.Contains(got, "tester's energy is in it") {
		t.Error("a machine of its own shares it with a tester")
	}
	run.Kind = "sandbox"
	if got := strings.Join(strings.Fields(printed(t, report.Summarized(run, recs))), " "); !strings.Contains(got, "the tester's energy is in it") {
		t.Error("in a sandbox nothing says that the tester's energy is in it")
	}
}

// Repeats are one figure: joules by joules, work by work.
func TestEnergyOfRepeats(t *testing.T) {
	idle := 1.0
	of := func(joules, work float64, idle *float64) result.Record {
		return result.Record{Energy: []result.Energy{{Meter: "m", Covers: "line", Joules: joules, Seconds: 2, Readings: 4, Per: "frame", When: "under overload", Trials: 2, Work: work, Idle: idle}}}
	}
	got := report.EnergyOf([]result.Record{of(6, 2e6, &idle), of(10, 3e6, nil), {Energy: []result.Energy{{Meter: "m", Per: "frame", When: "under overload"}}}})
	if len(got) != 1 || got[0].JoulesPer != 16/5e6 || *got[0].AboveIdle != 12/5e6 || got[0].Watts != 4 || got[0].Trials != 4 || got[0].Readings != 8 {
		t.Errorf("%+v", got)
	}
}

// A box behind cables has no joules by a meter inside of the tester.
func TestTesterMeterIsNamed(t *testing.T) {
	run, recs := workRun()
	for i := range recs {
		for k := range recs[i].Energy {
			recs[i].Energy[k].Meter = "Shelly"
		}
	}
	recs = append(recs, result.Record{ID: "x/1", Parent: "x", Energy: []result.Energy{{Meter: "RAPL package-0", Covers: "package", Joules: 1, Seconds: 1, Tester: true}}})
	if got := strings.Join(strings.Fields(printed(t, report.Summarized(run, recs))), " "); !strings.Contains(got, "No joules by RAPL package-0, which covers the package: it measures the tester, and the box is another machine.") {
		t.Error(got)
	}
}

func TestEnergyInCSV(t *testing.T) {
	run, recs := workRun()
	recs[0].Energy = []result.Energy{{Meter: "Shelly", Covers: "wall", Joules: 4, Seconds: 1, Readings: 2}}
	var b bytes.Buffer
	if err := text.CSV(&b, report.Kept{Document: report.Summarized(run, recs), Records: recs}); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]int{}
	for i, h := range lines[0] {
		at[h] = i
	}
	for _, c := range []struct {
		line       int
		head, want string
	}{
		{1, "joules, Shelly", "4"}, {1, "joules_of_s, Shelly", "1"}, {1, "joules for each million Dhrystones, Shelly", ""},
		{2, "joules, Shelly", ""}, {2, "joules for each million Dhrystones, Shelly", "0.3333333333333333"}, {2, "joules_above_idle for each million Dhrystones, Shelly", "0.08333333333333333"},
		{2, "watts for each million Dhrystones, RAPL package-0", "1.3333333333333333"}, {2, "joules_accuracy for each million Dhrystones, RAPL package-0", "5 %"},
		{2, "joules_above_idle for each million Dhrystones, RAPL package-0", ""},
	} {
		i, ok := at[c.head]
		if !ok || lines[c.line][i] != c.want {
			t.Errorf("line %d, %s: %q, want %q", c.line, c.head, lines[c.line][i], c.want)
		}
	}
}
