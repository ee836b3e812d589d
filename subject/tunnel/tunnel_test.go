// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
	"boxdyno/unit"
)

// twoGateways are two namespaces with a cable between them, whose networks have no way to
// each other.
func twoGateways(t *testing.T) (gates [2]Gate, places [2]Place) {
	t.Helper()
	testutil.Privileged(t)
	var spaces [2]*netns.Namespace
	for i := range spaces {
		ns, err := netns.New()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ns.Close() })
		spaces[i], gates[i] = ns, Local{&host.Local{Netns: ns.Path()}}
		places[i] = Place{Port: "outer", Outer: netip.AddrFrom4([4]byte{192, 0, 2, byte(1 + i)}), Net: netip.PrefixFrom(netip.AddrFrom4([4]byte{198, byte(18 + i), 0, 1}), 16)}
	}
	in := func(i int, f func() error) {
		t.Helper()
		if err := netns.Do(spaces[i].Path(), f); err != nil {
			t.Fatal(err)
		}
	}
	in(0, func() error {
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "outer"}, PeerName: "outer", PeerNamespace: netlink.NsFd(spaces[1].Fd())})
	})
	for i, p := range places {
		in(i, func() (err error) {
			for name, address := range map[string]string{"outer": p.Outer.String() + "/30", "lo": p.Net.Addr().String() + "/32"} {
				l, lerr := netlink.LinkByName(name)
				a, aerr := netlink.ParseAddr(address)
				if err = errors.Join(err, lerr, aerr); err == nil {
					err = errors.Join(netlink.LinkSetUp(l), netlink.AddrAdd(l, a))
				}
			}
			return err
		})
	}
	if at, err := Through(t.Context(), gates, places, 0, 200*time.Millisecond, func() error { return nil }); err == nil {
		t.Fatalf("without a way a packet came through at %v", at)
	}
	return gates, places
}

// left are the links of a gateway, and its states.
func left(t *testing.T, g Gate) (names []string) {
	t.Helper()
	err := g.(Local).Host.View(func(fs.FS) error {
		links, err := netlink.LinkList()
		for _, l := range links {
			names = append(names, l.Attrs().Name)
		}
		states, _ := netlink.XfrmStateList(netlink.FAMILY_V4) // none where the kernel has no IPsec
		for _, s := range states {
			names = append(names, s.String())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestTunnels(t *testing.T) {
	gates, places := twoGateways(t)
	before := [2][]string{left(t, gates[0]), left(t, gates[1])}
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			tunnel, err := New(name, DefaultCipher)
			if err != nil {
				t.Fatal(err)
			}
			var missing *host.Missing
			if err := tunnel.Check(ctx, gates[0].(Local).Host); errors.As(err, &missing) {
				if len(missing.Remedy) == 0 && missing.Hint == "" {
					t.Errorf("no remedy: %v", missing)
				}
				t.Skip(missing)
			} else if err != nil {
				t.Fatal(err)
			}
			r, err := tunnel.Join(ctx, gates, places, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Stop(context.WithoutCancel(ctx))
			if err := r.Ready(ctx); err != nil {
				t.Fatal(err)
			}
			again := 2 // of WireGuard the other end remembers when the last one was
			if strings.HasPrefix(name, "openvpn") {
				again = 1
			}
			for range again {
				if !r.Handshakes {
					break
				}
				if d, err := r.Handshake(ctx); err != nil || d <= 0 {
					t.Fatalf("a handshake took %v: %v", d, err)
				}
			}
			if u, err := r.Usage(); err != nil || (u.Source != "") != (u.CPU > 0) {
				t.Errorf("used %+v: %v", u, err)
			}
			if r.Startup <= 0 {
				t.Errorf("it was up after %v", r.Startup)
			}
			if r.Driver == "" || strings.Contains(r.Driver, "unknown") {
				t.Errorf("driver %q", r.Driver)
			}
			if err := r.Stop(ctx); err != nil {
				t.Error(err)
			}
			for i, g := range gates {
				if now := left(t, g); !slices.Equal(now, before[i]) {
					t.Errorf("end %d had %v and has %v", i, before[i], now)
				}
			}
		})
	}
}

// The start of OpenVPN's client is in the time of a handshake, however slow it is.
func TestHandshakeHasTheStart(t *testing.T) {
	if err := errors.Join(host.Has("openvpn"), hasTun()); err != nil {
		t.Skip(err)
	}
	real, err := exec.LookPath("openvpn")
	if err != nil {
		real = "/usr/sbin/openvpn"
	}
	gates, places := twoGateways(t)
	dir := t.TempDir()
	slow := filepath.Join(dir, "slow")
	script := fmt.Sprintf("#!/bin/sh\n[ -e %s ] && sleep 2.5\nexec %s \"$@\"\n", slow, real)
	if err := os.WriteFile(filepath.Join(dir, "openvpn"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	tunnel, err := New("openvpn", DefaultCipher)
	if err != nil {
		t.Fatal(err)
	}
	r, err := tunnel.Join(t.Context(), gates, places, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	if err := r.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(slow, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	// It is timed from where boxdyno has started the client, and boxdyno may be held up there.
	if d, err := r.Handshake(t.Context()); err != nil || d < time.Second {
		t.Errorf("with a client that takes 2.5 s to start a handshake took %v: %v", d, err)
	}
}

func TestSettle(t *testing.T) {
	r := &Tunneling{settles: time.Hour, agreed: unit.Now() - unit.Instant(time.Hour-20*time.Millisecond)}
	begun := time.Now()
	if err := r.Settle(t.Context()); err != nil || time.Since(begun) < 15*time.Millisecond {
		t.Errorf("settled after %v: %v", time.Since(begun), err)
	}
	r.agreed = unit.Now()
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer stop()
	if err := r.Settle(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an hour was over after 10 ms: %v", err)
	}
}
