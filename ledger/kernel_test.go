// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/internal/ethtool"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
	"boxdyno/result"
)

// A bed is a small testbed of its own, so that these tests judge the ledger
// alone:
//
//	tester ns [p0] ==veth== [lan] DUT ns [wan] ==veth== [p1] tester ns
//	    198.18.0.2    198.18.0.1      198.19.0.1    198.19.0.2
//	     2001:2::2                                   2001:2:1::2
//
// All four ports have a native XDP program: the DUT's pass, the tester's count
// whole UDP packets and drop.
type bed struct {
	t           testing.TB
	tester, dut *host.Local
	mac         map[string]net.HardwareAddr
	index       map[string]int
	xdp         map[string]link.Link
	count       *ebpf.Map // received, by 0 for p0 and 1 for p1
	sender      []int     // the CPU that live sends on; nil: any
}

func newBed(t testing.TB, ipv6 bool) *bed {
	t.Helper()
	testutil.Privileged(t)
	unlock, err := host.Lock(context.Background(), nil) // some counters are the machine's
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(unlock)
	b := &bed{t: t, mac: map[string]net.HardwareAddr{}, index: map[string]int{}, xdp: map[string]link.Link{}}
	b.tester = b.namespace("tester")
	b.dut = b.namespace("dut")
	count, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 2})
	b.must(err)
	b.count = count
	t.Cleanup(func() { count.Close() })

	off := "1\n"
	if ipv6 {
		off = "0\n"
	}
	b.in(b.tester, func() {
		b.sysctl("net/ipv6/conf/default/disable_ipv6", "1\n")
	})
	b.in(b.dut, func() {
		b.sysctl("net/ipv4/ip_forward", "1\n")
		b.sysctl("net/ipv6/conf/all/forwarding", "1\n")
		b.sysctl("net/ipv6/conf/default/disable_ipv6", off)
		b.sysctl("net/ipv6/conf/default/addr_gen_mode", "1\n") // no link-local address
		b.sysctl("net/ipv6/conf/default/accept_dad", "0\n")
		b.sysctl("net/ipv6/conf/default/mldv2_unsolicited_report_interval", "1\n")
	})
	for _, pair := range [][2]string{{"p0", "lan"}, {"p1", "wan"}} {
		b.wire(b.tester, pair[0], b.dut, pair[1])
	}
	b.in(b.dut, func() {
		for port, addr := range map[string]string{"lan": "198.18.0.1/24", "wan": "198.19.0.1/24"} {
			a, err := netlink.ParseAddr(addr)
			b.must(err)
			b.must(netlink.AddrAdd(b.link(port), a))
		}
	})
	for _, port := range []string{"lan", "wan"} {
		b.attach(b.dut, port, verdict(2)) // XDP_PASS
	}
	for i, port := range []string{"p0", "p1"} {
		b.attach(b.tester, port, counting(count, i))
	}
	b.neighbour("lan", "198.18.0.2", b.mac["p0"])
	b.neighbour("wan", "198.19.0.2", b.mac["p1"])
	if ipv6 {
		b.in(b.dut, func() {
			for port, dst := range map[string]string{"lan": "2001:2::/64", "wan": "2001:2:1::/64"} {
				b.must(netlink.RouteAdd(&netlink.Route{LinkIndex: b.index[port], Dst: prefix(dst)}))
			}
		})
		b.neighbour("lan", "2001:2::2", b.mac["p0"])
		b.neighbour("wan", "2001:2:1::2", b.mac["p1"])
	}
	b.quiet()
	return b
}

func (b *bed) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) namespace(label string) *host.Local {
	ns, err := netns.New()
	b.must(err)
	b.t.Cleanup(func() { ns.Close() })
	return &host.Local{Label: label, Netns: ns.Path()}
}

// in runs f in a host's namespace.
func (b *bed) in(l *host.Local, f func()) {
	b.t.Helper()
	done := false
	err := netns.Do(l.Netns, func() error { f(); done = true; return nil })
	b.must(err)
	if !done {
		b.t.FailNow()
	}
}

// sysctl writes below /proc/sys of the thread's namespace.
func (b *bed) sysctl(name, value string) {
	b.t.Helper()
	if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0); err != nil {
		b.t.Error(err)
	}
}

func (b *bed) link(name string) netlink.Link {
	l, err := netlink.LinkByName(name)
	if err != nil {
		b.t.Error(err)
		return nil
	}
	return l
}

// wire makes a veth pair without offloads between two hosts.
func (b *bed) wire(left *host.Local, leftName string, right *host.Local, rightName string) {
	f, err := os.Open(right.Netns)
	b.must(err)
	defer f.Close()
	b.in(left, func() {
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: leftName}, PeerName: rightName, PeerNamespace: netlink.NsFd(f.Fd())}); err != nil {
			b.t.Error(err)
		}
	})
	for name, l := range map[string]*host.Local{leftName: left, rightName: right} {
		b.in(l, func() {
			e, err := ethtool.Open()
			if err != nil {
				b.t.Error(err)
				return
			}
			defer e.Close()
			if err := e.SetFeatures(name, map[string]bool{"tx-checksum-ip-generic": false, "tx-generic-segmentation": false, "tx-tcp-segmentation": false}); err != nil {
				b.t.Error(err)
			}
			link := b.link(name)
			b.mac[name], b.index[name] = link.Attrs().HardwareAddr, link.Attrs().Index
			if err := netlink.LinkSetUp(link); err != nil {
				b.t.Error(err)
			}
		})
	}
}

// attach replaces the native XDP program of a port.
func (b *bed) attach(l *host.Local, port string, ins asm.Instructions) {
	b.t.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL", Instructions: ins})
	b.must(err)
	defer p.Close()
	if old := b.xdp[port]; old != nil {
		b.must(old.Update(p))
		return
	}
	b.in(l, func() {
		b.xdp[port], err = link.AttachXDP(link.XDPOptions{Program: p, Interface: b.index[port], Flags: link.XDPDriverMode})
	})
	b.must(err)
	b.t.Cleanup(func() { b.xdp[port].Close() })
}

func (b *bed) neighbour(port, ip string, mac net.HardwareAddr) {
	b.in(b.dut, func() {
		if err := netlink.NeighSet(&netlink.Neigh{LinkIndex: b.index[port], State: netlink.NUD_PERMANENT, IP: net.ParseIP(ip), HardwareAddr: mac}); err != nil {
			b.t.Error(err)
		}
	})
}

func (b *bed) route(r netlink.Route) {
	b.t.Helper()
	b.in(b.dut, func() {
		if err := netlink.RouteAdd(&r); err != nil {
			b.t.Error(err)
		}
	})
}

func (b *bed) nft(rules string) {
	b.t.Helper()
	var missing *host.Missing
	_, err := b.dut.Run(context.Background(), rules, "nft", "-f", "-")
	if errors.As(err, &missing) {
		b.t.Skip(err)
	}
	b.must(err)
}

// quiet waits until the links' own chatter is over.
func (b *bed) quiet() {
	book, err := Open([]Path{b.path("p0", "lan", "wan", "p1")})
	b.must(err)
	defer book.Close()
	still := 0
	for range 100 {
		before, err := book.read(context.Background())
		b.must(err)
		time.Sleep(20 * time.Millisecond)
		after, err := book.read(context.Background())
		b.must(err)
		if still++; !before.equal(after) {
			still = 0
		}
		if still == 3 {
			return
		}
	}
	b.t.Fatal("the links do not come to rest")
}

func prefix(s string) *net.IPNet {
	_, p, err := net.ParseCIDR(s)
	if err != nil {
		panic(err)
	}
	return p
}

func verdict(code int32) asm.Instructions {
	return asm.Instructions{asm.Mov.Imm(asm.R0, code), asm.Return()}
}

func redirect(index int) asm.Instructions {
	return asm.Instructions{asm.Mov.Imm(asm.R1, int32(index)), asm.Mov.Imm(asm.R2, 0), asm.FnRedirect.Call(), asm.Return()}
}

// redirectFirst redirects n frames, counted in sent[0], and drops the others.
func redirectFirst(n int, sent *ebpf.Map, index int) asm.Instructions {
	return append(asm.Instructions{
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, sent.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "drop"),
		asm.LoadMem(asm.R3, asm.R0, 0, asm.DWord),
		asm.JGE.Imm(asm.R3, int32(n), "drop"),
		asm.Add.Imm(asm.R3, 1),
		asm.StoreMem(asm.R0, 0, asm.R3, asm.DWord),
		asm.Ja.Label("redirect"),
		asm.Mov.Imm(asm.R0, 1).WithSymbol("drop"), // XDP_DROP
		asm.Return(),
		asm.Mov.Imm(asm.R1, int32(index)).WithSymbol("redirect"),
	}, redirect(index)[1:]...)
}

// counting counts whole UDP packets in count[slot] and drops everything.
func counting(count *ebpf.Map, slot int) asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, 0, asm.Word), // data
		asm.LoadMem(asm.R3, asm.R1, 4, asm.Word), // data_end
		asm.Mov.Reg(asm.R4, asm.R2),
		asm.Add.Imm(asm.R4, 34),
		asm.JGT.Reg(asm.R4, asm.R3, "drop"),
		asm.LoadMem(asm.R5, asm.R2, 12, asm.Half),
		asm.JEq.Imm(asm.R5, 0xdd86, "ipv6"),
		asm.JNE.Imm(asm.R5, 0x0008, "drop"),
		asm.LoadMem(asm.R5, asm.R2, 20, asm.Half), // fragment offset, more fragments
		asm.And.Imm(asm.R5, 0xff3f),
		asm.JNE.Imm(asm.R5, 0, "drop"),
		asm.LoadMem(asm.R5, asm.R2, 23, asm.Byte),
		asm.Ja.Label("protocol"),
		asm.LoadMem(asm.R5, asm.R2, 20, asm.Byte).WithSymbol("ipv6"),
		asm.JNE.Imm(asm.R5, 17, "drop").WithSymbol("protocol"),
		asm.Mov.Imm(asm.R1, int32(slot)),
		asm.StoreMem(asm.RFP, -4, asm.R1, asm.Word),
		asm.LoadMapPtr(asm.R1, count.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "drop"),
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, 1).WithSymbol("drop"), // XDP_DROP
		asm.Return(),
	}
}

func (b *bed) path(names ...string) Path {
	p := Path{Name: strings.Join(names, "-")}
	for i, name := range names {
		h := Hop{Place: result.DUTNIC, Host: b.dut}
		switch {
		case i == 0:
			h = Hop{Place: result.Tester, Host: b.tester}
		case i == len(names)-1:
			h = Hop{Place: result.MeterAt, Host: b.tester}
		}
		h.Port = host.Port{Host: h.Host.Label, Netns: h.Host.Netns, Name: name}
		p.Hops = append(p.Hops, h)
	}
	return p
}

func (b *bed) received() (n uint64) {
	for i := range uint32(2) {
		var v uint64
		b.must(b.count.Lookup(i, &v))
		n += v
	}
	return n
}

// send sends n copies of a frame from a tester port, as an ordinary packet.
func (b *bed) send(port string, n int, frame []byte) {
	b.t.Helper()
	b.in(b.tester, func() {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			b.t.Error(err)
			return
		}
		defer unix.Close(fd)
		for range n {
			if err := unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: b.index[port]}); err != nil {
				b.t.Error(err)
				return
			}
		}
	})
}

// live sends n copies of a frame from a tester port by XDP, faster than a stack
// can take them. A signal has the kernel run the program anew, up to n times: what was sent
// before is counted.
func (b *bed) live(port string, n int, frame []byte) {
	b.t.Helper()
	sent, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	b.must(err)
	defer sent.Close()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL", Instructions: redirectFirst(n, sent, b.index[port])})
	b.must(err)
	defer p.Close()
	th, err := netns.Go(b.tester.Netns, b.sender, func() error {
		const liveFrames = 1 << 1 // BPF_F_TEST_XDP_LIVE_FRAMES
		_, err := p.Run(&ebpf.RunOptions{Data: frame, Repeat: uint32(n), Flags: liveFrames})
		return err
	})
	b.must(err)
	b.must(th.Wait())
}

// trial closes the books over paths while offer offers n frames.
func (b *bed) trial(n int, paths []Path, offer func()) result.Account {
	b.t.Helper()
	before := b.received()
	book, err := Open(paths)
	b.must(err)
	defer book.Close()
	b.must(book.Begin(context.Background()))
	offer()
	a, err := book.Balance(context.Background(), func(context.Context) (Ends, error) {
		return Ends{Intended: uint64(n), Accepted: uint64(n), Received: b.received() - before}, nil
	})
	b.must(err)
	if !a.Settled {
		b.t.Error("not settled")
	}
	return a
}

// through is a trial from p0 to p1.
func (b *bed) through(n int, frame []byte) result.Account {
	b.t.Helper()
	return b.trial(n, []Path{b.path("p0", "lan", "wan", "p1")}, func() { b.send("p0", n, frame) })
}

// A packet is UDP from lan to wan, unless it says otherwise.
type packet struct {
	src, dst string
	mac      net.HardwareAddr
	ttl      byte
	size     int  // of the buffer
	fragment bool // may be fragmented
}

func (b *bed) frame(p packet) []byte {
	ip6 := strings.Contains(p.dst, ":")
	set := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	if ip6 {
		set(&p.src, "2001:2::2")
	}
	set(&p.src, "198.18.0.2")
	set(&p.dst, "198.19.0.2")
	if p.mac == nil {
		p.mac = b.mac["lan"]
	}
	if p.ttl == 0 {
		p.ttl = 64
	}
	f := make([]byte, max(p.size, 80))
	copy(f, p.mac)
	copy(f[6:], b.mac["p0"])
	src, dst := net.ParseIP(p.src), net.ParseIP(p.dst)
	udp := 34
	if ip6 {
		udp = 54
		binary.BigEndian.PutUint16(f[12:], unix.ETH_P_IPV6)
		f[14] = 6 << 4
		binary.BigEndian.PutUint16(f[18:], uint16(len(f)-54))
		f[20], f[21] = unix.IPPROTO_UDP, p.ttl
		copy(f[22:], src.To16())
		copy(f[38:], dst.To16())
	} else {
		binary.BigEndian.PutUint16(f[12:], unix.ETH_P_IP)
		f[14] = 0x45
		binary.BigEndian.PutUint16(f[16:], uint16(len(f)-14))
		if !p.fragment {
			f[20] = 0x40
		}
		f[22], f[23] = p.ttl, unix.IPPROTO_UDP
		copy(f[26:], src.To4())
		copy(f[30:], dst.To4())
		var sum uint32
		for i := 14; i < 34; i += 2 {
			sum += uint32(binary.BigEndian.Uint16(f[i:]))
		}
		sum = sum>>16 + sum&0xffff
		binary.BigEndian.PutUint16(f[24:], ^uint16(sum>>16+sum))
	}
	binary.BigEndian.PutUint16(f[udp:], 49152)
	binary.BigEndian.PutUint16(f[udp+2:], 4242)
	binary.BigEndian.PutUint16(f[udp+4:], uint16(len(f)-udp))
	if ip6 {
		binary.BigEndian.PutUint16(f[udp+6:], udpSum6(f))
	}
	return f
}

func udpSum6(f []byte) uint16 {
	sum := uint32(unix.IPPROTO_UDP + len(f) - 54)
	for i := 22; i < len(f); i++ {
		sum += uint32(f[i]) << (8 * (1 - i&1))
	}
	for sum>>16 != 0 {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

func describe(a result.Account) string {
	var s strings.Builder
	fmt.Fprintf(&s, "accepted %d received %d in flight %d unexplained %d\n", a.Accepted, a.Received, a.InFlight, a.Unexplained)
	for _, t := range a.Drops {
		fmt.Fprintf(&s, "  drop   %-10s %-8s %-32s %6d  %s\n", t.Place, t.Host, t.Name, t.N, t.From)
	}
	for _, t := range a.Passed {
		fmt.Fprintf(&s, "  passed %-10s %-8s %-32s %6d  %s\n", t.Place, t.Host, t.Name, t.N, t.From)
	}
	return s.String()
}
