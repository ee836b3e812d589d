// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/ethtool"
	"boxdyno/internal/netns"
	"boxdyno/service"
)

// A way is where a burst of frames goes. Frames are built here by hand, because
// the DUT must understand others than the engine's.
type way struct {
	from, to         int
	src, dst         string // "": the ports' own IPv4 addresses
	srcPort, dstPort uint16
	flows            uint16 // source ports; 0: 1
	pad              int    // octets after the least payload
}

var lanToWan = way{from: 0, to: 1, srcPort: 10_000, dstPort: frame.Port}

func (w way) build(tb *Testbed, flow uint16) []byte {
	p, q := tb.Ports[w.from], tb.Ports[w.to]
	src, dst := p.Addr4, q.Addr4
	if w.src != "" {
		src, dst = netip.MustParseAddr(w.src), netip.MustParseAddr(w.dst)
	}
	b := slices.Concat(p.GatewayMAC[:], p.MAC[:])
	sum := func(b []byte, s uint32) uint32 {
		for i, c := range b {
			s += uint32(c) << (8 * (1 - i%2))
		}
		return s
	}
	fold := func(s uint32) uint16 {
		for s > 0xffff {
			s = s>>16 + s&0xffff
		}
		return ^uint16(s)
	}
	udp := make([]byte, 26+w.pad)
	binary.BigEndian.PutUint16(udp, w.srcPort+flow)
	binary.BigEndian.PutUint16(udp[2:], w.dstPort)
	binary.BigEndian.PutUint16(udp[4:], uint16(len(udp)))
	pseudo := sum(dst.AsSlice(), sum(src.AsSlice(), uint32(17+len(udp))))
	binary.BigEndian.PutUint16(udp[6:], fold(sum(udp, pseudo)))
	if src.Is4() {
		ip := []byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0}
		binary.BigEndian.PutUint16(ip[2:], uint16(20+len(udp)))
		ip = slices.Concat(ip, src.AsSlice(), dst.AsSlice())
		binary.BigEndian.PutUint16(ip[10:], fold(sum(ip, 0)))
		return slices.Concat(b, []byte{8, 0}, ip, udp)
	}
	return slices.Concat(b, []byte{0x86, 0xdd, 0x60, 0, 0, 0, 0, byte(len(udp)), 17, 64}, src.AsSlice(), dst.AsSlice(), udp)
}

// burst sends frames and returns how many UDP frames came out at the other
// port. The sender is pinned to cpu (-1: not).
func burst(t *testing.T, tb *Testbed, w way, frames, cpu int) (got int) {
	t.Helper()
	return len(exchange(t, tb, w, frames, cpu))
}

func exchange(t *testing.T, tb *Testbed, w way, frames, cpu int) (got [][]byte) {
	t.Helper()
	var cpus []int
	if cpu >= 0 {
		cpus = []int{cpu}
	}
	th, err := netns.Go(tb.Ports[0].Netns, cpus, func() error {
		out, err := packetSocket(tb.Ports[w.from].Name)
		if err != nil {
			return err
		}
		defer unix.Close(out)
		in, err := packetSocket(tb.Ports[w.to].Name)
		if err != nil {
			return err
		}
		defer unix.Close(in)
		receive := func() error {
			for {
				buf := make([]byte, 4096)
				n, from, err := unix.Recvfrom(in, buf, unix.MSG_DONTWAIT)
				if err == unix.EAGAIN {
					return nil
				}
				if err != nil {
					return err
				}
				if from.(*unix.SockaddrLinklayer).Pkttype != unix.PACKET_OUTGOING && isUDP(buf[:n]) {
					got = append(got, buf[:n])
				}
			}
		}
		flows := max(w.flows, 1)
		bufs := make([][]byte, flows)
		for f := range flows {
			bufs[f] = w.build(tb, f)
		}
		for i := range frames {
			err := unix.Send(out, bufs[i%int(flows)], 0)
			if err != nil && err != unix.ENOBUFS { // the port's ring is full: the count will tell
				return err
			}
			if i%32 == 31 {
				if err := receive(); err != nil {
					return err
				}
			}
		}
		for end := time.Now().Add(40 * time.Millisecond); len(got) < frames && time.Now().Before(end); {
			if err := receive(); err != nil {
				return err
			}
			time.Sleep(time.Millisecond)
		}
		return receive()
	})
	if err == nil {
		err = th.Wait()
	}
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func isUDP(b []byte) bool {
	return len(b) > 42 && (b[12] == 8 && b[23] == 17 || b[12] == 0x86 && b[20] == 17)
}

func packetSocket(port string) (int, error) {
	l, err := netlink.LinkByName(port) // in the namespace of the calling thread
	if err != nil {
		return 0, err
	}
	all := uint16(unix.ETH_P_ALL)<<8 | uint16(unix.ETH_P_ALL)>>8
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20); err != nil {
		unix.Close(fd)
		return 0, err
	}
	return fd, unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: l.Attrs().Index})
}

// drops are the DUT's counters that the services' drops and matches go to.
func drops(t *testing.T, tb *Testbed) map[string]int {
	t.Helper()
	m := map[string]int{}
	err := netns.Do(tb.DUT.Netns, func() error {
		e, err := ethtool.Open()
		if err != nil {
			return err
		}
		defer e.Close()
		nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer nl.Close()
		for _, sd := range sides {
			stats, err := e.Stats(sd.dut)
			if err != nil {
				return err
			}
			m["xdp"] += int(stats["rx_queue_0_drops"]) + int(stats["rx_queue_0_xdp_drops"])
			l, err := nl.LinkByName(sd.dut)
			if err != nil {
				return err
			}
			qs, err := nl.QdiscList(l)
			if err != nil {
				return err
			}
			for _, q := range qs {
				if q.Type() == "clsact" {
					m["tc"] += int(q.Attrs().Statistics.Queue.Drops)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := tb.DUT.Run(t.Context(), "", "nft", "-j", "list", "counters")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Nftables []struct {
			Counter *struct {
				Name    string
				Packets int
			}
		}
	}
	if err := json.Unmarshal(out, &doc); err != nil {
		t.Fatal(err)
	}
	for _, o := range doc.Nftables {
		if o.Counter != nil {
			m[o.Counter.Name] += o.Counter.Packets
		}
	}
	for k, n := range m {
		if n == 0 {
			delete(m, k)
		}
	}
	return m
}

func needNFT(t *testing.T) {
	t.Helper()
	if err := host.Has("nft"); err != nil {
		t.Skip(err)
	}
}

func TestServices(t *testing.T) {
	tb := testSandbox(t, shared)
	needNFT(t)
	const n = 200
	lan6, wan6 := "2001:2:0:1::2", "2001:2:0:2::2"
	ways := map[string]way{
		"lan-to-wan":      lanToWan,
		"wan-to-lan":      {from: 1, to: 0, srcPort: 10_000, dstPort: frame.Port},
		"lan-to-wan IPv6": {from: 0, to: 1, src: lan6, dst: wan6, srcPort: 10_000, dstPort: frame.Port},
		"wan-to-lan IPv6": {from: 1, to: 0, src: wan6, dst: lan6, srcPort: 10_000, dstPort: frame.Port},
		"last address":    {from: 1, to: 0, src: "198.19.0.21", dst: "198.18.0.21", srcPort: 10_000, dstPort: frame.Port},
	}
	for _, c := range []struct {
		service Service
		pass    bool   // test frames
		counter string // that counts them
		other   bool   // frames to another port pass
		otherBy string // what counts them
	}{
		{Service{Kind: "route"}, true, "", true, ""},
		{Service{Kind: "filter"}, true, "matched", false, "drop_policy"},
		{Service{Kind: "drop-xdp"}, false, "xdp", true, ""},
		{Service{Kind: "filter", Rules: 100}, true, "matched", false, "drop_policy"},
		{Service{Kind: "drop-tc"}, false, "tc", true, ""},
		{Service{Kind: "drop-tc"}, false, "tc", true, ""},
		{Service{Kind: "drop-nft"}, false, "drop_unwanted", true, ""},
		{Service{Kind: "route"}, true, "", true, ""},
	} {
		if err := tb.Serve(t.Context(), c.service); err != nil {
			t.Fatal(err)
		}
		for name, w := range ways {
			for _, test := range []bool{true, false} {
				pass, counter := c.pass, c.counter
				if !test {
					w.dstPort = 40_000
					pass, counter = c.other, c.otherBy
				}
				before := drops(t, tb)
				got := burst(t, tb, w, n, -1)
				if want := map[bool]int{true: n}[pass]; got != want {
					t.Errorf("%+v, %s, port %d: %d of %d came through, want %d", c.service, name, w.dstPort, got, n, want)
				}
				grown := drops(t, tb)
				for k, v := range before {
					if grown[k] -= v; grown[k] == 0 {
						delete(grown, k)
					}
				}
				want := map[string]int{}
				if counter != "" {
					want[counter] = n
				}
				if fmt.Sprint(grown) != fmt.Sprint(want) {
					t.Errorf("%+v, %s, port %d: counted %v, want %v", c.service, name, w.dstPort, grown, want)
				}
			}
		}
	}
}

// Rules before the match are tried and do not match; one of them that did would
// say so.
func TestFilterTriesRules(t *testing.T) {
	tb := testSandbox(t, shared)
	needNFT(t)
	const rules = 2_000
	if err := tb.Serve(t.Context(), Service{Kind: "filter", Rules: rules}); err != nil {
		t.Fatal(err)
	}
	out, err := tb.DUT.Run(t.Context(), "", "nft", "list", "chain", "inet", "boxdyno", "forward")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(out), "drop_rule"); n != rules {
		t.Errorf("the kernel has %d rules, want %d", n, rules)
	}
	if got := burst(t, tb, lanToWan, 10, -1); got != 10 {
		t.Errorf("%d of 10 test frames came through", got)
	}
	w := lanToWan
	w.dstPort = frame.Port + rules
	if got, d := burst(t, tb, w, 10, -1), drops(t, tb); got != 0 || d["drop_rule"] != 10 || d["matched"] != 10 {
		t.Errorf("%d of 10 other frames came through; counted %v", got, d)
	}
}

func TestNAT(t *testing.T) {
	tb := testSandbox(t, shared)
	needNFT(t)
	for _, v6 := range []bool{false, true} {
		open, wan := lanToWan, "198.19.0.1"
		src := "198.19.0.2"
		if v6 {
			open.src, open.dst, wan, src = "2001:2:0:1::2", "2001:2:0:2::2", "2001:2:0:2::1", "2001:2:0:2::2"
		}
		const flows = 500
		open.flows = flows
		answer := way{from: 1, to: 0, src: src, dst: wan, srcPort: frame.Port, dstPort: 10_000 + flows - 1}

		if err := tb.Serve(t.Context(), Service{Kind: "nat", Flows: flows}); err != nil {
			t.Fatal(err)
		}
		stray := answer // to another port, for it takes that port from the flows
		stray.dstPort = 30_000
		if got := burst(t, tb, stray, 1, -1); got != 0 {
			t.Errorf("IPv6 %v: an answer to nothing came through", v6)
		}
		seen := map[uint16]bool{}
		for _, b := range exchange(t, tb, open, flows, -1) {
			at, port := 26, 34
			if v6 {
				at, port = 22, 54
			}
			want := netip.MustParseAddr(wan)
			got, _ := netip.AddrFromSlice(b[at : at+len(want.AsSlice())])
			if got != want {
				t.Fatalf("IPv6 %v: left from %v, want %v", v6, got, want)
			}
			seen[binary.BigEndian.Uint16(b[port:])] = true
		}
		if len(seen) != flows || !seen[10_000] || !seen[10_000+flows-1] {
			t.Errorf("IPv6 %v: %d source ports of %d kept", v6, len(seen), flows)
		}
		if got := burst(t, tb, answer, 3, -1); got != 3 {
			t.Errorf("IPv6 %v: %d of 3 answers came through", v6, got)
		}
		for port, timeout := range timeouts(t, tb) {
			if timeout < 500 {
				t.Errorf("flow %d lives on for %d s only", port, timeout)
			}
		}

		if err := tb.Serve(t.Context(), Service{Kind: "nat", Flows: flows}); err != nil {
			t.Fatal(err)
		}
		if got := len(timeouts(t, tb)); got != 0 {
			t.Errorf("IPv6 %v: %d flows outlive the service", v6, got)
		}
		if err := tb.Serve(t.Context(), Service{Kind: "route"}); err != nil {
			t.Fatal(err)
		}
		if got := burst(t, tb, open, 1, -1); got != 1 {
			t.Error("nothing is routed after nat")
		}
		if got := len(timeouts(t, tb)); got != 0 {
			t.Errorf("IPv6 %v: %d flows are tracked by service route", v6, got)
		}
	}
}

// timeouts are the seconds that each tracked flow has left, by its source port.
func timeouts(t *testing.T, tb *Testbed) map[uint16]uint32 {
	t.Helper()
	m := map[uint16]uint32{}
	err := netns.Do(tb.DUT.Netns, func() error {
		for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
			flows, err := netlink.ConntrackTableList(netlink.ConntrackTable, family)
			if err != nil {
				return err
			}
			for _, f := range flows {
				m[f.Forward.SrcPort] = f.TimeOut
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestServeRefuses(t *testing.T) {
	tb := testSandbox(t, shared)
	if err := tb.Serve(t.Context(), Service{Kind: "drop-xdp"}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []Service{
		{Kind: ""}, {Kind: "bridge"}, {Kind: "filter", Rules: -1}, {Kind: "filter", Rules: service.MaxRules + 1},
		{Kind: "nat"}, {Kind: "nat", Flows: service.MaxNATFlows + 1},
	} {
		if err := tb.Serve(t.Context(), s); err == nil {
			t.Errorf("%+v was not refused", s)
		}
	}
	if got := burst(t, tb, lanToWan, 1, -1); got != 0 {
		t.Error("a refused service changed the DUT")
	}

	// One that fails half-way is taken back.
	err := netns.Do(tb.DUT.Netns, func() error {
		wan, err := netlink.LinkByName("wan")
		if err != nil {
			return err
		}
		return netlink.QdiscAdd(clsact(wan.Attrs().Index))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := tb.Serve(t.Context(), Service{Kind: "drop-tc"}); err == nil {
		t.Error("a second clsact was added")
	}
	if got := burst(t, tb, lanToWan, 1, -1); got != 1 {
		t.Error("half a service is left")
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if host.Has("nft") == nil {
		if err := tb.Serve(ctx, Service{Kind: "filter", Rules: 1}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want it cancelled", err)
		}
	}
	t.Setenv("PATH", "/nonexistent")
	if err := host.Has("nft"); err != nil {
		var missing *host.Missing
		if err := tb.Serve(t.Context(), Service{Kind: "filter"}); !errors.As(err, &missing) {
			t.Errorf("got %v, want a *host.Missing", err)
		}
	}
	if got := burst(t, tb, lanToWan, 1, -1); got != 1 {
		t.Error("after a service that failed the DUT does not route")
	}
}
