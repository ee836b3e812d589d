// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"boxdyno/report/internal/phrase"
	"boxdyno/result"
	"boxdyno/unit"
)

// axisCell is a parameter's value in words.
func axisCell(a result.Axis, value string) Cell {
	n, err := strconv.ParseFloat(value, 64)
	c := Cell{Text: cmp.Or(value, "-"), Number: err == nil && n != 0}
	switch word := result.Get(a.Words, value); {
	case word != "":
		c.Text, c.Usual = word, true
	case path.IsAbs(value):
		c.Text = path.Base(value)
	case a.Name == frameSize && value != "0":
		c.Text, c.Number = phrase.FrameSize(value), false
	case c.Number && n >= 1e6 && a.Unit != "":
		c.Text = unit.SI(n) + string(a.Unit)
	case c.Number && n >= 10000 && n == math.Trunc(n):
		c.Text = phrase.Thousands(int64(n))
	}
	if c.Number && n < 1e6 && a.Unit != "" {
		c.Text += " " + string(a.Unit)
	}
	c.Text = phrase.ClipTo(c.Text, 80)
	return c
}

// cell is a figure as the column tells it.
func (c Column) cell(f *Figure) Cell {
	if f == nil {
		return Cell{Text: "-"}
	}
	cell := Cell{Value: &f.Value, Lo: f.Lo, Hi: f.Hi, N: f.N, Bound: f.Bound}
	switch {
	case c.Share:
		if cell.Text = f.signedShare(); f.Value < 1 && f.Value > 0.999 {
			cell.Text = survived(f.Value)
		}
		if f.Bound != result.Exactly && !strings.HasPrefix(cell.Text, "<") {
			cell.Text = string(f.Bound) + " " + cell.Text
		}
		if s := f.shares(); s != "-" {
			cell.Interval = s
		}
		return cell
	case (c.exact || c.Unit == "1") && f.Value == float64(int64(f.Value)) && f.Bound == result.Exactly:
		cell.Text = phrase.Thousands(int64(f.Value))
	default:
		cell.Text = f.si(c.suffix())
	}
	if s := f.interval(c.suffix()); s != "-" {
		cell.Interval = s
	}
	return cell
}

// suffix is the unit behind a figure, where the heading does not say it.
func (c Column) suffix() string {
	switch {
	case c.bare || c.Unit == "1" || c.Unit == "frame" || slices.Contains(strings.Fields(c.Label), string(c.Unit)):
		return ""
	case c.Unit == "1/s":
		return "/s"
	}
	return phrase.Clip(string(c.Unit))
}
