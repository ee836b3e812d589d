// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"

	"boxdyno/host"
	"boxdyno/internal/guard"
	"boxdyno/result"
	"boxdyno/subject/internal/program"
	"boxdyno/unit"
)

// A daemon is a program at one end of a tunnel.
type daemon struct {
	name string
	cmd  host.Cmd // without its output
	at   *host.Local

	mu      sync.Mutex
	process *host.Process
	log     *program.Log
	before  result.Usage // of its earlier lives
}

func (d *daemon) start(ctx context.Context) error {
	log, c := &program.Log{}, d.cmd
	c.Stdout, c.Stderr = log, log
	p, err := d.at.Start(ctx, c)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.process, d.log = p, log
	return nil
}

func (d *daemon) now() (*host.Process, *program.Log) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.process, d.log
}

// ended is one sentence where the program has ended.
func (d *daemon) ended() error {
	p, _ := d.now()
	if p == nil {
		return nil // between two lives
	}
	select {
	case <-p.Done():
	default:
		return nil
	}
	err := p.Wait(context.Background())
	if err == nil {
		err = fmt.Errorf("%s ended by itself", d.name)
	}
	if s := d.lastLine(); s != "" {
		return fmt.Errorf("%w: %s", err, s)
	}
	return err
}

// lastLine is the last line that the program wrote, but for OpenVPN's hint at its help,
// before which it says what is wrong.
func (d *daemon) lastLine() string {
	_, log := d.now()
	text := strings.TrimSpace(log.String())
	text = strings.TrimSpace(strings.TrimSuffix(text, "Use --help for more information."))
	return strings.TrimSpace(text[strings.LastIndex(text, "\n")+1:])
}

func (d *daemon) usage() (result.Usage, error) {
	p, _ := d.now()
	u := result.Usage{}
	var err error
	if p != nil {
		u, err = p.Usage()
	}
	u.CPU, u.User, u.System = u.CPU+d.before.CPU, u.User+d.before.User, u.System+d.before.System
	u.PeakMemory = max(u.PeakMemory, d.before.PeakMemory)
	return u, err
}

// stop ends the program; it may be called again.
func (d *daemon) stop(ctx context.Context) error {
	p, _ := d.now()
	if p == nil {
		return nil
	}
	return p.Stop(ctx, tunnelGrace)
}

// kill ends this life of the program without a word to its peer.
func (d *daemon) kill() error {
	u, err := d.usage()
	p, _ := d.now()
	if err == nil && p != nil {
		err = p.Kill()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.process, d.before = nil, u
	return err
}

// join sets the tunnel's device up, and routes the other end's network to it.
func (h *Half) join() error {
	return h.at.View(func(fs.FS) error {
		l, err := netlink.LinkByName(tunnelDevice)
		if err != nil {
			return fmt.Errorf("find the tunnel's device: %w", err)
		}
		if err := netlink.LinkSetMTU(l, MTU); err != nil {
			return fmt.Errorf("set the MTU of the tunnel's device: %w", err)
		}
		if err := netlink.LinkSetUp(l); err != nil {
			return fmt.Errorf("set the tunnel's device up: %w", err)
		}
		if err := netlink.RouteReplace(&netlink.Route{LinkIndex: l.Attrs().Index, Dst: ipNet(h.other()), Scope: netlink.SCOPE_LINK}); err != nil {
			return fmt.Errorf("route %v into the tunnel: %w", h.other().Net.Masked(), err)
		}
		return nil
	})
}

// ipNet is the network behind an end.
func ipNet(p Place) *net.IPNet {
	m := p.Net.Masked()
	return &net.IPNet{IP: m.Addr().AsSlice(), Mask: net.CIDRMask(m.Bits(), m.Addr().BitLen())}
}

// awaitDevice waits until the program has made the tunnel's device, and is its type.
func (h *Half) awaitDevice(ctx context.Context) (kind string, err error) {
	late := time.Now().Add(upPatience)
	for {
		err := h.at.View(func(fs.FS) error {
			l, err := netlink.LinkByName(tunnelDevice)
			if err == nil {
				kind = l.Type()
			}
			return err
		})
		if err == nil {
			return kind, nil
		}
		if err := h.daemon.ended(); err != nil {
			return "", err
		}
		if time.Now().After(late) {
			return "", fmt.Errorf("it made no device within %v", upPatience)
		}
		if err := host.Pause(ctx, 5*time.Millisecond); err != nil {
			return "", err
		}
	}
}

// removeDevice takes the tunnel's device away; one that is gone is no error.
func removeDevice(at *host.Local) error {
	return at.View(func(fs.FS) error {
		l, err := netlink.LinkByName(tunnelDevice)
		var none netlink.LinkNotFoundError
		if errors.As(err, &none) {
			return nil
		}
		if err == nil {
			err = netlink.LinkDel(l)
		}
		if err != nil {
			return fmt.Errorf("remove the tunnel's device: %w", err)
		}
		return nil
	})
}

// Hear implements Gate.
func (l Local) Hear(ctx context.Context, at netip.Addr, listens func(netip.AddrPort)) (unit.Instant, error) {
	sock, err := l.socket(at)
	if err != nil {
		return 0, err
	}
	defer sock.Close()
	defer guard.AfterDone(ctx, func() { sock.Close() })()
	listens(sock.LocalAddr().(*net.UDPAddr).AddrPort())
	var b [64]byte
	if _, _, err := sock.ReadFrom(b[:]); err != nil {
		return 0, cmp.Or(ctx.Err(), err)
	}
	return unit.Now(), nil
}

// Knock implements Gate.
func (l Local) Knock(ctx context.Context, from netip.Addr, to netip.AddrPort) error {
	sock, err := l.socket(from)
	if err != nil {
		return err
	}
	defer sock.Close()
	for {
		_, _ = sock.WriteToUDPAddrPort([]byte("through"), to) // there may be no way yet
		if host.Pause(ctx, throughPause) != nil {
			return nil
		}
	}
}

// socket is a UDP socket at an address.
func (l Local) socket(at netip.Addr) (sock *net.UDPConn, err error) {
	err = l.Host.View(func(fs.FS) (err error) {
		sock, err = net.ListenUDP("udp4", &net.UDPAddr{IP: at.AsSlice()})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open a socket at %v: %w", at, err)
	}
	return sock, nil
}

// Through sends packets from one gateway's network to the other's until one has arrived,
// and is when that was. ended says why that is in vain; nil: it is not.
func Through(ctx context.Context, gates [2]Gate, places [2]Place, from int, patience time.Duration, ended func() error) (unit.Instant, error) {
	type heard struct {
		at  unit.Instant
		err error
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	to := make(chan netip.AddrPort, 1)
	arrived, knocked := make(chan heard, 1), make(chan error, 1)
	guard.Go(func() {
		at, err := gates[1-from].Hear(ctx, places[1-from].Net.Addr(), func(a netip.AddrPort) { to <- a })
		arrived <- heard{at, err}
	})
	guard.Go(func() {
		select {
		case a := <-to:
			if err := gates[from].Knock(ctx, places[from].Net.Addr(), a); err != nil {
				knocked <- err
			}
		case <-ctx.Done():
		}
	})
	late := time.NewTimer(patience)
	defer late.Stop()
	look := time.NewTicker(watchPause)
	defer look.Stop()
	for {
		select {
		case h := <-arrived:
			return h.at, h.err
		case err := <-knocked:
			return 0, err
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-late.C:
			return 0, fmt.Errorf("no packet came through within %v", patience)
		case <-look.C:
			if err := ended(); err != nil {
				return 0, err
			}
		}
	}
}
