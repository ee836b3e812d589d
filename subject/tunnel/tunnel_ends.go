// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/vishvananda/netlink"

	"boxdyno/host"
	"boxdyno/internal/guard"
	"boxdyno/result"
	"boxdyno/subject"
	"boxdyno/subject/internal/program"
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

// startDaemon starts a program that must not end by itself.
func startDaemon(ctx context.Context, at *host.Local, c host.Cmd) (*daemon, error) {
	d := &daemon{name: c.Argv[0], cmd: c, at: at}
	return d, d.start(ctx)
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

// join sets a tunnel's device at one end up, and routes the other end's network to it.
func join(at, other subject.End) error {
	return at.Host.View(func(fs.FS) error {
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
		if err := netlink.RouteReplace(&netlink.Route{LinkIndex: l.Attrs().Index, Dst: ipNet(other), Scope: netlink.SCOPE_LINK}); err != nil {
			return fmt.Errorf("route %v into the tunnel: %w", other.Net.Masked(), err)
		}
		return nil
	})
}

// ipNet is the network behind an end.
func ipNet(e subject.End) *net.IPNet {
	m := e.Net.Masked()
	return &net.IPNet{IP: m.Addr().AsSlice(), Mask: net.CIDRMask(m.Bits(), m.Addr().BitLen())}
}

// awaitDevice waits until a program has made the tunnel's device, and is its type.
func awaitDevice(ctx context.Context, at subject.End, ended func() error) (kind string, err error) {
	late := time.Now().Add(upPatience)
	for {
		err := at.Host.View(func(fs.FS) error {
			l, err := netlink.LinkByName(tunnelDevice)
			if err == nil {
				kind = l.Type()
			}
			return err
		})
		if err == nil {
			return kind, nil
		}
		if err := ended(); err != nil {
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

// removeDevice takes the tunnel's device of an end away; one that is gone is no error.
func removeDevice(at subject.End) error {
	return at.Host.View(func(fs.FS) error {
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

// throughPause is between two packets that are sent until one comes through.
const throughPause = time.Millisecond

// through sends a packet from one end's network to the other's until one has arrived,
// and is when that was.
func through(ctx context.Context, ends [2]subject.End, patience time.Duration, ended func() error) (at time.Time, err error) {
	var socks [2]*net.UDPConn
	for i, e := range ends {
		err := e.Host.View(func(fs.FS) (err error) {
			socks[i], err = net.ListenUDP("udp4", &net.UDPAddr{IP: e.Net.Addr().AsSlice()})
			return err
		})
		if err != nil {
			return at, fmt.Errorf("open a socket at %v: %w", e.Net.Addr(), err)
		}
		defer socks[i].Close()
	}
	to := socks[1].LocalAddr()
	arrived := make(chan time.Time, 1)
	guard.Go(func() {
		var b [64]byte
		if _, _, err := socks[1].ReadFrom(b[:]); err == nil { // else it was closed
			arrived <- time.Now()
		}
	})
	late := time.NewTimer(patience)
	defer late.Stop()
	again := time.NewTicker(throughPause)
	defer again.Stop()
	for {
		_, _ = socks[0].WriteTo([]byte("through"), to) // there may be no way yet
		select {
		case at := <-arrived:
			return at, nil
		case <-ctx.Done():
			return at, ctx.Err()
		case <-late.C:
			return at, fmt.Errorf("no packet came through within %v", patience)
		case <-again.C:
			if err := ended(); err != nil {
				return at, err
			}
		}
	}
}
