// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"boxdyno/result"

	"boxdyno/subject/internal/made"
)

// dhrystone is Dhrystone 2.1: integers, strings, records and calls. The values are those
// that its author prints as right, the counter of runs less the runs.
var dhrystone = benchmark{
	name: "dhrystone", sources: []string{"dhrystone_1.c", "dhrystone_2.c", "dhrystone.h"},
	right: "5 1 A B 7 10 0 2 17 DHRYSTONE PROGRAM, SOME STRING 0 1 18 DHRYSTONE PROGRAM, SOME STRING 5 13 7 1 DHRYSTONE PROGRAM, 1'ST STRING DHRYSTONE PROGRAM, 2'ND STRING",
	figures: func(r made.Ran) []result.Value {
		rate := r.Runs / r.Seconds
		return []result.Value{
			{Metric: "dhrystones_per_s", Unit: "1/s", Value: rate},
			{Metric: "dmips", Unit: "1", Value: rate / vax},
		}
	},
}

// vax is the runs a second of a VAX-11/780, which is one Dhrystone MIPS.
const vax = 1757

// SyntheticMetrics are those of Synthetic subjects.
var SyntheticMetrics = []result.Metric{
	{Name: "dhrystones_per_s", Label: "Dhrystones", Interval: "range", Heads: true, Unit: "1/s", Better: 1, Help: "Dhrystone 2.1: runs a second"},
	{Name: "dmips", Label: "DMIPS", Interval: "range", Heads: true, Unit: "1", Better: 1, Help: "the same as a multiple of the VAX-11/780's 1757: Dhrystone MIPS"},
	{Name: "whetstones_per_s", Label: "Whetstone instructions", Interval: "range", Heads: true, Unit: "1/s", Better: 1, Help: "Whetstone in double precision: Whetstone instructions a second (a million of them is 1 MWIPS)"},
}
