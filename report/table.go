// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"boxdyno/report/internal/grid"
	"boxdyno/report/internal/phrase"
	"boxdyno/result"
	"boxdyno/unit"
)

// A Table is figures of rows as their procedures declare them, made once: text,
// Markdown and the page render it.
type Table struct {
	Title   string   `json:"title"`
	Columns []Column `json:"columns"`
	Rows    [][]Cell `json:"rows"`
	IDs     []string `json:"ids"` // of the Document's Rows that Rows are of
	Notes   []Note   `json:"notes,omitempty"`
}

// A Column is an axis, whose cells are text, or a metric.
type Column struct {
	Name     string      `json:"name"` // of the parameter or the metric; "notes": marks of Notes
	Label    string      `json:"label"`
	Metric   bool        `json:"metric,omitempty"`
	Unit     unit.Symbol `json:"unit,omitempty"`
	Better   int         `json:"better,omitempty"`   // +1 more, -1 less, 0 neither
	Interval string      `json:"interval,omitempty"` // what its cells' intervals are; "": none has one
	Heads    bool        `json:"heads,omitempty"`    // it heads the page
	Share    bool        `json:"share,omitempty"`    // 1 is the whole
	Help     string      `json:"help,omitempty"`

	bare  bool // the table's title names the unit
	exact bool // its counts are shown in full
}

// A Cell is an axis's value or a figure. Text is how it reads, "-" where nothing was
// measured; the numbers are in the column's unit.
type Cell struct {
	Text     string       `json:"text"`
	Interval string       `json:"interval,omitempty"` // as it reads
	Value    *float64     `json:"value,omitempty"`
	Lo       *float64     `json:"lo,omitempty"`
	Hi       *float64     `json:"hi,omitempty"`
	N        int          `json:"n,omitempty"` // trials behind it
	Bound    result.Bound `json:"bound,omitempty"`

	Usual  bool `json:"-"` // of an axis: a word for what is usual
	Number bool `json:"-"` // of an axis
}

// A Note stands under a table; rows that it touches carry its mark.
type Note struct {
	Mark string `json:"mark"`
	Text string `json:"text"`
}

// A tableRow is what tables are made of: one configuration, its figures and what is said
// of it.
type tableRow struct {
	id, procedure string
	config        []result.Pair
	figures       map[string]*Figure
	measured      []result.Metric // of figures: name and unit, in the record's order
	notes         []string        // may be told as one with those of other rows
	exact         []string        // may not
}

const (
	frameSize = "frame_size"
)

// bursts is in the sentence on a box's memory, which is of one row's figures.
const bursts = " without end, and bursts of "

// tabled is what tables are made of, of a configuration's repeats.
func tabled(id string, repeats []result.Record) tableRow {
	valid := slices.DeleteFunc(slices.Clone(repeats), func(p result.Record) bool { return p.Status == result.Invalid })
	if len(valid) == 0 {
		valid = repeats
	}
	r := tableRow{id: id, procedure: repeats[0].Procedure, config: repeats[0].Config, figures: map[string]*Figure{}}
	for _, p := range valid {
		for _, v := range p.Values {
			if r.figures[v.Metric] == nil {
				if f := merge(v.Metric, valid).figure(); f != nil {
					r.figures[v.Metric] = f
					r.measured = append(r.measured, result.Metric{Name: v.Metric, Unit: v.Unit})
				}
			}
		}
	}
	return r
}

// tables are those of the document's rows, in their order.
func (d *Document) tables(run result.Run, told []tableRow, trials map[string][]result.Record) []Table {
	var rows []tableRow
	procedures := declared(run, told)
	for _, row := range d.Rows {
		i := slices.IndexFunc(told, func(t tableRow) bool { return t.id == row.ID })
		if i < 0 || d.Powers != nil && row.Verdict == result.Skipped {
			continue
		}
		r := told[i]
		r.figures = maps.Clone(r.figures)
		r.shares(procedures[r.procedure])
		if r.figures[dropRate] != nil {
			delete(r.figures, forwardingRate) // 0 is what such a service is for
			delete(r.figures, ceilingFPS)     // beside it
		}
		r.exact = row.remarks()
		for _, n := range append(d.own(row), row.unexplained()...) {
			if strings.Contains(n, bursts) {
				r.exact = append(r.exact, n)
			} else {
				r.notes = append(r.notes, n)
			}
		}
		stated := slices.ContainsFunc(trials[row.ID], func(t result.Record) bool { return t.Status == row.Verdict })
		if row.Verdict != result.Passed && !(stated && procedures[row.Procedure].Trials != nil) { // else its trials say so
			r.notes = append([]string{unpassed(row)}, r.notes...)
		}
		rows = append(rows, r)
	}
	return append(buildTables(procedures, rows), d.partTables(run, procedures, trials)...)
}

// declared are the procedures' declarations, by name. A procedure of which the run keeps
// no column shows all that it measured, by name.
func declared(run result.Run, rows []tableRow) map[string]result.Procedure {
	out := map[string]result.Procedure{}
	for _, p := range run.Procedures {
		out[p.Name] = p
	}
	for _, r := range rows {
		if p := out[r.procedure]; len(labelled(p)) == 0 {
			p.Name = r.procedure
			out[r.procedure] = guessed(p, run.Metrics, rows)
		}
	}
	return out
}

// guessed is p with what it lacks: columns for all that its rows measured, and axes.
func guessed(p result.Procedure, known []result.Metric, rows []tableRow) result.Procedure {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r tableRow) bool { return r.procedure != p.Name })
	known = slices.Concat(p.Metrics, known)
	p.Metrics = nil
	given := len(p.Axes) > 0
	for _, r := range rows {
		known = append(known, r.measured...)
		for _, c := range r.config {
			if !given && !slices.ContainsFunc(p.Axes, func(a result.Axis) bool { return a.Name == c.Key }) {
				p.Axes = append(p.Axes, result.Axis{Name: c.Key, Default: c.Value})
			}
		}
	}
	for _, m := range known {
		if slices.ContainsFunc(rows, func(r tableRow) bool { return r.figures[m.Name] != nil }) {
			m.Label, m.Group, m.Interval = strings.ReplaceAll(m.Name, "_", " "), cmp.Or(m.Group, "Figures of "+p.Name), "range"
			p.Metrics = append(p.Metrics, m)
		}
	}
	return p
}

// labelled are the metrics that have a column, each with its group.
func labelled(p result.Procedure) (out []result.Metric) {
	group := p.Name
	for _, m := range p.Metrics {
		if m.Label == "" {
			continue
		}
		group = cmp.Or(m.Group, group)
		m.Group = group
		if slices.ContainsFunc(out, func(o result.Metric) bool { return o.Name == m.Name }) {
			continue
		}
		out = append(out, m)
		for _, o := range p.Metrics {
			if o.Of == m.Name {
				out = append(out, result.Metric{Name: shareOf(o), Unit: "1", Label: "of " + m.Label, Group: group, Share: true, Help: o.Name + " as a share of " + m.Name})
			}
		}
	}
	return out
}

// shareOf is the name of the column of what share m is of another metric.
func shareOf(m result.Metric) string { return m.Name + "/" + m.Of }

// shares adds what share figures are of others, where p says so.
func (r *tableRow) shares(p result.Procedure) {
	for _, m := range p.Metrics {
		if part, whole := r.figures[m.Name], r.figures[m.Of]; part != nil && whole != nil && whole.Value > 0 {
			r.figures[shareOf(m)] = &Figure{Value: part.Value / whole.Value, N: part.N}
		}
	}
}

// naming are the parameters that name the procedure's rows.
func naming(p result.Procedure) (names string) {
	for _, a := range p.Axes {
		if a.Default == "" {
			names += a.Name + " "
		}
	}
	return names
}

// A tableGroup is what a table is made of.
type tableGroup struct {
	title, naming string
	metrics       []result.Metric
	rows          []tableRow
}

// heads says whether a metric of g heads a page.
func (g *tableGroup) heads() bool {
	return slices.ContainsFunc(g.metrics, func(m result.Metric) bool { return m.Heads })
}

// own says whether a figure of the metric makes a row one of g: beside what heads a page, a
// load or a setting does not, nor what others are a share of.
func (g *tableGroup) own(m result.Metric) bool {
	of := slices.ContainsFunc(g.metrics, func(o result.Metric) bool { return o.Of == m.Name })
	return m.Heads || m.Better != 0 && !of || !g.heads()
}

func (g *tableGroup) has(id string) bool {
	return slices.ContainsFunc(g.rows, func(r tableRow) bool { return r.id == id })
}

// buildTables makes a table of each group of metrics, with the rows that have a result in
// it and are named by the same parameters. A row without any figure stands in its
// procedure's first, or in one without columns of figures. Notes of a row stand under the
// first of its tables with a metric that heads a page.
func buildTables(procedures map[string]result.Procedure, rows []tableRow) (out []Table) {
	var groups []*tableGroup
	of := func(r tableRow) (out []*tableGroup) {
		metrics := labelled(procedures[r.procedure])
		if len(metrics) == 0 {
			metrics = []result.Metric{{Group: "Without a figure: " + r.procedure}}
		}
		naming := naming(procedures[r.procedure])
		for _, m := range metrics {
			i := slices.IndexFunc(groups, func(g *tableGroup) bool { return g.title == m.Group && g.naming == naming })
			if i < 0 {
				i = len(groups)
				groups = append(groups, &tableGroup{title: m.Group, naming: naming})
			}
			g := groups[i]
			if !slices.ContainsFunc(g.metrics, func(o result.Metric) bool { return o.Name == m.Name }) {
				g.metrics = append(g.metrics, m)
			}
			if !slices.Contains(out, g) {
				out = append(out, g)
			}
		}
		return out
	}
	for _, r := range rows {
		all, shown := of(r), false
		for _, g := range all {
			if slices.ContainsFunc(g.metrics, func(m result.Metric) bool { return r.figures[m.Name] != nil && g.own(m) }) {
				g.rows, shown = append(g.rows, r), true
			}
		}
		if !shown {
			all[0].rows = append(all[0].rows, r)
		}
	}
	for _, g := range groups {
		if len(g.rows) == 0 {
			continue
		}
		told := slices.Clone(g.rows)
		for i, r := range told {
			under := slices.IndexFunc(groups, func(o *tableGroup) bool { return o.heads() && o.has(r.id) })
			if under < 0 {
				under = slices.IndexFunc(groups, func(o *tableGroup) bool { return o.has(r.id) })
			}
			if groups[under] != g {
				told[i].notes, told[i].exact = nil, nil
			}
		}
		title := g.title
		if slices.ContainsFunc(groups, func(o *tableGroup) bool { return o != g && o.title == g.title && len(o.rows) > 0 }) {
			title += ": " + kindsOf(told)
		}
		out = append(out, makeTable(title, g.metrics, axesOf(procedures, told), told))
	}
	return out
}

// ceilingTables are those of a run of the self-test alone.
func ceilingTables(run result.Run, points []result.Record) []Table {
	var rows []tableRow
	for _, repeats := range byConfig(points) {
		r, p := tabled(repeats[0].ID, repeats), repeats[0]
		if p.Status != result.Passed {
			r.notes = append(r.notes, unpassed(Row{Verdict: p.Status, Reason: p.Reason}))
		}
		r.notes = append(r.notes, p.Warnings...)
		rows = append(rows, r)
	}
	if len(rows) == 0 {
		return nil
	}
	procedures := declared(run, rows)
	axes := axesOf(procedures, rows)
	if len(axes) == 0 {
		axes = []result.Axis{{Name: frameSize}}
	}
	return []Table{makeTable("The tester alone, port to port", labelled(procedures[SelfTestProcedure]), axes, rows)}
}

// kindsOf are the procedures of rows.
func kindsOf(rows []tableRow) string {
	var names []string
	for _, r := range rows {
		if !slices.Contains(names, r.procedure) {
			names = append(names, r.procedure)
		}
	}
	return strings.Join(names, ", ")
}

// axesOf are the parameters that rows of a table tell: those whose values differ, or are
// not the usual ones.
func axesOf(procedures map[string]result.Procedure, rows []tableRow) (out []result.Axis) {
	has := func(name string) bool {
		return slices.ContainsFunc(out, func(a result.Axis) bool { return a.Name == name })
	}
	for _, r := range rows {
		if r.procedure != rows[0].procedure && !has(ProcedureColumn) {
			out = append(out, result.Axis{Name: ProcedureColumn})
		}
	}
	for _, r := range rows {
		for _, a := range procedures[r.procedure].Axes {
			told := func(o tableRow) bool {
				v := result.Get(o.config, a.Name)
				return v != "" && v != a.Default
			}
			if !has(a.Name) && slices.ContainsFunc(rows, told) {
				out = append(out, a)
			}
		}
	}
	return out
}

func makeTable(title string, metrics []result.Metric, axes []result.Axis, rows []tableRow) Table {
	t := Table{Title: phrase.ClipTo(title, 160)}
	for _, a := range axes {
		label := strings.ReplaceAll(a.Name, "_", " ")
		if a.Name == frameSize {
			label = "frames"
		}
		t.Columns = append(t.Columns, Column{Name: a.Name, Label: phrase.Clip(label)})
	}
	for _, m := range metrics {
		if !slices.ContainsFunc(rows, func(r tableRow) bool { return r.figures[m.Name] != nil }) {
			continue
		}
		c := Column{Name: m.Name, Label: phrase.Clip(m.Label), Metric: true, Unit: m.Unit, Better: m.Better, Heads: m.Heads, Share: m.Share, Help: m.Help, exact: m.Exact, bare: strings.HasSuffix(title, " in "+string(m.Unit))}
		if slices.ContainsFunc(rows, func(r tableRow) bool { return m.Interval != "" && c.cell(r.figures[m.Name]).Interval != "" }) {
			c.Interval = phrase.Clip(m.Interval)
		}
		t.Columns = append(t.Columns, c)
	}
	marks := t.note(rows)
	for i, r := range rows {
		var cells []Cell
		for k, c := range t.Columns {
			switch {
			case c.Metric:
				cells = append(cells, c.cell(r.figures[c.Name]))
			case c.Name == grid.NotesColumn:
				cells = append(cells, Cell{Text: marks[i]})
			case c.Name == ProcedureColumn:
				cells = append(cells, Cell{Text: phrase.Clip(r.procedure)})
			default:
				cells = append(cells, axisCell(axes[k], result.Get(r.config, c.Name)))
			}
		}
		t.Rows, t.IDs = append(t.Rows, cells), append(t.IDs, r.id)
	}
	return t
}

// note puts what is said of rows under the table, with a column for its marks, and returns
// the rows' marks.
func (t *Table) note(rows []tableRow) []string {
	under, said, marks := &grid.Table{Head: []string{grid.NotesColumn}}, &grid.Notes{}, make([]string, len(rows))
	for i, r := range rows {
		marks[i] = said.With(under, r.notes, r.exact)
	}
	said.Write(under)
	for _, n := range under.Notes {
		t.Notes = append(t.Notes, Note{n.Mark, n.Text})
	}
	if len(t.Notes) > 0 {
		t.Columns = append(t.Columns, Column{Name: grid.NotesColumn, Label: grid.NotesColumn})
	}
	return marks
}

// remarks are what is said of the row beside its warnings.
func (r *Row) remarks() (out []string) {
	out = r.said().remarks(r)
	if r.ThroughputFPS != nil && *r.ThroughputFPS == 0 {
		out = append(out, "no load without loss was confirmed")
	}
	return out
}

// unexplained is how many of the row's frames no counter names, and what the tester
// suffered meanwhile.
func (r *Row) unexplained() (out []string) {
	if a := r.Ledger; a != nil && a.Unexplained != 0 && !slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "unexplained") }) {
		said := phrase.Thousands(a.Unexplained) + " frames unexplained"
		if r.Stalls != nil && r.LongestStallNS != nil {
			said += fmt.Sprintf("; the tester stalled %s times, for %ss at most", phrase.Thousands(*r.Stalls), unit.SI(float64(*r.LongestStallNS)/1e9))
		}
		if r.StealRatio != nil {
			said += "; steal " + phrase.Percent(*r.StealRatio)
		}
		out = append(out, said)
	}
	return out
}

// WithFigures is rows for a page, with the settings and figures that drawings ask for.
func WithFigures(rows []Row) []Row {
	rows = slices.Clone(rows)
	for i, r := range rows {
		rows[i].Settings, rows[i].Figures = r.found.config, r.found.figures
	}
	return rows
}
