// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"boxdyno/engine"
	"boxdyno/engine/catalog"
	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/lab"
)

// A bed is a port to send from and a port whose counter tells what arrived.
//
//	two namespaces   A [tx] ==veth, 2 queues== [rx] B: XDP_DROP, or XDP_PASS into the stack
//	sandbox          tester [p0] == DUT == [p1] tester, placement shared
type bed struct {
	tx, rx           host.Port
	txMAC, gateway   [6]byte
	src, dst         netip.Addr
	separate         bool // sender and receiver are two namespaces
	dropsAll         bool // the receiver drops what is not the bench's
	receiver, sender *host.Local
	packets          func() (uint64, error) // of rx, so far
	receive          link.Link              // of two namespaces: the receiving port's program
	meter            engine.Meter           // boxdyno's, where it receives
	close            func() error
}

var bedKinds = []struct {
	title string
	build func(context.Context) (*bed, error)
}{
	{"into XDP_DROP", func(context.Context) (*bed, error) { return twoNamespaces(xdpDrop) }},
	{"into boxdyno's meter", metered},
	{"into the plain stack", func(context.Context) (*bed, error) { return twoNamespaces(xdpPass) }},
	{"through the routing DUT", sandbox},
}

// What an XDP program returns (include/uapi/linux/bpf.h).
const (
	xdpDrop = 1
	xdpPass = 2
)

// metered is two namespaces with boxdyno's meter in place of a bare program.
func metered(ctx context.Context) (*bed, error) {
	b, err := twoNamespaces(xdpPass)
	if err != nil {
		return nil, err
	}
	if err := b.receive.Close(); err != nil {
		return nil, errors.Join(err, b.close())
	}
	e, err := catalog.Open("xdp")
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	if b.meter, err = e.OpenMeter(ctx, b.rx); err != nil {
		return nil, errors.Join(err, b.close())
	}
	rest := b.close
	b.close = func() error { return errors.Join(b.meter.Close(), rest()) }
	return b, nil
}

// twoNamespaces wires two namespaces, the receiving port with a program that
// returns verdict.
func twoNamespaces(verdict int32) (_ *bed, err error) {
	b := &bed{separate: true, dropsAll: verdict == xdpDrop, src: netip.MustParseAddr("198.18.0.1"), dst: netip.MustParseAddr("198.18.0.2")}
	var closers []func() error
	b.close = func() error {
		var err error
		for i := len(closers) - 1; i >= 0; i-- {
			err = errors.Join(err, closers[i]())
		}
		return err
	}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	var spaces [2]*netns.Namespace
	for i := range spaces {
		if spaces[i], err = netns.New(); err != nil {
			return nil, err
		}
		closers = append(closers, spaces[i].Close)
	}
	b.tx, b.rx = host.Port{Name: "tx", Netns: spaces[0].Path()}, host.Port{Name: "rx", Netns: spaces[1].Path()}
	b.sender, b.receiver = &host.Local{Netns: b.tx.Netns}, &host.Local{Netns: b.rx.Netns}
	var receiver *netlink.Handle
	// The links' own chatter would be counted as frames.
	for _, p := range []host.Port{b.tx, b.rx} {
		if err := netns.Do(p.Netns, func() error {
			err := os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0)
			if errors.Is(err, os.ErrNotExist) {
				return nil // a kernel without IPv6
			}
			return err
		}); err != nil {
			return nil, err
		}
	}
	err = netns.Do(b.tx.Netns, func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.NumTxQueues, attrs.NumRxQueues = "tx", 2, 2
		return netlink.LinkAdd(&netlink.Veth{
			LinkAttrs: attrs, PeerName: "rx", PeerNumTxQueues: 2, PeerNumRxQueues: 2, PeerNamespace: netlink.NsFd(spaces[1].Fd()),
		})
	})
	if err != nil {
		return nil, fmt.Errorf("make a veth: %w", err)
	}
	macs := map[string]net.HardwareAddr{}
	up := func(p host.Port, addr netip.Addr) error {
		return netns.Do(p.Netns, func() error {
			l, err := netlink.LinkByName(p.Name)
			if err != nil {
				return err
			}
			macs[p.Name] = l.Attrs().HardwareAddr
			if lo, err := netlink.LinkByName("lo"); err == nil {
				_ = netlink.LinkSetUp(lo)
			}
			return errors.Join(netlink.AddrAdd(l, &netlink.Addr{IPNet: &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(24, 32)}}), netlink.LinkSetUp(l))
		})
	}
	if err := errors.Join(up(b.tx, b.src), up(b.rx, b.dst)); err != nil {
		return nil, err
	}
	neighbour := func(p host.Port, addr netip.Addr, mac net.HardwareAddr) error {
		return netns.Do(p.Netns, func() error {
			l, err := netlink.LinkByName(p.Name)
			if err != nil {
				return err
			}
			return netlink.NeighSet(&netlink.Neigh{LinkIndex: l.Attrs().Index, State: netlink.NUD_PERMANENT, IP: addr.AsSlice(), HardwareAddr: mac})
		})
	}
	if err := errors.Join(neighbour(b.tx, b.dst, macs["rx"]), neighbour(b.rx, b.src, macs["tx"])); err != nil {
		return nil, err
	}
	copy(b.txMAC[:], macs["tx"])
	copy(b.gateway[:], macs["rx"])
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, verdict), asm.Return()}})
	if err != nil {
		return nil, err
	}
	closers = append(closers, prog.Close)
	err = netns.Do(b.rx.Netns, func() error {
		l, err := netlink.LinkByName("rx")
		if err != nil {
			return err
		}
		x, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: l.Attrs().Index, Flags: link.XDPDriverMode})
		if err == nil {
			b.receive = x
			closers = append(closers, x.Close)
			receiver, err = netlink.NewHandle()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	closers = append(closers, func() error { receiver.Close(); return nil })
	b.packets = counter(receiver, "rx")
	return b, nil
}

func sandbox(ctx context.Context) (*bed, error) {
	i := 0
	for lab.All[i].Name != "sandbox" {
		i++
	}
	t := lab.All[i].New()
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	t.Flags(fs)
	if err := fs.Set("placement", "shared"); err != nil {
		return nil, err
	}
	at, err := t.Build(ctx)
	if err != nil {
		return nil, err
	}
	if err := at.Serve(ctx, lab.Service{Kind: "route"}); err != nil {
		return nil, errors.Join(err, at.Close())
	}
	from, to := at.Ports[0], at.Ports[1]
	b := &bed{tx: from.Port, rx: to.Port, txMAC: from.MAC, gateway: from.GatewayMAC, src: from.Addr4, dst: to.Addr4}
	b.sender = &host.Local{Netns: from.Netns}
	b.receiver = b.sender
	// A port without a program has no NAPI; the engine's meter would do as well.
	meter, err := at.Engine.OpenMeter(ctx, to.Port)
	if err != nil {
		return nil, errors.Join(err, at.Close())
	}
	var receiver *netlink.Handle
	if err := netns.Do(to.Netns, func() (err error) { receiver, err = netlink.NewHandle(); return err }); err != nil {
		return nil, errors.Join(err, meter.Close(), at.Close())
	}
	b.packets = counter(receiver, to.Name)
	b.close = func() error { receiver.Close(); return errors.Join(meter.Close(), at.Close()) }
	return b, nil
}

func counter(h *netlink.Handle, port string) func() (uint64, error) {
	return func() (uint64, error) {
		l, err := h.LinkByName(port)
		if err != nil {
			return 0, err
		}
		return l.Attrs().Statistics.RxPackets, nil
	}
}

// warmUp is how many frames a sender may send before it begins.
const warmUp = 64

// measure is the rate at which frames arrive while send runs, from a tenth of the
// span after the first of them to the last look before it ends.
func (b *bed) measure(ctx context.Context, span time.Duration, send func(context.Context) error) (float64, error) {
	const look = 5 * time.Millisecond
	start, err := b.packets()
	if err != nil {
		return 0, err
	}
	sending, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- send(sending) }()

	type sample struct {
		at time.Time
		n  uint64
	}
	var seen []sample
	var first time.Time
	limit := time.Now().Add(span + 20*time.Second)
	for {
		time.Sleep(look)
		n, err := b.packets()
		now := time.Now()
		if err != nil {
			stop()
			<-done
			return 0, err
		}
		if first.IsZero() && n > start+2*warmUp {
			first = now
		}
		if !first.IsZero() && now.Sub(first) > span/10 {
			seen = append(seen, sample{now, n})
		}
		if !first.IsZero() && now.Sub(first) > span {
			break
		}
		select {
		case err := <-done:
			var none *absent
			if err == nil || errors.As(err, &none) && len(seen) < 2 {
				err = errors.Join(err, ctx.Err())
				if err == nil {
					err = errors.New("it stopped early, before the span was over")
				}
			}
			return 0, err
		default:
		}
		if now.After(limit) {
			stop()
			<-done
			return 0, fmt.Errorf("nothing arrived within %v", time.Since(limit.Add(-span-20*time.Second)).Round(time.Second))
		}
	}
	stop()
	if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
		return 0, err
	}
	time.Sleep(20 * time.Millisecond) // what is under way
	a, z := seen[0], seen[len(seen)-1]
	return float64(z.n-a.n) / z.at.Sub(a.at).Seconds(), ctx.Err()
}
