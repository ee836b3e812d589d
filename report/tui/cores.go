// SPDX-License-Identifier: Apache-2.0

package tui

import (
	"fmt"
	"math"
	"slices"

	"boxdyno/result"
)

// modes are the columns of a core; the others of the kernel's are in busy.
var modes = []struct {
	title string
	modes []string
	only  bool // in the section of CPUs
}{
	{"user", []string{"user", "nice"}, true},
	{"system", []string{"system"}, true},
	{"softirq", []string{"softirq"}, false},
	{"irq", []string{"irq"}, false},
	{"steal", []string{"steal"}, false},
	{"iowait", []string{"iowait"}, true},
}

// A core is one CPU, or all of them.
type core struct {
	name  string
	busy  *figure
	modes []*figure // as modes
}

type coreBlock struct {
	whole core
	each  []core
}

func newCoreBlock(h *history) (b coreBlock) {
	var names []string
	of := map[string][]int{}
	all := h.where("node_cpu_seconds_total")
	for _, i := range all {
		cpu := result.Get(h.series[i].Labels, "cpu")
		if of[cpu] == nil {
			names = append(names, cpu)
		}
		of[cpu] = append(of[cpu], i)
	}
	b.whole = newCore(h, "all", all)
	for _, n := range names {
		b.each = append(b.each, newCore(h, clean(n), of[n]))
	}
	return b
}

func newCore(h *history, name string, of []int) core {
	mode := func(want func(mode string) bool) (some []int) {
		for _, i := range of {
			if want(result.Get(h.series[i].Labels, "mode")) {
				some = append(some, i)
			}
		}
		return some
	}
	c := core{name: name, busy: h.share(keptLong, mode(func(m string) bool { return m != "idle" && m != "iowait" }), of)}
	for _, k := range modes {
		c.modes = append(c.modes, h.share(keptShort, mode(func(m string) bool { return slices.Contains(k.modes, m) }), of))
	}
	return c
}

const coreName, coreCell = 9, 8

// row is the text of c, without its curve.
func (m *model) row(c core, whole bool) string {
	text := left("  "+c.name, coreName) + right(percent(m.value(c.busy)), coreCell)
	for i, k := range modes {
		if whole || !k.only {
			text += right(percent(m.value(c.modes[i])), coreCell)
		}
	}
	return text
}

func (b coreBlock) head(m *model, whole bool) line {
	text := left("CPU", coreName) + right("busy", coreCell)
	for _, k := range modes {
		if whole || !k.only {
			text += right(k.title, coreCell)
		}
	}
	if room := m.width - width(text) - 2; room > 0 {
		text += "  " + clip("busy, 0 to 100 %, last "+m.column(room), room)
	}
	return line{text, head}
}

// lines are a row for each core behind one for all; whole: with all modes.
func (b coreBlock) lines(m *model, whole bool) (lines []line) {
	if !b.whole.busy.seen() {
		return nil
	}
	lines = append(lines, b.head(m, whole))
	for _, c := range append([]core{b.whole}, b.each...) {
		if c.busy.seen() {
			lines = append(lines, line{m.spark(m.row(c, whole), c.busy, 0, 1), plain})
		}
	}
	return lines
}

// short is all cores in few lines: their sum, the busiest, and a character for each.
func (b coreBlock) short(m *model) (lines []line) {
	if !b.whole.busy.seen() {
		return nil
	}
	lines = append(lines, b.head(m, false), line{m.spark(m.row(b.whole, false), b.whole.busy, 0, 1), plain})
	var now []float64
	busiest := -1
	for i, c := range b.each {
		now = append(now, m.value(c.busy))
		if v := now[i]; !math.IsNaN(v) && (busiest < 0 || !(v <= now[busiest])) {
			busiest = i
		}
	}
	if busiest >= 0 {
		c := b.each[busiest]
		c.name = "max " + c.name
		lines = append(lines, line{m.spark(m.row(c, false), c.busy, 0, 1), plain})
	}
	const most = 64
	for first := 0; first < len(now); first += most {
		last := min(first+most, len(now))
		label := fmt.Sprintf("  %s to %s", b.each[first].name, b.each[last-1].name)
		lines = append(lines, line{left(label, 14) + spark(now[first:last], 0, 1, m.o.ASCII), plain})
	}
	return lines
}
