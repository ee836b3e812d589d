// SPDX-License-Identifier: Apache-2.0

package tui

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// The sections, as the keys 1 to 4 choose them.
const (
	all = iota
	cpus
	ports
	sensors
	sections
)

var (
	spans    = []int{1, 2, 4, 10, 20} // steps that one column stands for
	titles   = [sections]string{"all", "cpu", "ports", "sensors"}
	ordinary = 1 // of spans: 1 s
)

// A model is what the user sees, and what he chose to see.
type model struct {
	o Options
	*history
	cores   coreBlock
	ports   portBlock
	drops   dropBlock
	sensors sensorBlock
	memory  memoryBlock

	begin, now      Look
	waiting         []Look // while the view stands still
	shown           int    // steps at the last drawing
	width, height   int
	span, section   int
	scroll          int
	paused, helping bool
}

func newModel(o Options) *model {
	m := &model{o: o, history: newHistory(o.Series), width: 80, height: 24, span: ordinary}
	m.cores = newCoreBlock(m.history)
	m.ports = newPortBlock(m.history)
	m.drops = newDropBlock(m.history)
	m.sensors = newSensorBlock(m.history)
	m.memory = newMemoryBlock(m.history)
	return m
}

// look takes what is new and says whether the screen has to be drawn.
func (m *model) look(l Look) bool {
	if m.paused {
		m.waiting = append(m.waiting, l)
		m.waiting = m.waiting[max(0, len(m.waiting)-keptLong):]
		return false
	}
	if m.steps == 0 {
		m.begin = l
	}
	m.now = l
	m.step(l.Batches)
	if m.steps > 2 && m.steps-m.shown < spans[m.span] {
		return false
	}
	m.shown = m.steps
	return true
}

// press does what a key asks for.
func (m *model) press(key string) {
	if m.helping {
		m.helping = false
		return
	}
	switch key {
	case "?", "h":
		m.helping = true
	case "p", "space":
		m.paused = !m.paused
		waiting := m.waiting
		m.waiting = nil
		if !m.paused {
			for _, l := range waiting {
				m.look(l)
			}
			m.shown = m.steps
		}
	case "+", "=":
		m.span = max(m.span-1, 0)
	case "-":
		m.span = min(m.span+1, len(spans)-1)
	case "1", "2", "3", "4":
		m.section, m.scroll = int(key[0]-'1'), 0
	case "tab":
		m.section, m.scroll = (m.section+1)%sections, 0
	case "down", "j":
		m.scroll++
	case "up", "k":
		m.scroll--
	case "pgdown":
		m.scroll += m.height / 2
	case "pgup":
		m.scroll -= m.height / 2
	}
}

// draw is the whole screen.
func (m *model) draw() string {
	lines, foot := m.header(), m.footer()
	foot = foot[max(0, len(foot)-m.height):]
	if room := m.height - len(lines) - len(foot); room > 0 {
		lines = append(lines, m.body(room)...)
	}
	lines = append(lines[:min(len(lines), max(m.height-len(foot), 0))], foot...)
	var b strings.Builder
	for i, l := range lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(l.cut(m.width))
	}
	return b.String()
}

// body is exactly room lines.
func (m *model) body(room int) (lines []line) {
	switch {
	case m.helping:
		lines = help()
	case m.steps == 0:
	case m.section == all:
		return m.overview(room)
	case m.section == cpus:
		lines = m.cores.lines(m, true)
	case m.section == ports:
		lines = join(m.ports.lines(m), m.drops.lines(m), m.drops.counters(m))
	case m.section == sensors:
		lines = join(m.sensors.lines(m, true), m.memory.lines(m))
	}
	m.scroll = max(min(m.scroll, len(lines)-room), 0)
	lines = lines[m.scroll:]
	if len(lines) > room {
		lines = append(slices.Clip(lines[:room-1]), line{fmt.Sprintf("  … %d more lines: the arrow keys", len(lines)-room+1), faint})
	}
	return fill(lines, room)
}

func fill(lines []line, room int) []line {
	return append(lines, make([]line, max(room-len(lines), 0))...)
}

// join puts an empty line between parts.
func join(parts ...[]line) (lines []line) {
	for _, p := range parts {
		if len(p) > 0 && len(lines) > 0 {
			lines = append(lines, line{})
		}
		lines = append(lines, p...)
	}
	return lines
}

// overview is all parts in room lines. Where they do not fit, cores are told in few
// lines; then what stands last in a part is left out, which a line says.
func (m *model) overview(room int) []line {
	parts := [][]line{m.cores.lines(m, false), m.ports.lines(m), m.drops.lines(m), m.sensors.lines(m, false), m.memory.lines(m)}
	over := -room
	for _, p := range parts {
		over += len(p)
	}
	if short := m.cores.short(m); over > 0 && len(short) < len(parts[0]) {
		over -= len(parts[0]) - len(short)
		parts[0] = short
	}
	for _, c := range []struct{ part, least, key int }{{1, 3, ports}, {4, 1, sensors}, {3, 3, sensors}, {2, 3, ports}} {
		p := parts[c.part]
		if lost := min(over, len(p)-c.least); lost > 0 {
			over -= lost
			kept := len(p) - lost - 1
			parts[c.part] = append(slices.Clip(p[:kept]), line{fmt.Sprintf("  … %d more: key %d", lost+1, c.key+1), faint})
		}
	}
	lines := join(parts...)
	if len(lines) > room {
		lines = slices.Concat(parts...)
	}
	return fill(lines[:min(len(lines), room)], room)
}

func (m *model) header() []line {
	title := "boxdyno watch"
	for _, s := range []string{m.o.Machine, m.o.Kernel} {
		if s != "" {
			title += "  " + clean(s)
		}
	}
	state := []string{clock(time.Duration(m.now.At - m.begin.At)), fmt.Sprintf("%g Hz", m.o.Rate), m.gaps(), "a column is " + m.column(1)}
	if d := m.now.At - m.begin.At; d > 0 {
		state = append(state, fmt.Sprintf("costs %.1f %% of a core", 100*float64(m.now.CPU-m.begin.CPU)/float64(d)))
	}
	second := line{strings.Join(state, "  "), plain}
	if m.paused {
		second = line{"PAUSED  " + second.text, alarm}
	}
	return []line{{title, head}, second}
}

func (m *model) gaps() string {
	switch m.now.Gaps {
	case 0:
		return "no gap"
	case 1:
		return "1 gap of " + si(float64(m.now.Longest)/1e9, "s")
	}
	return fmt.Sprintf("%d gaps, longest %s", m.now.Gaps, si(float64(m.now.Longest)/1e9, "s"))
}

func (m *model) footer() (lines []line) {
	if w := m.now.Warnings; len(w) > 0 {
		text := "! " + clean(w[len(w)-1])
		if len(w) > 1 {
			text = fmt.Sprintf("! (%d of %d) %s", len(w), len(w), clean(w[len(w)-1]))
		}
		lines = append(lines, line{text, alarm})
	}
	keys := "q quit  p pause  +/- time"
	for i, t := range titles {
		if i == m.section {
			t = "[" + t + "]"
		}
		keys += fmt.Sprintf("  %d %s", i+1, t)
	}
	return append(lines, line{keys + "  ? help", faint})
}

// clock is a time as 1:02:03.
func clock(d time.Duration) string {
	s := int(d.Seconds())
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}

// column is the time that n columns stand for.
func (m *model) column(n int) string {
	d := time.Duration(n*spans[m.span]) * lookEvery
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%g s", d.Seconds())
	case d < 10*time.Minute:
		return fmt.Sprintf("%d min %02d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d min", int(d.Minutes()))
}

// value is what f was in the last column.
func (m *model) value(f *figure) float64 { return f.mean(m.shown, spans[m.span]) }

// columns are as many of f as have room beside text of width before.
func (m *model) columns(f *figure, before int) []float64 {
	return f.columns(m.shown, spans[m.span], min(m.width-before, keptLong))
}

// spark draws f beside text, between low and high; NaN: the least or greatest that
// is drawn.
func (m *model) spark(text string, f *figure, low, high float64) string {
	values := m.columns(f, width(text)+2)
	least, greatest := span(values)
	if math.IsNaN(low) {
		low = least
	}
	if math.IsNaN(high) {
		high = greatest
	}
	return text + "  " + spark(values, low, high, m.o.ASCII)
}

func help() []line {
	text := []string{
		"q, Ctrl-C  quit            p, space  stand still; what comes is kept",
		"+ -        less or more time in a column",
		"1 2 3 4    all, CPUs, ports and drops, sensors; tab goes on",
		"arrows     scroll          Ctrl-Z    suspend          any key ends this help",
		"",
		"Figures are means over the last column. A column empty: not known. " + absent + ": not",
		"known now. What the machine does not have, or may not be read, is not shown.",
		"",
		"CPU     busy is all but idle and waiting for disks; softirq is where frames are",
		"        received, irq the interrupts, steal what the hypervisor took",
		"Port    as its driver counts; bit/s of layer 2, mostly without the FCS. The",
		"        curve is frames in and out, from 0 to the most that it shows",
		"Drops   frames lost, by place of the ledger: each counted once, at the place",
		"        where it was lost. A ! has been in this watch, be it over by now",
		"Heat    the curve spans at least 5 °C; clock and power are from 0",
		"Gap     a sample more than two intervals late: something stalled",
	}
	var lines []line
	for _, t := range text {
		lines = append(lines, line{t, plain})
	}
	return lines
}
