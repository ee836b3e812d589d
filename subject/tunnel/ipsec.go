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
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/subject"
	"boxdyno/subject/internal/program"
)

// ipsec is ESP in tunnel mode in the kernel, with keys that are given, as ip xfrm sets
// it up: no program runs, and nothing is agreed on.
var ipsec = tunnelKind{
	name: "ipsec", doc: "IPsec: ESP in the kernel in tunnel mode, with given keys", ciphers: []string{"aes-128-gcm", "aes-256-gcm", "chacha20-poly1305"},
	check: checkIPsec, open: openIPsec,
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
	from, to subject.End
	spi      int
	aead     netlink.XfrmStateAlgo
}

const espICV = 128 // bits

// espBoth are both directions, with keys made anew.
func espBoth(ends [2]subject.End, cipher string) (both [2]esp, err error) {
	alg, ok := espAlgorithms[cipher]
	if !ok {
		return both, fmt.Errorf("IPsec has no cipher %s", cipher)
	}
	for i := range both {
		key := make([]byte, alg.key)
		if _, err := rand.Read(key); err != nil {
			return both, fmt.Errorf("make a key: %w", err)
		}
		both[i] = esp{from: ends[i], to: ends[1-i], spi: 0xbd01 + i, aead: netlink.XfrmStateAlgo{Name: alg.name, Key: key, ICVLen: espICV}}
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

// set does something with what an end must know: both states, and a policy that lets
// nothing leave, come in or through that is not enciphered.
func setIPsec(at subject.End, both [2]esp, state func(*netlink.XfrmState) error, policy func(*netlink.XfrmPolicy) error) error {
	return at.Host.View(func(fs.FS) error {
		for _, e := range both {
			if err := state(e.state()); err != nil {
				return err
			}
			dirs := []netlink.Dir{netlink.XFRM_DIR_IN, netlink.XFRM_DIR_FWD}
			if e.from.Outer == at.Outer {
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
	end := func(last byte) subject.End {
		return subject.End{Host: h, Outer: netip.AddrFrom4([4]byte{192, 0, 2, last})}
	}
	both, err := espBoth([2]subject.End{end(1), end(2)}, cipher)
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

func openIPsec(_ context.Context, r *Tunneling) error {
	both, err := espBoth(r.ends, r.Cipher)
	if err != nil {
		return err
	}
	r.begun = time.Now()
	for i, e := range r.ends {
		r.undo = append(r.undo, func() error {
			return ignore(unix.ESRCH, setIPsec(e, both,
				func(s *netlink.XfrmState) error { return ignore(unix.ESRCH, netlink.XfrmStateDel(s)) },
				func(p *netlink.XfrmPolicy) error { return ignore(unix.ENOENT, netlink.XfrmPolicyDel(p)) }))
		})
		if err := setIPsec(e, both, netlink.XfrmStateAdd, netlink.XfrmPolicyAdd); err != nil {
			return ipsecMissing(err)
		}
		route := &netlink.Route{Dst: ipNet(r.ends[1-i]), Gw: r.ends[1-i].Outer.AsSlice(), MTU: MTU}
		err := e.Host.View(func(fs.FS) error {
			l, err := netlink.LinkByName(e.Port)
			if err == nil {
				route.LinkIndex = l.Attrs().Index
				err = netlink.RouteReplace(route)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("route %v to the other gateway: %w", route.Dst, err)
		}
		r.undo = append(r.undo, func() error {
			return e.Host.View(func(fs.FS) error { return ignore(unix.ESRCH, netlink.RouteDel(route)) })
		})
	}
	name := espAlgorithms[r.Cipher].name
	drivers, _ := os.ReadFile("/proc/crypto") // else the name has to do
	r.Driver = "kernel " + cmp.Or(program.KernelDriver(string(drivers), "aead", name), name)
	return nil
}

func ignore(what, err error) error {
	if errors.Is(err, what) {
		return nil
	}
	return err
}
