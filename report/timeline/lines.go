// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"boxdyno/report"
	"boxdyno/report/internal/phrase"
	"boxdyno/report/internal/sensed"
	"boxdyno/result"
	"boxdyno/unit"
)

// The most lines of a panel without rows, and the most rows.
const (
	mostLines = 6
	mostRows  = 16
)

// The kinds of panels, in their order on the page: what gave first, what may be why
// below it.
var panelKinds = []struct {
	kind, title string
	unit        unit.Symbol
	absent      string // "": not said
}{
	{"softirq", "Softirq, and all work, of each CPU", "1", "time of CPUs"},
	{"drops", "Frames lost, by place", "frame/s", "counters of lost frames"},
	{"clock", "Clock", "Hz", "clock"},
	{"loop", "Clock by a counted loop, slowest CPU", "1/s", ""},
	{"throttled", "Throttled", "1", "throttling"},
	{"temperature", "Temperature", "°C", "temperature"},
	{"power", "Power", "W", "power"},
}

// Tracks are what is drawn, by the series that it is read from.
type tracks struct {
	list    []*track
	sources []*source
	of      map[int][]*source // by index of the series
	known   int               // series that were looked at

	ended func(result.Series) bool // whether frames that a series counts are no loss; nil: none
}

func newTracks() *tracks { return &tracks{of: map[int][]*source{}} }

// know takes the series that are new.
func (t *tracks) know(series []result.Series) {
	for ; t.known < len(series); t.known++ {
		s := series[t.known]
		for _, x := range sensed.Of(s) {
			if t.ended != nil && x.Kind == "drops" && t.ended(s) {
				continue
			}
			k := t.track(x, s.Counter)
			src := &source{track: k, scale: x.Scale, value: math.NaN()}
			t.sources = append(t.sources, src)
			t.of[t.known] = append(t.of[t.known], src)
		}
	}
}

// track is that of x: another one where a gauge of the same name is there already.
func (t *tracks) track(x sensed.Line, counter bool) *track {
	name := x.Name
	for n := 2; ; n++ {
		i := slices.IndexFunc(t.list, func(k *track) bool { return k.kind == x.Kind && k.Row == x.Row && k.Name == x.Name })
		if i >= 0 && counter && t.list[i].counter && x.Kind != "power" {
			return t.list[i]
		}
		if i < 0 {
			break
		}
		x.Name = fmt.Sprintf("%s, %d", name, n)
	}
	k := &track{kind: x.Kind, order: x.Order, counter: counter}
	k.Row, k.Name = x.Row, x.Name
	t.list = append(t.list, k)
	return k
}

// panels are what there is to draw, and in sentences what there is not.
func (t *tracks) panels(run result.Run, recs []result.Record) (panels []report.Panel, remarks []string) {
	var absent []string
	for _, kind := range panelKinds {
		p := report.Panel{Kind: kind.kind, Title: kind.title, Unit: kind.unit}
		if kind.kind == "loop" {
			if marks := loops(recs); len(marks) > 0 {
				p.Lines = []report.Line{{Name: "rounds of the loop", Marks: marks}}
				panels = append(panels, p)
			}
			continue
		}
		var some []*track
		for _, k := range t.list {
			if k.kind == kind.kind && !math.IsNaN(k.most()) {
				some = append(some, k)
			}
		}
		if len(some) == 0 {
			if kind.absent != "" {
				absent = append(absent, kind.absent)
			}
			continue
		}
		if slices.ContainsFunc(some, func(k *track) bool { return k.kind == "temperature" && k.order == sensed.ZoneOrder }) {
			some = slices.DeleteFunc(some, func(k *track) bool { return k.order == sensed.TwiceOrder })
		}
		slices.SortStableFunc(some, func(a, b *track) int {
			return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.Row, b.Row), cmp.Compare(slices.Index(cpuLines, a.Name), slices.Index(cpuLines, b.Name)))
		})
		var remark string
		switch kind.kind {
		case "softirq":
			p.Lines, remark = busiestRows(some)
		case "drops", "throttled":
			p.Lines, remark = moving(some, kind.kind)
		case "clock":
			p.Lines = clocks(some)
		default:
			p.Lines, remark = highest(some, kind.title)
		}
		if remark != "" {
			remarks = append(remarks, remark)
		}
		if len(p.Lines) > 0 {
			panels = append(panels, p)
		}
	}
	if len(absent) > 0 {
		text := "Telemetry recorded nothing of: " + strings.Join(absent, ", ")
		if why := refused(run); why != "" {
			text += " (" + why + ")"
		}
		remarks = append(remarks, text+".")
	}
	return panels, remarks
}

// refused are collectors that are absent for another reason than that there is
// nothing to read.
func refused(run result.Run) string {
	var why []string
	for _, part := range run.Telemetry {
		for _, a := range part.Absent {
			if !strings.HasSuffix(a, ": nothing to read") && !slices.Contains(why, a) {
				why = append(why, a)
			}
		}
	}
	return strings.Join(why, "; ")
}

// loops are the counted loops before and after trials.
func loops(recs []result.Record) (marks []report.Mark) {
	for _, r := range recs {
		if v := r.Value(report.LoopBefore); v != nil {
			marks = append(marks, report.Mark{At: r.Begin, Value: v.Value})
		}
		if v := r.Value(report.LoopAfter); v != nil {
			marks = append(marks, report.Mark{At: r.End, Value: v.Value})
		}
	}
	slices.SortStableFunc(marks, func(a, b report.Mark) int { return cmp.Compare(a.At, b.At) })
	return marks
}

// cpuLines are those of a CPU's row in the order in which they are drawn.
var cpuLines = []string{"softirq", "all work", "stolen"}

// busiestRows are those of the CPUs that did most deferred work. Where nothing was
// stolen there is no line for it.
func busiestRows(some []*track) (lines []report.Line, remark string) {
	most := map[string]float64{}
	var rows []string
	for _, k := range some {
		if !slices.Contains(rows, k.Row) {
			rows = append(rows, k.Row)
		}
		if k.Name == "softirq" {
			most[k.Row] = k.most()
		}
	}
	if n := len(rows); n > mostRows {
		slices.SortStableFunc(rows, func(a, b string) int { return cmp.Compare(most[b], most[a]) })
		rows = rows[:mostRows]
		remark = fmt.Sprintf("Of %d CPUs the %d are drawn that did most in softirq.", n, mostRows)
	}
	for _, k := range some {
		if slices.Contains(rows, k.Row) && (k.Name != "stolen" || k.most() > 0) {
			if k.Name != "softirq" {
				k.Lo, k.Hi = nil, nil
			}
			for _, ps := range []report.Points{k.Mean, k.Lo, k.Hi, k.InGaps} {
				for i := range ps {
					ps[i] = min(ps[i], 1) // the kernel counts in steps of 10 ms, and not all of them in time
				}
			}
			lines = append(lines, k.Line)
		}
	}
	return lines, remark
}

// moving leaves out what never was above 0.
func moving(some []*track, kind string) (lines []report.Line, remark string) {
	for _, k := range some {
		if k.most() > 0 {
			lines = append(lines, k.Line)
		}
	}
	if n := len(lines) - mostRows; n > 0 {
		return lines[:mostRows], fmt.Sprintf("%s more of %q are not drawn.", phrase.Count(n, "row"), kind)
	}
	switch {
	case len(lines) > 0:
	case kind == "drops":
		remark = "No counter of lost frames grew."
	default:
		remark = "No sign of throttling was seen: " + phrase.Count(len(some), "flag or counter") + " stayed at 0."
		remark = strings.Replace(remark, "flag or counters", "flags and counters", 1)
	}
	return lines, remark
}

// highest are the lines that reached highest, in their order.
func highest(some []*track, title string) (lines []report.Line, remark string) {
	if n := len(some); n > mostLines {
		by := slices.Clone(some)
		slices.SortStableFunc(by, func(a, b *track) int { return cmp.Compare(b.most(), a.most()) })
		some = slices.DeleteFunc(some, func(k *track) bool { return !slices.Contains(by[:mostLines], k) })
		remark = fmt.Sprintf("%s: of %d sensors the %d are drawn that reached highest.", title, n, mostLines)
	}
	for _, k := range some {
		lines = append(lines, k.Line)
	}
	return lines, remark
}

// clocks joins CPUs whose clocks were the same throughout; where they are many, into
// one line with the slowest and the fastest of them as its bounds.
func clocks(some []*track) (lines []report.Line) {
	type group struct {
		source string
		line   report.Line
		cpus   []string
	}
	var groups []*group
	for _, k := range some {
		source, cpu, _ := strings.Cut(k.Name, "\x00")
		i := slices.IndexFunc(groups, func(g *group) bool {
			return g.source == source && equal(g.line.Mean, k.Mean) && equal(g.line.Lo, k.Lo) && equal(g.line.Hi, k.Hi)
		})
		if i < 0 {
			i = len(groups)
			groups = append(groups, &group{source: source, line: k.Line})
		}
		if cpu != "" {
			groups[i].cpus = append(groups[i].cpus, cpu)
		}
	}
	for len(groups) > 0 {
		source := groups[0].source
		n := 1
		for n < len(groups) && groups[n].source == source {
			n++
		}
		these := groups[:n]
		groups = groups[n:]
		if n > 3 {
			all := make([]report.Line, 0, n)
			cpus := 0
			for _, g := range these {
				all, cpus = append(all, g.line), cpus+len(g.cpus)
			}
			l := spread(all)
			l.Name = fmt.Sprintf("%s, mean of %d CPUs, from the slowest to the fastest", source, cpus)
			lines = append(lines, l)
			continue
		}
		for _, g := range these {
			if g.line.Name = source; len(g.cpus) > 0 {
				g.line.Name += ", " + cpuWords(g.cpus)
			}
			lines = append(lines, g.line)
		}
	}
	return lines
}

// cpuWords is "CPU 3" or "CPUs 0-3, 5".
func cpuWords(cpus []string) string {
	if len(cpus) == 1 {
		return "CPU " + cpus[0]
	}
	var ranges []string
	for i := 0; i < len(cpus); {
		n, _ := strconv.Atoi(cpus[i])
		k := i + 1
		for k < len(cpus) && cpus[k] == strconv.Itoa(n+k-i) {
			k++
		}
		if k-i > 2 {
			ranges = append(ranges, cpus[i]+"-"+cpus[k-1])
		} else {
			ranges = append(ranges, cpus[i:k]...)
		}
		i = k
	}
	return "CPUs " + strings.Join(ranges, ", ")
}

func equal(a, b report.Points) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return x == y || math.IsNaN(x) && math.IsNaN(y) })
}

// spread is the mean of lines with their least and greatest.
func spread(lines []report.Line) (out report.Line) {
	n := len(lines[0].Mean)
	out.Mean, out.Lo, out.Hi = make(report.Points, n), make(report.Points, n), make(report.Points, n)
	for i := range n {
		sum, k, lo, hi := 0.0, 0, math.NaN(), math.NaN()
		for _, l := range lines {
			if math.IsNaN(l.Mean[i]) {
				continue
			}
			a, b := l.Mean[i], l.Mean[i]
			if l.Lo != nil {
				a, b = l.Lo[i], l.Hi[i]
			}
			if sum, k = sum+l.Mean[i], k+1; !(a >= lo) {
				lo = a
			}
			if !(b <= hi) {
				hi = b
			}
		}
		out.Mean[i], out.Lo[i], out.Hi[i] = sum/float64(k), lo, hi // 0/0 is absent
	}
	return out
}
