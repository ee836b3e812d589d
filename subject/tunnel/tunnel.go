// SPDX-License-Identifier: Apache-2.0

// Package tunnel holds the programs that join two networks by an encrypted tunnel.
package tunnel

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/subject"
)

// MTU is the MTU of every tunnel, so that all carry the same packets, and none of
// their datagrams is larger than 1500 octets.
const MTU = 1420

// A Tunnel joins the networks behind Env.Ends: packets between them, and nothing else,
// go through it. Its keys are made anew each time.
type Tunnel struct {
	Cipher string // of Ciphers; "default": the first of them

	kind *tunnelKind
}

// A tunnelKind is a way to make tunnels: one file each.
type tunnelKind struct {
	name, doc string
	ciphers   []string
	check     func(ctx context.Context, h *host.Local, cipher string) error
	open      func(ctx context.Context, r *Tunneling) error // what it leaves where it fails, r.Stop takes away
	settles   time.Duration                                 // for how long after a handshake it carries less
}

var tunnelKinds = []*tunnelKind{&wireguard, &wireguardGo, &openVPN, &openVPNDCO, &ipsec}

// Specs are the rows of All that join two networks.
func Specs() (specs subject.Specs) {
	for _, k := range tunnelKinds {
		specs = append(specs, subject.Spec{Name: k.name, Work: "tunnel", Doc: k.doc, New: func() subject.Subject { return &Tunnel{Cipher: DefaultCipher, kind: k} }})
	}
	return specs
}

// DefaultCipher stands for the first of a tunnel's ciphers.
const DefaultCipher = "default"

// New is the tunnel of a name with a cipher of its own.
func New(name, cipher string) (*Tunnel, error) {
	for _, k := range tunnelKinds {
		if k.name == name {
			t := &Tunnel{Cipher: cipher, kind: k}
			return t, t.lacks()
		}
	}
	return nil, fmt.Errorf("there is no tunnel %q: there are %s", name, strings.Join(Names(), ", "))
}

// Names are those that New takes.
func Names() (names []string) {
	for _, k := range tunnelKinds {
		names = append(names, k.name)
	}
	return names
}

// Ciphers are the ciphers that some tunnel has.
func Ciphers() (names []string) {
	for _, k := range tunnelKinds {
		for _, c := range k.ciphers {
			if !slices.Contains(names, c) {
				names = append(names, c)
			}
		}
	}
	return names
}

func (t *Tunnel) lacks() error {
	if t.Cipher == DefaultCipher || slices.Contains(t.kind.ciphers, t.Cipher) {
		return nil
	}
	return fmt.Errorf("tunnel %s has no cipher %s: it has %s", t.kind.name, t.Cipher, strings.Join(t.kind.ciphers, ", "))
}

// Flags implements Subject.
func (t *Tunnel) Flags(fs *flag.FlagSet) {
	fs.StringVar(&t.Cipher, "cipher", t.Cipher, "`name` of the cipher: "+strings.Join(t.kind.ciphers, ", "))
}

// cipher is the one that it uses.
func (t *Tunnel) cipher() string {
	if t.Cipher == DefaultCipher {
		return t.kind.ciphers[0]
	}
	return t.Cipher
}

// Check implements Subject: it tries in h's namespace what the kernel must be able to,
// and takes it away again.
func (t *Tunnel) Check(ctx context.Context, h *host.Local) error {
	if err := t.lacks(); err != nil {
		return err
	}
	return t.kind.check(ctx, h, t.cipher())
}

// Settles is for how long Tunneling.Settle waits after a handshake.
func (t *Tunnel) Settles() time.Duration { return t.kind.settles }

// Start implements Subject: a *Tunneling.
func (t *Tunnel) Start(ctx context.Context, e subject.Env) (subject.Running, error) {
	return t.Open(ctx, e.Ends, e.CPUs)
}

// Open starts the tunnel between two gateways, its programs on cpus (nil: any). The
// networks' own route to each other is the caller's to take away before.
func (t *Tunnel) Open(ctx context.Context, ends [2]subject.End, cpus []int) (*Tunneling, error) {
	if ends[0].Host == nil || ends[1].Host == nil {
		return nil, fmt.Errorf("tunnel %s: it takes two gateways", t.kind.name)
	}
	if err := t.Check(ctx, ends[0].Host); err != nil {
		return nil, err
	}
	r := &Tunneling{Name: t.kind.name, Cipher: t.cipher(), ends: ends, cpus: cpus, settles: t.Settles()}
	if err := t.kind.open(ctx, r); err != nil {
		return nil, errors.Join(fmt.Errorf("tunnel %s: %w", r.Name, err), r.Stop(context.WithoutCancel(ctx)))
	}
	return r, nil
}

// A Tunneling is a tunnel that was started.
type Tunneling struct {
	Name   string
	Cipher string // that it uses
	Driver string // what enciphers: a program with its version, or the kernel's own names
	// Startup is the time from the start of its first program or device, with keys and
	// certificates made before, until a packet had come through it each way; set by Ready.
	Startup time.Duration

	ends    [2]subject.End
	cpus    []int
	settles time.Duration
	begun   time.Time  // its first program or device
	agreed  time.Time  // its last handshake
	daemons [2]*daemon // nil: the kernel does it
	undo    []func() error

	// fresh makes the tunnel forget its session, and is when a new one could begin; nil:
	// it has none (keys are given).
	fresh func(ctx context.Context) (time.Time, error)
}

const (
	// tunnelDevice is the name of a tunnel's device at both ends.
	tunnelDevice = "vpn0"

	upPatience        = 10 * time.Second
	handshakePatience = 10 * time.Second
	tunnelGrace       = 2 * time.Second
)

// Ready waits until a packet has come through it each way.
func (r *Tunneling) Ready(ctx context.Context) error {
	for _, ends := range [][2]subject.End{r.ends, {r.ends[1], r.ends[0]}} {
		up, err := through(ctx, ends, upPatience, r.Ended)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("tunnel %s did not come up: %w", r.Name, cmp.Or(r.Ended(), r.excuse(err)))
		}
		r.Startup = up.Sub(r.begun)
		r.agreed = up
	}
	return nil
}

// Settle waits until the tunnel carries what it does in use: OpenVPN is busy with its
// session for some seconds after a handshake.
func (r *Tunneling) Settle(ctx context.Context) error {
	return host.Pause(ctx, time.Until(r.agreed.Add(r.settles)))
}

// excuse adds what a program said last.
func (r *Tunneling) excuse(err error) error {
	for _, d := range r.daemons {
		if d != nil {
			if s := d.lastLine(); s != "" {
				return fmt.Errorf("%w (%s said last: %s)", err, d.name, s)
			}
		}
	}
	return err
}

// Handshakes says whether its ends agree on keys: IPsec is given them.
func (r *Tunneling) Handshakes() bool { return r.fresh != nil }

// Handshake makes the tunnel forget its session, and is how long it takes from then
// until a packet has come through a new one. Packets are sent from then on, one each
// millisecond. Of OpenVPN the client is a new one, and its start is in the time.
func (r *Tunneling) Handshake(ctx context.Context) (time.Duration, error) {
	if r.fresh == nil {
		return 0, fmt.Errorf("tunnel %s has no handshake: its keys are given", r.Name)
	}
	begun, err := r.fresh(ctx)
	if err != nil {
		return 0, fmt.Errorf("begin a new session of tunnel %s: %w", r.Name, err)
	}
	up, err := through(ctx, r.ends, handshakePatience, r.Ended)
	if err != nil && ctx.Err() == nil {
		return 0, fmt.Errorf("a new session of tunnel %s: %w", r.Name, r.excuse(err))
	}
	r.agreed = up
	return up.Sub(begun), err
}

// Usage implements Running: of the programs at both ends; all zero, and no Source,
// where the kernel does the work.
func (r *Tunneling) Usage() (result.Usage, error) {
	u := result.Usage{Subject: r.Name}
	for _, d := range r.daemons {
		if d == nil {
			continue
		}
		one, err := d.usage()
		if err != nil {
			return u, err
		}
		u.CPU, u.User, u.System = u.CPU+one.CPU, u.User+one.User, u.System+one.System
		u.PeakMemory += one.PeakMemory
		u.Processes += one.Processes
		u.Source = one.Source
	}
	return u, nil
}

// Programs says whether programs do the tunnel's work, and not the kernel alone.
func (r *Tunneling) Programs() bool { return r.daemons[0] != nil }

// Ended implements Ender.
func (r *Tunneling) Ended() error {
	for _, d := range r.daemons {
		if d == nil {
			continue
		}
		if err := d.ended(); err != nil {
			return err
		}
	}
	return nil
}

// Stop implements Running: devices, routes and states are gone with it.
func (r *Tunneling) Stop(ctx context.Context) (err error) {
	for i, d := range r.daemons {
		if d != nil {
			err = errors.Join(err, d.stop(ctx))
			r.daemons[i] = nil
		}
	}
	for _, f := range slices.Backward(r.undo) {
		err = errors.Join(err, f())
	}
	r.undo = nil
	return err
}
