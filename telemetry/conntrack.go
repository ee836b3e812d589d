// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"errors"
	"io/fs"

	"boxdyno/ledger"
	"boxdyno/result"
)

// conntrackWants are columns of /proc/net/stat/nf_conntrack; kernels differ in
// which they have (net/netfilter/nf_conntrack_standalone.c, ct_cpu_seq_show). Each is
// counted per CPU in 32 bit; "entries" is the same number in each line.
var conntrackWants = []want{
	{key: "entries", name: "node_nf_conntrack_entries", unit: "1", help: "connections being tracked"},
	{key: "found", name: "node_nf_conntrack_stat_found", unit: "1", counter: true, help: "look-ups that found another connection than theirs, when an address had to be chosen for NAT"},
	{key: "invalid", name: "node_nf_conntrack_stat_invalid", unit: "frame", counter: true, help: "packets that fit no connection and can make none"},
	{key: "insert", name: "node_nf_conntrack_stat_insert", unit: "1", counter: true, help: "connections entered (0 since Linux 4.9)"},
	{key: "insert_failed", name: "node_nf_conntrack_stat_insert_failed", unit: "1", counter: true, help: "connections that could not be entered, also counted as drop"},
	{key: "drop", name: "node_nf_conntrack_stat_drop", unit: "frame", counter: true, place: ledger.PlaceInStack("conntrack.drop"), help: "packets refused: the table was full, or a connection could not be entered"},
	{key: "early_drop", name: "node_nf_conntrack_stat_early_drop", unit: "1", counter: true, help: "connections thrown out to make room for others"},
	{key: "clashres", name: "node_nf_conntrack_stat_clashres", unit: "1", counter: true, help: "packets of one new connection that two CPUs met at once"},
	{key: "search_restart", name: "node_nf_conntrack_stat_search_restart", unit: "1", counter: true, help: "look-ups begun again because the table was changed"},
}

// newConntrack reads connection tracking of each namespace; of kernels without it
// nothing.
func newConntrack(_ context.Context, m *Machine) (Collector, error) {
	c := &files{}
	return c.done(m.within(func(s Space, root fs.FS) error {
		stat := c.add(root, "proc/thread-self/net/stat/nf_conntrack", func(data []byte) ([]result.Series, func([]byte, []float64) error, error) {
			t := newColumns(conntrackWants, data)
			return t.series(s.labels()), t.parse, nil
		})
		return errors.Join(stat, c.add(root, "proc/sys/net/netfilter/nf_conntrack_max", func([]byte) ([]result.Series, func([]byte, []float64) error, error) {
			return []result.Series{{Name: "node_nf_conntrack_entries_limit", Labels: s.labels(), Unit: "1", Help: "most connections that are tracked"}}, parseOne, nil
		}))
	}))
}

// columns is the parser of a file of /proc/net/stat: names above, a line of
// hexadecimal numbers for each CPU below.
type columns struct {
	wants  []want
	of     []int // by column: index of wants; -1: none
	counts []counter
}

func newColumns(wants []want, data []byte) *columns {
	c, text := &columns{}, scan(data)
	l, _ := text.line()
	for name := l.field(); name != nil; name = l.field() {
		at := -1
		for _, w := range wants {
			if w.key == string(name) {
				at = len(c.wants)
				c.wants = append(c.wants, w)
			}
		}
		c.of = append(c.of, at)
	}
	return c
}

func (c *columns) series(labels []result.Pair) (all []result.Series) {
	for i := range c.wants {
		all = append(all, c.wants[i].series(labels))
	}
	return all
}

func (c *columns) parse(data []byte, dst []float64) error {
	text := scan(data)
	text.line()
	for cpu := 0; ; cpu++ {
		l, ok := text.line()
		if !ok {
			return nil
		}
		for len(c.counts) < (cpu+1)*len(c.wants) {
			c.counts = append(c.counts, counter{})
		}
		whole := l
		for _, at := range c.of {
			n, ok := hexadecimal(l.field())
			if !ok {
				return malformed(whole)
			}
			switch {
			case at < 0:
			case !c.wants[at].counter:
				dst[at] = float64(n)
			case cpu == 0:
				dst[at] = c.counts[at].next(n)
			default:
				dst[at] += c.counts[cpu*len(c.wants)+at].next(n)
			}
		}
	}
}
