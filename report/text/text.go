// SPDX-License-Identifier: Apache-2.0

// Package text writes a run's Document as text for a terminal, as Markdown, CSV and JSON,
// and its points in the Go benchmark format.
package text

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"

	"boxdyno/internal/printable"
	"boxdyno/report"
	"boxdyno/report/compare"
	"boxdyno/report/internal/grid"
	"boxdyno/report/internal/phrase"
	"boxdyno/result"
	"boxdyno/unit"
	"boxdyno/verdict"
)

const (
	publishedTitle = "Published of the same experiments"
	studyTitle     = "Why the figures differ from the published ones"
)

// JSON writes the document, indented.
func JSON(w io.Writer, d report.Document) error { return grid.JSON(w, d) }

// Terminal writes the document for a terminal: no colour codes, at most 100 columns.
func Terminal(w io.Writer, d report.Document) (err error) {
	var whole bytes.Buffer
	b := bufio.NewWriter(&whole)
	defer func() {
		if err == nil {
			_, err = io.WriteString(w, printable.Text(whole.String()))
		}
	}()
	t := &grid.Writer{Writer: b}
	word, rest := report.Opening(d)
	t.Wrap(word+"  ", rest)
	if d.Summary != d.Sentence {
		t.Wrap("", d.Summary)
	}
	t.Wrap("", d.Caveat)
	for _, s := range d.Warnings {
		t.Wrap("! ", s)
	}
	for _, f := range d.Findings {
		t.Wrap("  "+mark(f)+"  ", f.Criterion.Text+": "+report.Outcome(f))
	}
	t.List("What this box can do", powers(&d))
	t.List("What could not be measured here", skipped(&d))
	t.List("How sure", d.Sure)
	for _, tb := range tables(d) {
		t.Head(tb.Title)
		t.Table(tb)
	}
	if d.Beside != nil {
		t.List(compare.BesideTitle, compare.BesideFound(d.Beside))
		for _, tb := range compare.BesideTables(d.Beside) {
			t.Head(tb.Title)
			t.Table(tb)
		}
	}
	if d.Study != nil {
		t.List(studyTitle, d.Study.Why)
	}
	if len(d.SharedWarnings) > 0 {
		t.Head("Of every row above")
		for _, s := range d.SharedWarnings {
			t.Wrap("  ! ", s)
		}
	}
	if bn := d.Bottleneck; bn != nil {
		t.Head("Why there")
		t.Wrap("  ", bn.Name+": "+bn.Sentence)
	}
	if r := telling(d); r != nil {
		t.Head("Where every frame went: " + r.Booked())
		t.Table(parts(accounted(r))[0])
	}
	t.List(publishedTitle, d.Cited)
	t.List("What next", d.Next)
	t.Head("How it was measured")
	for _, s := range measured(d) {
		t.Wrap("  ", s)
	}
	t.List("Not measured", d.NotMeasured)
	t.List("Deviations from the standards", d.Deviations)
	t.Head("Repeat it")
	fmt.Fprintf(b, "  %s\n", grid.Clean(d.Command))
	return b.Flush()
}

// skipped are d's skips in sentences.
func skipped(d *report.Document) (out []string) {
	for _, s := range d.Skipped {
		const most = 4
		names, more := s.Points, ""
		if len(names) > most {
			names, more = names[:most], fmt.Sprintf(" and %d more", len(names)-most)
		}
		out = append(out, fmt.Sprintf("%s%s: %s", strings.Join(names, "; "), more, s.Reason))
	}
	return out
}

// powers are d's powers in lines.
func powers(d *report.Document) (out []string) {
	for _, p := range d.Powers {
		out = append(out, p.Name+": "+p.Text)
	}
	return out
}

// tables are the figures of all rows, each table at most width columns.
func tables(d report.Document) []grid.Table {
	all := d.Tables
	if d.Ablation != nil {
		all = d.Ablation.Tables
	}
	var out []grid.Table
	for _, t := range all {
		out = append(out, folded(t)...)
	}
	if d.Ablation != nil && len(d.Ablation.Untested) > 0 {
		t := grid.Table{Title: "Not tested"}
		for _, k := range d.Ablation.Untested {
			t.Notes = append(t.Notes, grid.Note{Mark: k.Name + " " + k.Value, Text: k.Reason})
		}
		out = append(out, t)
	}
	return out
}

// telling is the row whose ledger says most: that of the bottleneck, or else
// the one that lost the largest share unasked.
func telling(d report.Document) *report.Row {
	var best *report.Row
	most := -1.0
	for i := range d.Rows {
		r := &d.Rows[i]
		if r.Ledger == nil || r.Ledger.Accepted == 0 {
			continue
		}
		if d.Bottleneck != nil && d.Bottleneck.Row == r.ID {
			return r
		}
		lost := float64(r.Wanted(r.Ledger).Lost()) / float64(r.Ledger.Accepted)
		if strings.HasPrefix(r.Service, "drop-") {
			lost = 0
		}
		if lost > most {
			best, most = r, lost
		}
	}
	return best
}

// sentDropped is the counter of a sending port that says where its peer had no room.
const sentDropped = "tx_dropped"

// accounted is the row's account as an equation read downwards; every line has the counter
// it was read from. That of a capture ends in its subject.
func accounted(r *report.Row) report.Table {
	a := r.Ledger
	t := report.Table{Columns: []report.Column{{Name: "frames", Label: "frames", Metric: true, Unit: "frame"}, {Name: "share", Label: "of accepted", Metric: true, Share: true}, {Name: "where", Label: "where"}, {Name: "what", Label: "what"}, {Name: "counter", Label: "counter"}}}
	add := func(n int64, ofAll bool, where, what, counter string) {
		count, share := float64(n), report.Cell{}
		if ofAll && a.Accepted != 0 {
			share = report.Cell{Text: phrase.Percent(math.Abs(count) / float64(a.Accepted)), Value: new(count / float64(a.Accepted))}
		} else if ofAll {
			share.Text = "-"
		}
		t.Rows = append(t.Rows, []report.Cell{{Text: phrase.Thousands(n), Value: &count}, share, {Text: where}, {Text: what}, {Text: counter}})
	}
	if a.Intended > 0 {
		add(a.Intended, false, "tester", "intended", "")
	}
	if a.Refused != 0 {
		add(-a.Refused, false, "tester", "refused", "")
	}
	if a.NotSent != 0 {
		add(-a.NotSent, false, "tester", "not sent in time", "")
	}
	add(a.Accepted, true, "tester", "accepted", "")
	for _, d := range a.Drops {
		add(-d.N, true, string(d.Place), phrase.Clip(d.Name), phrase.Clip(cmp.Or(d.From, "-")))
		if len(t.Notes) == 0 && strings.HasSuffix(d.From, " "+sentDropped) && strings.HasSuffix(d.Name, "ring full") {
			t.Notes = []report.Note{{Mark: sentDropped, Text: "a veth counts at the sender what its peer's ring had no room for"}}
		}
	}
	add(-a.InFlight, true, "", "in flight", "")
	add(-a.Unexplained, true, "", "unexplained", "")
	where, what := "meter", "received"
	if r.Counted() {
		where, what = "subject", "counted"
	}
	add(a.Received, true, where, what, "")
	if a.Duplicate != 0 {
		add(a.Duplicate, true, where, "of them duplicates", "")
	}
	return t
}

// measured is the environment in lines.
func measured(d report.Document) (out []string) {
	line := func(format string, a ...any) { out = append(out, fmt.Sprintf(format, a...)) }
	at := "topology " + d.Topology
	if d.Box != "" {
		at = fmt.Sprintf("box %s (%s)", d.Box, at)
	}
	line("boxdyno %s, run %s, %s, preset %s, %s, seed %d", d.Version, d.ID, d.Start.UTC().Format("2006-01-02 15:04 UTC"), d.Preset, at, d.Seed)
	for _, m := range d.Machines {
		s := fmt.Sprintf("%s: %s, %d x %s, %sB, %s %s (%s), %s", m.Name, cmp.Or(m.Board, "unknown board"), m.CPUs, m.CPU, unit.SI(float64(m.Memory)), m.Kernel, m.Machine, m.Userland, m.OS)
		if m.Virtual != "" {
			s += ", virtual (" + m.Virtual + ")"
		}
		line("%s", s)
	}
	var words []string
	para := func(head string) {
		if len(words) > 0 {
			line("%s: %s", head, strings.Join(words, "; "))
		}
		words = nil
	}
	for _, p := range d.Backend {
		words = append(words, p.Key+" "+p.Value)
	}
	para("tester")
	for _, s := range d.SelfTests {
		w := s.Name + " " + cmp.Or(s.Ceiling(), "no ceiling")
		if s.Verdict != result.Passed {
			w += " (" + string(s.Verdict) + ")"
		}
		words = append(words, w)
	}
	para("its ceiling by self-test")
	for _, s := range d.Environment {
		w := s.Key + " " + s.Before
		if s.After != "" {
			w += ", afterwards " + s.After
		}
		words = append(words, w)
	}
	para("environment")
	out = append(out, d.Metered...)
	return append(out, seen(d.Watched, d)...)
}

// mark is a finding's outcome before its text; what failed stands out.
func mark(f verdict.Finding) string {
	if f.Status == result.Failed {
		return loud(f.Status)
	}
	return report.FindingWord(f)
}

func loud(s result.Status) string {
	if s == result.Failed {
		return "FAILED"
	}
	return string(s)
}

// seen are what is known, for a terminal.
func seen(w *report.Watched, d report.Document) (out []string) {
	if w == nil {
		return nil
	}
	var parts []string
	say := func(format string, a ...any) { parts = append(parts, fmt.Sprintf(format, a...)) }
	if r := w.Hottest; r != nil {
		say("hottest %.1f °C (%s)", r.Value, r.Of)
	}
	if r := w.Slowest; r != nil {
		say("lowest clock %sHz (%s)", unit.SI(r.Value), r.Of)
	}
	if r := w.Watts; r != nil {
		say("most power %sW (%s)", unit.SI(r.Value), r.Of)
	}
	if len(w.Throttled) > 0 {
		say("throttled: %s", strings.Join(w.Throttled, ", "))
	}
	if b := w.Busiest; b != nil {
		where := strings.TrimSpace(strings.ReplaceAll(b.Trials, "-", " ") + " trials")
		for _, r := range d.Rows {
			if r.ID == b.Point && len(d.Rows) > 1 {
				where += " of " + r.Name
			}
		}
		say("busiest CPU %s, %s of its time, in softirq %s (%s)", b.CPU, phrase.Percent(b.Work), phrase.Percent(b.Softirq), where)
	}
	if len(parts) > 0 {
		out = append(out, "seen meanwhile: "+strings.Join(parts, "; "))
	}
	if len(w.Lost) > 0 {
		var at []string
		for _, l := range w.Lost {
			at = append(at, fmt.Sprintf("%s %s", l.Place, phrase.Thousands(l.Frames)))
		}
		out = append(out, "frames lost in all trials, by place: "+strings.Join(at, ", "))
	}
	return out
}
