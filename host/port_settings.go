// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"boxdyno/internal/ethtool"
	"boxdyno/result"
	"boxdyno/unit"
)

// offloads are the features that decide what a frame costs, or what a meter sees,
// by their names in the kernel (net/ethtool/common.c) and in ethtool -k.
var offloads = []struct{ kernel, word string }{
	{"rx-checksum", "rx-checksumming"}, {"tx-checksum-ip-generic", "tx-checksumming"}, {"tx-checksum-ipv4", "tx-checksum-ipv4"},
	{"tx-checksum-ipv6", "tx-checksum-ipv6"}, {"tx-scatter-gather", "scatter-gather"}, {"tx-tcp-segmentation", "tso"}, {"tx-udp-segmentation", "uso"},
	{"tx-generic-segmentation", "gso"}, {"rx-gro", "gro"}, {"rx-gro-hw", "gro-hw"}, {"rx-gro-list", "gro-list"},
	{"rx-udp-gro-forwarding", "udp-gro-forwarding"}, {"rx-lro", "lro"}, {"rx-vlan-hw-parse", "rxvlan"}, {"tx-vlan-hw-insert", "txvlan"},
	{"rx-ntuple-filter", "ntuple"}, {"rx-hashing", "rxhash"}, {"hw-tc-offload", "hw-tc-offload"},
}

// Settings is how a port is set up, each key beginning with its name: "eth0 driver",
// "eth0 speed", "eth0 duplex", "eth0 EEE", "eth0 pause", "eth0 offloads", "eth0
// rings", "eth0 queues", "eth0 coalescing", "eth0 MTU", "eth0 firmware", "eth0 bus",
// "eth0 also". What its driver does not have, or nobody may ask, is left out. It
// reads, and needs no privilege but to enter the port's namespace.
func (p Port) Settings() (out []result.Pair, err error) {
	err = (&Local{Netns: p.Netns}).View(func(fs.FS) error {
		l, err := netlink.LinkByName(p.Name)
		if err != nil {
			return err
		}
		e, err := ethtool.Open()
		if err != nil {
			return err
		}
		defer e.Close()
		out = settings(e, p.Name, l)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read how port %s is set up: %w", p.Name, err)
	}
	if use, err := p.Needed(); err == nil && use.Why != "" {
		out = append(out, result.Pair{Key: p.Name + " also", Value: use.Why})
	}
	return out, nil
}

func settings(e *ethtool.Socket, port string, l netlink.Link) (out []result.Pair) {
	add := func(key, value string) {
		if value != "" {
			out = append(out, result.Pair{Key: port + " " + key, Value: value})
		}
	}
	add("MTU", fmt.Sprint(l.Attrs().MTU))
	real := false // a virtual link has no bus, and the speed that it claims is none
	if d, err := e.Driver(port); err == nil {
		add("driver", strings.TrimSpace(d.Name+" "+d.Version))
		add("firmware", d.Firmware)
		add("bus", d.Bus)
		real = d.Bus != ""
	}
	if l, err := e.Link(port); err == nil && real && l.Speed > 0 {
		add("speed", (unit.BitRate(l.Speed) * 1e6).String())
		add("duplex", l.Duplex)
	}
	if s := EEE(port); s != "unknown" {
		add("EEE", s)
	}
	if p, err := e.Pause(port); err == nil {
		add("pause", fmt.Sprintf("rx %s, tx %s, autonegotiation %s", onOff(p.RxPause), onOff(p.TxPause), onOff(p.Autoneg)))
	}
	if f, err := e.Features(port); err == nil {
		var on []string
		for _, o := range offloads {
			if f[o.kernel].Active {
				on = append(on, o.word)
			}
		}
		if len(on) == 0 {
			on = []string{"none"}
		}
		add("offloads", strings.Join(on, " "))
	}
	if r, err := e.Ring(port); err == nil && r.RxMaxPending+r.TxMaxPending > 0 {
		add("rings", fmt.Sprintf("rx %d of %d, tx %d of %d", r.RxPending, r.RxMaxPending, r.TxPending, r.TxMaxPending))
	}
	if c, err := e.Channels(port); err == nil {
		var words []string
		for _, q := range []struct {
			name     string
			now, max uint32
		}{{"combined", c.CombinedCount, c.MaxCombined}, {"rx", c.RxCount, c.MaxRx}, {"tx", c.TxCount, c.MaxTx}} {
			if q.max > 0 {
				words = append(words, fmt.Sprintf("%s %d of %d", q.name, q.now, q.max))
			}
		}
		add("queues", strings.Join(words, ", "))
	} else {
		add("queues", fmt.Sprintf("rx %d, tx %d", l.Attrs().NumRxQueues, l.Attrs().NumTxQueues))
	}
	if c, err := e.Coalesce(port); err == nil {
		words := []string{fmt.Sprintf("rx %d us %d frames, tx %d us %d frames", c.RxCoalesceUsecs, c.RxMaxCoalescedFrames, c.TxCoalesceUsecs, c.TxMaxCoalescedFrames)}
		if c.UseAdaptiveRxCoalesce|c.UseAdaptiveTxCoalesce != 0 {
			words = append(words, "adaptive")
		}
		add("coalescing", strings.Join(words, ", "))
	}
	return out
}

func onOff(v uint32) string {
	if v != 0 {
		return "on"
	}
	return "off"
}

// Ports are the names of interfaces that have a device behind them.
func (l *Local) Ports() (names []string) {
	for _, n := range nics(l.Files()) {
		name, _, _ := strings.Cut(n, " ")
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
