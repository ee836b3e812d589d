// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"slices"
	"strconv"
	"strings"

	"boxdyno/report/internal/grid"
	"boxdyno/result"
)

// JSON writes the document, indented.
func JSON(w io.Writer, d Document) error { return grid.JSON(w, d) }

// A Kept run is what CSV takes: its document and its records.
type Kept struct {
	Document Document
	Records  []result.Record
}

// An energyColumns is a meter of a trial, or of a point what a unit of work took by it.
type energyColumns struct{ meter, per, when string }

func (c energyColumns) of(e result.Energy) bool {
	return c.meter == e.Meter && c.per == e.Per && c.when == e.When
}

func (c energyColumns) head() []string {
	if c.per == "" {
		return []string{"joules, " + c.meter, "joules_of_s, " + c.meter, "joules_accuracy, " + c.meter}
	}
	of := " for each " + c.per + strings.TrimSuffix(", "+c.when, ", ") + ", " + c.meter
	return []string{"joules" + of, "joules_above_idle" + of, "watts" + of, "joules_accuracy" + of}
}

// CSV writes one line a record of all runs, points and trials, with exact
// figures: a column for each setting and each metric that occurs. Interval,
// repeats and bound stand beside their metric.
func CSV(w io.Writer, runs ...Kept) error {
	var settings, metrics []string
	add := func(list *[]string, s string) {
		if !slices.Contains(*list, s) {
			*list = append(*list, s)
		}
	}
	for _, run := range runs {
		for _, m := range run.Document.Metrics {
			add(&metrics, m.Name)
		}
		for _, r := range run.Records {
			for _, p := range r.Config {
				add(&settings, p.Key)
			}
			for _, v := range r.Values {
				add(&metrics, v.Metric)
			}
		}
	}
	head := append([]string{"run", "kind", "id", "parent", "procedure", "repeat"}, settings...)
	head = append(head, "verdict", "reason")
	for _, m := range metrics {
		head = append(head, m, m+"_lo", m+"_hi", m+"_n", m+"_bound")
	}
	var energies []energyColumns
	for _, run := range runs {
		for _, r := range run.Records {
			for _, e := range r.Energy {
				if c := (energyColumns{e.Meter, e.Per, e.When}); !slices.Contains(energies, c) {
					energies = append(energies, c)
				}
			}
		}
	}
	slices.SortStableFunc(energies, func(a, b energyColumns) int { return strings.Compare(a.per, b.per) })
	for _, c := range energies {
		head = append(head, c.head()...)
	}
	head = append(head, "mean_frame_size", "streams", "trial_intended_fps", "trial_offered_fps", "trial_forwarded_fps", "backend", "stalls_over_50us", "trial_longest_stall_ns", "trial_steal_ratio",
		"intended", "accepted", "refused", "not_sent", "received", "duplicate", "dropped", "in_flight", "unexplained", "warnings")
	c := csv.NewWriter(w)
	if err := c.Write(grid.CSV(head)); err != nil {
		return err
	}
	num := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	opt := func(v *float64) string {
		if v == nil {
			return ""
		}
		return num(*v)
	}
	for _, run := range runs {
		for _, r := range run.Records {
			kind := "trial"
			if r.Parent == "" && r.Procedure != selfTest {
				kind = "point"
			}
			line := []string{run.Document.ID, kind, r.ID, r.Parent, r.Procedure, strconv.Itoa(r.Repeat)}
			for _, s := range settings {
				line = append(line, result.Get(r.Config, s))
			}
			line = append(line, string(r.Status), r.Reason)
			for _, m := range metrics {
				if v := r.Value(m); v != nil {
					line = append(line, num(v.Value), opt(v.Lo), opt(v.Hi), strconv.Itoa(max(v.N, 1)), string(v.Bound))
				} else {
					line = append(line, "", "", "", "", "")
				}
			}
			for _, c := range energies {
				i := slices.IndexFunc(r.Energy, c.of)
				switch {
				case i < 0 || !(r.Energy[i].Seconds > 0):
					line = append(line, make([]string, len(c.head()))...)
				case c.per == "":
					e := r.Energy[i]
					line = append(line, num(e.Joules), num(e.Seconds), e.Accuracy)
				default:
					e := r.Energy[i]
					line = append(line, num(e.JoulesPer()), opt(e.AboveIdle()), num(e.Watts()), e.Accuracy)
				}
			}
			if l := r.Load; l != nil {
				rates := []string{num(l.MeanSize), strconv.Itoa(l.Streams), num(float64(l.Intended)), num(float64(l.Offered)), num(float64(l.Forwarded))}
				if r.OfConnections() { // its rates are no frames'
					rates = []string{"", strconv.Itoa(l.Streams), "", "", ""}
				}
				line = append(append(line, rates...), l.Backend,
					strconv.FormatInt(l.Stalls, 10), strconv.FormatInt(l.LongestStall, 10), num(l.StealRatio))
			} else {
				line = append(line, make([]string, 9)...)
			}
			if a := r.Account; a != nil {
				for _, n := range []int64{a.Intended, a.Accepted, a.Refused, a.NotSent, a.Received, a.Duplicate, a.Dropped(), a.InFlight, a.Unexplained} {
					line = append(line, strconv.FormatInt(n, 10))
				}
			} else {
				line = append(line, make([]string, 9)...)
			}
			if err := c.Write(grid.CSV(append(line, strings.Join(r.Warnings, "; ")))); err != nil {
				return err
			}
		}
	}
	c.Flush()
	return c.Error()
}

// Markdown writes the document in GitHub's dialect, without HTML.
func Markdown(w io.Writer, d Document) error {
	var b grid.Markdown
	word, rest := opening(d)
	fmt.Fprintf(&b, "# %s: %s\n\n", word, grid.Escape(rest))
	if d.Summary != d.Sentence {
		b.Para(d.Summary)
	}
	b.Para(d.Caveat)
	for _, s := range d.Warnings {
		b.Para("Warning: " + s)
	}
	for _, f := range d.Findings {
		fmt.Fprintf(&b, "- **%s** %s: %s\n", findingWord(f), grid.Escape(f.Criterion.Text), grid.Escape(outcome(f)))
	}
	if len(d.Findings) > 0 {
		b.WriteByte('\n')
	}
	b.List("What this box can do", d.said())
	b.List("What could not be measured here", d.skipped())
	b.List("How sure", d.Sure)
	for _, t := range tables(d) {
		fmt.Fprintf(&b, "## %s\n\n", grid.Escape(t.Title))
		b.Table(t)
	}
	if d.Beside != nil {
		b.List(besideTitle, d.Beside.besideSaid())
		for _, t := range d.Beside.besideTables() {
			fmt.Fprintf(&b, "### %s\n\n", grid.Escape(t.Title))
			b.Table(t)
		}
	}
	if d.Study != nil {
		b.List(studyTitle, d.Study.Why)
	}
	b.List("Of every row above", d.SharedWarnings)
	if bn := d.Bottleneck; bn != nil {
		b.WriteString("## Why there\n\n")
		b.Para(bn.Name + ": " + bn.Sentence)
	}
	if r := telling(d); r != nil {
		fmt.Fprintf(&b, "## Where every frame went: %s\n\n", grid.Escape(r.booked()))
		b.Table(r.accounted().parts()[0])
	}
	b.List(publishedTitle, d.Cited)
	b.List("What next", d.Next)
	b.List("How it was measured", measured(d))
	b.List("Not measured", d.NotMeasured)
	b.List("Deviations from the standards", d.Deviations)
	if d.Command != "" {
		b.WriteString("## Repeat it\n\n")
		for _, l := range strings.Split(grid.Clean(d.Command), "\n") {
			fmt.Fprintf(&b, "    %s\n", l)
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// page is built from page/ui/ by `npm run build`; see page/ui/package.json.
//
//go:embed page/ui/dist/page.html
var page string

// The places in page that HTML fills in.
const (
	dataHole     = `"BOXDYNO_DATA"`
	noscriptHole = `BOXDYNO_TEXT`
)

// PageData is what HTML puts into the page.
type PageData struct {
	Document Document        `json:"document"`
	Records  []result.Record `json:"records"`
}

// HTML writes one self-contained page: the document with all records, drawn by
// scripts in the page itself. It opens from disk and needs no network; without
// scripts it shows Text.
func HTML(w io.Writer, d Document, recs []result.Record) error {
	// json.Marshal writes <, >, &, U+2028 and U+2029 as escapes, so that no
	// string ends the script element or becomes markup.
	data, err := json.Marshal(pageData(d, recs))
	if err != nil {
		return fmt.Errorf("encode the page's data: %w", err)
	}
	var plain bytes.Buffer
	if err := Text(&plain, d); err != nil {
		return err
	}
	if strings.Count(page, dataHole) != 1 || strings.Count(page, noscriptHole) != 1 {
		return errors.New("the page in this binary has no place for data: build it again with npm run build in report/page/ui")
	}
	_, err = strings.NewReplacer(dataHole, string(data), noscriptHole, html.EscapeString(plain.String())).WriteString(w, page)
	return err
}

// pageData returns what HTML puts into the page of a document and its records.
func pageData(d Document, recs []result.Record) PageData {
	d.Rows = withFigures(d.Rows, recs)
	return PageData{d, withoutDigests(recs)}
}

// withoutDigests is recs for a page: no drawing needs digests, and they are half of a record.
func withoutDigests(recs []result.Record) []result.Record {
	recs = slices.Clone(recs)
	for i := range recs {
		recs[i].Digests = nil
	}
	return recs
}

// withFigures is rows for a page, with the settings and figures that drawings ask for.
func withFigures(rows []Row, recs []result.Record) []Row {
	rows = slices.Clone(rows)
	points := slices.DeleteFunc(slices.Clone(recs), func(r result.Record) bool { return r.Parent != "" || r.Procedure == selfTest })
	for _, repeats := range byConfig(points) {
		i := slices.IndexFunc(rows, func(row Row) bool {
			return slices.ContainsFunc(repeats, func(p result.Record) bool { return p.ID == row.ID })
		})
		if i < 0 {
			continue
		}
		t := tabled(rows[i].ID, repeats)
		rows[i].Settings, rows[i].Figures = t.config, t.figures
	}
	return rows
}
