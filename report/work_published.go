// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"

	"boxdyno/reference"
	"boxdyno/result"
)

func (p PublishedWork) text() string {
	return fmt.Sprintf("published of a %s: %s (%s)", p.Box, p.Text, p.Said)
}

// A publication is which of reference's figures are of a procedure's experiment.
type publication struct {
	source     string            // reference's ID; "": any
	experiment string            // reference's; "": its source had the experiment, and none of its figures survived
	metric     string            // reference's
	levels     []reference.Level // that the figure was measured at
	box        string            // only: of that box; where there is no experiment, the box
	when       []result.Pair     // parameters that a row must have
	words      string            // the figure in words, for fmt
	ours       string            // metric that it can be laid beside; "": none
	factor     float64           // from the published unit to the metric's
}

// publishedWorks is what was published of the row's experiment.
func publishedWorks(list []publication, p result.Record) (out []PublishedWork) {
	for _, a := range list {
		if slices.ContainsFunc(a.when, func(w result.Pair) bool { return result.Get(p.Config, w.Key) != w.Value }) {
			continue
		}
		if a.experiment == "" {
			if s, ok := reference.SourceOf(a.source); ok {
				out = append(out, PublishedWork{Box: a.box, Text: a.words, Said: joined(s.Where, s.Caution)})
			}
			continue
		}
		for _, f := range reference.Of(a.experiment, a.box, a.levels...) {
			if f.Metric != a.metric || a.source != "" && f.Source != a.source {
				continue
			}
			s, _ := reference.SourceOf(f.Source)
			x := PublishedWork{Box: f.Subject, Text: fmt.Sprintf(a.words, f.Value), Said: joined(s.Where, f.Said())}
			if a.ours != "" {
				x.Metric, x.Value = a.ours, f.Value*a.factor
			}
			out = append(out, x)
		}
	}
	return out
}

// joined is where it was published and what must be said, of which either may be empty.
func joined(where, said string) string {
	return strings.Join(slices.DeleteFunc([]string{where, said}, func(s string) bool { return s == "" }), ": ")
}
