// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"io/fs"
	"slices"
	"strings"

	"boxdyno/ledger"
	"boxdyno/result"
	"boxdyno/unit"
)

type protocolWant struct {
	key  string
	unit unit.Symbol
	help string
}

// protocolWants are counters of the protocols in /proc/net/snmp, netstat and snmp6
// (RFC 4293, 4113, 4022; Documentation/networking/snmp_counter.rst), named as the
// ledger names them. Those of lost frames have their place from its dictionary.
var protocolWants = []protocolWant{
	{"Ip.InReceives", "frame", "packets received by IPv4"},
	{"Ip.InDelivers", "frame", "packets delivered to the machine itself by IPv4"},
	{"Ip.ForwDatagrams", "frame", "packets forwarded by IPv4"},
	{"Ip.InHdrErrors", "frame", "packets dropped: TTL expired or bad header"},
	{"Ip.InAddrErrors", "frame", "packets dropped: address not acceptable, or forwarding off"},
	{"Ip.InUnknownProtos", "frame", "packets dropped: unknown protocol"},
	{"Ip.InDiscards", "frame", "packets discarded on input"},
	{"Ip.OutDiscards", "frame", "packets discarded on output"},
	{"Ip.OutNoRoutes", "frame", "packets of the machine's own without a route"},
	{"Ip.FragFails", "frame", "packets dropped: larger than the MTU"},
	{"Ip.ReasmFails", "frame", "packets not put together from fragments"},
	{"IpExt.InNoRoutes", "frame", "packets dropped: no route"},
	{"IpExt.InTruncatedPkts", "frame", "packets dropped: truncated"},
	{"TcpExt.IPReversePathFilter", "frame", "packets dropped by the reverse path filter"},
	{"Ip6.InReceives", "frame", "packets received by IPv6"},
	{"Ip6.InDelivers", "frame", "packets delivered to the machine itself by IPv6"},
	{"Ip6.OutForwDatagrams", "frame", "packets forwarded by IPv6"},
	{"Ip6.InHdrErrors", "frame", "packets dropped: hop limit expired or bad header"},
	{"Ip6.InAddrErrors", "frame", "packets dropped: address not acceptable, or forwarding off"},
	{"Ip6.InUnknownProtos", "frame", "packets dropped: unknown protocol"},
	{"Ip6.InNoRoutes", "frame", "packets dropped: no route, or one that refuses"},
	{"Ip6.InTruncatedPkts", "frame", "packets dropped: truncated"},
	{"Ip6.InDiscards", "frame", "packets discarded on input"},
	{"Ip6.OutDiscards", "frame", "packets discarded on output"},
	{"Ip6.FragFails", "frame", "packets dropped: larger than the MTU"},
	{"Udp.InDatagrams", "frame", "UDP datagrams delivered"},
	{"Udp.InErrors", "frame", "UDP datagrams not delivered for any reason but a port without program"},
	{"Udp.NoPorts", "frame", "UDP datagrams for a port without program"},
	{"Udp.RcvbufErrors", "frame", "UDP datagrams lost because a socket's queue was full"},
	{"Udp.SndbufErrors", "frame", "UDP datagrams not sent for want of memory"},
	{"Udp6.RcvbufErrors", "frame", "UDP datagrams over IPv6 lost because a socket's queue was full"},
	{"Tcp.RetransSegs", "frame", "TCP segments sent again"},
	{"TcpExt.ListenDrops", "frame", "connection attempts dropped"},
	{"TcpExt.ListenOverflows", "frame", "connection attempts dropped because the queue for accept was full"},
	{"TcpExt.TCPBacklogDrop", "frame", "TCP segments dropped because a socket's backlog was full"},
	{"TcpExt.TCPTimeouts", "1", "TCP retransmission time-outs"},
}

// socketLosses end at a program's socket, which the ledger counts as delivered.
var socketLosses = []string{"Udp.RcvbufErrors", "Udp6.RcvbufErrors"}

// newProtocols reads the protocols' counters of each namespace.
func newProtocols(_ context.Context, m *Machine) (Collector, error) {
	c := &files{}
	return c.done(m.within(func(s Space, root fs.FS) error {
		for _, name := range []string{"snmp", "netstat", "snmp6"} {
			err := c.add(root, "proc/thread-self/net/"+name, func(data []byte) ([]result.Series, func([]byte, []float64) error, error) {
				p := newProtocolTable(data)
				return p.series(s.labels(), m.owner(s)), p.parse, nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

// protocols is the parser of such a file. A kernel does not change the order of
// what it tells, so each counter is known by where it stands.
type protocols struct {
	wants  []int   // indices of protocolWants, by series
	lines  [][]int // by line and column behind the first word: series; -1: none
	counts []counter
}

// newProtocolTable looks for the counters in lines in pairs, "Ip: InReceives ..." above
// "Ip: 12 ...", and lines "Ip6InReceives  12".
func newProtocolTable(data []byte) *protocols {
	p := &protocols{}
	var names []string // of the last line of names
	text := scan(data)
	for l, ok := text.line(); ok; l, ok = text.line() {
		key := string(l.field())
		group, paired := strings.CutSuffix(key, ":")
		var columns []int
		add := func(name string) {
			at := slices.IndexFunc(protocolWants, func(w protocolWant) bool { return w.key == name })
			if at >= 0 {
				p.wants = append(p.wants, at)
				at = len(p.wants) - 1
			}
			columns = append(columns, at)
		}
		switch {
		case !paired:
			for _, g := range []string{"Ip6", "Udp6"} {
				if name, ok := strings.CutPrefix(key, g); ok {
					add(g + "." + name)
				}
			}
		case names == nil:
			names = strings.Fields(string(l))
		default:
			for _, n := range names {
				add(group + "." + n)
			}
			names = nil
		}
		for len(columns) > 0 && columns[len(columns)-1] < 0 {
			columns = columns[:len(columns)-1]
		}
		p.lines = append(p.lines, columns)
	}
	p.counts = make([]counter, len(p.wants))
	return p
}

func (p *protocols) series(labels []result.Pair, owner result.Place) (all []result.Series) {
	for _, i := range p.wants {
		w := &protocolWants[i]
		one := want{name: "node_netstat_" + strings.ReplaceAll(w.key, ".", "_"), unit: w.unit, counter: true, help: w.help}
		switch {
		case owner == result.DUTNIC && slices.Contains(socketLosses, w.key):
			one.place = result.Socket
		case owner == result.DUTNIC && !deliveries[w.key]:
			one.place = ledger.PlaceInStack(w.key)
		}
		all = append(all, one.series(labels))
	}
	return all
}

// deliveries are no losses: the ledger lists them because for a frame to be
// forwarded they are its end.
var deliveries = map[string]bool{"Ip.InDelivers": true, "Ip6.InDelivers": true}

func (p *protocols) parse(data []byte, dst []float64) error {
	text := scan(data)
	for _, columns := range p.lines {
		l, ok := text.line()
		if !ok {
			return nil
		}
		whole := l
		l.field()
		for _, at := range columns {
			b := l.field()
			if at < 0 {
				continue // Tcp.MaxConn is -1
			}
			n, ok := decimal(b)
			if !ok {
				return malformed(whole)
			}
			dst[at] = p.counts[at].next(n)
		}
	}
	return nil
}
