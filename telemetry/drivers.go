// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"bytes"
	"cmp"
	"context"
	"io/fs"
	"math"
	"slices"
	"strings"

	"boxdyno/ledger"
	"boxdyno/result"
	"boxdyno/unit"
)

// lossWords are in the names of counters of lost frames, and of what leads to them.
var lossWords = []string{"drop", "discard", "miss", "err", "fail", "over", "under", "fifo", "full", "exceed", "busy",
	"no_buf", "nobuf", "no_room", "no_desc", "no_mem", "crc", "length", "jabber", "fragment", "coll", "abort", "carrier",
	"timeout", "stop", "pause", "xon", "xoff", "resource", "bad", "invalid", "csum", "xdp"}

// perQueueMost is how many series a port may have before those of its single queues
// are left out.
const perQueueMost = 256

// chosenStats are the counters that become series: those of losses, the frames of
// each queue, and what the ledger has a place for. A NIC can have thousands.
func chosenStats(names []string, place func(name string) result.Place) (chosen []int) {
	var ofQueues []int
	taken := map[string]bool{}
	for i, name := range names {
		lower := strings.ToLower(name)
		queue := strings.ContainsAny(name, "0123456789") && (strings.Contains(lower, "queue") || strings.Contains(lower, "ring") || strings.HasPrefix(lower, "rx") || strings.HasPrefix(lower, "tx") || strings.HasPrefix(lower, "q"))
		loss := slices.ContainsFunc(lossWords, func(w string) bool { return strings.Contains(lower, w) }) && !strings.HasSuffix(lower, "bytes")
		if !loss && place(name) == "" && !(queue && strings.HasSuffix(lower, "packets")) {
			continue
		}
		if taken[statName(name)] {
			continue // no two series may have one name
		}
		taken[statName(name)] = true
		chosen = append(chosen, i)
		if queue {
			ofQueues = append(ofQueues, i)
		}
	}
	if len(chosen) > perQueueMost {
		chosen = slices.DeleteFunc(chosen, func(i int) bool { return slices.Contains(ofQueues, i) })
	}
	return chosen
}

// statName is node_exporter's for a driver's counter:
// node_ethtool_received_queue_0_drops for rx_queue_0_drops.
func statName(name string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToLower(name))
	words := strings.Split(strings.TrimLeft(clean, "_"), "_")
	for i, w := range words {
		words[i] = cmp.Or(map[string]string{"rx": "received", "tx": "transmitted"}[w], w)
	}
	return "node_ethtool_" + strings.Join(words, "_")
}

// driverStats is the collector of ethtool -S: what drivers count themselves, by
// names of their own.
type driverStats struct {
	held
	ports []*driverPort
}

// A driverPort is one interface with counters of its driver.
type driverPort struct {
	*tool
	name   string
	index  int
	first  int
	wants  []string // by series
	names  []string // what the driver has now, in its order
	at     []int    // by series: index of names; -1: gone
	counts []counter
}

// newDriverStats finds them. Some drivers ask their firmware, or wait for the NIC,
// so they are read once a second.
func newDriverStats(_ context.Context, m *Machine) (Collector, error) {
	if m.Root != nil {
		return newDriverFiles(m)
	}
	c := &driverStats{}
	err := m.within(func(s Space, _ fs.FS) error {
		t, err := openTool()
		if err != nil {
			return err
		}
		c.closers = append(c.closers, t)
		ports, err := listPorts()
		if err != nil {
			return err
		}
		for i := range ports {
			if p := &ports[i]; p.watched() && len(p.stats) > 0 {
				c.add(t, s, p, m.owner(s))
			}
		}
		return nil
	})
	if err := c.held.done(err); err != nil {
		return nil, err
	}
	return c, nil
}

// statSeries are the series of a port, and the driver's names for them.
func statSeries(s Space, p *port, owner result.Place) (series []result.Series, names []string) {
	place := func(name string) result.Place {
		if owner == "" {
			return ""
		}
		return ledger.PlaceOfPort(owner, p.driver, "ethtool "+name, p.counts)
	}
	for _, i := range chosenStats(p.stats, place) {
		name := p.stats[i]
		names = append(names, name)
		series = append(series, result.Series{Name: statName(name), Labels: s.portLabels(p.name), Unit: statUnit(name), Counter: true,
			Place: place(name), Help: name + ", as the driver " + cmp.Or(p.driver, "of the port") + " means it"})
	}
	return series, names
}

func statCounters(driver string, names []string) []counter {
	counts := make([]counter, len(names))
	for i, name := range names {
		counts[i].narrow = ledger.BitsOfPort(driver, "ethtool "+name) == 16
	}
	return counts
}

func (c *driverStats) add(t *tool, s Space, p *port, owner result.Place) {
	d := &driverPort{tool: t, name: p.name, index: p.index, first: len(c.series)}
	var series []result.Series
	series, d.wants = statSeries(s, p, owner)
	if len(series) == 0 {
		return
	}
	c.series = append(c.series, series...)
	d.counts = statCounters(p.driver, d.wants)
	d.arrange(p.stats)
	c.ports = append(c.ports, d)
}

func statUnit(name string) unit.Symbol {
	if strings.HasSuffix(name, "bytes") || strings.HasSuffix(name, "octets") {
		return bytesUnit
	}
	return "1"
}

// arrange finds the series among what the driver has now.
func (d *driverPort) arrange(names []string) {
	d.names, d.at = names, d.at[:0]
	for _, w := range d.wants {
		d.at = append(d.at, slices.Index(names, w))
	}
}

// Read implements Collector. An interface that is gone is absent.
func (c *driverStats) Read(dst []float64) error {
	fill(dst, math.NaN())
	for _, d := range c.ports {
		values, err := d.now()
		if err == nil {
			d.take(values, dst[d.first:])
		}
	}
	return nil
}

// now asks the driver, first for its names where it has more or fewer than before
// (other channels) or is another interface of the same name.
func (d *driverPort) now() ([]uint64, error) {
	index, err := d.tool.index(d.name)
	if err != nil {
		return nil, err
	}
	n, err := d.count(d.name)
	if err != nil {
		return nil, err
	}
	if index != d.index || n != len(d.names) {
		names, err := d.tool.names(d.name)
		if err != nil {
			return nil, err
		}
		if index != d.index {
			for i := range d.counts {
				d.counts[i].anew()
			}
		}
		d.index = index
		d.arrange(names)
	}
	values, err := d.stats(d.name, len(d.names))
	if err == nil && len(values) != len(d.names) {
		err = errShort
	}
	return values, err
}

func (d *driverPort) take(values []uint64, dst []float64) {
	for i, at := range d.at {
		if at >= 0 {
			dst[i] = d.counts[i].next(values[at])
		}
	}
}

// newDriverFiles reads those of a recorded tree, ethtool/NAME: what ethtool -S
// printed, as the ledger has it.
func newDriverFiles(m *Machine) (Collector, error) {
	c := &files{}
	for _, p := range sysPorts(m.root(), "sys") {
		err := c.add(m.root(), "ethtool/"+p.name, func(data []byte) ([]result.Series, func([]byte, []float64) error, error) {
			p.stats, _ = parseStats(data)
			series, names := statSeries(Space{}, &p, m.owner(Space{}))
			d := &driverPort{wants: names, counts: statCounters(p.driver, names)}
			return series, func(data []byte, dst []float64) error {
				names, values := parseStats(data)
				d.arrange(names)
				d.take(values, dst)
				return nil
			}, nil
		})
		if err != nil {
			return c.done(err)
		}
	}
	return c.done(nil)
}

// parseStats parses "     rx_dropped: 12"; other lines are headings.
func parseStats(data []byte) (names []string, values []uint64) {
	for line := range bytes.Lines(data) {
		i := bytes.LastIndexByte(line, ':')
		if i < 0 {
			continue
		}
		if n, ok := decimal(bytes.TrimSpace(line[i+1:])); ok {
			names, values = append(names, string(bytes.TrimSpace(line[:i]))), append(values, n)
		}
	}
	return names, values
}
