// SPDX-License-Identifier: Apache-2.0

package conn

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/internal/bpf"
	"boxdyno/engine/internal/enginetest"
	"boxdyno/host"
	"boxdyno/internal/ethtool"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func connSpec(client, server host.Port, object, most int) Spec {
	return Spec{
		Client: client, Server: server,
		ClientMAC: [6]byte{2, 0, 0, 0, 0, 1}, GatewayMAC: [6]byte{2, 0, 0, 0, 0, 2},
		ClientAddr: netip.MustParseAddr("198.18.0.2"), ServerAddr: netip.MustParseAddr("198.19.0.2"),
		ServerPort: 8000, Services: 2, Object: object, Most: most, CPU: -1,
	}
}

func openConnections(t testing.TB, s Spec) *Ends {
	t.Helper()
	c, err := Open(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// until reads c once its counts are what they are to become.
func until(t testing.TB, c *Ends, become func(Report) bool) Report {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		r, err := c.Read()
		if err != nil {
			t.Fatal(err)
		}
		if become(r) {
			return r
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("the connections do not come to their end: %+v", r)
		}
	}
}

func offerConnections(t testing.TB, c *Ends, hold bool, l engine.Load, become func(Report) bool) Report {
	t.Helper()
	if err := c.Begin(hold); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Open(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	return until(t, c, become)
}

// Port to port every connection is complete, and both ends agree on each of its
// frames.
func TestConnectionsAreComplete(t *testing.T) {
	a, b := enginetest.Pair(t)
	testutil.NoLeaks(t)
	for _, object := range []int{0, 1024, 1460, 5000} {
		c, err := Open(t.Context(), connSpec(a, b, object, 20_000))
		if err != nil {
			t.Fatal(err)
		}
		for _, hold := range []bool{false, true} {
			const n = 3000
			closed := func(r Report) bool { return r.Closed == n && r.Server.FINs == n && r.Sent == r.Received }
			held := func(r Report) bool { return r.Open == n && r.Sent == r.Received }
			r := offerConnections(t, c, hold, engine.Load{Rate: 50_000, Count: n}, map[bool]func(Report) bool{false: closed, true: held}[hold])
			response := uint64(c.spec.Response())
			segments := (response + maxSegment - 1) / maxSegment
			ended := r.Closed
			if hold {
				if ended = r.Open; r.Closed != 0 {
					t.Errorf("object %d: %d held connections are closed", object, r.Closed)
				}
			}
			if r.Opened != n || ended != n || r.Unexplained() != 0 || r.Failed() != 0 {
				t.Fatalf("object %d, hold %v: %+v", object, hold, r)
			}
			if r.Established != n || r.FirstByte != n || r.Whole != n || r.Handshake.Total() != n || r.TTFB.Total() != n {
				t.Errorf("object %d, hold %v: the client's program counted %+v", object, hold, r)
			}
			s := r.Server
			if s.Opened != n || s.Requests != n || s.Segments != n*segments || s.Octets != n*response || r.Octets != n*response || s.Stray+s.NoRoom+s.Resets != 0 {
				t.Errorf("object %d, hold %v: %d octets came; the server counted %+v", object, hold, r.Octets, s)
			}
			if r.Sent != r.Received || r.Stray+r.Disorder != 0 {
				t.Errorf("object %d, hold %v: %d frames sent, %d received, %d stray, %d out of order", object, hold, r.Sent, r.Received, r.Stray, r.Disorder)
			}
			if hold {
				if _, err := c.Finish(t.Context(), 50_000); err != nil {
					t.Fatal(err)
				}
				if r = until(t, c, closed); r.Unexplained() != 0 {
					t.Errorf("object %d: after closing %+v", object, r)
				}
			}
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// What a hub between the ports does to single connections is found again.
func TestConnectionsThatFailAreCounted(t *testing.T) {
	a, b := enginetest.Pair(t)
	const n = 2000
	server := openConnections(t, connSpec(host.Port{}, b, 1024, 1))
	c := openConnections(t, connSpec(a, host.Port{}, 1024, n))
	// A server that answers otherwise than the client expects.
	c.spec.Object = 3000
	r := offerConnections(t, c, false, engine.Load{Rate: 50_000, Count: n}, func(r Report) bool { return r.Short == n })
	if r.Short != n || r.Failed() != n || r.Unexplained() != 0 {
		t.Errorf("a short response: %+v", r)
	}
	// No server at all.
	if err := server.links[0].Close(); err != nil {
		t.Fatal(err)
	}
	server.links = nil
	r = offerConnections(t, c, false, engine.Load{Rate: 50_000, Count: n}, func(r Report) bool { return r.NoAnswer+r.Reset == n })
	if r.NoAnswer+r.Reset != n || r.Unexplained() != 0 {
		t.Errorf("no server: %+v", r)
	}
	if want := "2000"; !strings.HasPrefix(r.Failures(), want) {
		t.Errorf("failures: %q", r.Failures())
	}
}

// Connections of different trials have different addresses and ports.
func TestConnectionsAreNotUsedAgain(t *testing.T) {
	a, b := enginetest.Pair(t)
	c := openConnections(t, connSpec(a, b, 0, 60_000))
	seen := uint32(0)
	for range 3 {
		offerConnections(t, c, false, engine.Load{Rate: 500_000, Count: 40_000}, func(Report) bool { return true })
		if c.first != seen%100_000 {
			t.Errorf("the trial begins with connection %d, want %d", c.first, seen%100_000)
		}
		seen += 40_000
	}
}

// wired gives the port b a namespace of its own with an address, and no offloads,
// so that a kernel's sockets stand behind it. A bare port has no XDP program.
func wired(t testing.TB, addr string, bare bool) (a, b host.Port, mac net.HardwareAddr) {
	t.Helper()
	a, _ = enginetest.Pair(t)
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	err = netns.Do(a.Netns, func() error {
		l, err := netlink.LinkByName("b")
		if err != nil {
			return err
		}
		return netlink.LinkSetNsFd(l, ns.Fd())
	})
	if err != nil {
		t.Fatal(err)
	}
	err = netns.Do(ns.Path(), func() error {
		l, err := netlink.LinkByName("b")
		if err != nil {
			return err
		}
		mac = l.Attrs().HardwareAddr
		p := netip.MustParsePrefix(addr + "/15")
		ip := &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), 32)}
		if err := netlink.AddrAdd(l, &netlink.Addr{IPNet: ip}); err != nil {
			return err
		}
		if err := netlink.LinkSetUp(l); err != nil {
			return err
		}
		for _, other := range []string{"198.18.0.2", "198.19.0.2"} {
			if other == addr {
				continue
			}
			if err := netlink.NeighSet(&netlink.Neigh{LinkIndex: l.Attrs().Index, State: netlink.NUD_PERMANENT,
				IP: net.ParseIP(other), HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 1}}); err != nil {
				return err
			}
		}
		e, err := ethtool.Open()
		if err != nil {
			return err
		}
		defer e.Close()
		if err := e.SetFeatures("b", map[string]bool{"tx-checksum-ip-generic": false, "tx-generic-segmentation": false, "tx-tcp-segmentation": false, "rx-gro": bare}); err != nil || bare {
			return err
		}
		// A veth that sends by XDP_TX wakes a peer with an XDP program only.
		pass, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "Dual BSD/GPL",
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}})
		if err != nil {
			return err
		}
		defer pass.Close()
		at, err := bpf.Attach("b", l.Attrs().Index, pass, link.XDPDriverMode)
		if err == nil {
			t.Cleanup(func() { at.Close() })
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return a, host.Port{Netns: ns.Path(), Name: "b"}, mac
}

// A kernel's server takes our client's connections as any others: each request
// comes whole, and the client takes a response of several segments.
func TestConnectionsToAKernel(t *testing.T) {
	for _, bare := range []bool{false, true} {
		t.Run(map[bool]string{false: "XDP", true: "bare"}[bare], func(t *testing.T) { connectionsToAKernel(t, bare) })
	}
}

func connectionsToAKernel(t *testing.T, bare bool) {
	a, b, mac := wired(t, "198.19.0.2", bare)
	var listener net.Listener
	err := netns.Do(b.Netns, func() (err error) {
		listener, err = net.Listen("tcp4", "198.19.0.2:8000")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	const n, object = 200, 4000
	s := connSpec(a, host.Port{}, object, n)
	s.Services, s.AnySize, s.Bare = 1, true, bare
	copy(s.GatewayMAC[:], mac)
	c := openConnections(t, s)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/4000" || r.Host != "198.19.0.2" {
			t.Errorf("the request is for %s of %s", r.URL.Path, r.Host)
		}
		w.Header().Set("Connection", "close")
		w.Write(make([]byte, object))
	})
	server := &http.Server{Handler: handler}
	go server.Serve(listener)
	defer server.Close()
	r := offerConnections(t, c, false, engine.Load{Rate: 1000, Count: n}, func(r Report) bool { return r.Closed == n })
	if r.Closed != n || r.Octets < n*object || r.Failed() != 0 {
		t.Errorf("%+v: %s", r, r.Failures())
	}
}

// A kernel's client gets the response from our server, octet by octet.
func TestConnectionsFromAKernel(t *testing.T) {
	a, b, _ := wired(t, "198.18.0.2", false)
	s := connSpec(host.Port{}, a, 100, 1)
	c := openConnections(t, s)
	const n = 20
	for range n {
		err := netns.Do(b.Netns, func() error {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			tv := unix.Timeval{Sec: 5}
			if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
				return err
			}
			if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 3000); err != nil {
				return err
			}
			if err := unix.Connect(fd, &unix.SockaddrInet4{Port: 8000, Addr: [4]byte{198, 19, 0, 2}}); err != nil {
				return err
			}
			request := "GET / HTTP/1.1\r\nHost: box\r\n\r\n"
			if _, err := unix.Write(fd, []byte(request)); err != nil {
				return err
			}
			var got []byte
			buf := make([]byte, 4096)
			for {
				k, err := unix.Read(fd, buf)
				if err != nil {
					return err
				}
				if k == 0 {
					break
				}
				got = append(got, buf[:k]...)
			}
			resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(got)), nil)
			if err != nil {
				return err
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				return err
			}
			if want := s.octets(len(s.head()), s.Object); string(body) != string(want) {
				t.Errorf("got %q, want %q", body, want)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	r := until(t, c, func(r Report) bool { return r.Server.FINs == n })
	if r.Server.Opened != n || r.Server.Requests != n || r.Server.FINs != n || r.Server.NoRoom+r.Server.Stray != 0 {
		t.Errorf("the server counted %+v", r.Server)
	}
}
