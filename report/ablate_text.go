// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"fmt"
	"slices"

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
			repeats, stat.Confidence*100, count(a.Count, "comparison"), a.Level*100))
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
// does alone; and what was not tested.
func (a *Ablation) tables() (out []table) {
	m := ComparedMetric{Metric: a.Metric}
	noted := &notes{}
	make := func(title string) *table {
		return &table{title: title,
			head:  []string{"knob", "without", "with", "effect", "95 % interval", "p", "", notesColumn},
			right: []bool{false, true, true, true, true, true, false, false}}
	}
	for _, p := range a.Places {
		in, alone := make(p.Name+": what each knob adds to the rest of the recipe"), make(p.Name+": what each knob does alone")
		add := func(t *table, name, value string, r ComparedRow) {
			verdict := r.Verdict
			if verdict == Alike {
				verdict = ""
			}
			// Outliers and drifts are in the data: of dozens of sides some always have them.
			var said []string
			for _, w := range r.Warnings {
				if r.Verdict == TooFew || r.Verdict == BoundOnly || !slices.Contains(courseOf(r), w) {
					said = append(said, w)
				}
			}
			t.add(knobCell(name, value), medianOnly(r.Base), medianOnly(r.Other), effect(r, m), intervalCell(r, m), pCell(r.PHolm), verdict, noted.of(t, said))
		}
		for _, k := range p.Knobs {
			add(in, k.Knob.Name, k.Knob.Value, k.In)
			add(alone, k.Knob.Name, k.Knob.Value, k.Alone)
		}
		add(in, "the whole recipe", "", p.Whole)
		for _, t := range []*table{in, alone} {
			noted.write(t)
			out = append(out, *t)
		}
	}
	if len(a.Untested) > 0 {
		t := table{title: "Not tested"}
		for _, k := range a.Untested {
			t.notes = append(t.notes, note{k.Name + " " + k.Value, k.Reason})
		}
		out = append(out, t)
	}
	return out
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

func medianOnly(v ComparedValue) string {
	if len(v.Samples) == 0 {
		return "-"
	}
	return si(&v.Median, v.Bound)
}

// courseOf are a row's warnings about the course of its samples.
func courseOf(r ComparedRow) (out []string) {
	for _, s := range []struct {
		name    string
		samples []float64
	}{{"base: ", r.Base.Samples}, {"other: ", r.Other.Samples}} {
		if stat.Summarize(s.samples).Center > 0 {
			for _, w := range stat.Along(s.samples).Words(s.samples, r.Samples) {
				out = append(out, s.name+w)
			}
		}
	}
	return out
}
