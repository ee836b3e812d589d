// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"fmt"
	"slices"

	"boxdyno/report/internal/phrase"
	"boxdyno/stat"
)

// recipeName is that of a recipe as a run's header keeps it.
func recipeName(recipe json.RawMessage) string {
	var r struct{ Name string }
	_ = json.Unmarshal(recipe, &r) // a header without one has no name
	return r.Name
}

// sure says how effects were found.
func (a *Ablation) sure() (out []string) {
	least, most := 0, 0
	for _, p := range a.Places {
		for _, r := range p.rows() {
			for _, v := range []ComparedValue{r.Base, r.Other} {
				n := len(v.Samples)
				if least == 0 || n < least {
					least = n
				}
				most = max(most, n)
			}
		}
	}
	repeats := fmt.Sprint(least)
	if most > least {
		repeats = fmt.Sprintf("%d to %d", least, most)
	}
	if a.Count > 0 {
		out = append(out, fmt.Sprintf("Each part of the recipe was measured %s times, in shuffled order. Effects by Hodges and Lehmann, the %g %% interval that of each comparison alone; p by Mann and Whitney's test, corrected by Holm for %s: the chance that any effect here is false is %g %%. ~ says that none was found, not that there is none.",
			repeats, stat.Confidence*100, phrase.Count(a.Count, "comparison"), a.Level*100))
	} else {
		out = append(out, fmt.Sprintf("Each part of the recipe was measured %s times: too few to tell an effect from chance.", repeats))
	}
	return out
}

func (p *AblationPlace) rows() []ComparedRow {
	rows := []ComparedRow{p.Whole}
	for _, k := range p.Knobs {
		rows = append(rows, k.In, k.Alone)
	}
	return rows
}

// tables are two for each place, what a knob adds to the rest of the recipe and what it
// does alone.
func (a *Ablation) tables() (out []Table) {
	for _, p := range a.Places {
		in, alone := []knobRow{}, []knobRow{}
		for _, k := range p.Knobs {
			in = append(in, knobRow{knobCell(k.Knob.Name, k.Knob.Value), k.In})
			alone = append(alone, knobRow{knobCell(k.Knob.Name, k.Knob.Value), k.Alone})
		}
		in = append(in, knobRow{"the whole recipe", p.Whole})
		out = append(out, a.table(p.Name+": what each knob adds to the rest of the recipe", in), a.table(p.Name+": what each knob does alone", alone))
	}
	return out
}

// A knobRow is a knob, or the whole recipe, and its effect.
type knobRow struct {
	name string
	ComparedRow
}

func (a *Ablation) table(title string, rows []knobRow) Table {
	m := ComparedMetric{Metric: a.Metric}
	t := Table{Title: title, IDs: []string{}, Columns: []Column{
		{Name: "knob", Label: "knob"}, {Name: "without", Label: "without", Metric: true, Unit: a.Metric.Unit}, {Name: "with", Label: "with", Metric: true, Unit: a.Metric.Unit},
		{Name: "effect", Label: "effect", Metric: true, Interval: "95 % interval"}, {Name: "p", Label: "p", Metric: true}, {Name: "verdict"},
	}}
	var noted []tableRow
	for _, r := range rows {
		n := tableRow{}
		for _, w := range r.Warnings { // outliers and drifts are in the data: of dozens of sides some always have them
			if r.Verdict == TooFew || r.Verdict == BoundOnly || !slices.Contains(CourseOf(r.ComparedRow), w) {
				n.notes = append(n.notes, w)
			}
		}
		noted = append(noted, n)
	}
	marks := t.note(noted)
	side := func(v ComparedValue) Cell {
		if len(v.Samples) == 0 {
			return Cell{Text: MedianText(v)}
		}
		return Cell{Text: MedianText(v), Value: &v.Median, N: len(v.Samples), Bound: v.Bound}
	}
	for i, r := range rows {
		verdict := r.Verdict
		if verdict == Alike {
			verdict = ""
		}
		cells := []Cell{{Text: r.name}, side(r.Base), side(r.Other),
			{Text: EffectText(r.ComparedRow, m), Interval: IntervalText(r.ComparedRow, m), Value: &r.Effect, Lo: r.Lo, Hi: r.Hi}, {Text: PText(r.PHolm), Value: r.PHolm}, {Text: verdict}, {Text: marks[i]}}
		t.Rows = append(t.Rows, cells[:len(t.Columns)])
	}
	return t
}

// knobCell is a knob with its value, where that is short enough; of a long name it keeps
// the end, which tells kernel parameters apart.
func knobCell(name, value string) string {
	const most = 30
	r := []rune(name)
	if len(r) > most {
		r = append([]rune("…"), r[len(r)-most+1:]...)
	}
	if s := string(r) + " = " + value; value != "" && len([]rune(s)) <= most {
		return s
	}
	return string(r)
}
