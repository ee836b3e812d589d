// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"boxdyno/report"
	"boxdyno/report/page"
	"boxdyno/report/text"
	"boxdyno/result"
	"boxdyno/unit"
)

// foreignRun is of a procedure that this binary does not have.
func foreignRun() (result.Run, []result.Record) {
	run := result.Run{Schema: result.Schema, ID: "foreign", Kind: "real", Metrics: []result.Metric{{Name: "turns_per_s", Unit: "turn/s", Better: 1}, {Name: "slip", Unit: "1"}}}
	var recs []result.Record
	for i, load := range []string{"idle", "full"} {
		recs = append(recs, result.Record{ID: load, Procedure: "spin", Repeat: 1, Status: result.Passed, Config: []result.Pair{{Key: "load", Value: load}, {Key: "axis", Value: "x"}},
			Values: []result.Value{{Metric: "turns_per_s", Unit: "turn/s", Value: 1200 * float64(i+1), Lo: new(1100.0), Hi: new(2600.0), N: 3}}})
	}
	return run, recs
}

// A run without declarations shows what it measured, by name.
func TestForeignTables(t *testing.T) {
	run, recs := foreignRun()
	d := report.Summarize(run, recs)
	if len(d.Tables) != 1 || d.Tables[0].Title != "Figures of spin" || len(d.Tables[0].Rows) != 2 {
		t.Fatalf("tables: %+v", d.Tables)
	}
	var b bytes.Buffer
	if err := text.Terminal(&b, d); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"load   turns per s              range", "1.10–2.60 kturn/s", "1.20 kturn/s"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, b.String())
		}
	}
}

// Phases of any procedure, and trials that one declares, are rows of a table with their notes.
func TestForeignTrials(t *testing.T) {
	run, recs := foreignRun()
	trial := result.Record{ID: "t", Parent: "idle", Procedure: "spin", Status: result.Failed, Reason: "it slipped", Config: []result.Pair{{Key: "shaft", Value: "left"}},
		Values: []result.Value{{Metric: "wobble", Unit: "1", Value: 7}}, KPIs: []result.KPI{{Phase: "begin", Offered: 2000, Forwarded: 1500, Lost: 12345}}}
	passed := trial
	passed.ID, passed.Status, passed.Reason, passed.KPIs, passed.Config = "u", result.Passed, "", nil, []result.Pair{{Key: "shaft", Value: "right"}}
	recs = append(recs, passed, trial)
	phases := "phase offered forwarded lost begin 2.00 k 1.50 k 12 345"
	if got := strings.Join(strings.Fields(printed(t, report.Summarize(run, recs))), " "); !strings.Contains(got, phases) || strings.Contains(got, "left") {
		t.Errorf("trials that nothing declares:\n%s", got)
	}
	run.Procedures = []result.Procedure{{Name: "spin", Metrics: []result.Metric{{Name: "turns_per_s", Label: "speed"}}, Trials: &result.Trials{Axis: "shaft", Title: "each shaft", Metrics: []result.Metric{{Name: "wobble", Label: "wobbles", Unit: "1"}}}}}
	got := strings.Join(strings.Fields(printed(t, report.Summarize(run, recs))), " ")
	for _, want := range []string{phases, ": each shaft shaft wobbles notes left 7 a right 7 a: failed: it slipped"} {
		if !strings.Contains(got, want) {
			t.Errorf("the text lacks %q:\n%s", want, got)
		}
	}
}

// Every row that no drawing has is in some table, with what is said of it: without a
// declaration, with one of no column, and skipped.
func TestEveryRowIsShown(t *testing.T) {
	skipped := result.Record{ID: "skipped", Procedure: report.SecurityProcedure, Repeat: 1, Status: result.Skipped, Reason: "no room for it", Config: []result.Pair{{Key: "service", Value: "nat"}}}
	for name, procedures := range map[string][]result.Procedure{
		"none": nil, "without metrics": {{Name: "spin"}, {Name: report.SecurityProcedure}},
		"without labels": {{Name: "spin", Axes: []result.Axis{{Name: "load"}}, Metrics: []result.Metric{{Name: "turns_per_s", Unit: "turn/s"}}}, {Name: report.SecurityProcedure, Metrics: []result.Metric{{Name: "known_bad_sent", Unit: "1"}}}},
	} {
		run, recs := foreignRun()
		run.Metrics, run.Procedures = nil, procedures
		recs = append(recs, skipped)
		d := report.Summarize(run, recs)
		for _, r := range d.Rows {
			if !slices.ContainsFunc(d.Tables, func(tb report.Table) bool { return slices.Contains(tb.IDs, r.ID) }) {
				t.Errorf("%s: row %s is in no table", name, r.ID)
			}
		}
		got := printed(t, d)
		_, tables, _ := strings.Cut(got, "0 flows: no room for it.")
		for _, want := range []string{"no room for it", "Without a figure: security notes a a: skipped: ", "turns per s", "1.20 kturn/s"} {
			if !strings.Contains(tables, want) {
				t.Errorf("%s: the tables lack %q:\n%s", name, want, got)
			}
		}
	}
}

// Declarations that make no sense break no form.
func TestHostileDeclarations(t *testing.T) {
	run, recs := foreignRun()
	run.Procedures = []result.Procedure{
		{Name: "spin", Axes: []result.Axis{{Name: "load"}, {Name: "load"}, {Name: ""}, {Name: "notes"}}, Metrics: []result.Metric{
			{Name: "turns_per_s", Label: strings.Repeat("wide ", 40), Unit: "|\n<b>", Group: "a | b\x1b[2J", Interval: "|"}, {Name: "turns_per_s", Label: "again"}, {Name: "", Label: "none"},
			{Name: "slip", Label: "slip", Share: true, Interval: "range"}}},
		{Name: "spin"}, {},
	}
	for i, v := range []float64{math.MaxFloat64, -1e300, 5e-324, math.Copysign(0, -1)} {
		r := recs[0]
		r.ID, r.Repeat, r.Config = "hostile", i, []result.Pair{{Key: "load", Value: "| `x` |"}, {Key: "notes", Value: "q"}}
		r.Values = []result.Value{{Metric: "turns_per_s", Value: v, N: math.MaxInt}, {Metric: "slip", Value: v, Lo: &v, N: -1}, {Metric: "undeclared", Value: v}}
		recs = append(recs, r)
	}
	for _, procedures := range [][]result.Procedure{run.Procedures, {run.Procedures[1]}, nil} {
		run.Procedures = procedures
		d := report.Summarize(run, recs)
		var b bytes.Buffer
		for name, err := range map[string]error{"text": text.Terminal(&b, d), "Markdown": text.Markdown(&b, d), "JSON": text.JSON(&b, d), "page": page.Write(&b, d, recs)} {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, tb := range d.Tables {
			for _, r := range tb.Rows {
				if len(r) != len(tb.Columns) {
					t.Errorf("%d cells in %d columns", len(r), len(tb.Columns))
				}
			}
		}
		if _, err := json.Marshal(d); err != nil {
			t.Error(err)
		}
	}
}

// No text of a declaration opens a cell in Markdown.
func TestMarkdownHeads(t *testing.T) {
	run, recs := report.Hostile()
	var b bytes.Buffer
	if err := text.Markdown(&b, report.Summarized(run, recs)); err != nil {
		t.Fatal(err)
	}
	cells := 0
	for line := range strings.Lines(b.String()) {
		n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
		if cells > 0 && n > 0 && n != cells {
			t.Errorf("%d cells under a head of %d: %s", n-1, cells-1, line)
		}
		cells = n
	}
	if !strings.Contains(b.String(), `c\|\*d\*`) || strings.Contains(b.String(), "<g>") {
		t.Errorf("declarations in\n%s", b.String())
	}
}

// Long texts of a declaration are shortened.
func TestLongDeclaration(t *testing.T) {
	long := strings.Repeat("long ", 20_000)
	run, recs := foreignRun()
	for i := range recs {
		recs[i].Config[0] = result.Pair{Key: "x" + long, Value: long + string(rune('a'+i))}
	}
	run.Procedures = []result.Procedure{{Name: "spin", Axes: []result.Axis{{Name: "x" + long}}, Metrics: []result.Metric{{Name: "turns_per_s", Unit: unit.Symbol(long), Label: long, Group: long, Interval: long}}}}
	d := report.Summarize(run, recs)
	d.Rows = nil // names of rows are not of tables
	var terminal, markdown bytes.Buffer
	if err := errors.Join(text.Terminal(&terminal, d), text.Markdown(&markdown, d)); err != nil || len(d.Tables) != 1 {
		t.Fatal(err, len(d.Tables))
	}
	if terminal.Len() > 2000 || markdown.Len() > 2000 {
		t.Errorf("the text has %d octets, Markdown %d", terminal.Len(), markdown.Len())
	}
}

// A service that drops has no forwarding rate, not even 0, and a note stands under the
// table of the figure that it qualifies.
func TestNotesStandUnderTheirFigure(t *testing.T) {
	for _, x := range []struct {
		make             func() (result.Run, []result.Record)
		row, note, title string
	}{
		{report.SharedRun, "drop-xdp", "within 1.2 of the tester's ceiling", "Dropped by policy, under overload"},
		{inferRun, "sklearn", "does not keep up", "Drops that a detector adds to a capture, and for how long it was behind after the last frame"},
	} {
		for _, tb := range report.Summarized(x.make()).Tables {
			noted := slices.ContainsFunc(tb.Notes, func(n report.Note) bool { return strings.Contains(n.Text, x.note) })
			if noted != (tb.Title == x.title) {
				t.Errorf("%q stands under %q: %v", x.note, tb.Title, noted)
			}
			if x.row == "drop-xdp" && tb.Title != x.title && slices.ContainsFunc(tb.Rows, func(r []report.Cell) bool { return r[0].Text == x.row }) {
				t.Errorf("%s is in %q", x.row, tb.Title)
			}
		}
	}
}

// A run of the self-test alone has its ceilings as a table; beside points it has none.
func TestCeilings(t *testing.T) {
	ceiling := result.Record{ID: "self-test/64#1", Procedure: report.SelfTestProcedure, Status: result.Invalid, Reason: "it was busy",
		Config: []result.Pair{{Key: "frame_size", Value: "64"}}, Values: []result.Value{{Metric: "ceiling_fps", Unit: "frame/s", Value: 1e6, N: 1}}}
	d := report.Summarize(result.Run{}, []result.Record{ceiling})
	if len(d.Tables) != 1 || d.Tables[0].Rows[0][0].Text != "64 B" || d.Tables[0].Rows[0][1].Text != "1.00 Mframe/s" || d.Tables[0].Notes[0].Text != "invalid: it was busy" {
		t.Errorf("%+v", d.Tables)
	}
	point := result.Record{ID: "p", Procedure: "p", Status: result.Passed, Values: []result.Value{{Metric: "m", Value: 1}}}
	if d := report.Summarize(result.Run{}, []result.Record{ceiling, point}); len(d.Tables) != 1 || d.Tables[0].IDs[0] != "p" {
		t.Errorf("%+v", d.Tables)
	}
}
