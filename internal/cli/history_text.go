// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"boxdyno/internal/printable"
	"boxdyno/report/page"
	"boxdyno/report/text"
	"boxdyno/result"
	"boxdyno/store"
	"boxdyno/unit"
)

const (
	shownRows  = 30
	sparkWidth = 72
)

// historyText writes a history for a terminal, with the newest rows of each series.
func historyText(w io.Writer, width int, h store.History, rows int) error {
	var b strings.Builder
	for i, s := range h.Series {
		if i > 0 {
			fmt.Fprintln(&b)
		}
		seriesText(&b, width, h, s, rows)
	}
	out := bufio.NewWriter(w)
	for line := range strings.Lines(b.String()) {
		fmt.Fprintln(out, strings.TrimRight(line, " \n"))
	}
	return out.Flush()
}

// answerOf is a series in one sentence: whether its level is another one at last.
func answerOf(metric string, s store.Series) string {
	n := len(s.Changes)
	switch {
	case n > 0:
		c, by := s.Changes[n-1], ""
		if c.Share != nil {
			by = fmt.Sprintf(" by %.1f %%", 100*math.Abs(*c.Share))
		}
		if c.Worse || c.Better {
			return fmt.Sprintf("%s is %s%s from %s on.", metric, kindOf(c), by, c.Run)
		}
		return fmt.Sprintf("%s is at another level%s from %s on.", metric, by, c.Run)
	case !s.Judged():
		return fmt.Sprintf("%s has too few runs to tell whether it changed.", metric)
	}
	return fmt.Sprintf("%s has one level in %d runs.", metric, s.Exact())
}

// chance is a p-value; of runs that do not scatter it is 0.
func chance(p float64) string {
	if p < 1e-12 {
		return "p < 1e-12"
	}
	return fmt.Sprintf("p = %.2g", p)
}

func seriesText(w io.Writer, width int, h store.History, s store.Series, rows int) {
	better := map[int]string{1: ", more is better", -1: ", less is better"}[s.Better]
	fmt.Fprintf(w, "%s\n\n%s, %s%s\n", wrapped(cell(answerOf(h.Metric, s)), width, ""), cell(h.Metric), cell(s.Unit), better)
	line, most := "", 97
	if width > 0 {
		most = width - 3
	}
	for _, word := range words(s.Settings) {
		if word = cell(word); line != "" && len(line)+len(word) > most {
			fmt.Fprintln(w, " "+line)
			line = ""
		}
		line += " " + word
	}
	fmt.Fprintln(w, " "+line)
	var values []float64
	for _, p := range s.Points {
		values = append(values, p.Value)
	}
	fmt.Fprintf(w, "\n%s\n%s to %s, %d runs from %s to %s\n", spark(values, s.Changes), figure(slices.Min(values), s.Unit), figure(slices.Max(values), s.Unit),
		len(values), s.Points[0].Start.Format("2006-01-02"), s.Points[len(s.Points)-1].Start.Format("2006-01-02"))

	for _, c := range s.Changes {
		by := ""
		if c.Share != nil {
			by = fmt.Sprintf("%+.1f %%, ", 100**c.Share)
		}
		what := fmt.Sprintf("%s from %s on: %s%s to %s (%s)", kindOf(c), cell(c.Run), by, figure(c.Before, s.Unit), figure(c.After, s.Unit), chance(c.P))
		fmt.Fprintf(w, "\n%s\n", wrapped(what, width, ""))
		for _, d := range c.Environment {
			fmt.Fprintln(w, wrapped("with it: "+cell(d.String()), width, "  "))
		}
	}
	for _, n := range s.Notes {
		fmt.Fprintf(w, "\n%s\n", wrapped("! "+cell(n), width, ""))
	}

	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "boxdyno\truns\tmedian\t95 % interval")
	for _, l := range s.Levels {
		interval := "too few runs"
		if l.Lo != nil && l.Hi != nil {
			interval = between(*l.Lo, *l.Hi, s.Unit)
		}
		fmt.Fprintf(t, "%s\t%d\t%s\t%s\n", cell(l.Version), l.N, figure(l.Median, s.Unit), interval)
	}
	_ = t.Flush() // w keeps the error

	first := 0
	if rows > 0 && len(s.Points) > rows {
		first = len(s.Points) - rows
		fmt.Fprintf(w, "\nthe newest %d of %d runs (--rows 0 lists all)\n", rows, len(s.Points))
	} else {
		fmt.Fprintln(w)
	}
	table, changes := [][]string{{"run", "boxdyno", "value", "interval", "n", "changed since the run before"}}, []string{""}
	for _, p := range s.Points[first:] {
		interval := ""
		if p.Lo != nil && p.Hi != nil {
			interval = between(*p.Lo, *p.Hi, s.Unit)
		}
		var changed []string
		for i, d := range p.Environment {
			if i == 3 {
				changed = append(changed, fmt.Sprintf("%d more", len(p.Environment)-i))
				break
			}
			changed = append(changed, cell(d.String()))
		}
		changes = append(changes, strings.Join(changed, ", "))
		table = append(table, []string{cell(p.Run), cell(p.Version), bounded(p, s.Unit), interval, strconv.Itoa(p.N), changes[len(changes)-1]})
	}
	below := width > 0 && wide(table) > width // what changed stands there
	if below || !slices.ContainsFunc(changes, func(s string) bool { return s != "" }) {
		for i, r := range table {
			table[i] = r[:len(r)-1]
		}
	}
	gone := fit(table, width, "n", "boxdyno")
	var lines strings.Builder
	_ = tabled(&lines, table)
	for i, line := range strings.Split(strings.TrimSuffix(lines.String(), "\n"), "\n") {
		if fmt.Fprintln(w, line); below && changes[i] != "" {
			fmt.Fprintln(w, wrapped("with it: "+changes[i], width, "  "))
		}
	}
	tooNarrow(w, width, gone, "--json has all")
}

// kindOf is worse, better or changed.
func kindOf(c store.Change) string {
	switch {
	case c.Worse:
		return "worse"
	case c.Better:
		return "better"
	}
	return "changed"
}

// cell keeps names from steering the terminal, or a column.
func cell(s string) string { return printable.Text(oneLine(s)) }

func figure(v float64, u string) string {
	if u == "1" || u == "" {
		return fmt.Sprintf("%.4g", v)
	}
	return unit.SI(v) + u
}

// between is an interval, with as many digits as tell its ends apart.
func between(lo, hi float64, u string) string {
	if u == "1" || u == "" {
		return figure(lo, u) + " to " + figure(hi, u)
	}
	a, b := unit.Apart(lo, hi)
	return a + u + " to " + b + u
}

func bounded(p store.Point, u string) string {
	if p.Bound != result.Exactly {
		return string(p.Bound) + " " + figure(p.Value, u)
	}
	return figure(p.Value, u)
}

// spark draws values in a line, each column the mean of as many as fall to it. Below it, ^
// stands where a level begins.
func spark(values []float64, changes []store.Change) string {
	bars := []rune("▁▂▃▄▅▆▇█")
	columns := min(len(values), sparkWidth)
	lo, hi := slices.Min(values), slices.Max(values)
	line, marks := make([]rune, columns), []rune(strings.Repeat(" ", columns))
	for i := range line {
		from, to := i*len(values)/columns, (i+1)*len(values)/columns
		sum := 0.0
		for _, v := range values[from:to] {
			sum += v / float64(to-from)
		}
		level := 0.0
		if hi > lo {
			level = (sum - lo) / (hi - lo) * float64(len(bars)-1)
		}
		if math.IsNaN(level) || math.IsInf(level, 0) { // values that hardly fit
			level = 0
		}
		line[i] = bars[max(0, min(len(bars)-1, int(math.Round(level))))]
		if slices.ContainsFunc(changes, func(c store.Change) bool { return c.At >= from && c.At < to }) {
			marks[i] = '^'
		}
	}
	return strings.TrimRight(string(line)+"\n"+string(marks), " \n")
}

// historyPage writes the page History as one file. Where bundles lie on this disk is not
// for those whom it is sent to.
func historyPage(w io.Writer, h store.History) error {
	var plain strings.Builder
	if err := historyText(&plain, 0, h, shownRows); err != nil {
		return err
	}
	h.Series = slices.Clone(h.Series)
	for i := range h.Series {
		h.Series[i].Points = slices.Clone(h.Series[i].Points)
		for j := range h.Series[i].Points {
			h.Series[i].Points[j].Dir = ""
		}
	}
	return page.WriteHistory(w, h, plain.String())
}

// historyCSV writes a line for each run of each series, with exact figures and a column for
// each setting.
func historyCSV(w io.Writer, h store.History) error {
	var settings []string
	for _, s := range h.Series {
		for _, p := range s.Settings {
			if !slices.Contains(settings, p.Key) {
				settings = append(settings, p.Key)
			}
		}
	}
	lines := [][]string{slices.Concat(settings, []string{"run", "start", "boxdyno", h.Metric, "unit", "lo", "hi", "n", "bound", "level", "changed"})}
	exact := func(v *float64) string {
		if v == nil {
			return ""
		}
		return strconv.FormatFloat(*v, 'g', -1, 64)
	}
	for _, s := range h.Series {
		for i, p := range s.Points {
			var line, changed []string
			for _, key := range settings {
				line = append(line, result.Get(s.Settings, key))
			}
			level := ""
			for _, c := range s.Changes {
				if c.At == i {
					level = kindOf(c)
				}
			}
			for _, d := range p.Environment {
				changed = append(changed, d.String())
			}
			lines = append(lines, append(line, p.Run, p.Start.Format(time.RFC3339), p.Version, exact(&p.Value), s.Unit, exact(p.Lo), exact(p.Hi), strconv.Itoa(p.N), string(p.Bound), level, strings.Join(changed, "; ")))
		}
	}
	return text.CSVLines(w, lines)
}
