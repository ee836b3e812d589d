// SPDX-License-Identifier: Apache-2.0

// Package phrase puts numbers and nouns into words, the same in every form of a report.
package phrase

import (
	"fmt"
	"strconv"
	"strings"

	"boxdyno/result"
	"boxdyno/unit"
)

// Is returns "is" for one, "are" for any other number.
func Is(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// FrameSize returns a frame size as readers see it: "64 B", "IMIX".
func FrameSize(size string) string {
	if _, err := strconv.Atoi(size); err == nil {
		return size + " B"
	}
	return strings.ToUpper(size)
}

// Count returns "1 row", "2 rows".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// Quantity prints v with its unit and bound: ">= 1.26 Mframe/s".
func Quantity(v float64, sym unit.Symbol, b result.Bound) string {
	s := ""
	if b != result.Exactly {
		s = string(b) + " "
	}
	return s + unit.Quantity(v, sym)
}

// Plain prints v to 3 digits, without a prefix.
func Plain(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }

// Percent prints a share of 1 as a percentage.
func Percent(v float64) string {
	if v > 0 && v < 0.001 {
		return "< 0.1 %"
	}
	digits := 1
	if v >= 0.9995 {
		digits = 0
	}
	return strconv.FormatFloat(v*100, 'f', digits, 64) + " %"
}

// Plural returns n with the noun that fits it.
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// SI prints v with a prefix and its bound; "-" for nil.
func SI(v *float64, b result.Bound) string {
	if v == nil {
		return "-"
	}
	s := strings.TrimSpace(unit.SI(*v))
	if b != result.Exactly {
		s = string(b) + " " + s
	}
	return s
}

// Seconds prints a time in seconds; "-" for nil.
func Seconds(v *float64) string {
	if v == nil {
		return "-"
	}
	return unit.SI(*v) + "s"
}

// Share prints a share of 1 as a percentage; "-" for nil.
func Share(v *float64) string {
	if v == nil {
		return "-"
	}
	return Percent(*v)
}

// Interval prints the range from lo to hi; "-" where there is none. A nil end is open.
func Interval(lo, hi *float64) string {
	switch {
	case hi == nil && (lo == nil || *lo == 0), lo != nil && hi != nil && *lo == 0 && *hi == 0:
		return "-"
	case hi == nil:
		return "from " + SI(lo, "")
	case lo == nil:
		return "to " + SI(hi, "")
	}
	a, b := unit.Apart(*lo, *hi)
	if a, b = strings.TrimSpace(a), strings.TrimSpace(b); a == b {
		return a
	}
	if x, prefix, ok := strings.Cut(a, " "); ok && strings.HasSuffix(b, " "+prefix) {
		a = x // 1.17–1.19 M
	}
	return a + "–" + b
}

// Clip keeps a cell short enough for its line; the whole text is in the data.
func Clip(s string) string { return ClipTo(s, 30) }

// ClipTo cuts s to at most n characters.
func ClipTo(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// Thousands prints n exactly, in groups of three.
func Thousands(n int64) string {
	s := fmt.Sprint(n)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return sign + s
}
