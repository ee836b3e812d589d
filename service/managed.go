// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/result"
	"boxdyno/tune"
)

// A Port is one of the machine, with what stands at the other end of its cable.
type Port struct {
	Name      string         `json:"name"`
	Addresses []netip.Prefix `json:"addresses"` // that it gets, the IPv4 one first
	Hops      []netip.Addr   `json:"hops"`      // of the tester, one for each address: where its networks are behind
}

// A Machine is this one, set up for services on one port or two:
//
//	Manage: links up, addresses, forwarding, an empty table    -- tune's journal, synced first
//	Set:    the table of one service, routes to networks       -- what that table and route protocol hold
//	        clsact of drop-tc, timeouts of nat, queues and RPS -- tune's journal
//	        XDP programs of drop-xdp                           -- links, which the kernel closes with the process
//	Close:  all as it was; after SIGKILL by tune's Recover
//
// Only Port's own interfaces forward IPv4. IPv6 knows one switch for all of them.
type Machine struct {
	spreading
	ports    []Port
	Warnings []string // what could not be set up, and is not needed for IPv4

	mu       sync.Mutex
	applied  *tune.Applied
	laid     *tune.Applied // for the service that is set; nil: nothing
	tracks   bool          // it fills the connection table
	dropping []*dropping   // it throws frames away in XDP
	close    func() error
}

// Manage sets ports of the namespace netns ("": this one) up. Two of one name are one arm: the
// port forwards between its own networks, and sends no ICMP redirects. It needs CAP_NET_ADMIN and
// root's files. What IPv4 needs and cannot be had is an error, and then all is as before.
func Manage(ctx context.Context, netns string, ports []Port, by string) (_ *Machine, err error) {
	m := &Machine{spreading: spreading{netns: netns}, ports: ports}
	m.close = sync.OnceValue(m.end)
	step := func(knob, port, value string) tune.Step { return tune.Step{Knob: knob, Target: port, Value: value} }
	r := tune.Recipe{Name: "services"}
	v6 := slices.ContainsFunc(ports, func(p Port) bool {
		return slices.ContainsFunc(p.Addresses, func(a netip.Prefix) bool { return a.Addr().Is6() })
	})
	if len(ports) > 1 && v6 {
		why, err := m.against6()
		if err != nil {
			return nil, err
		}
		if v6 = why == ""; !v6 {
			m.Warnings = append(m.Warnings, "IPv6 is left out: "+why)
		}
	}
	for _, p := range ports {
		arm := slices.Contains(m.names, p.Name)
		if !arm {
			m.names = append(m.names, p.Name)
			r.Steps = append(r.Steps, step("link", p.Name, "up"))
		}
		for _, a := range p.Addresses {
			if a.Addr().Is4() || v6 {
				r.Steps = append(r.Steps, step(tune.AddressPrefix+a.String(), p.Name, "present"))
			}
		}
		switch {
		case arm:
			r.Steps = append(r.Steps,
				step("sysctl:net.ipv4.conf.{port}.send_redirects", p.Name, "0"), step("sysctl:net.ipv4.conf.all.send_redirects", tune.ForHost, "0"), // it sends them if either says so
				step("sysctl:net.ipv4.neigh.{port}.delay_first_probe_time", p.Name, askAgain))
		case len(ports) > 1:
			r.Steps = append(r.Steps, step("sysctl:net.ipv4.conf.{port}.forwarding", p.Name, "1"))
		}
	}
	if len(ports) > 1 {
		if v6 {
			r.Steps = append(r.Steps, step("sysctl:net.ipv6.conf.all.forwarding", tune.ForHost, "1"))
		}
		r.Steps = append(r.Steps, step(tune.ServiceKnob, tune.ForHost, "on"))
	}
	applied, settings, err := tune.New().Apply(ctx, r, tune.On{Host: &host.Local{Netns: netns}, Ports: m.names}, tune.Options{By: by})
	if err != nil {
		return nil, fmt.Errorf("set the box up: %w", err)
	}
	m.applied = applied
	for _, s := range settings {
		needed := s.Knob == "link" || strings.Contains(s.Knob, ".ipv4.") || strings.HasPrefix(s.Knob, tune.AddressPrefix) && !strings.Contains(s.Knob[len(tune.AddressPrefix):], ":")
		text := fmt.Sprintf("%s of %s: %s", s.Knob, s.Target, s.Problem)
		switch {
		case s.Knob == tune.ServiceKnob && s.Before == "on":
			return nil, errors.Join(&host.Missing{What: "a box without a table inet " + tune.ServiceTable + ", or routes of protocol 211, of somebody else", Hint: "rename or remove them there, or give --set services=as-is"}, m.Close())
		case s.Problem == "":
		case needed:
			return nil, errors.Join(fmt.Errorf("set the box up: %s", text), m.Close())
		default:
			m.Warnings = append(m.Warnings, text)
		}
	}
	return m, nil
}

// askAgain is after how many seconds a machine of one arm asks again for the MAC address of who sent
// it an ARP request: a cable under overload loses the answer, and then the machine would forward nothing.
const askAgain = "3600"

// against6 says what the one switch for forwarding IPv6 would take away for good; "":
// nothing, or it is on already.
func (m *Machine) against6() (why string, err error) {
	err = (&host.Local{Netns: m.netns}).View(func(root fs.FS) error {
		const conf = "proc/sys/net/ipv6/conf/"
		all, err := fs.ReadFile(root, conf+"all/forwarding")
		if err != nil || strings.TrimSpace(string(all)) != "0" {
			return nil // without IPv6 its settings are problems of their own
		}
		single, err := fs.Glob(root, conf+"*/forwarding")
		if err != nil {
			return err
		}
		for _, name := range single {
			if v, err := fs.ReadFile(root, name); err == nil && strings.TrimSpace(string(v)) != "0" {
				why = path.Base(path.Dir(name)) + " of the box forwards it alone, and one switch sets all interfaces"
				return nil
			}
		}
		routes, err := netlink.RouteListFiltered(netlink.FAMILY_V6, &netlink.Route{Protocol: unix.RTPROT_RA}, netlink.RT_FILTER_PROTOCOL)
		if len(routes) > 0 {
			why = "a route of the box came by router advertisement, and forwarding would take it away"
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("look at the box's IPv6: %w", err)
	}
	return why, nil
}

// Set makes the machine do s and nothing else. A missing nft is a *host.Missing.
func (m *Machine) Set(ctx context.Context, s Service) error {
	if len(m.ports) != 2 || !slices.Contains(Kinds, s.Kind) {
		return fmt.Errorf("service %q: want one of %s, on two ports", s.Kind, strings.Join(Kinds, ", "))
	}
	if err := s.Check(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.takeDown(ctx); err != nil {
		return fmt.Errorf("take the last service down: %w", err)
	}
	if err := m.spread(ctx, s.AllCPUs); err != nil {
		return err
	}
	rules := Rules(s, m.ports[1].Name)
	if rules != "" || host.Has("nft") == nil {
		table := "table inet " + tune.ServiceTable
		text := table + " {}\ndelete " + table + "\n" + table + " {}\n" + rules
		if _, err := (&host.Local{Netns: m.netns}).Run(ctx, text, "nft", "-f", "-"); err != nil {
			return host.Permit("set up service "+s.Kind, fmt.Errorf("set up service %s: %w", s.Kind, err))
		}
	}
	var err error
	switch s.Kind {
	case "nat":
		err = m.track(ctx)
	case "drop-xdp":
		err = m.dropXDP()
	case "drop-tc":
		err = m.dropTC(ctx)
	}
	if err != nil {
		return host.Permit("set up service "+s.Kind, fmt.Errorf("set up service %s: %w", s.Kind, err))
	}
	if s.Kind == "nat" || s.Connections != nil {
		if err := m.forget(); err != nil {
			return err
		}
	}
	return m.route(s.Networks)
}

// track has flows of nat outlive any pause between trials.
func (m *Machine) track(ctx context.Context) error {
	r := tune.Recipe{Name: "nat"}
	for _, name := range []string{"nf_conntrack_udp_timeout", "nf_conntrack_udp_timeout_stream"} {
		r.Steps = append(r.Steps, tune.Step{Knob: "sysctl:net.netfilter." + name, Target: tune.ForHost, Value: "600"})
	}
	m.tracks = true
	_, err := m.lay(ctx, r, nil)
	return err
}

// lay sets up what the service needs beside its table, until takeDown.
func (m *Machine) lay(ctx context.Context, r tune.Recipe, ports []string) (settings []result.Setting, err error) {
	m.laid, settings, err = tune.New().Apply(ctx, r, tune.On{Host: &host.Local{Netns: m.netns}, Ports: ports}, tune.Options{By: "service " + r.Name})
	return settings, err
}

// takeDown takes down what the last service has beside its table.
func (m *Machine) takeDown(ctx context.Context) (err error) {
	err = m.undrop()
	if m.laid != nil {
		_, rerr := m.laid.Revert(ctx, tune.Revert{})
		err, m.laid = errors.Join(err, rerr), nil
	}
	if m.tracks {
		m.tracks = false
		err = errors.Join(err, m.forget())
	}
	return err
}

// ours are connections between the machine's test networks.
type ours []netip.Prefix

func (o ours) MatchConntrackFlow(f *netlink.ConntrackFlow) bool {
	for _, ip := range []net.IP{f.Forward.SrcIP, f.Forward.DstIP} {
		a, _ := netip.AddrFromSlice(ip)
		if slices.ContainsFunc(o, func(p netip.Prefix) bool { return p.Contains(a.Unmap()) }) {
			return true
		}
	}
	return false
}

// forget empties the connection table of test traffic, and leaves the control connection.
func (m *Machine) forget() error {
	all := ours(slices.Clone(host.Benchmarks))
	for _, p := range m.ports {
		for _, a := range p.Addresses {
			all = append(all, a.Masked())
		}
	}
	err := netns.Do(m.netns, func() error {
		for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
			if _, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, all); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("empty the connection table: %w", err)
	}
	return nil
}

// route has the machine route n networks of each side (frame.Network) by the tester, and
// no others.
func (m *Machine) route(n int) error {
	return netns.Do(m.netns, func() error {
		old, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: tune.ServiceRoutes}, netlink.RT_FILTER_PROTOCOL)
		if err != nil {
			return fmt.Errorf("list routes: %w", err)
		}
		for _, r := range old {
			if err := netlink.RouteDel(&r); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("remove the route to %v: %w", r.Dst, err)
			}
		}
		for _, p := range m.ports {
			l, err := netlink.LinkByName(p.Name)
			if err != nil {
				return fmt.Errorf("find port %s: %w", p.Name, err)
			}
			for i, own := range p.Addresses {
				for k := range n {
					to := frame.Network(p.Hops[i], k).Masked()
					if n < 2 || to == own.Masked() {
						continue
					}
					err := netlink.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Gw: p.Hops[i].AsSlice(), Protocol: tune.ServiceRoutes,
						Dst: &net.IPNet{IP: to.Addr().AsSlice(), Mask: net.CIDRMask(to.Bits(), to.Addr().BitLen())}})
					if err != nil && !errors.Is(err, unix.EEXIST) {
						return fmt.Errorf("route %v by %v: %w", to, p.Hops[i], err)
					}
				}
			}
		}
		return nil
	})
}

// Close puts everything back. It may be called more than once.
func (m *Machine) Close() error { return m.close() }

func (m *Machine) end() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := errors.Join(m.takeDown(context.Background()), m.spread(context.Background(), false))
	_, rerr := m.applied.Revert(context.Background(), tune.Revert{})
	return errors.Join(err, rerr)
}
