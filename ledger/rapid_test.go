// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"boxdyno/host"
	"boxdyno/result"
)

// A fate is what the kernel counts for a frame that ends in one way, doubles
// included: the tests' own statement of FACTS about veth and the stack, apart
// from the dictionary. Names before the slash are ports of the direction lan to
// wan, "ip" is the DUT's namespace, "machine" the machine.
type fate struct {
	name   string // of the term; "": received
	counts []string
}

var (
	toDUT   = []string{"p0/tx_packets", "lan/rx_packets"}
	toStack = append(slices.Clone(toDUT), "ip/Ip.InReceives")
	to6     = append(slices.Clone(toDUT), "ip/Ip6.InReceives")
	fwd     = append(slices.Clone(toStack), "ip/Ip.ForwDatagrams")
	fwd6    = append(slices.Clone(to6), "ip/Ip6.OutForwDatagrams")
	out     = append(slices.Clone(fwd), "ip/Ip.OutTransmits")
)

func after(before []string, more ...string) []string { return append(slices.Clone(before), more...) }

var fates = []fate{
	{"", after(out, "wan/tx_packets", "p1/rx_packets", "p1/ethtool rx_queue_*_xdp_drops")},
	{"", after(fwd6, "ip/Ip6.OutTransmits", "wan/tx_packets", "p1/rx_packets", "p1/ethtool rx_queue_*_xdp_drops")},
	{"", after(toDUT, "lan/ethtool rx_queue_*_xdp_redirect", "wan/tx_packets", "p1/rx_packets", "p1/ethtool rx_queue_*_xdp_drops")},
	{"receive ring full", []string{"p0/tx_dropped", "p0/ethtool tx_queue_*_xdp_xmit_errors", "lan/rx_dropped"}},
	{"receive failed in the driver", after(toDUT, "lan/ethtool rx_queue_*_drops", "lan/rx_dropped")},
	{"XDP drop", after(toDUT, "lan/ethtool rx_queue_*_xdp_drops")},
	{"sent back by XDP", after(toDUT, "lan/ethtool rx_queue_*_xdp_tx", "lan/tx_packets", "p0/rx_packets")},
	{"CPU backlog full", after(toDUT, "machine/softnet.dropped", "lan/rx_dropped")},
	{"CPU backlog full", after(toDUT, "ip/witness.backlog_full", "lan/rx_dropped")},
	{"tc drop", after(toDUT, "lan/clsact drops")},
	{"MAC address of another host", after(toDUT, "lan/rx_otherhost_dropped")},
	{"refused by connection tracking", after(toStack, "ip/conntrack.drop", "ip/conntrack.insert_failed")},
	{"nft drop (unwanted)", after(fwd, "ip/nft inet t drop_unwanted", "ip/nft inet t matched")},
	{"TTL expired or bad header", after(toStack, "ip/Ip.InHdrErrors")},
	{"TTL expired or bad header", after(toStack, "ip/Ip.InHdrErrors", "ip/IpExt.InCsumErrors")},
	{"address not acceptable, or forwarding off", after(toStack, "ip/Ip.InAddrErrors")},
	{"reverse path filter", after(toStack, "ip/TcpExt.IPReversePathFilter")},
	{"no route", after(toStack, "ip/IpExt.InNoRoutes", "machine/rt_cache.in_no_route")},
	{"no route, or one that refuses", after(to6, "ip/Ip6.InNoRoutes")},
	{"blackhole route", after(toStack, "ip/witness.blackhole", "machine/rt_cache.in_no_route")},
	{"prohibit route", after(toStack, "ip/witness.prohibit", "machine/rt_cache.in_no_route")},
	{"unreachable route", after(toStack, "ip/witness.unreachable", "machine/rt_cache.in_no_route")},
	{"delivered to the DUT itself", after(toStack, "ip/Ip.InDelivers")},
	{"larger than the MTU", after(fwd, "ip/Ip.FragFails")},
	{"larger than the MTU", after(to6, "ip/Ip6.FragFails", "ip/Ip6.InTooBigErrors")},
	{"tc drop", after(out, "wan/clsact drops")},
	{"truncated packet", after(toStack, "ip/IpExt.InTruncatedPkts")},
	{"truncated packet", after(to6, "ip/Ip6.InTruncatedPkts")},
	{"address not acceptable, or forwarding off", after(to6, "ip/Ip6.InAddrErrors")},
	{"TTL expired or bad header", after(to6, "ip/Ip6.InHdrErrors")},
	{"delivered to the DUT itself", after(to6, "ip/Ip6.InDelivers")},
	{"for the DUT itself, of an unknown protocol", after(toStack, "ip/Ip.InUnknownProtos")},
	{"for the DUT itself, of an unknown protocol", after(to6, "ip/Ip6.InUnknownProtos")},
	{"discarded on input", after(toStack, "ip/Ip.InDiscards")},
	{"discarded on input", after(to6, "ip/Ip6.InDiscards")},
	{"discarded on output", after(fwd, "ip/Ip.OutDiscards")},
	{"discarded on output", after(to6, "ip/Ip6.OutDiscards")},
	{"left in fragments", after(out, "ip/Ip.FragOKs", "ip/Ip.FragCreates", "ip/Ip.FragCreates", "ip/Ip.OutTransmits", "wan/tx_packets", "wan/tx_packets")},
	{"neighbour queue full", after(fwd6, "machine/ndisc.unresolved_discards")},
	{"egress queue full", after(out, "wan/qdisc drops")},
	{"neighbour queue full", after(out, "machine/arp.unresolved_discards")},
	{"neighbour queue full", after(out, "ip/witness.queue_full")},
	{"neighbour does not answer", after(out, "ip/witness.unresolved")},
	{"meter ring full", after(out, "wan/tx_dropped", "wan/ethtool tx_queue_*_xdp_xmit_errors", "p1/rx_dropped")},
}

// checkpoints are the counters that say how far frames came.
var checkpoints = map[string]string{
	"p0/tx_packets": "p0 tx_packets", "lan/rx_packets": "lan rx_packets", "lan/ethtool rx_queue_*_xdp_redirect": "lan rx_queue_*_xdp_redirect",
	"ip/nft inet t matched": "inet t matched", "ip/Ip.InReceives": "Ip.InReceives", "ip/Ip6.InReceives": "Ip6.InReceives",
	"ip/Ip.ForwDatagrams": "Ip.ForwDatagrams", "ip/Ip6.OutForwDatagrams": "Ip6.OutForwDatagrams",
	"ip/Ip.OutTransmits": "Ip.OutTransmits", "ip/Ip6.OutTransmits": "Ip6.OutTransmits",
	"wan/tx_packets": "wan tx_packets", "p1/rx_packets": "p1 rx_packets",
}

var ports = []string{"p0", "lan", "wan", "p1"}

// paperBook is a book over paths between four veth ports, with a kernel that is
// the test's.
func paperBook(both bool) *Book {
	tester, dut := &host.Local{Label: "tester"}, &host.Local{Label: "dut"}
	hops := []Hop{
		{Place: result.Tester, Host: tester, Port: host.Port{Name: "p0"}}, {Place: result.DUTNIC, Host: dut, Port: host.Port{Name: "lan"}},
		{Place: result.DUTNIC, Host: dut, Port: host.Port{Name: "wan"}}, {Place: result.MeterAt, Host: tester, Port: host.Port{Name: "p1"}},
	}
	b := &Book{hosts: []*stackOf{{local: dut}}, label: "tester", ports: make([]*portOf, 4)}
	add := func(hops []Hop) {
		for i, h := range hops {
			var far *Hop
			if i%2 == 0 {
				far = &hops[i+1]
			}
			b.terms = append(b.terms, portTerms(slices.Index(ports, h.Port.Name), driverOf("veth"), direction(i%2), h, far)...)
		}
	}
	add(hops)
	if both {
		back := slices.Clone(hops)
		slices.Reverse(back)
		back[0].Place, back[3].Place = result.Tester, result.MeterAt
		add(back)
	}
	b.terms = once(append(b.terms, stackTerms(0, "dut", unshared, false, false)...))
	return b
}

func emptySnapshot() snapshot {
	s := snapshot{machine: counters{}, hosts: []counters{{}}}
	for range ports {
		s.ports = append(s.ports, counters{})
	}
	return s
}

func (s snapshot) add(name string, n uint64) {
	scope, counter, _ := strings.Cut(name, "/")
	switch i := slices.Index(ports, scope); {
	case i >= 0:
		s.ports[i][counter] += n
	case scope == "ip":
		s.hosts[0][counter] += n
	default:
		s.machine[counter] += n
	}
}

// TestEveryFrameCountsOnce offers random frames with random fates, over counters
// that start anywhere: every fate appears with its own count, nothing twice, and
// nothing stays unexplained.
func TestEveryFrameCountsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := paperBook(rapid.Bool().Draw(t, "both ways"))
		before, now := emptySnapshot(), emptySnapshot()
		for _, f := range fates {
			for _, c := range f.counts {
				start := rapid.Uint64Range(0, 1<<33).Draw(t, c)
				before.add(c, start)
				now.add(c, start)
			}
		}
		b.before = before
		want, passed := map[string]int64{}, map[string]int64{}
		var e Ends
		for _, i := range rapid.SliceOf(rapid.IntRange(0, len(fates)-1)).Draw(t, "fates") {
			n := rapid.Uint64Range(1, 1<<24).Draw(t, "frames")
			for _, c := range fates[i].counts {
				now.add(c, n)
				if from := checkpoints[c]; from != "" {
					passed[from] += int64(n)
				}
			}
			e.Accepted += n
			if name := fates[i].name; name == "" {
				e.Received += n
			} else {
				want[name] += int64(n)
			}
		}
		queued := rapid.Uint64Range(0, 10).Draw(t, "queued")
		now.add("wan/qdisc queued", queued)
		e.Accepted += queued
		a := b.account(now, e)
		got := map[string]int64{}
		for _, d := range a.Drops {
			got[d.Name] += d.N
			if d.N == 0 {
				t.Errorf("%s is 0", d.Name)
			}
		}
		if !maps.Equal(want, got) || a.Unexplained != 0 || a.InFlight != int64(queued) {
			t.Errorf("want %v:\n%s", want, describe(a))
		}
		for _, p := range a.Passed {
			if n, known := passed[p.From]; known && n != p.N {
				t.Errorf("checkpoint %s is %d, want %d", p.From, p.N, n)
			}
			delete(passed, p.From)
		}
		if len(passed) > 0 {
			t.Errorf("checkpoints %v are missing:\n%s", passed, describe(a))
		}
		if !slices.IsSortedFunc(a.Drops, func(x, y result.Term) int { return rank(x.Place) - rank(y.Place) }) {
			t.Errorf("not in path order:\n%s", describe(a))
		}
	})
}

// TestSentBackInVain has frames that the DUT's XDP program could not send back:
// the kernel counts them in the port's tx_dropped too, which is a term where the
// port is an egress.
func TestSentBackInVain(t *testing.T) {
	for both, want := range map[bool]string{false: "XDP could not send back", true: "meter ring full"} {
		b := paperBook(both)
		b.before = emptySnapshot()
		now := emptySnapshot()
		for _, c := range after(toDUT, "lan/ethtool rx_queue_*_xdp_tx_errors", "lan/tx_dropped", "p0/rx_dropped") {
			now.add(c, 9)
		}
		a := b.account(now, Ends{Accepted: 9})
		if len(a.Drops) != 1 || a.Drops[0].Name != want || a.Unexplained != 0 {
			t.Errorf("both ways %v: want 9 %q:\n%s", both, want, describe(a))
		}
	}
}

// TestEquation grows and shrinks any counters at all: the equation holds, no
// counter stands in two terms, checkpoints change nothing, nothing is clamped.
func TestEquation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := paperBook(rapid.Bool().Draw(t, "both ways"))
		before, now := emptySnapshot(), emptySnapshot()
		b.before = before
		var drops int64
		seen := map[string]bool{}
		for _, x := range b.terms {
			id := fmt.Sprint(x.scope, x.at, x.counter)
			if seen[id] {
				t.Fatalf("%s of %d counts twice", x.counter, x.at)
			}
			seen[id] = true
			n := rapid.Int64Range(-1<<30, 1<<30).Draw(t, x.From)
			before.of(x)[x.counter] = 1 << 40
			now.of(x)[x.counter] = uint64(1<<40 + n)
			if !x.passed {
				drops += n
			}
		}
		e := Ends{Accepted: rapid.Uint64Range(0, 1<<40).Draw(t, "accepted"), Received: rapid.Uint64Range(0, 1<<40).Draw(t, "received"),
			LocalDrops: rapid.Uint64Range(0, 1<<20).Draw(t, "local")}
		a := b.account(now, e)
		if a.Dropped() != drops+int64(e.LocalDrops) {
			t.Errorf("drops are %d, want %d", a.Dropped(), drops+int64(e.LocalDrops))
		}
		if a.Unexplained != int64(e.Accepted)-int64(e.Received)-drops-int64(e.LocalDrops) {
			t.Errorf("unexplained is %d:\n%s", a.Unexplained, describe(a))
		}
	})
}

// TestWrap has counters of 32 bit pass their end.
func TestWrap(t *testing.T) {
	b := paperBook(false)
	b.before = emptySnapshot()
	b.before.add("wan/qdisc drops", 1<<32-5)
	b.before.add("p0/tx_dropped", 1<<40)
	now := emptySnapshot()
	now.add("wan/qdisc drops", 7)
	now.add("p0/tx_dropped", 1<<40+3)
	a := b.account(now, Ends{Accepted: 15})
	if a.DroppedAt(result.Qdisc) != 12 || a.Unexplained != 0 {
		t.Errorf("want 12 at the qdisc:\n%s", describe(a))
	}
}

// What a full AF_XDP socket of the meter did not take is booked once, though the driver of
// its veth counts it, too; what else that driver lost stays.
func TestFramesThatXDPCouldNotHandOver(t *testing.T) {
	for _, x := range []struct{ driver, unhanded, failed, overrun int64 }{{880, 880, 0, 880}, {900, 880, 20, 880}, {880, 0, 880, 880}} {
		b := paperBook(false)
		b.before = emptySnapshot()
		now := emptySnapshot()
		for _, s := range []snapshot{b.before, now} {
			s.add("p1/ethtool rx_queue_*_drops", 0)
		}
		now.add("p1/ethtool rx_queue_*_drops", uint64(x.driver))
		a := b.account(now, Ends{Accepted: 1000, Received: 100, LocalDrops: uint64(x.overrun), Unhanded: uint64(x.unhanded)})
		got := map[string]int64{}
		for _, d := range a.Drops {
			got[d.Name] += d.N
		}
		if got[ReceiveFailed] != x.failed || got["meter overrun"] != x.overrun {
			t.Errorf("%+v: %s", x, describe(a))
		}
	}
}
