// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// setDropXDP throws test frames away in the driver of both ports; ethtool's
// xdp_drops counts them. Replacing the program keeps the ports' NAPI.
func setDropXDP(v *services, _ context.Context, _ Service) error {
	return v.swapXDP(v.programs.DropXdp)
}

func clearDropXDP(v *services, _ context.Context) error { return v.swapXDP(v.programs.Pass) }

func (v *services) swapXDP(p *ebpf.Program) error {
	for i, l := range v.xdp {
		if err := l.Update(p); err != nil {
			return fmt.Errorf("replace the XDP program of %s: %w", sides[i].dut, err)
		}
	}
	return nil
}

// setDropTC throws test frames away in clsact ingress of both ports, whose qdisc
// counts them (TCX would count nothing).
func setDropTC(v *services, _ context.Context, _ Service) error {
	return v.eachPort(func(index int) error {
		if err := v.dut.nl.QdiscAdd(clsact(index)); err != nil {
			return fmt.Errorf("add clsact: %w", err)
		}
		err := v.dut.nl.FilterAdd(&netlink.BpfFilter{
			FilterAttrs: netlink.FilterAttrs{
				LinkIndex: index, Parent: netlink.HANDLE_MIN_INGRESS, Handle: 1, Priority: 1, Protocol: unix.ETH_P_ALL,
			},
			Fd: v.programs.DropTc.FD(), Name: dutProgDropTc, DirectAction: true,
		})
		if err != nil {
			return fmt.Errorf("add the filter to clsact: %w", err)
		}
		return nil
	})
}

func clearDropTC(v *services, _ context.Context) error {
	return v.eachPort(func(index int) error {
		err := v.dut.nl.QdiscDel(clsact(index))
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EINVAL) { // there is none
			return fmt.Errorf("remove clsact: %w", err)
		}
		return nil
	})
}

func clsact(index int) *netlink.Clsact {
	return &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}}
}

func (v *services) eachPort(f func(index int) error) error {
	for _, sd := range sides {
		l, err := v.dut.nl.LinkByName(sd.dut)
		if err == nil {
			err = f(l.Attrs().Index)
		}
		if err != nil {
			return fmt.Errorf("%s of the DUT: %w", sd.dut, err)
		}
	}
	return nil
}
