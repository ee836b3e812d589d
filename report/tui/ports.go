// SPDX-License-Identifier: Apache-2.0

package tui

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"boxdyno/result"
)

// A port is an interface in a namespace: how much goes in and out of it, and what is
// lost there.
type port struct {
	name     string
	cells    []*figure // as portCells
	inAndOut *figure
}

// A frame lost is a frame lost at a place of the ledger: what a driver counts twice,
// or does not lose, is not among them.
var portCells = []struct {
	title, series string
	times         float64
	width         int
}{
	{"in frame/s", "node_network_receive_packets_total", 1, 11},
	{"in bit/s", "node_network_receive_bytes_total", 8, 10},
	{"out frame/s", "node_network_transmit_packets_total", 1, 12},
	{"out bit/s", "node_network_transmit_bytes_total", 8, 11},
	{"drops/s", "", 1, 9},
}

type portBlock []port

func newPortBlock(h *history) (b portBlock) {
	frames := portCells[0].series
	for _, i := range h.where(frames) {
		device, netns := result.Get(h.series[i].Labels, "device"), result.Get(h.series[i].Labels, "netns")
		here := func(want func(s result.Series) bool) (of []int) {
			for k, s := range h.series {
				if want(s) && result.Get(s.Labels, "device") == device && result.Get(s.Labels, "netns") == netns {
					of = append(of, k)
				}
			}
			return of
		}
		p := port{name: clean(strings.TrimSpace(netns + " " + device))}
		for _, c := range portCells {
			p.cells = append(p.cells, h.sum(keptShort, c.times, here(func(s result.Series) bool {
				return c.series != "" && s.Name == c.series || c.series == "" && s.Place != "" && s.Counter
			})...))
		}
		p.inAndOut = h.sum(keptLong, 1, slices.Concat(p.cells[0].of, p.cells[2].of)...)
		b = append(b, p)
	}
	slices.SortStableFunc(b, func(x, y port) int { return boolean(x.loopback()) - boolean(y.loopback()) })
	return b
}

// loopback goes last: it is no port that frames come by.
func (p port) loopback() bool { return p.name == "lo" || strings.HasSuffix(p.name, " lo") }

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

const portName = 15

// lines are a row for each port; one that is gone keeps its row.
func (b portBlock) lines(m *model) (lines []line) {
	title := left("Port", portName)
	for _, c := range portCells {
		title += right(c.title, c.width)
	}
	if room := m.width - width(title) - 2; room > 0 {
		title += "  " + clip("in and out", room)
	}
	lines = []line{{title, head}}
	for _, p := range b {
		if !p.inAndOut.seen() {
			continue
		}
		text, look := left("  "+p.name, portName), plain
		for i, c := range p.cells {
			text += right(rate(m.value(c)), portCells[i].width)
		}
		if m.value(p.cells[len(p.cells)-1]) > 0 {
			text, look = "!"+text[1:], alarm
		}
		lines = append(lines, line{m.spark(text, p.inAndOut, 0, math.NaN()), look})
	}
	if len(lines) == 1 {
		return nil
	}
	return lines
}

// A loss is what is lost at one place.
type loss struct {
	place result.Place
	*figure
}

type dropBlock []loss

func newDropBlock(h *history) (b dropBlock) {
	for _, p := range result.Places {
		var of []int
		for i, s := range h.series {
			if s.Place == p && s.Counter {
				of = append(of, i)
			}
		}
		if of != nil {
			b = append(b, loss{p, h.sum(keptLong, 1, of...)})
		}
	}
	return b
}

const (
	labelled = 14 // columns of a row's name
	figures  = 12 // of its figure
	said     = 40 // and of what is said of it
)

// lines name the places where frames were lost, and those where none was.
func (b dropBlock) lines(m *model) (lines []line) {
	var none []string
	for _, l := range b {
		switch {
		case !l.seen():
		case l.grown() > 0:
			text := left("! "+string(l.place), labelled) + right(rate(m.value(l.figure)), figures) + "  " + left(strings.TrimSpace(si(l.grown(), ""))+" so far", said/2)
			lines = append(lines, line{m.spark(text, l.figure, 0, math.NaN()), alarm})
		default:
			none = append(none, string(l.place))
		}
	}
	if none != nil {
		lines = append([]line{{left("Drops/s", labelled) + "none at " + strings.Join(none, ", "), plain}}, lines...)
	} else if lines != nil {
		lines = append([]line{{"Drops/s", plain}}, lines...)
	}
	return lines
}

// counters are those that grew, each by itself.
func (b dropBlock) counters(m *model) (lines []line) {
	for _, l := range b {
		for _, i := range l.of {
			if m.grown[i] > 0 {
				lines = append(lines, line{fmt.Sprintf("%s%s%s  %s", left("  "+string(l.place), labelled), right(rate(m.history.now[i]), figures),
					right(strings.TrimSpace(si(m.grown[i], ""))+" so far", said/2), clean(name(m.series[i]))), plain})
			}
		}
	}
	if lines != nil {
		lines = append([]line{{"Counters of lost frames", head}}, lines...)
	}
	return lines
}

// name is s as Prometheus writes it.
func name(s result.Series) string {
	if len(s.Labels) == 0 {
		return s.Name
	}
	var labels []string
	for _, l := range s.Labels {
		labels = append(labels, l.Key+"="+l.Value)
	}
	return s.Name + "{" + strings.Join(labels, ",") + "}"
}
