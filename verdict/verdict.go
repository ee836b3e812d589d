// SPDX-License-Identifier: Apache-2.0

// Package verdict says what records mean: whether a trial counts, whether
// figures meet criteria, and where frames were lost. Pure.
package verdict

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"boxdyno/result"
	"boxdyno/unit"
)

// gravity orders statuses: what leaves most undone comes last.
var gravity = []result.Status{"", result.Passed, result.Skipped, result.Failed, result.Invalid, result.Running, result.Aborted}

// Worst is the gravest of statuses: aborted, running, invalid, failed, skipped,
// passed; skipped where there are none, because nothing was found.
func Worst(statuses ...result.Status) result.Status {
	if len(statuses) == 0 {
		return result.Skipped
	}
	return slices.MaxFunc(statuses, func(a, b result.Status) int { return slices.Index(gravity, a) - slices.Index(gravity, b) })
}

// percent is share, in [0, 1], to 3 digits; a small one is not rounded to 0.
func percent(share float64) string {
	digits := 3
	if p := math.Abs(share * 100); p > 0 {
		digits = 2 - int(math.Floor(math.Log10(p)))
	}
	s := fmt.Sprintf("%.*f", min(max(digits, 0), 7), share*100)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s + " %"
}

// quantity is v with its unit and an SI prefix.
func quantity(v float64, u unit.Symbol) string {
	if u == "1" || u == "" {
		return fmt.Sprintf("%.4g", v)
	}
	return unit.SI(v) + string(u)
}

func seconds(ns int64) string { return unit.SI(float64(ns)/1e9) + "s" }
