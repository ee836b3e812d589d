// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"

	"boxdyno/result"
)

// meanWatts is the machine's mean power while those of trials ran that keep takes, as
// telemetry saw it; nil where no meter watched.
func meanWatts(series []result.Series, trials []result.Record, keep func(result.Record) bool) *float64 {
	watts, seconds := 0.0, 0.0
	for _, t := range trials {
		if !keep(t) {
			continue
		}
		for _, d := range t.Digests {
			if d.Series >= 0 && d.Series < len(series) && d.N > 0 && series[d.Series].Name == "boxdyno_power_watts" {
				took := float64(t.End - t.Begin)
				watts, seconds = watts+d.Mean*took, seconds+took
				break // several meters watch the same box
			}
		}
	}
	if seconds <= 0 {
		return nil
	}
	return ptr(watts / seconds)
}

// kindOf takes trials that did what they should, of that kind.
func kindOf(kind string) func(result.Record) bool {
	return func(t result.Record) bool { return t.Status == result.Passed && result.Get(t.Config, "trial") == kind }
}

// joulesPerGigabyte is what a gigabyte (1e9 octets) costs at so many octets a second; nil
// where power or rate is not known.
func joulesPerGigabyte(watts *float64, octets *Figure, scale float64) *float64 {
	if watts == nil || *watts <= 0 || octets == nil || octets.Value <= 0 {
		return nil
	}
	return ptr(*watts / (octets.Value * scale) * 1e9)
}

// joules is such a figure as text.
func joules(v *float64) string {
	if v == nil {
		return "-"
	}
	return plain(*v)
}

func watts(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f", *v)
}

// dropEmpty takes the columns of those names out where no row has anything in them.
func (tb *table) dropEmpty(names ...string) {
	for _, name := range names {
		i := slices.Index(tb.head, name)
		if i < 0 || slices.ContainsFunc(tb.rows, func(row []string) bool { return i < len(row) && row[i] != "-" && row[i] != "" }) {
			continue
		}
		tb.head, tb.right = slices.Delete(slices.Clone(tb.head), i, i+1), slices.Delete(slices.Clone(tb.right), i, i+1)
		for k, row := range tb.rows {
			tb.rows[k] = slices.Delete(slices.Clone(row), i, i+1)
		}
	}
}
