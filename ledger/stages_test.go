// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
	"boxdyno/result"
)

const frames = 100

// TestEveryStage loses frames on purpose in one stage of a real DUT after the
// other: all of them must appear there under their own name, once, and nothing
// may stay unexplained.
func TestEveryStage(t *testing.T) {
	away := net.HardwareAddr{2, 0, 0, 0, 0, 99}
	for _, c := range []struct {
		name    string
		ipv6    bool
		prepare func(b *bed)
		packet  packet
		place   result.Place
		term    string // "": nothing is lost
	}{
		{name: "forwarded"},
		{name: "forwarded IPv6", ipv6: true, packet: packet{dst: "2001:2:1::2"}},
		{name: "nft", prepare: nftDrop, place: result.NFT, term: "nft drop (unwanted)"},
		{name: "nft IPv6", ipv6: true, prepare: nftDrop, packet: packet{dst: "2001:2:1::2"}, place: result.NFT, term: "nft drop (unwanted)"},
		{name: "tc ingress", prepare: func(b *bed) { b.shoot("lan", netlink.HANDLE_MIN_INGRESS) }, place: result.TC, term: "tc drop"},
		{name: "tc egress", prepare: func(b *bed) { b.shoot("wan", netlink.HANDLE_MIN_EGRESS) }, place: result.TC, term: "tc drop"},
		{name: "XDP", prepare: func(b *bed) { b.attach(b.dut, "lan", verdict(1)) }, place: result.XDP, term: "XDP drop"},
		{name: "XDP aborted", prepare: func(b *bed) { b.attach(b.dut, "lan", verdict(0)) }, place: result.XDP, term: "XDP drop"},
		{name: "XDP back", prepare: func(b *bed) { b.attach(b.dut, "lan", verdict(3)); b.attach(b.tester, "p0", verdict(1)) }, place: result.XDP, term: "sent back by XDP"},
		{name: "XDP redirect to nowhere", prepare: func(b *bed) { b.attach(b.dut, "lan", verdict(4)) }, place: result.DUTNIC, term: "receive failed in the driver"},
		{name: "other MAC", packet: packet{mac: away}, place: result.Routing, term: "MAC address of another host"},
		{name: "other MAC IPv6", ipv6: true, packet: packet{mac: away, dst: "2001:2:1::2"}, place: result.Routing, term: "MAC address of another host"},
		{name: "TTL", packet: packet{ttl: 1}, place: result.Routing, term: "TTL expired or bad header"},
		{name: "TTL IPv6", ipv6: true, packet: packet{ttl: 1, dst: "2001:2:1::2"}, place: result.Routing, term: "TTL expired or bad header"},
		{name: "forwarding off", prepare: func(b *bed) { b.in(b.dut, func() { b.sysctl("net/ipv4/ip_forward", "0\n") }) }, place: result.Routing, term: "address not acceptable, or forwarding off"},
		{name: "no route", packet: packet{dst: "203.0.113.1"}, place: result.Routing, term: "no route"},
		{name: "no route IPv6", ipv6: true, packet: packet{dst: "2001:db8::1"}, place: result.Routing, term: "no route, or one that refuses"},
		{name: "blackhole", prepare: refuse("198.19.0.2/32", unix.RTN_BLACKHOLE), place: result.Routing, term: "blackhole route"},
		{name: "prohibit", prepare: refuse("198.19.0.2/32", unix.RTN_PROHIBIT), place: result.Routing, term: "prohibit route"},
		{name: "unreachable", prepare: refuse("198.19.0.2/32", unix.RTN_UNREACHABLE), place: result.Routing, term: "unreachable route"},
		{name: "blackhole IPv6", ipv6: true, prepare: refuse("2001:2:1::2/128", unix.RTN_BLACKHOLE), packet: packet{dst: "2001:2:1::2"}, place: result.Routing, term: "blackhole route"},
		{name: "prohibit IPv6", ipv6: true, prepare: refuse("2001:2:1::2/128", unix.RTN_PROHIBIT), packet: packet{dst: "2001:2:1::2"}, place: result.Routing, term: "no route, or one that refuses"},
		{name: "reverse path", prepare: func(b *bed) { b.in(b.dut, func() { b.sysctl("net/ipv4/conf/lan/rp_filter", "1\n") }) },
			packet: packet{src: "198.19.0.77"}, place: result.Routing, term: "reverse path filter"},
		{name: "local", packet: packet{dst: "198.18.0.1"}, place: result.Routing, term: "delivered to the DUT itself"},
		{name: "local IPv6", ipv6: true, prepare: func(b *bed) {
			b.in(b.dut, func() {
				b.check(netlink.LinkSetUp(b.link("lo")))
				a, err := netlink.ParseAddr("2001:2:9::1/128")
				b.check(err)
				b.check(netlink.AddrAdd(b.link("lo"), a))
			})
		}, packet: packet{dst: "2001:2:9::1"}, place: result.Routing, term: "delivered to the DUT itself"},
		{name: "MTU", prepare: mtu, packet: packet{size: 1400}, place: result.Routing, term: "larger than the MTU"},
		{name: "MTU IPv6", ipv6: true, prepare: mtu, packet: packet{size: 1400, dst: "2001:2:1::2"}, place: result.Routing, term: "larger than the MTU"},
		{name: "fragments", prepare: mtu, packet: packet{size: 1400, fragment: true}, place: result.Routing, term: "left in fragments"},
		{name: "neighbour silent", prepare: silent, packet: packet{dst: "198.19.0.3"}, place: result.Neighbour, term: "neighbour does not answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t, c.ipv6)
			if c.prepare != nil {
				c.prepare(b)
			}
			a := b.through(frames, b.frame(c.packet))
			lost := int64(frames)
			if c.term == "" {
				lost = 0
			}
			if a.Unexplained != 0 || a.InFlight != 0 || a.Received != frames-lost {
				t.Errorf("want %d received and nothing unexplained:\n%s", frames-lost, describe(a))
			}
			if lost == 0 && len(a.Drops) == 0 {
				return
			}
			if len(a.Drops) != 1 || a.Drops[0].Place != c.place || a.Drops[0].Name != c.term || a.Drops[0].N != lost || a.Drops[0].Host != "dut" {
				t.Errorf("want %d at %s, %q, and no other drop:\n%s", lost, c.place, c.term, describe(a))
			}
		})
	}
}

func (b *bed) check(err error) {
	if err != nil {
		b.t.Error(err)
	}
}

func nftDrop(b *bed) {
	b.nft(`table inet test {
	counter drop_unwanted { }
	counter matched { }
	chain forward { type filter hook forward priority 0; counter name matched; udp dport 4242 counter name drop_unwanted drop; }
}`)
}

func refuse(dst string, kind int) func(*bed) {
	return func(b *bed) { b.route(netlink.Route{Dst: prefix(dst), Type: kind}) }
}

func mtu(b *bed) {
	b.in(b.dut, func() { b.check(netlink.LinkSetMTU(b.link("wan"), 1280)) })
}

// silent makes the DUT give up early on addresses that nobody has.
func silent(b *bed) {
	b.in(b.dut, func() {
		b.sysctl("net/ipv4/neigh/wan/retrans_time_ms", "100\n")
		b.sysctl("net/ipv4/neigh/wan/mcast_solicit", "1\n")
		b.sysctl("net/ipv4/neigh/wan/unres_qlen_bytes", "1000000\n")
	})
}

// shoot drops everything that passes a port's clsact hook.
func (b *bed) shoot(port string, hook uint32) { b.classify(b.dut, port, hook, verdict(2)) } // TC_ACT_SHOT

// classify has a program see all that passes a port's clsact hook.
func (b *bed) classify(l *host.Local, port string, hook uint32, ins asm.Instructions) {
	b.t.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: ins})
	b.must(err)
	b.t.Cleanup(func() { p.Close() })
	b.in(l, func() {
		b.check(netlink.QdiscAdd(&netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: b.index[port], Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}}))
		b.check(netlink.FilterAdd(&netlink.BpfFilter{
			FilterAttrs:  netlink.FilterAttrs{LinkIndex: b.index[port], Parent: hook, Handle: 1, Protocol: unix.ETH_P_ALL, Priority: 1},
			Fd:           p.FD(),
			DirectAction: true,
		}))
	})
}

// Where a path ends at a port of the DUT, that none of its frames were for another MAC address is told:
// what the port received was of others, then.
func TestNoneForAnotherHost(t *testing.T) {
	b := newBed(t, false)
	for hops, want := range map[int]bool{2: true, 4: false} {
		path := b.path("p0", "lan", "wan", "p1")
		path.Hops = path.Hops[:hops]
		a := b.trial(frames, []Path{path}, func() { b.send("p0", frames, b.frame(packet{})) })
		if told := slices.ContainsFunc(a.Passed, func(x result.Term) bool { return x.From == "lan rx_otherhost_dropped" && x.N == 0 }); told != want {
			t.Errorf("%d hops:\n%s", hops, describe(a))
		}
	}
}

// TestPassed says that the checkpoints of a clean trial stand in path order.
func TestPassed(t *testing.T) {
	b := newBed(t, false)
	b.nft("table inet test {\n\tcounter matched { }\n\tchain f { type filter hook forward priority 0; counter name matched accept; }\n}")
	a := b.through(frames, b.frame(packet{}))
	want := []string{"p0 tx_packets", "lan rx_packets", "inet test matched", "Ip.InReceives", "Ip.ForwDatagrams",
		"Ip.OutTransmits", "wan tx_packets", "p1 rx_packets"}
	if len(a.Passed) != len(want) {
		t.Fatalf("want %v:\n%s", want, describe(a))
	}
	for i, p := range a.Passed {
		if p.From != want[i] || p.N != frames {
			t.Errorf("checkpoint %d is %s %d, want %s %d", i, p.From, p.N, want[i], frames)
		}
	}
}

// TestNeighbourQueueFull keeps what waits for an address apart from what found
// no room to wait.
func TestNeighbourQueueFull(t *testing.T) {
	b := newBed(t, false)
	silent(b)
	b.in(b.dut, func() { b.sysctl("net/ipv4/neigh/wan/unres_qlen_bytes", "4000\n") })
	a := b.through(frames, b.frame(packet{dst: "198.19.0.3"}))
	if a.Unexplained != 0 || len(a.Drops) != 2 || a.Drops[0].Name != "neighbour queue full" || a.Drops[1].Name != "neighbour does not answer" || a.Drops[0].N < frames/2 {
		t.Errorf("want most with a full queue, the rest without answer:\n%s", describe(a))
	}
}

// TestNeighbourQueueOfOthers fills such a queue in another namespace: that one's frames are in
// no account of this one's.
func TestNeighbourQueueOfOthers(t *testing.T) {
	b := newBed(t, false)
	other := b.namespace("other")
	discards := func() uint64 {
		c := counters{}
		b.must(readMachine(os.DirFS("/"), c))
		return c["arp.unresolved_discards"]
	}
	before := discards()
	a := b.trial(frames, []Path{b.path("p0", "lan", "wan", "p1")}, func() {
		b.in(other, func() {
			b.check(netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "wan"}, PeerName: "far"}))
			b.check(errors.Join(netlink.LinkSetUp(b.link("wan")), netlink.LinkSetUp(b.link("far"))))
			own, err := netlink.ParseAddr("198.19.0.1/24")
			b.check(err)
			b.check(netlink.AddrAdd(b.link("wan"), own))
			b.sysctl("net/ipv4/neigh/wan/unres_qlen_bytes", "4000\n")
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			b.check(err)
			defer unix.Close(fd)
			for range frames {
				b.check(unix.Sendto(fd, []byte("x"), 0, &unix.SockaddrInet4{Port: 9, Addr: [4]byte{198, 19, 0, 3}}))
			}
		})
		b.send("p0", frames, b.frame(packet{}))
	})
	if n := discards() - before; n < frames/2 {
		t.Errorf("the other namespace's queue threw away %d of %d frames: the test shows nothing", n, frames)
	}
	if a.Unexplained != 0 || len(a.Drops) != 0 {
		t.Errorf("want no frame lost:\n%s", describe(a))
	}
}

// TestQueue has a shaper on the DUT's egress that lets 25 frames pass at once and
// then one a second: 12 still wait in it at the end, the others are dropped.
func TestQueue(t *testing.T) {
	b := newBed(t, false)
	b.in(b.dut, func() {
		b.check(netlink.QdiscReplace(&netlink.Tbf{
			QdiscAttrs: netlink.QdiscAttrs{LinkIndex: b.index["wan"], Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
			Rate:       80, Limit: 12*80 + 79, Buffer: netlink.Xmittime(80, 25*80),
		}))
	})
	a := b.through(frames, b.frame(packet{}))
	if a.Unexplained != 0 || a.InFlight < 11 || a.InFlight > 12 || len(a.Drops) != 1 || a.Drops[0].Name != "egress queue full" || a.Drops[0].Place != result.Qdisc {
		t.Errorf("want 12 in flight and the others dropped by the queue:\n%s", describe(a))
	}
}

// write writes a file of a port in sysfs.
func (b *bed) write(namespace, file, text string) {
	b.t.Helper()
	b.must(netns.DoSys(namespace, func(sys *os.Root) error {
		f, err := sys.OpenFile("class/net/"+file, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.WriteString(f, text)
		return err
	}))
}

// threaded has a port's receive work done by a kernel thread, which a sender
// easily outruns.
func (b *bed) threaded(namespace, port string) { b.write(namespace, port+"/threaded", "1\n") }

// overrun offers bursts by XDP until some frame is dropped at place: who is
// faster is the scheduler's affair. All the books must close.
func (b *bed) overrun(p Path, frame []byte, place result.Place) result.Account {
	b.t.Helper()
	const n = 50000
	var a result.Account
	for range 10 {
		a = b.trial(n, []Path{p}, func() { b.live(p.Hops[0].Port.Name, n, frame) })
		if a.Unexplained != 0 {
			b.t.Fatalf("unexplained frames:\n%s", describe(a))
		}
		if a.DroppedAt(place) > 0 {
			return a
		}
	}
	b.t.Fatalf("nothing was dropped at %s:\n%s", place, describe(a))
	return a
}

// TestFullRing overruns the receive ring of the DUT's port, which the kernel
// counts at both ends of the link, with frames that the stack then throws away.
func TestFullRing(t *testing.T) {
	b := newBed(t, false)
	b.threaded(b.dut.Netns, "lan")
	a := b.overrun(b.path("p0", "lan", "wan", "p1"), b.frame(packet{mac: net.HardwareAddr{2, 0, 0, 0, 0, 99}}), result.DUTNIC)
	if len(a.Drops) != 2 || a.Drops[0].Name != "receive ring full" || a.Drops[0].Link != "lan" || a.Drops[0].Host != "dut" {
		t.Errorf("want a full ring and frames of another MAC address:\n%s", describe(a))
	}
}

// TestBacklogFull has the stack's work done on another CPU, which the first one
// outruns.
func TestBacklogFull(t *testing.T) {
	b := newBed(t, false)
	b.elsewhere(b.dut.Netns, "lan")
	a := b.overrun(b.path("p0", "lan", "wan", "p1"), b.frame(packet{dst: "203.0.113.1"}), result.Softnet)
	if a.Drops[0].Name != "CPU backlog full" {
		t.Errorf("want the backlog full:\n%s", describe(a))
	}
}

// elsewhere has the stack's work of a port done on another CPU than live sends on.
func (b *bed) elsewhere(namespace, port string) {
	b.t.Helper()
	cpus := testutil.TwoCPUs(b.t)
	b.sender = cpus[:1]
	b.write(namespace, port+"/queues/rx-0/rps_cpus", strconv.FormatUint(1<<cpus[1], 16)+"\n")
}

// TestBacklogOfOthers overruns a backlog by frames of another namespace, while the DUT's are
// forwarded or overrun it, too: those of the other one are in no account of this one's.
func TestBacklogOfOthers(t *testing.T) {
	b := newBed(t, false)
	other := b.namespace("other")
	b.wire(b.tester, "a", other, "z")
	b.attach(other, "z", verdict(2)) // XDP_PASS
	b.elsewhere(other.Netns, "z")
	// A frame keeps that CPU for so long that whoever sends outruns it, beside any other program.
	b.classify(other, "z", netlink.HANDLE_MIN_INGRESS, asm.Instructions{
		asm.Mov.Imm(asm.R1, 100_000),
		asm.Sub.Imm(asm.R1, 1).WithSymbol("wait"),
		asm.JNE.Imm(asm.R1, 0, "wait"),
		asm.Mov.Imm(asm.R0, 2), // TC_ACT_SHOT
		asm.Return(),
	})
	all := func() uint64 {
		c := counters{}
		b.must(readMachine(os.DirFS("/"), c))
		return c["softnet.dropped"]
	}
	away := b.frame(packet{mac: net.HardwareAddr{2, 0, 0, 0, 0, 99}})
	overrun := func() {
		before := all()
		for range 10 {
			if b.live("a", 50000, away); all() > before {
				return
			}
		}
		t.Error("no backlog was full: the test shows nothing")
	}
	path := b.path("p0", "lan", "wan", "p1")
	a := b.trial(frames, []Path{path}, func() { overrun(); b.send("p0", frames, b.frame(packet{})) })
	if a.Unexplained != 0 || len(a.Drops) != 0 {
		t.Errorf("want no frame lost:\n%s", describe(a))
	}
	b.elsewhere(b.dut.Netns, "lan")
	const many = 50000
	a = b.trial(many, []Path{path}, func() { overrun(); b.live("p0", many, b.frame(packet{dst: "203.0.113.1"})) })
	if a.Unexplained != 0 || a.DroppedAt(result.Softnet)+a.DroppedAt(result.Routing)+a.DroppedAt(result.DUTNIC) != many {
		t.Errorf("want the DUT's own frames alone:\n%s", describe(a))
	}
}

// A book without the tracepoint says that others' frames may be in its account.
func TestBacklogOfAllNamespaces(t *testing.T) {
	b := newBed(t, false)
	for bare, want := range map[bool]string{true: "softnet.dropped" + AllNamespaces, false: "witness.backlog_full"} {
		book, err := openBook(bare, []Path{b.path("p0", "lan", "wan", "p1")}, nil)
		b.must(err)
		s, err := book.read(t.Context())
		b.must(err)
		var from []string
		for _, x := range book.terms {
			if _, ok := s.of(x)[x.counter]; ok && x.Place == result.Softnet {
				from = append(from, x.From)
			}
		}
		if book.Close(); !slices.Equal(from, []string{want}) {
			t.Errorf("bare %v: full backlogs are counted by %q, want %q", bare, from, want)
		}
	}
}

// TestMeterRing overruns the tester's own port: no loss of the DUT.
func TestMeterRing(t *testing.T) {
	b := newBed(t, false)
	b.wire(b.tester, "a", b.tester, "z")
	b.attach(b.tester, "z", counting(b.count, 1))
	b.threaded(b.tester.Netns, "z")
	a := b.overrun(b.path("a", "z"), b.frame(packet{}), result.MeterAt)
	if len(a.Drops) != 1 || a.Drops[0].Name != "meter ring full" || a.Drops[0].Host != "tester" || a.Drops[0].Link != "z" {
		t.Errorf("want the meter's ring full:\n%s", describe(a))
	}
}

// TestBothWays has two paths over the same ports: nothing counts twice.
func TestBothWays(t *testing.T) {
	b := newBed(t, false)
	b.shoot("wan", netlink.HANDLE_MIN_EGRESS)
	there := b.frame(packet{})
	back := b.frame(packet{src: "198.19.0.2", dst: "198.18.0.2", mac: b.mac["wan"]})
	expired := b.frame(packet{ttl: 1})
	a := b.trial(6*frames, []Path{b.path("p0", "lan", "wan", "p1"), b.path("p1", "wan", "lan", "p0")}, func() {
		b.send("p0", frames, there)
		b.send("p1", 2*frames, back)
		b.send("p0", 3*frames, expired)
	})
	if a.Unexplained != 0 || len(a.Drops) != 2 || a.DroppedAt(result.TC) != frames || a.DroppedAt(result.Routing) != 3*frames || a.Received != 2*frames {
		t.Errorf("want %d dropped by tc, %d expired:\n%s", frames, 3*frames, describe(a))
	}
	for _, p := range a.Passed {
		if p.From == "Ip.InReceives" && p.N != 6*frames {
			t.Errorf("%s is %d, want %d", p.From, p.N, 6*frames)
		}
	}
}

// TestRedirected forwards in XDP: no drop, and a full ring of the meter's port
// counts once.
func TestRedirected(t *testing.T) {
	b := newBed(t, false)
	b.attach(b.dut, "lan", redirect(b.index["wan"]))
	a := b.through(frames, b.frame(packet{}))
	if a.Unexplained != 0 || len(a.Drops) != 0 || a.Received != frames {
		t.Errorf("want all received:\n%s", describe(a))
	}
	b.threaded(b.tester.Netns, "p1")
	a = b.overrun(b.path("p0", "lan", "wan", "p1"), b.frame(packet{}), result.MeterAt)
	if len(a.Drops) != 1 || a.Drops[0].Name != "meter ring full" {
		t.Errorf("want the meter's ring full:\n%s", describe(a))
	}
}

// TestBlackBox knows the tester's ends only: the loss is unexplained.
func TestBlackBox(t *testing.T) {
	b := newBed(t, false)
	p := b.path("p0", "lan", "wan", "p1")
	p.Hops[1].Host, p.Hops[2].Host = nil, nil
	a := b.trial(frames, []Path{p}, func() { b.send("p0", frames, b.frame(packet{ttl: 1})) })
	if a.Unexplained != frames || len(a.Drops) != 0 || len(a.Passed) != 2 {
		t.Errorf("want %d unexplained and the tester's two ports:\n%s", frames, describe(a))
	}
}

// TestNothingLeft counts descriptors and goroutines of a trial.
func TestNothingLeft(t *testing.T) {
	b := newBed(t, false)
	testutil.NoLeaks(t)
	b.through(1, b.frame(packet{}))
	book, err := Open([]Path{b.path("p0", "gone", "wan", "p1")})
	if err == nil {
		book.Close()
		t.Fatal("a port that is not there was opened")
	}
}

// TestBacklog has ports without a receive ring: the backlog's drops, which their peers count,
// must not count again.
func TestBacklog(t *testing.T) {
	b := newBed(t, false)
	has := func() (counters []string) {
		book, err := Open([]Path{b.path("p0", "lan", "wan", "p1")})
		b.must(err)
		defer book.Close()
		for _, x := range book.terms {
			if x.Place == result.Softnet {
				counters = append(counters, x.counter)
			}
		}
		return counters
	}
	if got := has(); !slices.Equal(got, []string{"witness.backlog_full", "softnet.dropped"}) {
		t.Errorf("all ports have a ring, and of the backlog's drops these are read: %q", got)
	}
	b.must(b.xdp["p1"].Close())
	if got := has(); !slices.Equal(got, []string{"witness.backlog_full"}) {
		t.Errorf("the tester's p1 receives through the backlog, and of its drops these are read: %q", got)
	}
	b.must(b.xdp["lan"].Close())
	if got := has(); len(got) > 0 {
		t.Errorf("the DUT's lan receives through the backlog, and of its drops these are read: %q", got)
	}
}

func BenchmarkSnapshot(bm *testing.B) {
	b := newBed(bm, false)
	book, err := Open([]Path{b.path("p0", "lan", "wan", "p1"), b.path("p1", "wan", "lan", "p0")})
	if err != nil {
		bm.Fatal(err)
	}
	defer book.Close()
	for bm.Loop() {
		if _, err := book.read(context.Background()); err != nil {
			bm.Fatal(err)
		}
	}
}
