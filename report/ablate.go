// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"boxdyno/report/internal/phrase"
	"boxdyno/result"
	"boxdyno/stat"
)

// An Ablation is what a recipe that was taken apart says of its knobs.
type Ablation struct {
	Recipe   string           `json:"recipe"`
	Metric   result.Metric    `json:"metric"`      // that knobs are judged by
	Level    float64          `json:"level"`       // chance of any false effect among all comparisons
	Count    int              `json:"comparisons"` // of all places together
	Places   []AblationPlace  `json:"places"`
	Untested []result.Ablated `json:"untested,omitempty"`
	// Best are the knobs that help somewhere and harm nowhere, in the recipe; Harm
	// those that harm somewhere.
	Best    []result.Ablated `json:"best,omitempty"`
	Harm    []result.Ablated `json:"harm,omitempty"`
	Advice  []string         `json:"advice"` // what to make of it, in sentences
	Invalid int              `json:"invalid_points,omitempty"`
	Tables  []Table          `json:"tables,omitempty"` // of Places, for text
}

// An AblationPlace is one configuration in which the recipe was taken apart.
type AblationPlace struct {
	Name  string       `json:"name"`
	Whole ComparedRow  `json:"whole"` // the recipe against nothing of it
	Knobs []KnobEffect `json:"knobs"`
	row   Row          // for the order
}

// A KnobEffect is what one knob does: what it adds to all others of the recipe, and
// what it does by itself. Effects are those of the knob: below zero, where more is
// better, it harms.
type KnobEffect struct {
	Knob  result.Ablated `json:"knob"`
	In    ComparedRow    `json:"in_recipe"` // base: the recipe without it
	Alone ComparedRow    `json:"alone"`     // base: nothing of the recipe
}

// ablationOf is nil for runs that take nothing apart.
func ablationOf(run result.Run, points []result.Record) *Ablation {
	if run.Ablation == nil {
		return nil
	}
	a := &Ablation{Recipe: recipeName(run.Recipe), Metric: result.Metric{Name: run.Ablation.Metric}, Level: math.Round(stat.Level*100) / 100, Untested: run.Ablation.Untested}
	for _, m := range run.Metrics {
		if m.Name == run.Ablation.Metric {
			a.Metric = m
		}
	}
	var places []string
	at := map[string]map[string][]sample{} // by place and part of the recipe
	of := map[string]result.Record{}
	for _, p := range points {
		s := sample{Record: p, key: stripped(p, []string{result.TuneKey})}
		if at[s.key] == nil {
			at[s.key], of[s.key] = map[string][]sample{}, p
			places = append(places, s.key)
		}
		part := result.Get(p.Config, result.TuneKey)
		at[s.key][part] = append(at[s.key][part], s)
		if p.Status == result.Invalid {
			a.Invalid++
		}
	}
	for _, key := range places {
		parts := at[key]
		effect := func(base, other string) ComparedRow {
			row, _ := compareRow(a.Metric.Name, parts[base], parts[other])
			if row.Verdict == "" {
				row.Verdict, row.Warnings = TooFew, append(row.Warnings, "a side has no valid repeat")
			}
			row.Config, row.Side = nil, other
			return row
		}
		p := AblationPlace{row: rowOf(run, []result.Record{withoutTune(of[key])}, nil), Whole: effect(result.None, result.Full)}
		p.Name = name(p.row)
		for i, k := range run.Ablation.Knobs {
			p.Knobs = append(p.Knobs, KnobEffect{k, effect(run.Ablation.Without(i), result.Full), effect(result.None, run.Ablation.Only(i))})
		}
		a.Places = append(a.Places, p)
	}
	slices.SortStableFunc(a.Places, func(x, y AblationPlace) int { return order(x.row, y.row) })
	a.judge()
	a.choose(run.Ablation.Knobs)
	a.Tables = a.tables()
	return a
}

func withoutTune(p result.Record) result.Record {
	p.Config = slices.DeleteFunc(slices.Clone(p.Config), func(c result.Pair) bool { return c.Key == result.TuneKey })
	return p
}

// judge decides all effects together. Of a recipe of one knob or two the same
// comparison stands in several places and counts once.
func (a *Ablation) judge() {
	c := Comparison{Metrics: []ComparedMetric{{Metric: a.Metric}}}
	var to [][]*ComparedRow
	for i := range a.Places {
		p := &a.Places[i]
		all := []*ComparedRow{&p.Whole}
		for j := range p.Knobs {
			all = append(all, &p.Knobs[j].In, &p.Knobs[j].Alone)
		}
		first := len(to)
	rows:
		for _, r := range all {
			for k := first; k < len(to); k++ {
				if o := to[k][0]; slices.Equal(o.Base.Samples, r.Base.Samples) && slices.Equal(o.Other.Samples, r.Other.Samples) {
					to[k] = append(to[k], r)
					continue rows
				}
			}
			to = append(to, []*ComparedRow{r})
			c.Metrics[0].Rows = append(c.Metrics[0].Rows, *r)
		}
	}
	c.judge()
	a.Count = c.Count
	for i, rows := range to {
		for _, r := range rows {
			*r = c.Metrics[0].Rows[i]
		}
	}
}

// choose finds the best subset, and says what is known of it.
func (a *Ablation) choose(knobs []result.Ablated) {
	for i, k := range knobs {
		helps, harms := false, false
		for _, p := range a.Places {
			helps = helps || p.Knobs[i].In.Verdict == Better
			harms = harms || p.Knobs[i].In.Verdict == Worse
		}
		if helps && !harms {
			a.Best = append(a.Best, k)
		}
		if harms {
			a.Harm = append(a.Harm, k)
		}
	}
	say := func(format string, args ...any) { a.Advice = append(a.Advice, fmt.Sprintf(format, args...)) }
	switch n := len(knobs); {
	case len(a.Places) == 0:
		say("Nothing was measured to the end.")
		return
	case len(a.Best) == n:
		say("Best subset: the whole recipe: each of its knobs helps.")
	case len(a.Best) == 1:
		say("Best subset: %s alone. It is the only knob without which the recipe is worse%s.", a.Best[0].Name, a.nowhereWorse())
	case len(a.Best) > 0:
		say("Best subset: %s. Without each of them the recipe is worse%s; together, without the rest, they were not measured: run them once more, with boxdyno run --tune.", names(a.Best), a.nowhereWorse())
	default:
		say("Best subset: none. No knob was found without which the recipe is worse%s.", a.nowhereWorse())
	}
	if len(a.Harm) > 0 {
		say("Leave out %s: without %s the recipe is better.", names(a.Harm), map[bool]string{true: "it", false: "each of them"}[len(a.Harm) == 1])
	}
	if n := len(knobs); n > 2 {
		subsets := "more than a million"
		if n < 20 {
			subsets = phrase.Thousands(1 << n)
		}
		say("Interactions are not all tried: of %s subsets of %s, %d were measured.", subsets, phrase.Count(n, "knob"), 2*n+2)
	}
	for i, k := range knobs {
		var said []string // each once, with its places
		at := map[string][]string{}
		for _, p := range a.Places {
			if w := interaction(p.Knobs[i].In.Verdict, p.Knobs[i].Alone.Verdict); w != "" {
				if at[w] == nil {
					said = append(said, w)
				}
				at[w] = append(at[w], p.Name)
			}
		}
		for _, w := range said {
			say("%s: %s (%s).", k.Name, w, strings.Join(at[w], "; "))
		}
	}
	if a.Invalid > 0 {
		say("%s invalid and left out.", phrase.Plural(a.Invalid, "repeat was", "repeats were"))
	}
}

// interaction says what verdicts on a knob in the recipe and alone that differ may mean.
func interaction(in, alone string) string {
	switch {
	case decided(in) && decided(alone) && in != alone:
		return fmt.Sprintf("it is %s in the recipe and %s alone: it interacts with another knob", in, alone)
	case decided(in) && alone == Alike:
		return fmt.Sprintf("it is %s in the recipe, and alone nothing was found: it may take another knob of the recipe to work", in)
	case decided(alone) && in == Alike:
		return fmt.Sprintf("it is %s alone, and in the recipe nothing was found: another knob may do the same, or undo it", alone)
	}
	return ""
}

func decided(verdict string) bool { return verdict == Better || verdict == Worse }

func (a *Ablation) nowhereWorse() string {
	if len(a.Places) < 2 {
		return ""
	}
	return " at one place at least, and better at none"
}

func names(ks []result.Ablated) string {
	var words []string
	for _, k := range ks {
		words = append(words, k.Name)
	}
	return strings.Join(words, ", ")
}

// status is passed where each effect could be judged, and invalid where none could.
func (a *Ablation) status(all result.Status) result.Status {
	if broken(all) {
		return all
	}
	for _, p := range a.Places {
		for _, k := range p.Knobs {
			if k.In.Verdict == Better || k.In.Verdict == Worse || k.In.Verdict == Alike {
				return result.Passed
			}
		}
	}
	return result.Invalid
}

// sentence is what was found, at each place.
func (a *Ablation) sentence() string {
	if len(a.Places) == 0 {
		return "Nothing was measured."
	}
	var parts []string
	for _, p := range a.Places {
		var words []string
		for _, v := range []struct{ verdict, one, more string }{{Better, "helps", "help"}, {Worse, "harms", "harm"}, {Alike, Alike, Alike}, {TooFew, "with too few repeats", "with too few repeats"}, {BoundOnly, "left open by a bound", "left open by a bound"}} {
			n, most := p.most(v.verdict)
			switch {
			case n == 0:
			case !decided(v.verdict):
				words = append(words, fmt.Sprintf("%d %s", n, v.more))
			case n == 1:
				words = append(words, fmt.Sprintf("1 %s, %s (%s)", v.one, most.Knob.Name, EffectText(most.In, ComparedMetric{Metric: a.Metric})))
			default:
				words = append(words, fmt.Sprintf("%d %s, most %s (%s)", n, v.more, most.Knob.Name, EffectText(most.In, ComparedMetric{Metric: a.Metric})))
			}
		}
		parts = append(parts, fmt.Sprintf("%s: of %s %s; the whole recipe %s", p.Name, phrase.Count(len(p.Knobs), "knob"), strings.Join(words, ", "), EffectText(p.Whole, ComparedMetric{Metric: a.Metric})))
	}
	return fmt.Sprintf("Recipe %s by %s: %s.", a.Recipe, a.Metric.Name, strings.Join(parts, ". At "))
}

// most is how many knobs have the verdict in the recipe, and that with the greatest effect.
func (p *AblationPlace) most(verdict string) (n int, most KnobEffect) {
	for _, k := range p.Knobs {
		if k.In.Verdict == verdict {
			if n++; n == 1 || math.Abs(k.In.Effect) > math.Abs(most.In.Effect) {
				most = k
			}
		}
	}
	return n, most
}
