// SPDX-License-Identifier: Apache-2.0

package report

import "strings"

// A Case is one test of what text.JUnit writes. With Failure it failed, with Skipped it could not
// be decided: the sentence says why.
type Case struct {
	Class, Name      string
	Failure, Skipped string
}

// Cases are the rows of a comparison: one that is slower by more than least, a share,
// failed; one that is not decided was skipped.
func (c Comparison) Cases(least float64) (out []Case) {
	for _, m := range c.Metrics {
		for _, r := range m.Rows {
			one := Case{Class: r.Procedure, Name: strings.Join(append(append([]string{m.Name}, configWords(r)...), r.Side), " ")}
			switch {
			case r.slower(least):
				one.Failure = m.slowerSentence(r)
			case r.Verdict == TooFew || r.Verdict == BoundOnly:
				one.Skipped = "not decided: " + strings.Join(append([]string{r.Verdict}, r.Warnings...), "; ")
			}
			out = append(out, one)
		}
	}
	return out
}
