// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"slices"
	"time"

	"boxdyno/report/internal/phrase"
	"boxdyno/result"
	"boxdyno/stat"
	"boxdyno/unit"
	"boxdyno/verdict"
)

// sure says in sentences how far the figures can be relied on.
func sure(d Document, recs []result.Record) []string {
	var out []string
	if d.Ablation != nil {
		out = d.Ablation.sure()
	}
	if s := unfinished(d); s != "" && s != d.Sentence {
		out = append(out, s)
	}
	if s := budgeted(d); s != "" {
		out = append(out, s)
	}
	if n := d.Books.Trials; n > 0 {
		if d.Books.Closed == n {
			ledgers := map[bool]string{true: "The ledger of the one trial balances", false: fmt.Sprintf("All %d trial ledgers balance", n)}[n == 1]
			out = append(out, ledgers+": unexplained = 0 frames.")
		} else {
			out = append(out, fmt.Sprintf("%d of %s do not balance: the largest unexplained number of frames is %d.", n-d.Books.Closed, phrase.Count(n, "trial ledger"), d.Books.Largest))
		}
	}
	if n := d.Books.Invalid; n > 0 {
		out = append(out, fmt.Sprintf("%d of %s %s invalid: limited by the tester; excluded.", n, phrase.Count(max(n, d.Books.Trials), "trial"), map[bool]string{true: "was", false: "were"}[n == 1]))
	}
	if n := d.Books.Starved; n > 0 {
		out = append(out, fmt.Sprintf("%s %s invalid: the program did not have its CPUs to itself; excluded.", phrase.Count(n, "trial"), map[bool]string{true: "was", false: "were"}[n == 1]))
	}
	intervals, over := 0, 0
	var widest *Row
	var spread float64
	least := math.MaxInt
	lower, open, upper, unconfirmed := 0, 0, 0, 0
	for i := range d.Rows {
		r := &d.Rows[i]
		if r.ThroughputFPS != nil && r.ThroughputFPSHi != nil && *r.ThroughputFPS > 0 {
			intervals++
			if s := *r.ThroughputFPSHi / *r.ThroughputFPS; s > spread {
				widest, spread = r, s
			}
		}
		if n := max(r.ForwardingN, r.DropN); n > 0 {
			over++
			least = min(least, n)
		}
		bounds := []result.Bound{r.Bound, r.ForwardingBound, r.DropBound}
		if r.open() {
			open++
			bounds[0] = result.Exactly
		}
		if slices.Contains(bounds, result.AtLeast) {
			lower++
		}
		if slices.Contains(bounds[1:], result.AtMost) {
			upper++
		} else if r.Bound == result.AtMost {
			unconfirmed++
		}
	}
	if widest != nil {
		clean, lossy := unit.Apart(*widest.ThroughputFPS, *widest.ThroughputFPSHi)
		out = append(out, fmt.Sprintf("A throughput interval reaches from the highest load confirmed without loss to the lowest from which every trial lost; %s %s is %s to %s.",
			map[bool]string{true: "that of", false: fmt.Sprintf("the widest of %d,", intervals)}[intervals == 1], widest.Name+map[bool]string{true: "", false: ","}[intervals == 1], clean+"frame/s", lossy+"frame/s"))
	}
	if slices.ContainsFunc(d.Rows, func(r Row) bool { return r.at(connectionRate) != nil }) {
		out = append(out, "An interval of connections/s begins at the rate of a longer trial without a failure, and ends where every trial of the search had failures.")
	}
	if over > 0 {
		s := fmt.Sprintf("Rates under overload are medians of at least %s", phrase.Count(least, "trial"))
		if w := stat.Summarize(make([]float64, least)).Warnings; len(w) > 0 {
			s += ": " + w[len(w)-1]
		} else {
			s += fmt.Sprintf(", with their %g %% intervals", stat.Confidence*100)
		}
		out = append(out, s+".")
	}
	if lower > 0 {
		out = append(out, phrase.Plural(lower, "row has", "rows have")+" a lower bound (>=): the tester could not load the box further, and it may do more.")
	}
	if open > 0 {
		out = append(out, phrase.Plural(open, "row has", "rows have")+" a lower bound (>=) because no load above it is confirmed to be too much: the limit may be higher.")
	}
	if upper > 0 {
		out = append(out, phrase.Plural(upper, "row has", "rows have")+" an upper bound (<=): the arrivals were not steady when the longest overload ended, and the box may do less.")
	}
	if unconfirmed > 0 {
		out = append(out, phrase.Plural(unconfirmed, "row has", "rows have")+" an upper bound (<=): no load was confirmed, and the box carries less than the lowest that it failed.")
	}
	var stalls, longest int64
	var steal float64
	looked, slow, slowest := 0, 0, 1.0
	for _, r := range recs {
		if r.Load != nil {
			if v := r.Load.CPUSpeed; v > 0 {
				looked++
				slowest = min(slowest, v)
				if v < verdict.SlowCPU {
					slow++
				}
			}
			stalls += r.Load.Stalls
			longest = max(longest, r.Load.LongestStall)
			steal = math.Max(steal, r.Load.StealRatio)
		}
	}
	if looked > 0 && slow == 0 {
		of := "each trial"
		if slices.ContainsFunc(d.Rows, func(r Row) bool { return r.Beside != "" }) {
			of = "each trial that nothing ran beside"
		}
		out = append(out, fmt.Sprintf("Before "+of+" the CPUs ran at %s or more of the fastest that they were seen at.", phrase.Percent(slowest)))
	} else if slow > 0 {
		out = append(out, fmt.Sprintf("Before %d of %s a CPU ran below %s of its fastest speed seen, at worst at %s: heat, power, or another virtual machine on its core.",
			slow, phrase.Count(looked, "trial"), phrase.Percent(verdict.SlowCPU), phrase.Percent(slowest)))
	}
	if stalls > 0 {
		out = append(out, fmt.Sprintf("The sender stalled for more than 50 µs %s, at the longest for %s; the hypervisor took at most %s of the CPU time of a trial.",
			phrase.Plural(int(stalls), "time", "times"), unit.SI(time.Duration(longest).Seconds())+"s", phrase.Percent(steal)))
	} else if d.Books.Trials > 0 {
		out = append(out, fmt.Sprintf("The sender never stalled for more than 50 µs; the hypervisor took at most %s of the CPU time of a trial.", phrase.Percent(steal)))
	}
	return out
}
