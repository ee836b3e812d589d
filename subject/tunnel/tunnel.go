// SPDX-License-Identifier: Apache-2.0

// Package tunnel holds the programs that join two networks by an encrypted tunnel. Each of a
// tunnel's two ends is opened on its own machine, by the same code here and on a box:
//
//	Tunnel.Join -> keys for both ends -> Gate.OpenTunnel (Order) at each: an End
//	            -> Tunneling: Ready, Handshake, Usage ..., Stop
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
	"boxdyno/unit"
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
	keys      func(cipher string) ([2]Keys, error)     // made anew, one for each end
	open      func(ctx context.Context, h *Half) error // what it leaves where it fails, h.Stop takes away
	last      bool                                     // end 1 is opened first: end 0 calls it
	given     bool                                     // its keys are given, so that it has no handshakes
	settles   time.Duration                            // for how long after a handshake it carries less
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
	if e.Ends[0].Host == nil || e.Ends[1].Host == nil {
		return nil, fmt.Errorf("tunnel %s: it takes two gateways", t.kind.name)
	}
	var gates [2]Gate
	var places [2]Place
	for i, end := range e.Ends {
		gates[i], places[i] = Local{end.Host}, Place{end.Port, end.Outer, end.Net}
	}
	return t.Join(ctx, gates, places, e.CPUs)
}

// Join opens the tunnel between two gateways, its programs on cpus (nil: any). The networks'
// own route to each other is the caller's to take away before.
func (t *Tunnel) Join(ctx context.Context, gates [2]Gate, places [2]Place, cpus []int) (*Tunneling, error) {
	if err := t.lacks(); err != nil {
		return nil, err
	}
	keys, err := t.kind.keys(t.cipher())
	if err != nil {
		return nil, err
	}
	r := &Tunneling{Name: t.kind.name, Cipher: t.cipher(), Handshakes: !t.kind.given, gates: gates, places: places, settles: t.Settles(), begun: unit.Now()}
	order := []int{0, 1}
	if t.kind.last {
		order = []int{1, 0}
	}
	for _, i := range order {
		o := Order{Tunnel: t.kind.name, Cipher: t.cipher(), End: i, Places: places, Keys: keys[i], CPUs: cpus}
		if r.ends[i], err = gates[i].OpenTunnel(ctx, o); err != nil {
			return nil, errors.Join(fmt.Errorf("tunnel %s: %w", r.Name, err), r.Stop(context.WithoutCancel(ctx)))
		}
	}
	r.Driver = r.ends[0].Driver()
	if other := r.ends[1].Driver(); other != r.Driver {
		r.Driver += " and " + other
	}
	return r, nil
}

// A Tunneling is a tunnel that was started.
type Tunneling struct {
	Name   string
	Cipher string // that it uses
	Driver string // what enciphers: a program with its version, or the kernel's own names
	// Handshakes says whether its ends agree on keys: IPsec is given them.
	Handshakes bool
	// Startup is the time from the start of its first program or device, with keys and
	// certificates made before, until a packet had come through it each way; set by Ready.
	Startup time.Duration

	gates   [2]Gate
	places  [2]Place
	ends    [2]End // nil: it is not open, or was stopped
	settles time.Duration
	begun   unit.Instant // its first program or device
	agreed  unit.Instant // its last handshake
}

const (
	upPatience        = 10 * time.Second
	handshakePatience = 10 * time.Second
	tunnelGrace       = 2 * time.Second
)

// Ready waits until a packet has come through it each way.
func (r *Tunneling) Ready(ctx context.Context) error {
	for from := range r.ends {
		up, err := Through(ctx, r.gates, r.places, from, upPatience, r.Ended)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("tunnel %s did not come up: %w", r.Name, cmp.Or(r.Ended(), r.excuse(err)))
		}
		r.Startup = time.Duration(up - r.begun)
		r.agreed = up
	}
	return nil
}

// Settle waits until the tunnel carries what it does in use: OpenVPN is busy with its
// session for some seconds after a handshake.
func (r *Tunneling) Settle(ctx context.Context) error {
	return host.Pause(ctx, r.settles-time.Duration(unit.Now()-r.agreed))
}

// excuse adds what a program said last.
func (r *Tunneling) excuse(err error) error {
	for _, e := range r.ends {
		if e == nil {
			continue
		}
		if s := e.Said(); s != "" {
			return fmt.Errorf("%w (%s)", err, s)
		}
	}
	return err
}

// Handshake makes the tunnel forget its session, and is how long it takes from then
// until a packet has come through a new one. Packets are sent from then on, one each
// millisecond. Of OpenVPN the client is a new one, and its start is in the time.
func (r *Tunneling) Handshake(ctx context.Context) (time.Duration, error) {
	if !r.Handshakes {
		return 0, fmt.Errorf("tunnel %s has no handshake: its keys are given", r.Name)
	}
	begun, err := r.ends[0].Fresh(ctx)
	if err != nil {
		return 0, fmt.Errorf("begin a new session of tunnel %s: %w", r.Name, err)
	}
	up, err := Through(ctx, r.gates, r.places, 0, handshakePatience, r.Ended)
	if err != nil && ctx.Err() == nil {
		return 0, fmt.Errorf("a new session of tunnel %s: %w", r.Name, r.excuse(err))
	}
	r.agreed = up
	return time.Duration(up - begun), err
}

// Usage implements Running: of the programs at both ends; all zero, and no Source,
// where the kernel does the work.
func (r *Tunneling) Usage() (result.Usage, error) {
	u := result.Usage{Subject: r.Name}
	for _, e := range r.ends {
		if e == nil {
			continue
		}
		one, err := e.Usage()
		if err != nil {
			return u, err
		}
		if one.Source == "" {
			continue
		}
		u.CPU, u.User, u.System = u.CPU+one.CPU, u.User+one.User, u.System+one.System
		u.PeakMemory += one.PeakMemory
		u.Processes += one.Processes
		u.Source = one.Source
	}
	return u, nil
}

// Ended implements Ender.
func (r *Tunneling) Ended() error {
	for _, e := range r.ends {
		if e == nil {
			continue
		}
		if err := e.Ended(); err != nil {
			return err
		}
	}
	return nil
}

// Stop implements Running: devices, routes and states are gone with it.
func (r *Tunneling) Stop(ctx context.Context) (err error) {
	for i, e := range r.ends {
		if e != nil {
			err = errors.Join(err, e.Stop(ctx))
			r.ends[i] = nil
		}
	}
	return err
}
