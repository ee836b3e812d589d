// SPDX-License-Identifier: Apache-2.0

package tui

import (
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"boxdyno/unit"
)

// A line is one of the screen; its style only repeats what its text says.
type line struct {
	text  string
	style style
}

type style string

const (
	plain style = ""
	head  style = "\x1b[1m"
	alarm style = "\x1b[1;31m"
	faint style = "\x1b[2m"
)

// cut is l in at most width columns.
func (l line) cut(width int) string {
	text := strings.TrimRight(clip(l.text, width), " ")
	if l.style == plain || text == "" {
		return text
	}
	return string(l.style) + text + "\x1b[m"
}

// clip keeps the first width characters of s, the last of them … where some are lost.
func clip(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	if width < 1 {
		return ""
	}
	return string([]rune(s)[:width-1]) + "…"
}

func width(s string) int { return utf8.RuneCountInString(s) }

func left(s string, width int) string {
	s = clip(s, width)
	return s + strings.Repeat(" ", width-utf8.RuneCountInString(s))
}

func right(s string, width int) string {
	s = clip(s, width)
	return strings.Repeat(" ", width-utf8.RuneCountInString(s)) + s
}

// clean keeps names and warnings from steering the terminal.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r), unicode.Is(unicode.Mn, r):
			return '\uFFFD'
		}
		return r
	}, s)
}

const absent = "-"

// si is v with its unit, or - where it is not known.
func si(v float64, u string) string {
	if math.IsNaN(v) {
		return absent
	}
	return unit.SI(v) + u
}

// rate is a number a second; what is less than one is no thousandths.
func rate(v float64) string {
	if v > 0 && v < 1 {
		return fmt.Sprintf("%.2f", v)
	}
	return strings.TrimSpace(si(v, ""))
}

func percent(v float64) string {
	if math.IsNaN(v) {
		return absent
	}
	return fmt.Sprintf("%.1f %%", 100*v)
}

func celsius(v float64) string {
	if math.IsNaN(v) {
		return absent
	}
	return fmt.Sprintf("%.1f °C", v)
}

var (
	blocks  = []rune("▁▂▃▄▅▆▇█")
	letters = []rune("_.-:=+*#")
)

// spark draws values between low and high, one character each; what is not known is
// empty.
func spark(values []float64, low, high float64, ascii bool) string {
	levels := blocks
	if ascii {
		levels = letters
	}
	out := make([]rune, len(values))
	for i, v := range values {
		out[i] = ' '
		if math.IsNaN(v) {
			continue
		}
		level := 0
		if high > low {
			level = int((v - low) / (high - low) * float64(len(levels)))
		}
		out[i] = levels[min(max(level, 0), len(levels)-1)]
	}
	return string(out)
}

// span is the least and the greatest of values that are known; NaN: none is.
func span(values []float64) (low, high float64) {
	low, high = math.NaN(), math.NaN()
	for _, v := range values {
		if math.IsNaN(v) {
			continue
		}
		if !(low <= v) {
			low = v
		}
		if !(high >= v) {
			high = v
		}
	}
	return low, high
}
