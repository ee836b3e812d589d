// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"boxdyno/host"
	"boxdyno/result"
)

// A snapshot is every counter at one instant.
type snapshot struct {
	machine  counters
	hosts    []counters // as Book.hosts
	ports    []counters // as Book.ports
	sources  []result.Term
	remotes  []Reading       // as Book.remotes
	carriers []Link          // of ports that are no recorded tree's
	unread   []result.Unread // of ports, with their values
}

// read takes a snapshot: about a millisecond for a sandbox.
func (b *Book) read(ctx context.Context) (snapshot, error) {
	s := snapshot{machine: counters{}}
	for _, m := range b.more {
		t, err := m.Count(ctx)
		if err != nil {
			return s, fmt.Errorf("read a further counter: %w", err)
		}
		s.sources = append(s.sources, t...)
	}
	for _, r := range b.remotes {
		reading, err := r.Read(ctx)
		if err != nil {
			return s, err
		}
		s.remotes = append(s.remotes, reading)
	}
	queues := map[*sockets]map[int]counters{} // one dump for a namespace
	for _, p := range b.ports {
		c, all, err := p.read()
		if err != nil {
			return s, fmt.Errorf("read the counters of %s: %w", p.port.Name, err)
		}
		s.unread = append(s.unread, p.unreadOf(all)...)
		if p.root == nil {
			l, err := p.link()
			if err != nil {
				return s, fmt.Errorf("port %s: %w", p.port.Name, err)
			}
			s.carriers = append(s.carriers, l)
		}
		if p.root == nil && (p.want["clsact drops"] || p.want["qdisc drops"]) {
			q := queues[p.sockets]
			if q == nil {
				var err error
				if q, err = p.sockets.qdiscs(); err != nil {
					return s, err
				}
				queues[p.sockets] = q
			}
			for name, n := range q[p.index] {
				c[name] = n
			}
		}
		for name := range c {
			if !p.want[name] && !(name == queued && p.egress) {
				delete(c, name)
			}
		}
		s.ports = append(s.ports, c)
	}
	for _, h := range b.hosts {
		c := counters{}
		if err := h.local.View(func(root fs.FS) error { return readStack(root, c) }); err != nil {
			return s, err
		}
		if h.witness != nil {
			if err := h.witness.read(c); err != nil {
				return s, err
			}
		}
		if h.sockets != nil {
			list, err := h.sockets.nftCounters()
			if err != nil {
				return s, err
			}
			for _, n := range list {
				switch {
				case !n.ours():
					c[n.key()] += n.packets
				case h.deliveries != nil && n.table == h.deliveries.table:
					c[deliveredByPorts] = n.packets
				}
			}
		}
		if h.undivided != "" {
			for _, name := range []string{"Ip.InDelivers", "Ip6.InDelivers"} {
				s.unread = append(s.unread, result.Unread{Host: h.local.Label, Counter: name, N: int64(c[name]), Why: h.undivided})
			}
		}
		s.hosts = append(s.hosts, c)
	}
	if len(b.hosts) == 0 {
		return s, nil
	}
	root := b.hosts[0].local.Root
	if root == nil {
		root = os.DirFS("/")
	}
	if err := readMachine(root, s.machine); err != nil {
		return s, err
	}
	for _, m := range stack {
		if m.lacking != "" && !slices.ContainsFunc(s.hosts, func(c counters) bool { return !c.has(m.lacking) }) {
			delete(s.machine, m.counter)
		}
	}
	return s, nil
}

func (b *Book) settle(ctx context.Context) (last snapshot, settled bool, err error) {
	if err := host.Pause(ctx, b.Settle); err != nil {
		return last, false, err
	}
	start := time.Now()
	for reads := 0; ; reads++ {
		waiting, err := b.waiting() // first, or what it sees might end unread
		if err != nil {
			return last, false, err
		}
		now, err := b.read(ctx)
		if err != nil {
			return last, false, err
		}
		for _, r := range now.remotes {
			waiting = waiting || r.Waiting
		}
		still := b.Virtual || reads > 0 && !waiting && now.equal(last)
		last = now
		most := settleMost
		if waiting {
			most = neighbourMost
		}
		if still || time.Since(start) > most {
			return last, still, nil
		}
		if err := host.Pause(ctx, readGap); err != nil {
			return last, false, err
		}
	}
}

// read gives the port's counters as the dictionary names them, sums over queues
// among them, and all as they stand.
func (p *portOf) read() (c, all counters, err error) {
	c, all = counters{}, counters{}
	if p.root != nil {
		if err := recordedCounters(p.root, p.port.Name, all); err != nil {
			return nil, nil, err
		}
	} else {
		if err := p.sockets.linkStats(p.index, all); err != nil {
			return nil, nil, err
		}
		if err := p.sockets.driverStats(p.port.Name, len(p.ethtool) > 0, all); err != nil {
			return nil, nil, fmt.Errorf("ask the driver: %w", err)
		}
	}
	for name, n := range all {
		if !strings.HasPrefix(name, driversOwn) {
			c[name] = n
		}
	}
	sumPatterns(all, p.ethtool, c)
	return c, all, nil
}

func (b *Book) waiting() (bool, error) {
	for _, p := range b.ports {
		if !p.egress || p.root != nil {
			continue
		}
		if w, err := p.sockets.waiting(p.index); w || err != nil {
			return w, err
		}
	}
	return false, nil
}
