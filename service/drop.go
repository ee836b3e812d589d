// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/tune"
)

// Drops are programs that throw test frames away: UDP to frame.Port.
type Drops struct {
	XDP *ebpf.Program // of XDP, in the driver or behind it
	TC  *ebpf.Program // of clsact ingress

	objects dropObjects
}

// Names of the programs in the kernel.
const (
	DropXDPName = dropProgDropXdp
	DropTCName  = dropProgDropTc
)

// LoadDrops loads them. It needs CAP_BPF and CAP_NET_ADMIN. With counting, Dropped says how
// many frames the program of XDP has thrown away, which costs it a nanosecond a frame.
func LoadDrops(counting bool) (*Drops, error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("lift the limit of locked memory: %w", err)
	}
	spec, err := loadDrop()
	if err != nil {
		return nil, err
	}
	set := spec.Variables[dropVarTestPort].Set(uint16(frame.Port))
	if counting {
		set = errors.Join(set, spec.Variables[dropVarCounting].Set(uint8(1)))
	}
	if set != nil {
		return nil, fmt.Errorf("set up the programs that drop frames: %w", set)
	}
	d := &Drops{}
	if err := spec.LoadAndAssign(&d.objects, nil); err != nil {
		return nil, fmt.Errorf("load the programs that drop frames: %w", err)
	}
	d.XDP, d.TC = d.objects.DropXdp, d.objects.DropTc
	return d, nil
}

// Dropped is how many frames the program of XDP has thrown away on all CPUs.
func (d *Drops) Dropped() (n uint64, err error) {
	var each []uint64
	if err := d.objects.Dropped.Lookup(uint32(0), &each); err != nil {
		return 0, fmt.Errorf("read the count of dropped frames: %w", err)
	}
	for _, v := range each {
		n += v
	}
	return n, nil
}

// Close lets go of the programs. Where they are attached they stay.
func (d *Drops) Close() error { return d.objects.Close() }

// Shoot puts a program, called name there, on the clsact ingress of the port with that
// index in the namespace of nl.
func Shoot(nl *netlink.Handle, index int, p *ebpf.Program, name string) error {
	err := nl.FilterAdd(&netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: index, Parent: netlink.HANDLE_MIN_INGRESS, Handle: 1, Priority: 1, Protocol: unix.ETH_P_ALL,
		},
		Fd: p.FD(), Name: name, DirectAction: true,
	})
	if err != nil {
		return fmt.Errorf("add the filter to clsact: %w", err)
	}
	return nil
}

// An XDPDrop is what a machine's own program has thrown away at one port.
type XDPDrop struct {
	Port   string
	Native bool // in the driver, which may count the same frames; else behind it
	N      uint64
}

// A dropping is a port whose program throws test frames away in XDP.
type dropping struct {
	port   string
	native bool
	drops  *Drops
	link   link.Link // ends with this process at the latest
}

// XDPDrops are those of the service that is set, by port; none with another one.
func (m *Machine) XDPDrops() (all []XDPDrop, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range m.dropping {
		n, err := d.drops.Dropped()
		if err != nil {
			return nil, err
		}
		all = append(all, XDPDrop{Port: d.port, Native: d.native, N: n})
	}
	return all, nil
}

// dropXDP has both ports throw test frames away in XDP: in the driver, or behind one that
// cannot.
func (m *Machine) dropXDP() error {
	for _, p := range m.ports {
		drops, err := LoadDrops(true)
		if err != nil {
			return err
		}
		d := &dropping{port: p.Name, native: true, drops: drops}
		m.dropping = append(m.dropping, d) // undrop closes it
		err = d.attach(m.netns, link.XDPDriverMode)
		if err != nil && !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.EEXIST) {
			d.native = false
			if gerr := d.attach(m.netns, link.XDPGenericMode); gerr == nil {
				err = nil
			}
		}
		switch {
		case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EEXIST):
			return &host.Missing{What: fmt.Sprintf("port %s of the box without an XDP program of somebody else", p.Name), Hint: "detach it there: ip link set dev " + p.Name + " xdp off"}
		case err != nil:
			return fmt.Errorf("attach XDP to %s of the box: %w", p.Name, err)
		}
	}
	return nil
}

func (d *dropping) attach(space string, mode link.XDPAttachFlags) error {
	return netns.Do(space, func() error {
		port, err := net.InterfaceByName(d.port)
		if err != nil {
			return err
		}
		d.link, err = link.AttachXDP(link.XDPOptions{Program: d.drops.XDP, Interface: port.Index, Flags: mode})
		return err
	})
}

// undrop takes the programs of XDP off.
func (m *Machine) undrop() (err error) {
	for _, d := range m.dropping {
		if d.link != nil {
			err = errors.Join(err, d.link.Close())
		}
		err = errors.Join(err, d.drops.Close())
	}
	m.dropping = nil
	return err
}

// dropTC has both ports throw test frames away in clsact ingress.
func (m *Machine) dropTC(ctx context.Context) error {
	r := tune.Recipe{Name: "drop-tc"}
	var names []string
	for _, p := range m.ports {
		names = append(names, p.Name)
		r.Steps = append(r.Steps, tune.Step{Knob: tune.ClsactKnob, Target: p.Name, Value: "present"})
	}
	settings, err := m.lay(ctx, r, names)
	if err != nil {
		return err
	}
	for _, s := range settings {
		switch {
		case s.Before == "present":
			return &host.Missing{What: fmt.Sprintf("port %s of the box without a clsact qdisc of somebody else", s.Target), Hint: "remove it there: tc qdisc del dev " + s.Target + " clsact; or take service drop-nft"}
		case s.Problem != "":
			return fmt.Errorf("clsact on %s of the box: %s", s.Target, s.Problem)
		}
	}
	drops, err := LoadDrops(false)
	if err != nil {
		return err
	}
	defer drops.Close()
	return netns.Do(m.netns, func() error {
		nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("open netlink: %w", err)
		}
		defer nl.Close()
		for _, p := range m.ports {
			l, err := nl.LinkByName(p.Name)
			if err == nil {
				err = Shoot(nl, l.Attrs().Index, drops.TC, DropTCName)
			}
			if err != nil {
				return fmt.Errorf("port %s of the box: %w", p.Name, err)
			}
		}
		return nil
	})
}
