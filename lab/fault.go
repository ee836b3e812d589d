// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"boxdyno/internal/netns"
)

// A fault is something that is wrong with the DUT on purpose, to learn what it
// looks like. Nothing but set tells of it: ledger and verdict must find out.
type fault struct {
	name, doc string
	set       func(*services, context.Context) error
}

var faults = []fault{
	{"blackhole", "a blackhole route to the hosts behind wan", setBlackhole},
	{"busy-core", "a program that has half the time of the DUT's CPU", setBusyCore},
	{"conntrack-full", "connection tracking, with a table that is full", setConntrackFull},
	{"forwarding-off", "IP forwarding is off", setForwardingOff},
	{"mtu", "the MTU of wan is 1280, for frames from lan", setMTU},
	{"neighbour", "no host behind wan answers ARP or neighbour discovery", setNeighbour},
	{"rp-filter", "the way back to the hosts behind lan leads through wan", setReversePath},
}

// faultNames are the values of dut.fault.
func faultNames() []string {
	names := []string{"none"}
	for _, f := range faults {
		names = append(names, f.name)
	}
	return names
}

// breakIt sets the planted fault.
func (v *services) breakIt(ctx context.Context) error {
	i := slices.IndexFunc(faults, func(f fault) bool { return f.name == v.plant.Fault })
	if i < 0 {
		return nil
	}
	if err := faults[i].set(v, ctx); err != nil {
		return fmt.Errorf("fault %s: %w", faults[i].name, err)
	}
	return nil
}

// half is the lower half of a side's network: it is more specific than the
// connected route, and holds every host of the tester.
func half(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Masked().Addr().AsSlice(), Mask: net.CIDRMask(p.Bits()+1, p.Addr().BitLen())}
}

func setBlackhole(v *services, _ context.Context) error {
	for _, p := range sides[1].nets() {
		if err := v.dut.nl.RouteAdd(&netlink.Route{Dst: half(p), Type: unix.RTN_BLACKHOLE}); err != nil {
			return err
		}
	}
	return nil
}

// setReversePath leaves the addresses of the DUT itself alone: they are local.
func setReversePath(v *services, _ context.Context) error {
	wan, err := v.dut.nl.LinkByName(sides[1].dut)
	if err != nil {
		return err
	}
	return v.dut.nl.RouteAdd(&netlink.Route{Dst: half(sides[0].net4), LinkIndex: wan.Attrs().Index, Scope: unix.RT_SCOPE_LINK})
}

func setForwardingOff(v *services, _ context.Context) error {
	return netns.Do(v.dut.Netns, func() error {
		if err := sysctl("net/ipv4/ip_forward", "0"); err != nil || !hasIPv6() {
			return err
		}
		return sysctl("net/ipv6/conf/all/forwarding", "0")
	})
}

func setMTU(v *services, _ context.Context) error {
	return v.dut.link("set the MTU of", sides[1].dut, func(l netlink.Link) error { return v.dut.nl.LinkSetMTU(l, minMTU) })
}

// setNeighbour also has the kernel give up early, so that nothing waits long.
func setNeighbour(v *services, _ context.Context) error {
	wan, err := v.dut.nl.LinkByName(sides[1].dut)
	if err != nil {
		return err
	}
	list, err := v.dut.nl.NeighList(wan.Attrs().Index, unix.AF_UNSPEC)
	if err != nil {
		return err
	}
	for _, n := range list {
		if n.State&netlink.NUD_PERMANENT != 0 {
			if err := v.dut.nl.NeighDel(&n); err != nil {
				return err
			}
		}
	}
	return netns.Do(v.dut.Netns, func() error {
		families := []string{"ipv4"}
		if hasIPv6() {
			families = append(families, "ipv6")
		}
		for _, family := range families {
			at := "net/" + family + "/neigh/" + sides[1].dut + "/"
			for _, kv := range [][2]string{{"retrans_time_ms", "100"}, {"mcast_solicit", "1"}} {
				if err := sysctl(at+kv[0], kv[1]); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// The hog takes the DUT's CPU for half of the time, with a precedence above the
// DUT's threads (in a control group of its own it would hardly get any): SCHED_FIFO,
// in turns that stay far below what the kernel lets real-time work have. It ends
// with stop, with the process, and after hogLongest.
const (
	hogTurn    = time.Millisecond
	hogLongest = time.Hour
)

func setBusyCore(v *services, _ context.Context) error {
	var stop atomic.Bool
	ready := make(chan error, 1)
	th, err := netns.Go(v.dut.Netns, []int{v.cpu}, func() error {
		err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0)
		if err != nil {
			err = fmt.Errorf("let a thread run before others: %w", err)
		}
		ready <- err
		pause := unix.NsecToTimespec(hogTurn.Nanoseconds())
		for end := time.Now().Add(hogLongest); err == nil && !stop.Load() && time.Now().Before(end); {
			for turn := time.Now(); time.Since(turn) < hogTurn; {
			}
			_ = unix.Nanosleep(&pause, nil) // a signal may end it early
		}
		return err
	})
	if err != nil {
		return err
	}
	v.stop = func() error {
		stop.Store(true)
		return th.Wait()
	}
	return <-ready
}

// setConntrackFull has every packet tracked, and fills the table.
func setConntrackFull(v *services, ctx context.Context) error {
	err := v.nft(ctx, `table inet boxdyno_fault {
	counter tracked {}
	chain prerouting {
		type filter hook prerouting priority mangle; policy accept;
		ct state new counter name tracked
	}
}
`)
	if err != nil {
		return err
	}
	return v.fillConntrack()
}

// fillConntrack adds connections that nobody uses and the kernel may not evict
// (they are assured) until its table takes no more, and lets none expire.
func (v *services) fillConntrack() error {
	return netns.Do(v.dut.Netns, func() error {
		b, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_max")
		if err != nil {
			return err
		}
		most, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if err != nil {
			return err
		}
		const limit = 4 << 20 // entries of some 300 octets
		if most > limit {
			return fmt.Errorf("the connection table takes %d entries, too many to fill (at most %d)", most, limit)
		}
		s, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
		if err != nil {
			return err
		}
		defer unix.Close(s)
		// Requests without an acknowledgement, many in one message: a refusal shows
		// in the count.
		var batch []byte
		for n := range most + 1000 {
			batch = append(batch, newConnection(uint32(n)).Serialize()...)
			if len(batch) > 24<<10 || n == most+999 {
				if err := unix.Send(s, batch, 0); err != nil {
					return err
				}
				batch = batch[:0]
			}
		}
		b, err = os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_count")
		if err != nil {
			return err
		}
		if n, _ := strconv.Atoi(strings.TrimSpace(string(b))); n < most {
			return fmt.Errorf("the connection table has %d of %d entries and takes no more", n, most)
		}
		return nil
	})
}

// newConnection is the request for UDP connection n between addresses set aside
// for benchmarks that the tester does not use.
func newConnection(n uint32) *nl.NetlinkRequest {
	const (
		ctaTupleOrig, ctaTupleReply, ctaStatus, ctaTimeout = 1, 2, 3, 7
		ctaTupleIP, ctaTupleProto                          = 1, 2
		ctaIPSrc, ctaIPDst                                 = 1, 2
		ctaProtoNum, ctaProtoSrc, ctaProtoDst              = 1, 2, 3
		newEntry                                           = unix.NFNL_SUBSYS_CTNETLINK << 8 // IPCTNL_MSG_CT_NEW
		assured                                            = 1<<1 | 1<<2 | 1<<3              // IPS_SEEN_REPLY, IPS_ASSURED, IPS_CONFIRMED
	)
	src, dst := []byte{198, 18, 255, byte(n >> 24)}, []byte{198, 19, 255, byte(n >> 16)}
	port, other := []byte{byte(n >> 8), byte(n)}, []byte{0, 9}
	tuple := func(kind int, src, dst, from, to []byte) *nl.RtAttr {
		t := nl.NewRtAttr(unix.NLA_F_NESTED|kind, nil)
		ip := t.AddRtAttr(unix.NLA_F_NESTED|ctaTupleIP, nil)
		ip.AddRtAttr(ctaIPSrc, src)
		ip.AddRtAttr(ctaIPDst, dst)
		proto := t.AddRtAttr(unix.NLA_F_NESTED|ctaTupleProto, nil)
		proto.AddRtAttr(ctaProtoNum, []byte{unix.IPPROTO_UDP})
		proto.AddRtAttr(ctaProtoSrc, from)
		proto.AddRtAttr(ctaProtoDst, to)
		return t
	}
	req := nl.NewNetlinkRequest(newEntry, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	req.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_INET})
	req.AddData(tuple(ctaTupleOrig, src, dst, port, other))
	req.AddData(tuple(ctaTupleReply, dst, src, other, port))
	req.AddData(nl.NewRtAttr(ctaStatus, nl.BEUint32Attr(assured)))
	req.AddData(nl.NewRtAttr(ctaTimeout, nl.BEUint32Attr(uint32((24*time.Hour)/time.Second))))
	return req
}
