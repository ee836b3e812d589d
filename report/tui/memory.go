// SPDX-License-Identifier: Apache-2.0

package tui

import (
	"fmt"
	"math"
	"strings"
)

type memoryBlock struct {
	total, available, swap, swapFree *figure
	entries, limit                   *figure // of conntrack
	pressures                        []*figure
}

// pressures are the shares of time in which some task waited; of interrupts, in which
// they kept all from their CPU.
var pressures = []struct{ title, series string }{
	{"cpu", "node_pressure_cpu_waiting_seconds_total"},
	{"io", "node_pressure_io_waiting_seconds_total"},
	{"memory", "node_pressure_memory_waiting_seconds_total"},
	{"irq", "node_pressure_irq_stalled_seconds_total"},
}

func newMemoryBlock(h *history) (b memoryBlock) {
	one := func(name string) *figure { return h.sum(keptShort, 1, h.where(name)...) }
	b.total, b.available = one("node_memory_MemTotal_bytes"), one("node_memory_MemAvailable_bytes")
	b.swap, b.swapFree = one("node_memory_SwapTotal_bytes"), one("node_memory_SwapFree_bytes")
	b.entries, b.limit = one("node_nf_conntrack_entries"), one("node_nf_conntrack_entries_limit")
	for _, p := range pressures {
		b.pressures = append(b.pressures, one(p.series))
	}
	return b
}

func (b memoryBlock) lines(m *model) (lines []line) {
	if total := m.value(b.total); b.available.seen() {
		available := m.value(b.available)
		text := fmt.Sprintf("%s of %s available (%s)", si(available, "B"), si(total, "B"), percent(available/total))
		if swap := m.value(b.swap); swap > 0 {
			text += fmt.Sprintf(", swap %s of %s used", si(swap-m.value(b.swapFree), "B"), si(swap, "B"))
		} else if swap == 0 {
			text += ", no swap"
		}
		lines = append(lines, line{left("Memory", labelled) + text, plain})
	}
	var waits []string
	for i, p := range b.pressures {
		if p.seen() {
			waits = append(waits, pressures[i].title+" "+percent(m.value(p)))
		}
	}
	if waits != nil {
		lines = append(lines, line{left("Pressure", labelled) + "some task waited: " + strings.Join(waits, ", "), plain})
	}
	if entries := m.value(b.entries); !math.IsNaN(entries) && b.limit.seen() {
		text := fmt.Sprintf("%.0f of %.0f connections tracked", entries, m.value(b.limit))
		lines = append(lines, line{left("Conntrack", labelled) + text, plain})
	}
	return lines
}
