// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"

	"golang.org/x/sys/unix"

	"boxdyno/ledger"
	"boxdyno/result"
	"boxdyno/unit"
)

// linkCounters are of struct rtnl_link_stats64 (include/uapi/linux/if_link.h), by
// their index in it and their name in sysfs; series have node_exporter's detailed
// names. Errors of the wire only hardware can have.
var linkCounters = []struct {
	at        int
	sys, name string
	unit      unit.Symbol
	hardware  bool
	help      string
}{
	{0, "rx_packets", "receive_packets", "frame", false, "frames received"},
	{1, "tx_packets", "transmit_packets", "frame", false, "frames sent"},
	{2, "rx_bytes", "receive_bytes", bytesUnit, false, "octets received; most drivers leave the FCS out"},
	{3, "tx_bytes", "transmit_bytes", bytesUnit, false, "octets sent; most drivers leave the FCS out"},
	{4, "rx_errors", "receive_errors", "frame", false, "frames received with errors, of all kinds"},
	{5, "tx_errors", "transmit_errors", "frame", false, "frames not sent because of errors, of all kinds"},
	{6, "rx_dropped", "receive_dropped", "frame", false, "frames received and thrown away by driver or stack; drivers differ in what they count"},
	{7, "tx_dropped", "transmit_dropped", "frame", false, "frames thrown away on the way out; a veth counts here that the far end's receive ring was full"},
	{8, "multicast", "multicast", "frame", true, "multicast frames received"},
	{9, "collisions", "collisions", "1", true, "collisions: a sign of half duplex"},
	{10, "rx_length_errors", "receive_length_errors", "frame", true, "frames received too short or too long"},
	{11, "rx_over_errors", "receive_over_errors", "frame", true, "frames lost because the host gave no buffer"},
	{12, "rx_crc_errors", "receive_crc_errors", "frame", true, "frames received damaged"},
	{13, "rx_frame_errors", "receive_frame_errors", "frame", true, "frames received out of octet alignment"},
	{14, "rx_fifo_errors", "receive_fifo_errors", "frame", true, "frames lost in the NIC's own memory"},
	{15, "rx_missed_errors", "receive_missed_errors", "frame", true, "frames lost because there was no room in the receive ring"},
	{16, "tx_aborted_errors", "transmit_aborted_errors", "frame", true, "frames not sent after too many collisions"},
	{17, "tx_carrier_errors", "transmit_carrier_errors", "frame", true, "frames not sent because the carrier was lost"},
	{18, "tx_fifo_errors", "transmit_fifo_errors", "frame", true, "frames lost because the NIC was fed too slowly"},
	{23, "rx_nohandler", "receive_nohandler", "frame", false, "frames received that nobody wanted"},
	{24, "rx_otherhost_dropped", "receive_otherhost_dropped", "frame", false, "frames received for another host's MAC address"},
}

// linkSlot is a port's series.
type linkSlot struct {
	name   string
	index  int // of the interface that it stands for
	gone   bool
	first  int   // of dst
	of     []int // indices of linkCounters
	counts []counter
}

func newLinkSlot(p *port, first int) *linkSlot {
	s := &linkSlot{name: p.name, index: p.index, first: first}
	for i := range linkCounters {
		if p.hardware || !linkCounters[i].hardware {
			s.of = append(s.of, i)
		}
	}
	s.counts = make([]counter, len(s.of))
	return s
}

func (s *linkSlot) series(sp Space, owner result.Place, p *port) (all []result.Series) {
	for _, i := range s.of {
		c := &linkCounters[i]
		one := result.Series{Name: "node_network_" + c.name + "_total", Labels: sp.portLabels(p.name), Unit: c.unit, Counter: true, Help: c.help}
		if owner != "" {
			one.Place = ledger.PlaceOfPort(owner, p.driver, c.sys, p.counts)
		}
		all = append(all, one)
	}
	return all
}

// become makes the slot stand for the interface that has its name now: the one
// that it stood for, which may have been away, or another one, whose counters began
// at zero.
func (s *linkSlot) become(index int) {
	if index != s.index {
		for i := range s.counts {
			s.counts[i].anew()
		}
	}
	s.index, s.gone = index, false
}

// take fills in what the kernel says.
func (s *linkSlot) take(stats []byte, dst []float64) {
	for k, i := range s.of {
		at := 8 * linkCounters[i].at
		if at+8 > len(stats) {
			continue // a kernel that does not have it yet
		}
		dst[s.first+k] = s.counts[k].next(binary.NativeEndian.Uint64(stats[at:]))
	}
}

// newInterfaces reads the counters of the interfaces of each namespace by netlink
// (RTM_GETSTATS, Linux 4.7), of a recorded tree from sysfs.
func newInterfaces(_ context.Context, m *Machine) (Collector, error) {
	if m.Root != nil {
		return newInterfaceFiles(m)
	}
	c := &interfaces{}
	err := m.within(func(s Space, _ fs.FS) error {
		ports, err := listPorts()
		if err != nil {
			return err
		}
		l := &links{}
		c.spaces = append(c.spaces, l)
		if l.tool, err = openTool(); err != nil {
			return err
		}
		c.closers = append(c.closers, l.tool)
		filter := make([]byte, 12) // struct if_stats_msg
		binary.NativeEndian.PutUint32(filter[8:], 1<<(unix.IFLA_STATS_LINK_64-1))
		if l.dumper, err = openDumper(unix.RTM_GETSTATS, filter); err != nil {
			return err
		}
		c.closers = append(c.closers, l.dumper)
		l.each = l.message
		for i := range ports {
			p := &ports[i]
			if !p.watched() {
				continue
			}
			slot := newLinkSlot(p, len(c.series))
			l.slots = append(l.slots, slot)
			c.series = append(c.series, slot.series(s, m.owner(s), p)...)
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// interfaces is the collector: the links of each namespace.
type interfaces struct {
	held
	spaces []*links
}

func (c *interfaces) Read(dst []float64) error {
	fill(dst, math.NaN())
	for _, l := range c.spaces {
		if err := l.read(dst); err != nil {
			return fmt.Errorf("read the interfaces' counters: %w", err)
		}
	}
	return nil
}

// links is one namespace's. The kernel's answer has no names but indices, so each
// name's index is asked first: an interface can go and another one take its index.
type links struct {
	tool   *tool
	dumper *dumper
	slots  []*linkSlot

	each func([]byte) error
	dst  []float64
}

func (l *links) read(dst []float64) error {
	for _, s := range l.slots {
		if index, err := l.tool.index(s.name); err != nil {
			s.gone = true
		} else {
			s.become(index)
		}
	}
	l.dst = dst
	return l.dumper.dump(l.each)
}

// message takes one interface's: struct if_stats_msg, whose second word is the
// index, and the attribute.
func (l *links) message(body []byte) error {
	if len(body) < 12 {
		return errShort
	}
	index := int(binary.NativeEndian.Uint32(body[4:]))
	for _, s := range l.slots {
		if s.gone || s.index != index {
			continue
		}
		attrs := body[12:]
		for kind, value, ok := attribute(&attrs); ok; kind, value, ok = attribute(&attrs) {
			if kind == unix.IFLA_STATS_LINK_64 {
				s.take(value, l.dst)
			}
		}
		return nil
	}
	return nil
}

// newInterfaceFiles reads them from sysfs, a file a counter.
func newInterfaceFiles(m *Machine) (Collector, error) {
	c := &files{}
	for _, p := range sysPorts(m.root(), "sys") {
		if !p.watched() {
			continue
		}
		slot := newLinkSlot(&p, 0)
		for k, s := range slot.series(Space{}, m.owner(Space{}), &p) {
			err := c.add(m.root(), "sys/class/net/"+p.name+"/statistics/"+linkCounters[slot.of[k]].sys, func([]byte) ([]result.Series, func([]byte, []float64) error, error) {
				return []result.Series{s}, (&onlyCounter{}).parse, nil
			})
			if err != nil {
				return c.done(err)
			}
		}
	}
	return c.done(nil)
}

// onlyCounter is the parser of a file that is one counter.
type onlyCounter struct{ counter }

func (c *onlyCounter) parse(data []byte, dst []float64) error {
	n, err := oneNumber(data)
	if err == nil {
		dst[0] = c.next(n)
	}
	return err
}
