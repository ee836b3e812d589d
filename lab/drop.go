// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"boxdyno/service"
)

// setDropXDP throws test frames away in the driver of both ports; ethtool's
// xdp_drops counts them. Replacing the program keeps the ports' NAPI.
func setDropXDP(v *services, _ context.Context, _ Service) error {
	return v.swapXDP(v.drops.XDP, v.drops.XDP)
}

func clearDropXDP(v *services, _ context.Context) error { return v.swapXDP(v.port(0), v.port(1)) }

func (v *services) swapXDP(lan, wan *ebpf.Program) error {
	for i, p := range []*ebpf.Program{lan, wan} {
		if err := v.xdp[i].Update(p); err != nil {
			return fmt.Errorf("replace the XDP program of %s: %w", sides[i].dut, err)
		}
	}
	return nil
}

// setDropTC throws test frames away in clsact ingress of both ports, whose qdisc
// counts them (TCX would count nothing).
func setDropTC(v *services, _ context.Context, _ Service) error {
	if v.plant.Loss != (LossPattern{}) { // which stands there
		if err := v.clearIngress(); err != nil {
			return err
		}
	}
	return v.ingress([2]*ebpf.Program{v.drops.TC, v.drops.TC}, service.DropTCName)
}

// ingress puts a program on the clsact ingress of each port.
func (v *services) ingress(programs [2]*ebpf.Program, name string) error {
	n := -1
	return v.eachPort(func(index int) error {
		n++
		if err := v.dut.nl.QdiscAdd(clsact(index)); err != nil {
			return fmt.Errorf("add clsact: %w", err)
		}
		return service.Shoot(v.dut.nl, index, programs[n], name)
	})
}

func clearDropTC(v *services, _ context.Context) error {
	if err := v.clearIngress(); err != nil {
		return err
	}
	return v.lose()
}

func (v *services) clearIngress() error {
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
