// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"math"

	"golang.org/x/sys/unix"

	"boxdyno/ledger"
	"boxdyno/result"
	"boxdyno/unit"
)

// queueCounters are what a queueing discipline at a port's root says: struct
// gnet_stats_queue (include/uapi/linux/gen_stats.h), by index; those below a root
// are in its numbers. All have 32 bit.
var queueCounters = []struct {
	at         int
	name       string
	unit       unit.Symbol
	gauge      bool
	dictionary string // the counter's name in the ledger
	help       string
}{
	{2, "node_qdisc_drops_total", "frame", false, "qdisc drops", "frames dropped by the queueing discipline"},
	{4, "node_qdisc_overlimits_total", "1", false, "", "times the queueing discipline held a frame back"},
	{3, "node_qdisc_requeues_total", "1", false, "", "frames that the driver had no room for, and were put back"},
	{0, "node_qdisc_current_queue_length", "frame", true, "", "frames in the queueing discipline"},
	{1, "node_qdisc_backlog", bytesUnit, true, "", "octets in the queueing discipline"},
}

// ingressDrops are frames that programs and rules of tc at a clsact or ingress
// qdisc dropped; both directions are in it.
const ingressDrops = "boxdyno_tc_drops_total"

// Numbers of linux/rtnetlink.h and linux/pkt_sched.h.
const (
	tcaKind       = 1
	tcaStats2     = 7
	tcaStatsQueue = 3
	tcRoot        = 0xffffffff
	tcIngress     = 0xfffffff1
	tcMessage     = 20 // octets of struct tcmsg
	queueStats    = 20 // octets of struct gnet_stats_queue
)

// newQueues reads the queueing disciplines of each namespace by netlink.
func newQueues(_ context.Context, m *Machine) (Collector, error) {
	if m.Root != nil {
		return nil, ErrAbsent
	}
	c := &queues{}
	err := m.within(func(s Space, _ fs.FS) error {
		q := &queuesOf{}
		c.spaces = append(c.spaces, q)
		ports, err := listPorts()
		if err != nil {
			return err
		}
		if q.tool, err = openTool(); err != nil {
			return err
		}
		c.closers = append(c.closers, q.tool)
		if q.dumper, err = openDumper(unix.RTM_GETQDISC, make([]byte, tcMessage)); err != nil {
			return err
		}
		c.closers = append(c.closers, q.dumper)
		q.each = q.message
		for i := range ports {
			if p := &ports[i]; p.watched() && !p.loopback {
				c.add(q, s, p, m.owner(s))
			}
		}
		return nil
	})
	if err := c.held.done(err); err != nil {
		return nil, err
	}
	return c, nil
}

// queues is the collector.
type queues struct {
	held
	spaces []*queuesOf
}

// queuesOf is one namespace's. A discipline that is replaced goes on under the same
// series. Where there is none ("noqueue") the port's numbers are absent.
type queuesOf struct {
	tool   *tool
	dumper *dumper
	each   func([]byte) error
	ports  []*queuePort
	dst    []float64
}

type queuePort struct {
	name          string
	index         int // 0: there is none of that name
	first         int
	root, ingress uint64  // disciplines that counts refer to; 0: none
	told          [2]bool // in this dump
	counts        []counter
}

func (c *queues) add(q *queuesOf, s Space, p *port, owner result.Place) {
	place := func(counter string) result.Place {
		if owner == "" || counter == "" {
			return ""
		}
		return ledger.PlaceOfPort(owner, p.driver, counter, p.counts)
	}
	q.ports = append(q.ports, &queuePort{name: p.name, index: p.index, first: len(c.series), counts: make([]counter, len(queueCounters)+1)})
	labels := s.portLabels(p.name)
	for _, k := range queueCounters {
		c.series = append(c.series, result.Series{Name: k.name, Labels: labels, Unit: k.unit, Counter: !k.gauge, Place: place(k.dictionary), Help: k.help})
	}
	c.series = append(c.series, result.Series{Name: ingressDrops, Labels: labels, Unit: "frame", Counter: true, Place: place("clsact drops"),
		Help: "frames dropped by programs and rules of tc"})
}

func (c *queues) Read(dst []float64) error {
	fill(dst, math.NaN())
	for _, q := range c.spaces {
		q.dst = dst
		for _, p := range q.ports {
			p.index, _ = q.tool.index(p.name)
			p.told = [2]bool{}
		}
		if err := q.dumper.dump(q.each); err != nil {
			return fmt.Errorf("read the queueing disciplines: %w", err)
		}
		for _, p := range q.ports {
			p.forget()
		}
	}
	return nil
}

// message takes one discipline: struct tcmsg and attributes.
func (q *queuesOf) message(body []byte) error {
	if len(body) < tcMessage {
		return errShort
	}
	index := int(binary.NativeEndian.Uint32(body[4:]))
	handle, parent := binary.NativeEndian.Uint32(body[8:]), binary.NativeEndian.Uint32(body[12:])
	if parent != tcRoot && parent != tcIngress {
		return nil
	}
	for _, p := range q.ports {
		if p.index != index {
			continue
		}
		attrs := body[tcMessage:]
		var stats []byte
		for kind, value, ok := attribute(&attrs); ok; kind, value, ok = attribute(&attrs) {
			switch {
			case kind == tcaKind && string(value) == "noqueue\x00":
				return nil
			case kind == tcaStats2:
				for kind, inner, ok := attribute(&value); ok; kind, inner, ok = attribute(&value) {
					if kind == tcaStatsQueue && len(inner) >= queueStats {
						stats = inner
					}
				}
			}
		}
		if stats != nil {
			p.take(parent, handle, stats, q.dst[p.first:])
		}
		return nil
	}
	return nil
}

func (p *queuePort) take(parent, handle uint32, stats []byte, dst []float64) {
	value := func(i int) uint64 { return uint64(binary.NativeEndian.Uint32(stats[4*i:])) }
	if parent == tcIngress {
		p.told[1] = true
		at := len(queueCounters)
		if id := p.discipline(handle); p.ingress != id {
			p.counts[at].anew()
			p.ingress = id
		}
		dst[at] = p.counts[at].next(value(2))
		return
	}
	p.told[0] = true
	if id := p.discipline(handle); p.root != id {
		for i := range queueCounters {
			p.counts[i].anew()
		}
		p.root = id
	}
	for i := range queueCounters {
		if k := &queueCounters[i]; k.gauge {
			dst[i] = float64(value(k.at))
		} else {
			dst[i] = p.counts[i].next(value(k.at))
		}
	}
}

// discipline names one for as long as it is there: the port's index and its handle.
func (p *queuePort) discipline(handle uint32) uint64 { return uint64(p.index)<<32 | uint64(handle) }

// forget says that disciplines that were not told are gone: the next of the same
// handle is another.
func (p *queuePort) forget() {
	if !p.told[0] {
		p.root = 0
	}
	if !p.told[1] {
		p.ingress = 0
	}
}
