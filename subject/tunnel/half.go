// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/tune"
	"boxdyno/unit"
)

// A Place is where an end of a tunnel stands.
type Place struct {
	Port  string       `json:"port"`  // towards the other one
	Outer netip.Addr   `json:"outer"` // its own on that port
	Net   netip.Prefix `json:"net"`   // behind it; the address is the gateway's own there
}

// Keys are one end's, of which a tunnel uses some. They are on no command line, and go to a
// box by its connection alone.
type Keys struct {
	Private     []byte    `json:"private,omitempty"`     // WireGuard: its own secret key
	Peer        []byte    `json:"peer,omitempty"`        // WireGuard: the other's public one
	Certificate []byte    `json:"certificate,omitempty"` // OpenVPN: its own, PEM
	Key         []byte    `json:"key,omitempty"`         // OpenVPN: its own, PEM
	Fingerprint string    `json:"fingerprint,omitempty"` // OpenVPN: of the other's certificate
	ESP         [2][]byte `json:"esp,omitempty"`         // IPsec: those of packets that end 0, and end 1, sends
}

// An Order is one end of a tunnel, as plain data.
type Order struct {
	Tunnel string   `json:"tunnel"` // of Names
	Cipher string   `json:"cipher"` // of Ciphers
	End    int      `json:"end"`    // 0 or 1
	Places [2]Place `json:"places"`
	Keys   Keys     `json:"keys"`
	CPUs   []int    `json:"cpus,omitempty"` // for its programs; nil: any
}

// A Gate is the machine at one end of a tunnel.
type Gate interface {
	// CheckTunnel is Tunnel.Check there.
	CheckTunnel(ctx context.Context, name, cipher string) error
	// OpenTunnel opens an end there; it leaves nothing behind where it fails.
	OpenTunnel(ctx context.Context, o Order) (End, error)
	// Hear waits for a packet at a UDP port of an address of its own: listens is called
	// with the port once it does. It returns the instant, by this machine's clock.
	Hear(ctx context.Context, at netip.Addr, listens func(netip.AddrPort)) (unit.Instant, error)
	// Knock sends a packet each millisecond until ctx ends, which is no error.
	Knock(ctx context.Context, from netip.Addr, to netip.AddrPort) error
}

// An End is one end of a tunnel that is open.
type End interface {
	Driver() string // Tunneling.Driver of this end
	// Fresh makes it forget its session, and returns when a new one could begin.
	Fresh(ctx context.Context) (unit.Instant, error)
	Usage() (result.Usage, error) // no Source: the kernel does the work
	Ended() error                 // why its program does not run any more; nil: it does
	Said() string                 // what its program said last; "": nothing
	Stop(ctx context.Context) error
}

// A Local is a Gate of this machine.
type Local struct{ Host *host.Local }

// CheckTunnel implements Gate.
func (l Local) CheckTunnel(ctx context.Context, name, cipher string) error {
	t, err := New(name, cipher)
	if err != nil {
		return err
	}
	return t.Check(ctx, l.Host)
}

// OpenTunnel implements Gate: a *Half.
func (l Local) OpenTunnel(ctx context.Context, o Order) (End, error) {
	t, err := New(o.Tunnel, o.Cipher)
	if err == nil && (o.End < 0 || o.End > 1) {
		err = fmt.Errorf("a tunnel has no end %d", o.End)
	}
	if err != nil {
		return nil, err
	}
	if err := t.Check(ctx, l.Host); err != nil {
		return nil, err
	}
	o.Cipher = t.cipher()
	h := &Half{Order: o, at: l.Host}
	if err := t.kind.open(ctx, h); err != nil {
		return nil, errors.Join(err, h.Stop(context.WithoutCancel(ctx)))
	}
	return h, nil
}

// A Half is an End on this machine.
type Half struct {
	Order
	at     *host.Local
	driver string
	daemon *daemon // nil: the kernel does it
	undo   []func() error

	// fresh is Fresh; nil: it has no session of its own to forget.
	fresh func(ctx context.Context) (unit.Instant, error)
}

// tunnelDevice is the name of a tunnel's device at both ends.
const tunnelDevice = tune.TunnelDevice

func (h *Half) own() Place   { return h.Places[h.End] }
func (h *Half) other() Place { return h.Places[1-h.End] }

// Driver implements End.
func (h *Half) Driver() string { return h.driver }

// Fresh implements End.
func (h *Half) Fresh(ctx context.Context) (unit.Instant, error) {
	if h.fresh == nil {
		return 0, fmt.Errorf("this end of tunnel %s has no session to forget", h.Tunnel)
	}
	return h.fresh(ctx)
}

// Usage implements End.
func (h *Half) Usage() (result.Usage, error) {
	if h.daemon == nil {
		return result.Usage{}, nil
	}
	return h.daemon.usage()
}

// Ended implements End.
func (h *Half) Ended() error {
	if h.daemon == nil {
		return nil
	}
	return h.daemon.ended()
}

// Said implements End.
func (h *Half) Said() string {
	if h.daemon == nil {
		return ""
	}
	if s := h.daemon.lastLine(); s != "" {
		return h.daemon.name + " said last: " + s
	}
	return ""
}

// Stop implements End.
func (h *Half) Stop(ctx context.Context) (err error) {
	if h.daemon != nil {
		err = h.daemon.stop(ctx)
		h.daemon = nil
	}
	for _, f := range slices.Backward(h.undo) {
		err = errors.Join(err, f())
	}
	h.undo = nil
	return err
}

// startDaemon starts the end's program.
func (h *Half) startDaemon(ctx context.Context, c host.Cmd) (err error) {
	c.CPUs = h.CPUs
	h.daemon = &daemon{name: c.Argv[0], cmd: c, at: h.at}
	if err = h.daemon.start(ctx); err != nil {
		h.daemon = nil
	}
	return err
}

// keyPairs is two ends' Keys, where making one needs nothing of the other.
func keyPairs(make func(end int) (Keys, error)) (both [2]Keys, err error) {
	for i := range both {
		if both[i], err = make(i); err != nil {
			return both, err
		}
	}
	return both, nil
}

// throughPause is between two packets that are sent until one comes through, and watchPause
// between two looks at whether the ends' programs still run.
const (
	throughPause = time.Millisecond
	watchPause   = 50 * time.Millisecond
)
