// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"boxdyno/internal/netns"
	"boxdyno/unit"
)

// This file puts a Plant into a DUT. What it drops the kernel itself counts: XDP
// drops of a port are the policer's, those of its clsact the loss's, those of its
// root qdisc the shaper's; the hop tells the ledger (Hop.Names). The rule has a
// counter of its own.

// port is the program that a side's port runs when no service drops there.
func (v *services) port(side int) *ebpf.Program {
	switch p := v.programs; {
	case v.plant.Policer == 0:
		return p.Pass
	case side == 0:
		return p.PoliceLan
	default:
		return p.PoliceWan
	}
}

// lose has the ports' clsact lose frames by the planted pattern.
func (v *services) lose() error {
	if v.plant.Loss == (LossPattern{}) {
		return nil
	}
	return v.ingress([2]*ebpf.Program{v.programs.LoseLan, v.programs.LoseWan}, "lose")
}

// shape puts the planted shaper on the ports' egress.
func (v *services) shape(mtu int) error {
	if v.plant.Shaper == 0 {
		return nil
	}
	burst, queue := v.plant.shaperSizes(mtu)
	return v.eachPort(func(index int) error {
		return netns.Do(v.dut.Netns, func() error { return addTBF(index, v.plant.Shaper, burst, queue) })
	})
}

// rule adds the planted rule, before any service's, in a table that no service
// clears.
func (v *services) rule(ctx context.Context) error {
	if v.plant.Rule == 0 {
		return nil
	}
	var b strings.Builder
	b.WriteString("table inet planted {\n\tcounter drop_over_limit {}\n\tchain forward {\n\t\ttype filter hook forward priority filter - 10; policy accept;\n")
	for _, sd := range sides {
		fmt.Fprintf(&b, "\t\tiifname %q limit rate over %.0f/second burst %d packets counter name drop_over_limit drop\n", sd.dut, float64(v.plant.Rule), v.plant.ruleBucket())
	}
	b.WriteString("\t}\n}\n")
	return v.nft(ctx, b.String())
}

// addTBF makes a token bucket filter the root qdisc of a port of the calling
// thread's namespace. burst and queue are octets. Frames count with their FCS,
// which the kernel's own length lacks (sch_tbf.c: struct tc_ratespec.overhead);
// netlink's Tbf has no such field.
func addTBF(index int, rate unit.BitRate, burst, queue int) error {
	octets := uint64(rate / 8)
	opt := nl.TcTbfQopt{Limit: uint32(queue), Buffer: netlink.Xmittime(octets, uint32(burst))}
	opt.Rate.Overhead = unit.FCS
	opt.Rate.Linklayer = nl.LINKLAYER_ETHERNET
	opt.Rate.Rate = uint32(min(octets, 1<<32-1))
	options := nl.NewRtAttr(nl.TCA_OPTIONS, nil)
	options.AddRtAttr(nl.TCA_TBF_PARMS, opt.Serialize())
	options.AddRtAttr(nl.TCA_TBF_BURST, nl.Uint32Attr(uint32(burst)))
	if octets >= 1<<32 {
		options.AddRtAttr(nl.TCA_TBF_RATE64, nl.Uint64Attr(octets))
	}
	req := nl.NewNetlinkRequest(unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_REPLACE|unix.NLM_F_ACK)
	req.AddData(&nl.TcMsg{Family: nl.FAMILY_ALL, Ifindex: int32(index), Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT})
	req.AddData(nl.NewRtAttr(nl.TCA_KIND, nl.ZeroTerminated("tbf")))
	req.AddData(options)
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	if errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("add the shaper: the kernel has no qdisc tbf (module sch_tbf): %w", err)
	}
	if err != nil {
		return fmt.Errorf("add the shaper: %w", err)
	}
	return nil
}

// names are what the counters of the DUT's ports stand for while kind is served.
func (p Plant) names(kind string) map[string]string {
	m := map[string]string{}
	if p.Policer > 0 && kind != "drop-xdp" {
		m["ethtool rx_queue_*_xdp_drops"] = "policer"
	}
	if p.Loss != (LossPattern{}) && kind != "drop-tc" {
		m["clsact drops"] = "planted loss"
	}
	if p.Shaper > 0 {
		m["qdisc drops"] = "shaper queue full"
	}
	return m
}
