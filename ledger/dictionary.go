// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"
	"strings"

	"boxdyno/result"
)

// This file is the dictionary: which counter means what at which place, and what
// it would count twice. A driver is one row of drivers; a counter that is in no
// table is no term. What moved and is no term is told: unread.go.

// A direction is what a port does to the frames of a path.
type direction int

const (
	sends direction = iota
	receives
)

// A meaning is one counter of a port.
type meaning struct {
	dir     direction
	at      result.Place // hops at which it means this: Tester, DUTNIC, MeterAt; "": all
	counter string       // of rtnl_link_stats64, or "ethtool NAME" where a star is a number: a sum over queues
	place   result.Place // where the frame ended; "": the hop's own
	name    string
	far     string // the frame ended at the port at the other end of the link; the name there if that is the meter's
	passed  bool   // a checkpoint, no drop
	always  bool   // a checkpoint that is told even if nothing passed; of a drop, where paths end at the port
	unless  string // left out where this counter of the same port is a term: that counts the same frames
	lacking string // left out where the port has this counter, another term that counts the same frames
	bits    int    // of the counter, where it wraps: 16, 32; 0: 64
	handed  bool   // of a meter's port: it counts what XDP could not hand to the meter's socket, too
	limit   string // why it may count less than was lost, in a sentence
}

// An unread is a counter of a port that is no term.
type unread struct {
	counter string // as in meaning
	in      string // counters, terms all, that count the same frames; "": nobody says where they ended
	why     string
}

// A driver is the meanings of its counters (drivers_*.go). Where it names a counter
// of everyPort, that one means nothing else.
type driver struct {
	name     string // as ethtool -i has it; more than one: separated by blanks
	source   string // files and functions of Linux 6.12 that it was read from
	note     string // of the driver as a whole
	buffers  bool   // its receive ring may be missing, see sockets.buffered
	meanings []meaning
	unread   []unread
}

// drivers are those whose counters are known; of others only the checkpoints and
// what the kernel itself counts for every port are read.
var drivers = slices.Concat([]driver{veth}, boards, nics)

// ReceiveFailed names what a veth's receiving end could not take: no memory, or no room in
// the XDP socket that a program redirects to, which counts such frames itself.
const ReceiveFailed = "receive failed in the driver"

// XDPDrop names the frames that a port's XDP program dropped. The name of a counter that
// has them among others ends with it.
const XDPDrop = "XDP drop"

// veth: only tx_dropped of the sending port has all drops of a full receive ring, of
// the backlog of a port without a ring, and of what the port's own XDP program could
// not send back. rx_dropped and xdp_xmit_errors repeat a part. XDP drops count for the
// DUT only, because the meter's program drops what it counted.
var veth = driver{
	name: "veth", buffers: true,
	source: "drivers/net/veth.c: veth_xmit, veth_forward_skb, veth_xdp_xmit, veth_get_stats64, veth_get_ethtool_stats",
	meanings: []meaning{
		{dir: sends, counter: "tx_dropped", place: result.DUTNIC, name: "receive ring full", far: "meter ring full"},
		{dir: receives, counter: "ethtool rx_queue_*_drops", name: ReceiveFailed, handed: true},
		{dir: receives, at: result.DUTNIC, counter: "ethtool rx_queue_*_xdp_drops", place: result.XDP, name: XDPDrop},
		{dir: receives, at: result.DUTNIC, counter: "ethtool rx_queue_*_xdp_tx", place: result.XDP, name: "sent back by XDP"},
		{dir: receives, at: result.DUTNIC, counter: "ethtool rx_queue_*_xdp_tx_errors", place: result.XDP, name: "XDP could not send back", unless: "tx_dropped"},
		{dir: receives, at: result.DUTNIC, counter: "ethtool rx_queue_*_xdp_redirect", place: result.XDP, name: "redirected by XDP", passed: true},
	},
	unread: vethUnread,
}

// everyPort is what the kernel counts in the same way for every driver.
//
// rx_dropped and rx_errors are not read: they sum what other counters name.
// rx_missed_errors are frames for which the host gave the port no buffer in time,
// rx_crc_errors those that came damaged (include/uapi/linux/if_link.h); a veth has
// neither. Programs attached by TCX (not by a clsact qdisc) have no counter.
var everyPort = []meaning{
	{dir: sends, counter: "tx_packets", name: "sent", passed: true, always: true},
	{dir: receives, counter: "rx_packets", name: "received", passed: true, always: true},
	{dir: receives, counter: "rx_missed_errors", name: "no room in the receive ring"},
	{dir: receives, counter: "rx_crc_errors", place: result.Link, name: "damaged on the link"},
	{dir: receives, at: result.DUTNIC, counter: "rx_otherhost_dropped", place: result.Routing, name: "MAC address of another host", always: true},
	{dir: receives, at: result.DUTNIC, counter: "clsact drops", place: result.TC, name: "tc drop", bits: 32},
	{dir: sends, at: result.DUTNIC, counter: "clsact drops", place: result.TC, name: "tc drop", bits: 32},
	{dir: sends, at: result.DUTNIC, counter: "qdisc drops", place: result.Qdisc, name: "egress queue full", bits: 32},
}

// queued is the gauge of frames that wait in the DUT's egress queues.
const queued = "qdisc queued"

func driverOf(name string) driver {
	for _, d := range drivers {
		if slices.Contains(strings.Fields(d.name), name) {
			return d
		}
	}
	return driver{name: name}
}

func (d driver) known() bool { return d.source != "" }

// skips says whether the driver's table itself says what a counter of every port is.
func (d driver) skips(counter string) bool {
	return slices.ContainsFunc(d.unread, func(u unread) bool { return u.counter == counter }) ||
		slices.ContainsFunc(d.meanings, func(m meaning) bool { return m.counter == counter })
}

// A stackMeaning is one counter of a whole namespace or machine.
type stackMeaning struct {
	place   result.Place
	counter string
	name    string
	passed  bool
	machine bool   // of the whole machine, not of the namespace
	lacking string // of the machine: left out where each namespace has this counter of its own
	bits    int
	where   sharing
}

// A sharing is in which namespaces a counter of the stack is read.
type sharing int

const (
	anywhere sharing = iota
	unshared         // by no packets but those of the paths
	shared           // by the machine's own connections, too: a box's first namespace
)

// stack is the DUT's network stack in the order in which a frame meets it.
// Not read, because they would count twice: InCsumErrors (in InHdrErrors),
// Ip6.InTooBigErrors (in FragFails), conntrack's insert_failed (in drop) and
// early_drop (connections), rt_cache's in_no_route (in InNoRoutes), in_martian_src
// (in IPReversePathFilter), and ForwDatagrams, which counts before the MTU check.
var stack = []stackMeaning{
	{place: result.Softnet, counter: "witness.backlog_full", name: "CPU backlog full"},
	{place: result.Softnet, counter: "softnet.dropped", name: "CPU backlog full", machine: true, lacking: "witness.backlog_full", bits: 32},
	{place: result.Conntrack, counter: "conntrack.drop", name: "refused by connection tracking", bits: 32},

	{place: result.Routing, counter: "Ip.InReceives", name: "received by IPv4", passed: true},
	{place: result.Routing, counter: "Ip6.InReceives", name: "received by IPv6", passed: true},
	{place: result.Routing, counter: "Ip.InHdrErrors", name: "TTL expired or bad header"},
	{place: result.Routing, counter: "Ip6.InHdrErrors", name: "TTL expired or bad header"},
	{place: result.Routing, counter: "IpExt.InTruncatedPkts", name: "truncated packet"},
	{place: result.Routing, counter: "Ip6.InTruncatedPkts", name: "truncated packet"},
	{place: result.Routing, counter: "Ip.InAddrErrors", name: "address not acceptable, or forwarding off"},
	{place: result.Routing, counter: "Ip6.InAddrErrors", name: "address not acceptable, or forwarding off"},
	{place: result.Routing, counter: "TcpExt.IPReversePathFilter", name: "reverse path filter"},
	{place: result.Routing, counter: "IpExt.InNoRoutes", name: "no route"},
	{place: result.Routing, counter: "Ip6.InNoRoutes", name: "no route, or one that refuses"},
	{place: result.Routing, counter: "witness.blackhole", name: "blackhole route"},
	{place: result.Routing, counter: "witness.prohibit", name: "prohibit route"},
	{place: result.Routing, counter: "witness.unreachable", name: "unreachable route"},
	{place: result.Routing, counter: "nft.delivered", name: "delivered to the DUT itself", where: shared},
	{place: result.Routing, counter: "Ip.InDelivers", name: "delivered to the DUT itself", where: unshared},
	{place: result.Routing, counter: "Ip6.InDelivers", name: "delivered to the DUT itself", where: unshared},
	{place: result.Routing, counter: "Ip.InUnknownProtos", name: "for the DUT itself, of an unknown protocol", where: unshared},
	{place: result.Routing, counter: "Ip6.InUnknownProtos", name: "for the DUT itself, of an unknown protocol", where: unshared},
	{place: result.Routing, counter: "Ip.InDiscards", name: "discarded on input"},
	{place: result.Routing, counter: "Ip6.InDiscards", name: "discarded on input"},
	{place: result.Routing, counter: "Ip.ForwDatagrams", name: "forwarded by IPv4", passed: true},
	{place: result.Routing, counter: "Ip6.OutForwDatagrams", name: "forwarded by IPv6", passed: true},
	{place: result.Routing, counter: "Ip.FragFails", name: "larger than the MTU"},
	{place: result.Routing, counter: "Ip6.FragFails", name: "larger than the MTU"},
	{place: result.Routing, counter: "Ip.FragOKs", name: "left in fragments"},
	{place: result.Routing, counter: "Ip.OutDiscards", name: "discarded on output"},
	{place: result.Routing, counter: "Ip6.OutDiscards", name: "discarded on output"},
	{place: result.Routing, counter: "Ip.OutTransmits", name: "transmitted by IPv4", passed: true},
	{place: result.Routing, counter: "Ip6.OutTransmits", name: "transmitted by IPv6", passed: true},

	{place: result.Neighbour, counter: "witness.queue_full", name: "neighbour queue full"},
	{place: result.Neighbour, counter: "arp.unresolved_discards", name: "neighbour queue full", machine: true, lacking: "witness.queue_full"},
	{place: result.Neighbour, counter: "ndisc.unresolved_discards", name: "neighbour queue full", machine: true, lacking: "witness.queue_full"},
	{place: result.Neighbour, counter: "witness.unresolved", name: "neighbour does not answer"},
}

// NFTDrop begins the name of an nftables counter that drop rules reference
// ("drop_unwanted"); every other named counter is a checkpoint.
const NFTDrop = "drop_"
