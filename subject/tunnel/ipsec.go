// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/subject/internal/program"
	"boxdyno/tune"
)

// ipsec is ESP in tunnel mode in the kernel, with keys that are given, as ip xfrm sets
// it up: no program runs, and nothing is agreed on.
var ipsec = tunnelKind{
	name: "ipsec", doc: "IPsec: ESP in the kernel in tunnel mode, with given keys", ciphers: []string{"aes-128-gcm", "aes-256-gcm", "chacha20-poly1305"},
	check: checkIPsec, keys: espKeys, open: openIPsec, given: true,
}

// espAlgorithms are the kernel's names of ciphers, and the octets of their keys with
// the salt of 4 (RFC 4106, RFC 7634).
var espAlgorithms = map[string]struct {
	name string
	key  int
}{
	"aes-128-gcm":       {"rfc4106(gcm(aes))", 16 + 4},
	"aes-256-gcm":       {"rfc4106(gcm(aes))", 32 + 4},
	"chacha20-poly1305": {"rfc7539esp(chacha20,poly1305)", 32 + 4},
}

// An esp is the packets of one direction: those from an end to the other.
type esp struct {
	from, to Place
	spi      int
	aead     netlink.XfrmStateAlgo
}

const espICV = 128 // bits

// espKeys are those of both directions, made anew; both ends have both.
func espKeys(cipher string) (both [2]Keys, err error) {
	alg, ok := espAlgorithms[cipher]
	if !ok {
		return both, fmt.Errorf("IPsec has no cipher %s", cipher)
	}
	var keys [2][]byte
	for i := range keys {
		keys[i] = make([]byte, alg.key)
		if _, err := rand.Read(keys[i]); err != nil {
			return both, fmt.Errorf("make a key: %w", err)
		}
	}
	return keyPairs(func(int) (Keys, error) { return Keys{ESP: keys}, nil })
}

// espBoth are both directions between two places.
func espBoth(places [2]Place, cipher string, keys Keys) (both [2]esp, err error) {
	alg := espAlgorithms[cipher]
	for i := range both {
		if len(keys.ESP[i]) != alg.key || alg.key == 0 {
			return both, fmt.Errorf("IPsec's keys for cipher %q have %d octets", cipher, alg.key)
		}
		both[i] = esp{from: places[i], to: places[1-i], spi: tune.TunnelSPI + i, aead: netlink.XfrmStateAlgo{Name: alg.name, Key: keys.ESP[i], ICVLen: espICV}}
	}
	return both, nil
}

func (e esp) state() *netlink.XfrmState {
	return &netlink.XfrmState{
		Src: e.from.Outer.AsSlice(), Dst: e.to.Outer.AsSlice(), Proto: netlink.XFRM_PROTO_ESP, Mode: netlink.XFRM_MODE_TUNNEL,
		Spi: e.spi, Reqid: e.spi, ReplayWindow: 32, Aead: &e.aead,
	}
}

func (e esp) policy(dir netlink.Dir) *netlink.XfrmPolicy {
	return &netlink.XfrmPolicy{
		Src: ipNet(e.from), Dst: ipNet(e.to), Dir: dir,
		Tmpls: []netlink.XfrmPolicyTmpl{{
			Src: e.from.Outer.AsSlice(), Dst: e.to.Outer.AsSlice(), Proto: netlink.XFRM_PROTO_ESP, Mode: netlink.XFRM_MODE_TUNNEL, Reqid: e.spi,
		}},
	}
}

// setIPsec does something with what an end must know: both states, and a policy that lets
// nothing leave, come in or through that is not enciphered.
func (h *Half) setIPsec(both [2]esp, state func(*netlink.XfrmState) error, policy func(*netlink.XfrmPolicy) error) error {
	return h.at.View(func(fs.FS) error {
		for _, e := range both {
			if err := state(e.state()); err != nil {
				return err
			}
			dirs := []netlink.Dir{netlink.XFRM_DIR_IN, netlink.XFRM_DIR_FWD}
			if e.from.Outer == h.own().Outer {
				dirs = []netlink.Dir{netlink.XFRM_DIR_OUT}
			}
			for _, d := range dirs {
				if err := policy(e.policy(d)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// checkIPsec gives the kernel a state with the cipher and takes it away.
func checkIPsec(_ context.Context, h *host.Local, cipher string) error {
	keys, err := espKeys(cipher)
	if err != nil {
		return err
	}
	at := func(last byte) Place { return Place{Outer: netip.AddrFrom4([4]byte{192, 0, 2, last})} }
	both, err := espBoth([2]Place{at(1), at(2)}, cipher, keys[0])
	if err != nil {
		return err
	}
	err = h.View(func(fs.FS) error {
		if err := netlink.XfrmStateAdd(both[0].state()); err != nil {
			return err
		}
		return netlink.XfrmStateDel(both[0].state())
	})
	return ipsecMissing(err)
}

// ipsecMissing makes a *host.Missing of what the kernel says that lacks a part of it.
func ipsecMissing(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOSYS):
		return &host.Missing{What: fmt.Sprintf("IPsec with this cipher in this kernel (CONFIG_XFRM_USER, CONFIG_INET_ESP, the cipher: %v)", err), Hint: "boot a kernel that has it (Debian's do: modprobe esp4)"}
	case errors.Is(err, unix.EPERM):
		return host.Privilege("set IPsec up")
	}
	return fmt.Errorf("set IPsec up: %w", err)
}

func openIPsec(_ context.Context, h *Half) error {
	both, err := espBoth(h.Places, h.Cipher, h.Keys)
	if err != nil {
		return err
	}
	h.undo = append(h.undo, func() error {
		return ignore(unix.ESRCH, h.setIPsec(both,
			func(s *netlink.XfrmState) error { return ignore(unix.ESRCH, netlink.XfrmStateDel(s)) },
			func(p *netlink.XfrmPolicy) error { return ignore(unix.ENOENT, netlink.XfrmPolicyDel(p)) }))
	})
	if err := h.setIPsec(both, netlink.XfrmStateAdd, netlink.XfrmPolicyAdd); err != nil {
		return ipsecMissing(err)
	}
	route := &netlink.Route{Dst: ipNet(h.other()), Gw: h.other().Outer.AsSlice(), MTU: MTU, Protocol: tune.ServiceRoutes}
	err = h.at.View(func(fs.FS) error {
		l, err := netlink.LinkByName(h.own().Port)
		if err == nil {
			route.LinkIndex = l.Attrs().Index
			err = netlink.RouteReplace(route)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("route %v to the other gateway: %w", route.Dst, err)
	}
	h.undo = append(h.undo, func() error {
		return h.at.View(func(fs.FS) error { return ignore(unix.ESRCH, netlink.RouteDel(route)) })
	})
	name := espAlgorithms[h.Cipher].name
	drivers, _ := os.ReadFile("/proc/crypto") // else the name has to do
	h.driver = "kernel " + cmp.Or(program.KernelDriver(string(drivers), "aead", name), name)
	return nil
}

func ignore(what, err error) error {
	if errors.Is(err, what) {
		return nil
	}
	return err
}
