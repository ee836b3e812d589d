// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/subject"
)

// twoGateways are the ends of a testbed whose networks have no way to each other.
func twoGateways(t *testing.T) [2]subject.End {
	t.Helper()
	testutil.Privileged(t)
	i := slices.IndexFunc(lab.All, func(s lab.Spec) bool { return s.Name == lab.Gateways })
	bed, err := lab.All[i].New().Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bed.Close(); err != nil {
			t.Error(err)
		}
	})
	var ends [2]subject.End
	for i, g := range bed.Gateways.Ends {
		ends[i] = subject.End{Host: g.Host, Port: g.Port, Outer: g.Outer, Net: g.Net}
	}
	alive := func() error { return nil }
	if _, err := through(t.Context(), ends, 5*time.Second, alive); err != nil {
		t.Fatalf("the networks' own way: %v", err)
	}
	if err := bed.Gateways.Direct(false); err != nil {
		t.Fatal(err)
	}
	if d, err := through(t.Context(), ends, 200*time.Millisecond, alive); err == nil {
		t.Fatalf("without a way a packet came through after %v", d)
	}
	return ends
}

// left are the links of an end that a tunnel made.
func left(t *testing.T, e subject.End) (names []string) {
	t.Helper()
	err := e.Host.View(func(fs.FS) error {
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
	ends := twoGateways(t)
	before := [2][]string{left(t, ends[0]), left(t, ends[1])}
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
			defer stop()
			tunnel, err := New(name, DefaultCipher)
			if err != nil {
				t.Fatal(err)
			}
			var missing *host.Missing
			if err := tunnel.Check(ctx, ends[0].Host); errors.As(err, &missing) {
				if len(missing.Remedy) == 0 && missing.Hint == "" {
					t.Errorf("no remedy: %v", missing)
				}
				t.Skip(missing)
			} else if err != nil {
				t.Fatal(err)
			}
			r, err := tunnel.Open(ctx, ends, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Stop(context.WithoutCancel(ctx))
			if err := r.Ready(ctx); err != nil {
				t.Fatal(err)
			}
			again := 2 // of WireGuard the other end remembers when the last one was
			if r.Programs() && name != "wireguard-go" {
				again = 1
			}
			for range again {
				if !r.Handshakes() {
					break
				}
				if d, err := r.Handshake(ctx); err != nil || d <= 0 {
					t.Fatalf("a handshake took %v: %v", d, err)
				}
			}
			if u, err := r.Usage(); err != nil || r.Programs() != (u.CPU > 0) {
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
			for i, e := range ends {
				if now := left(t, e); !slices.Equal(now, before[i]) {
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
	ends := twoGateways(t)
	dir := t.TempDir()
	slow := filepath.Join(dir, "slow")
	script := fmt.Sprintf("#!/bin/sh\n[ -e %s ] && sleep 1.5\nexec %s \"$@\"\n", slow, real)
	if err := os.WriteFile(filepath.Join(dir, "openvpn"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	tunnel, err := New("openvpn", DefaultCipher)
	if err != nil {
		t.Fatal(err)
	}
	r, err := tunnel.Open(t.Context(), ends, nil)
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
	if d, err := r.Handshake(t.Context()); err != nil || d < 1500*time.Millisecond {
		t.Errorf("with a client that takes 1.5 s to start a handshake took %v: %v", d, err)
	}
}

func TestSettle(t *testing.T) {
	r := &Tunneling{settles: time.Hour, agreed: time.Now().Add(-time.Hour + 20*time.Millisecond)}
	begun := time.Now()
	if err := r.Settle(t.Context()); err != nil || time.Since(begun) < 15*time.Millisecond {
		t.Errorf("settled after %v: %v", time.Since(begun), err)
	}
	r.agreed = time.Now()
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer stop()
	if err := r.Settle(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an hour was over after 10 ms: %v", err)
	}
}
