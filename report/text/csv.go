// SPDX-License-Identifier: Apache-2.0

package text

import (
	"encoding/csv"
	"io"
	"slices"
	"strconv"
	"strings"

	"boxdyno/report"
	"boxdyno/report/internal/grid"
	"boxdyno/result"
)

// An energyColumns is a meter of a trial, or of a point what a unit of work took by it.
type energyColumns struct{ meter, per, when string }

func (c energyColumns) of(e result.Energy) bool {
	return c.meter == e.Meter && c.per == e.Per && c.when == e.When
}

func (c energyColumns) head() []string {
	if c.per == "" {
		return []string{"joules, " + c.meter, "joules_of_s, " + c.meter, "joules_accuracy, " + c.meter}
	}
	of := " for each " + c.per + strings.TrimSuffix(", "+c.when, ", ") + ", " + c.meter
	return []string{"joules" + of, "joules_above_idle" + of, "watts" + of, "joules_accuracy" + of}
}

// CSV writes one line a record of all runs, points and trials, with exact
// figures: a column for each setting and each metric that occurs. Interval,
// repeats and bound stand beside their metric.
func CSV(w io.Writer, runs ...report.Kept) error {
	var settings, metrics []string
	add := func(list *[]string, s string) {
		if !slices.Contains(*list, s) {
			*list = append(*list, s)
		}
	}
	for _, run := range runs {
		for _, m := range run.Document.Metrics {
			add(&metrics, m.Name)
		}
		for _, r := range run.Records {
			for _, p := range r.Config {
				add(&settings, p.Key)
			}
			for _, v := range r.Values {
				add(&metrics, v.Metric)
			}
		}
	}
	head := append([]string{"run", "kind", "id", "parent", "procedure", "repeat"}, settings...)
	head = append(head, "verdict", "reason")
	for _, m := range metrics {
		head = append(head, m, m+"_lo", m+"_hi", m+"_n", m+"_bound")
	}
	var energies []energyColumns
	for _, run := range runs {
		for _, r := range run.Records {
			for _, e := range r.Energy {
				if c := (energyColumns{e.Meter, e.Per, e.When}); !slices.Contains(energies, c) {
					energies = append(energies, c)
				}
			}
		}
	}
	slices.SortStableFunc(energies, func(a, b energyColumns) int { return strings.Compare(a.per, b.per) })
	for _, c := range energies {
		head = append(head, c.head()...)
	}
	head = append(head, "mean_frame_size", "streams", "trial_intended_fps", "trial_offered_fps", "trial_forwarded_fps", "backend", "stalls_over_50us", "trial_longest_stall_ns", "trial_steal_ratio",
		"intended", "accepted", "refused", "not_sent", "received", "duplicate", "dropped", "in_flight", "unexplained", "warnings")
	c := csv.NewWriter(w)
	if err := c.Write(grid.CSV(head)); err != nil {
		return err
	}
	num := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	opt := func(v *float64) string {
		if v == nil {
			return ""
		}
		return num(*v)
	}
	for _, run := range runs {
		for _, r := range run.Records {
			kind := "trial"
			if r.Parent == "" && r.Procedure != report.SelfTestProcedure {
				kind = "point"
			}
			line := []string{run.Document.ID, kind, r.ID, r.Parent, r.Procedure, strconv.Itoa(r.Repeat)}
			for _, s := range settings {
				line = append(line, result.Get(r.Config, s))
			}
			line = append(line, string(r.Status), r.Reason)
			for _, m := range metrics {
				if v := r.Value(m); v != nil {
					line = append(line, num(v.Value), opt(v.Lo), opt(v.Hi), strconv.Itoa(max(v.N, 1)), string(v.Bound))
				} else {
					line = append(line, "", "", "", "", "")
				}
			}
			for _, c := range energies {
				i := slices.IndexFunc(r.Energy, c.of)
				switch {
				case i < 0 || !(r.Energy[i].Seconds > 0):
					line = append(line, make([]string, len(c.head()))...)
				case c.per == "":
					e := r.Energy[i]
					line = append(line, num(e.Joules), num(e.Seconds), e.Accuracy)
				default:
					e := r.Energy[i]
					line = append(line, num(e.JoulesPer()), opt(e.AboveIdle()), num(e.Watts()), e.Accuracy)
				}
			}
			if l := r.Load; l != nil {
				rates := []string{num(l.MeanSize), strconv.Itoa(l.Streams), num(float64(l.Intended)), num(float64(l.Offered)), num(float64(l.Forwarded))}
				if r.OfConnections() { // its rates are no frames'
					rates = []string{"", strconv.Itoa(l.Streams), "", "", ""}
				}
				line = append(append(line, rates...), l.Backend,
					strconv.FormatInt(l.Stalls, 10), strconv.FormatInt(l.LongestStall, 10), num(l.StealRatio))
			} else {
				line = append(line, make([]string, 9)...)
			}
			if a := r.Account; a != nil {
				for _, n := range []int64{a.Intended, a.Accepted, a.Refused, a.NotSent, a.Received, a.Duplicate, a.Dropped(), a.InFlight, a.Unexplained} {
					line = append(line, strconv.FormatInt(n, 10))
				}
			} else {
				line = append(line, make([]string, 9)...)
			}
			if err := c.Write(grid.CSV(append(line, strings.Join(r.Warnings, "; ")))); err != nil {
				return err
			}
		}
	}
	c.Flush()
	return c.Error()
}

// CSVLines writes lines of cells, which no spreadsheet takes for formulas.
func CSVLines(w io.Writer, lines [][]string) error {
	c := csv.NewWriter(w)
	for _, line := range lines {
		if err := c.Write(grid.CSV(slices.Clone(line))); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}
