// SPDX-License-Identifier: Apache-2.0

package text

import (
	"fmt"
	"io"
	"strings"

	"boxdyno/report"
	"boxdyno/report/compare"
	"boxdyno/report/internal/grid"
)

// Markdown writes the document in GitHub's dialect, without HTML.
func Markdown(w io.Writer, d report.Document) error {
	var b grid.Markdown
	word, rest := report.Opening(d)
	fmt.Fprintf(&b, "# %s: %s\n\n", word, grid.Escape(rest))
	if d.Summary != d.Sentence {
		b.Para(d.Summary)
	}
	b.Para(d.Caveat)
	for _, s := range d.Warnings {
		b.Para("Warning: " + s)
	}
	for _, f := range d.Findings {
		fmt.Fprintf(&b, "- **%s** %s: %s\n", report.FindingWord(f), grid.Escape(f.Criterion.Text), grid.Escape(report.Outcome(f)))
	}
	if len(d.Findings) > 0 {
		b.WriteByte('\n')
	}
	b.List("What this box can do", powers(&d))
	b.List("What could not be measured here", skipped(&d))
	b.List("How sure", d.Sure)
	for _, t := range tables(d) {
		fmt.Fprintf(&b, "## %s\n\n", grid.Escape(t.Title))
		b.Table(t)
	}
	if d.Beside != nil {
		b.List(compare.BesideTitle, compare.BesideFound(d.Beside))
		for _, t := range compare.BesideTables(d.Beside) {
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
		fmt.Fprintf(&b, "## Where every frame went: %s\n\n", grid.Escape(r.Booked()))
		b.Table(parts(accounted(r))[0])
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
