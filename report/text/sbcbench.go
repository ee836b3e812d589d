// SPDX-License-Identifier: Apache-2.0

package text

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"

	"boxdyno/report"
	"boxdyno/report/internal/grid"
	"boxdyno/result"
)

// sbcColumns are the head of the table in sbc-bench's Results.md.
var sbcColumns = []string{"Device / details", "Clockspeed", "Kernel", "Distro", "7-zip multi", "7-zip single", "AES", "memcpy", "memset", "kH/s"}

// kernelSeries is what the table has of a kernel's version.
var kernelSeries = regexp.MustCompile(`^[0-9]+\.[0-9]+`)

// SBCBench writes a table in Markdown with the head of sbc-bench's Results.md and a row a
// run. Only what the same programs measure has figures, the median of repeats; all else is
// "-". Runs without such a figure are ErrNothing.
func SBCBench(w io.Writer, runs ...report.Kept) error {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s |\n| ----- | :--------: | :----: | :----: | ----: | ------: | ------: | -----: | -----: | ---: |\n", strings.Join(sbcColumns, " | "))
	var notes []string
	note := func(s string) {
		if s != "" && !slices.Contains(notes, s) {
			notes = append(notes, s)
		}
	}
	for _, run := range runs {
		row := map[string]string{sbcColumns[0]: nameOf(run.Document)}
		measured := false
		for _, f := range sbcFigures {
			if v, ok := f.of(run); ok {
				row[f.column], measured = fmt.Sprintf("%.0f", v/f.divisor), true
				note(f.note)
			}
		}
		if !measured {
			continue
		}
		if m := tested(run.Document); m != nil {
			row["Kernel"] = kernelSeries.FindString(m.Kernel)
			row["Distro"] = strings.TrimSpace(m.OS + " " + strings.Trim(m.Machine+"/"+m.Userland, "/"))
		}
		note(run.Document.Caveat)
		for _, c := range sbcColumns {
			fmt.Fprintf(&b, "| %s ", grid.Escape(cmp.Or(row[c], "-")))
		}
		b.WriteString("|\n")
	}
	if notes == nil {
		return fmt.Errorf("%w: run cpu with subject=7-zip and parallel=1, or crypto with path=openssl and cipher=aes-cbc-256", ErrNothing)
	}
	for _, n := range notes {
		fmt.Fprintf(&b, "\n%s\n", grid.Escape(n))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// of is the figure of a run.
func (f sbcFigure) of(run report.Kept) (float64, bool) {
	var all []float64
	for _, r := range points(run) {
		if r.Procedure != f.procedure || !f.meets(r.Config) {
			continue
		}
		sum := 0.0
		for _, name := range f.metrics {
			v := r.Value(name)
			if v == nil {
				sum = math.NaN()
				break
			}
			sum += v.Value
		}
		if !math.IsNaN(sum) && !math.IsInf(sum, 0) {
			all = append(all, sum/float64(len(f.metrics)))
		}
	}
	if len(all) == 0 {
		return 0, false
	}
	slices.Sort(all)
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2, true
}

func (f sbcFigure) meets(config []result.Pair) bool {
	for _, p := range f.where {
		if !slices.Contains(strings.Split(p.Value, ","), result.Get(config, p.Key)) {
			return false
		}
	}
	return true
}
