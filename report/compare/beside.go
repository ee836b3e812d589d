// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"fmt"
	"slices"

	"boxdyno/report"
	"boxdyno/report/internal/grid"
	"boxdyno/report/internal/phrase"
)

// BesideTitle heads what BesideFound and BesideTables say.
const BesideTitle = "Effect of what ran beside, and of heat"

// BesideFound returns in sentences what was found beside loads and in heat, and how.
func BesideFound(c *report.Comparison) []string { return append([]string{sentence(*c)}, sure(*c)...) }

// BesideTables returns a table for each configuration: a line for each figure of each side.
func BesideTables(c *report.Comparison) (out []grid.Table) {
	type group struct {
		grid.Table
		noted grid.Notes
	}
	var groups []*group
	for _, m := range c.Metrics {
		for _, r := range m.Rows {
			title := BesideTitle + ", " + r.Procedure + where(*c, r)
			i := slices.IndexFunc(groups, func(g *group) bool { return g.Title == title })
			if i < 0 {
				i = len(groups)
				groups = append(groups, &group{Table: sided(*c, title, "", "figure")})
			}
			g := groups[i]
			cells := []string{m.Name}
			if len(c.Sides) > 2 {
				cells = append(cells, phrase.Clip(r.Side))
			}
			verdict := r.Verdict
			if verdict == report.Alike {
				verdict = ""
			}
			// Outliers and drifts are in the data: of dozens of sides some always have them.
			said := slices.DeleteFunc(slices.Clone(r.Warnings), func(w string) bool {
				return r.Verdict != report.TooFew && r.Verdict != report.BoundOnly && slices.Contains(report.CourseOf(r), w)
			})
			g.Add(append(cells, report.MedianText(r.Base), report.MedianText(r.Other), report.EffectText(r, m), report.IntervalText(r, m), report.PText(r.PHolm),
				fmt.Sprintf("%d+%d", len(r.Base.Samples), len(r.Other.Samples)), verdict, g.noted.Of(&g.Table, said))...)
		}
	}
	for _, g := range groups {
		g.noted.Write(&g.Table)
		out = append(out, g.Table)
	}
	return out
}
