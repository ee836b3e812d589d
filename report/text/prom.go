// SPDX-License-Identifier: Apache-2.0

package text

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"boxdyno/report"
	"boxdyno/report/internal/grid"
	"boxdyno/result"
)

// Prom writes the figures of all valid points in Prometheus' text format, which
// node_exporter reads from a textfile: boxdyno_ and the metric's name, in its base
// unit, with the point's settings as labels. Ends of intervals have metrics of their
// own, _lo and _hi. A bound is a label. Only where there are several runs a label
// names each, so that the next run of a box goes on with the same series.
func Prom(w io.Writer, runs ...report.Kept) error {
	p := prom{families: map[string]*family{}}
	for _, run := range runs {
		labels := []result.Pair{{Key: "box", Value: run.Document.Box}}
		if len(runs) > 1 {
			labels = append(labels, result.Pair{Key: "run", Value: run.Document.ID})
		}
		p.add("run_start_time_seconds", "when the run began, in seconds since 1970", labels, float64(run.Document.Start.UnixNano())/1e9)
		for _, r := range run.Records {
			if r.Parent == "" && r.Procedure != report.SelfTestProcedure && report.Fit(r) {
				p.point(run.Document.Metrics, labels, r)
			}
		}
	}
	for _, name := range p.order {
		f := p.families[name]
		if _, err := fmt.Fprintf(w, "# HELP %s %s\n# TYPE %[1]s gauge\n%[3]s", name, strings.ReplaceAll(f.help, `\`, `\\`), f.samples.String()); err != nil {
			return err
		}
	}
	return nil
}

type prom struct {
	families map[string]*family
	order    []string
}

type family struct {
	help    string
	samples strings.Builder
}

func (p *prom) point(metrics []result.Metric, run []result.Pair, r result.Record) {
	labels := append(slices.Clone(run), result.Pair{Key: "procedure", Value: r.Procedure}, result.Pair{Key: "repeat", Value: strconv.Itoa(r.Repeat)})
	for _, c := range r.Config {
		if slices.ContainsFunc(labels, func(l result.Pair) bool { return l.Key == word(c.Key) }) || word(c.Key) == "bound" {
			c.Key = "set_" + c.Key
		}
		labels = append(labels, result.Pair{Key: word(c.Key), Value: c.Value})
	}
	for _, v := range r.Values {
		help := v.Metric
		if i := slices.IndexFunc(metrics, func(m result.Metric) bool { return m.Name == v.Metric }); i >= 0 && metrics[i].Help != "" {
			help = metrics[i].Help
		}
		if v.Unit != "" && v.Unit != "1" {
			help += ", in " + string(v.Unit)
		}
		name := v.Metric
		if before, ok := strings.CutSuffix(name, "_s"); ok && v.Unit == "s" { // as Prometheus spells it
			name = before + "_seconds"
		}
		of := labels
		if v.Bound != "" {
			of = append(slices.Clone(labels), result.Pair{Key: "bound", Value: string(v.Bound)})
		}
		p.add(name, help, of, v.Value)
		if v.Lo != nil {
			p.add(name+"_lo", "lower end of the interval: "+help, of, *v.Lo)
		}
		if v.Hi != nil {
			p.add(name+"_hi", "upper end of the interval: "+help, of, *v.Hi)
		}
	}
}

// add leaves out what is no number.
func (p *prom) add(name, help string, labels []result.Pair, value float64) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return
	}
	name = "boxdyno_" + word(name)
	f := p.families[name]
	if f == nil {
		f = &family{help: grid.Clean(help)}
		p.families[name] = f
		p.order = append(p.order, name)
	}
	var pairs []string
	for _, l := range labels {
		if l.Value != "" {
			pairs = append(pairs, l.Key+`="`+escape.Replace(strings.ToValidUTF8(l.Value, string(utf8.RuneError)))+`"`)
		}
	}
	fmt.Fprintf(&f.samples, "%s{%s} %s\n", name, strings.Join(pairs, ","), strconv.FormatFloat(value, 'g', -1, 64))
}

var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// word makes a name of Prometheus of s.
func word(s string) string {
	s = strings.Map(func(c rune) rune {
		if c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			return c
		}
		return '_'
	}, s)
	if s == "" || s[0] >= '0' && s[0] <= '9' {
		s = "_" + s
	}
	return s
}
