// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"slices"
	"strings"

	"boxdyno/report/internal/phrase"
	"boxdyno/result"
)

// A workTable is how a procedure's rows are shown.
type workTable struct {
	procedure string
	title     string
	keys      []string          // parameters that tell rows apart beside the parallelism
	leave     []string          // values of them that are not told: defaults, in the order of keys; "-" tells always
	words     map[string]string // of metrics that are shown, in words
	curve     *curveOf          // what its trials draw; nil: nothing
	published []publication     // what was published of the same experiment
}

// computes says whether a procedure times programs, and has no tester.
func computes(procedure string) bool {
	return procedure == cryptoProcedure || slices.ContainsFunc(workTables, func(t workTable) bool { return t.procedure == procedure })
}

// workOf is of the last repeat, with figures of all.
func workOf(m *measured) Block {
	p := m.repeats[len(m.repeats)-1]
	w := &Work{Procedure: p.Procedure, CPUs: parallelWords(result.Get(p.Config, "parallel")), Figures: []WorkFigure{}}
	t := w.table()
	w.Title = t.title
	var words []string
	for k, key := range t.keys {
		if v := result.Get(p.Config, key); v != "" && v != t.leave[k] {
			if t.leave[k] != "-" {
				v = strings.ReplaceAll(key, "_", " ") + " " + v
			}
			words = append(words, v)
		}
	}
	w.Program = strings.Join(words, ", ")
	w.Setting = strings.Join(append(words, w.CPUs), ", ")
	w.sense(m.trials[p.ID])
	w.Curve, w.Published = t.curve.draw(m.repeats, m.trials), publishedWorks(t.published, p)
	for _, v := range p.Values {
		if _, shown := t.words[v.Metric]; !shown {
			continue
		}
		f := m.row.at(v.Metric)
		if f == nil {
			continue
		}
		x := WorkFigure{Metric: v.Metric, What: t.words[v.Metric], Unit: v.Unit, Figure: *f}
		if len(p.Copies) > 1 {
			for _, c := range p.Copies {
				for _, own := range c.Values {
					if own.Metric != v.Metric {
						continue
					}
					if x.Slowest == nil || own.Value < *x.Slowest {
						x.Slowest = new(own.Value)
					}
					if x.Fastest == nil || own.Value > *x.Fastest {
						x.Fastest = new(own.Value)
					}
				}
			}
		}
		w.Figures = append(w.Figures, x)
	}
	return w
}

// order puts what one program did on fewer and on more CPUs side by side.
func (*Work) order(x, y *Row) int {
	a, b := both[*Work](x, y)
	copies := func(r *Row) float64 {
		if f := r.at(copyCount); f != nil {
			return f.Value
		}
		return 0
	}
	return cmp.Or(strings.Compare(a.Procedure, b.Procedure), strings.Compare(a.Program, b.Program), cmp.Compare(copies(x), copies(y)), strings.Compare(a.Setting, b.Setting))
}

// parallelWords is the parameter in words.
func parallelWords(v string) string {
	switch {
	case v == "1":
		return "1 CPU"
	case v == "all":
		return "all CPUs"
	case strings.HasPrefix(v, cpuList):
		return "CPU " + strings.TrimPrefix(v, cpuList)
	}
	return v + " CPUs"
}

// sense takes what trials say of the clock, and what their programs are.
func (w *Work) sense(trials []result.Record) {
	for _, t := range trials {
		before, after := t.Value(LoopBefore), t.Value(LoopAfter)
		if before != nil && after != nil && before.Value > 0 {
			if share := after.Value / before.Value; w.Clock == nil || share < *w.Clock {
				w.Clock = new(share)
			}
		}
		w.Of = w.Of[:0]
		for i, p := range t.Config {
			if p.Key != "on_cpus" {
				continue
			}
			for _, of := range t.Config[i+1:] {
				w.Of = append(w.Of, strings.ReplaceAll(of.Key, "_", " ")+" "+strings.ReplaceAll(of.Value, "_", " "))
			}
			break
		}
	}
}

func (w *Work) name(*Row, []string) []string { return []string{w.Procedure, w.Setting} }

func (w *Work) table() workTable {
	return workTables[slices.IndexFunc(workTables, func(t workTable) bool { return t.procedure == w.Procedure })]
}

// suffix is the unit behind a figure.
func (f WorkFigure) suffix() string {
	switch f.Unit {
	case "1":
		return ""
	case "1/s":
		return "/s"
	}
	return string(f.Unit)
}

func (w *Work) summary(r *Row) (name, text string, whole bool) {
	var parts []string
	for _, f := range w.Figures {
		parts = append(parts, f.Figure.si(f.suffix())+" "+w.table().words[f.Metric])
	}
	return r.Name, strings.Join(parts, ", "), true
}

func (w *Work) remarks(*Row) (out []string) {
	if len(w.Of) > 0 {
		out = append(out, strings.Join(w.Of, ", "))
	}
	for _, p := range w.Published {
		if len(w.Figures) > 0 {
			out = append(out, p.text())
		}
	}
	for _, f := range w.Figures {
		if s := (&Figure{Lo: f.Slowest, Hi: f.Fastest}).interval(f.suffix()); s != "-" {
			out = append(out, "each copy: "+s+" "+f.What)
		}
	}
	if w.Clock != nil {
		out = append(out, "clock after a round: "+phrase.Percent(*w.Clock)+" of what it was before")
	}
	return out
}
