// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/ethtool"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
	"boxdyno/result"
)

func TestGateways(t *testing.T) {
	testutil.Privileged(t)
	tb, err := (&gateways{placement: shared, mtu: defaultMTU}).build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	forth := way{from: 0, to: 1, srcPort: 10_000, dstPort: frame.Port}
	if got := burst(t, tb, forth, 100, tb.TesterCPU); got != 100 {
		t.Errorf("%d of 100 frames came through both gateways", got)
	}
	if err := tb.Means.(Joiner).Direct(false); err != nil {
		t.Fatal(err)
	}
	before, err := tb.Sources[0].Count(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := burst(t, tb, forth, 100, tb.TesterCPU); got != 0 {
		t.Errorf("%d frames came through without a route", got)
	}
	after, err := tb.Sources[0].Count(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	count := func(terms []result.Term) (n int64) {
		for _, t := range terms {
			if t.Host == "left" && t.From == "IpExt.InNoRoutes" {
				n += t.N
			}
		}
		return n
	}
	if n := count(after) - count(before); n != 100 {
		t.Errorf("%d of 100 frames without a route are named", n)
	}
	if err := tb.Means.(Joiner).Direct(false); err != nil {
		t.Errorf("a route that is gone already: %v", err)
	}
	if err := tb.Serve(t.Context(), Service{Kind: "route"}); err != nil {
		t.Error(err)
	}
	if got := burst(t, tb, forth, 100, tb.TesterCPU); got != 100 {
		t.Errorf("%d of 100 frames came through once the route was back", got)
	}
	if err := tb.Serve(t.Context(), Service{Kind: "nat"}); err == nil {
		t.Error("two gateways took service nat")
	}
}

// The work of either way is on the DUT's CPU.
func TestGatewaysSplit(t *testing.T) {
	testutil.Privileged(t)
	cpus, err := host.AllowedCPUs()
	if err != nil || len(cpus) < 2 {
		t.Skip("needs two CPUs")
	}
	tb, err := (&gateways{placement: split, mtu: defaultMTU}).build(t.Context())
	if errors.Is(err, host.ErrNotSupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	if len(tb.Threads) != 2 {
		t.Errorf("%d threads receive for two gateways", len(tb.Threads))
	}
}

func TestGatewaysOffloads(t *testing.T) {
	testutil.Privileged(t)
	tb, err := (&gateways{placement: shared, mtu: defaultMTU}).build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	active := func() (names []string) {
		for _, g := range tb.Gateways {
			err := netns.Do(g.Host.Netns, func() error {
				e, err := ethtool.Open()
				if err != nil {
					return err
				}
				defer e.Close()
				features, err := e.Features(g.Port)
				for name, f := range features {
					if f.Active && slices.Contains(cableOffloads, name) && !f.NeverChanged {
						names = append(names, name)
					}
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		return names
	}
	if on := active(); len(on) > 0 {
		t.Errorf("at first %v are on", on)
	}
	if err := tb.Means.(Joiner).Offloads(true); err != nil {
		t.Fatal(err)
	}
	on := active()
	for _, name := range []string{"tx-tcp-segmentation", "tx-checksum-ip-generic", "rx-gro"} {
		if !slices.Contains(on, name) {
			t.Errorf("%s stays off", name)
		}
	}
	if err := tb.Means.(Joiner).Offloads(false); err != nil {
		t.Fatal(err)
	}
	if on := active(); len(on) > 0 {
		t.Errorf("in the end %v are on", on)
	}
}

// What /proc/net says, recorded in a gateway of this topology with a tunnel of
// wireguard-go; the numbers of drops are made up, for all were 0.
func TestGatewayDrops(t *testing.T) {
	dev := `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0
 outer:  300616     210    0    9    0     0          0         0   300616     210    0    8    0     0       0          0
  vpn0:    1420       1    0    3    0     0          0         0     1420       1    0    4    0     0       0          0
`
	terms, err := deviceDrops([]byte(dev))
	if err != nil || len(terms) != 2 || terms[0].N != 3 || terms[0].From != "vpn0 rx drop" || terms[1].N != 4 || terms[1].From != "vpn0 tx drop" {
		t.Errorf("devices: %+v, %v", terms, err)
	}
	snmp := "Ip: Forwarding InHdrErrors OutNoRoutes\nIp: 1 5 6\nUdp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors\nUdp: 40 0 7 40 7\n"
	terms, err = stackDrops([]byte(snmp))
	if err != nil || len(terms) != 3 || terms[2].N != 7 || terms[2].Place != result.Socket || terms[0].N != 5 || terms[1].N != 6 {
		t.Errorf("stack: %+v, %v", terms, err)
	}
	if _, err := stackDrops([]byte("Ip: A B\nUdp: 1 2\n")); err == nil {
		t.Error("lines that do not belong together were taken")
	}
	terms, err = xfrmDrops([]byte("XfrmInError             \t0\nXfrmInStateSeqError     \t2\n"))
	if err != nil || len(terms) != 1 || terms[0].N != 2 || terms[0].From != "XfrmInStateSeqError" {
		t.Errorf("IPsec: %+v, %v", terms, err)
	}
}

// With all CPUs both gateways hand flows to them at both ports, as the sandbox's box does, and
// frames go on as before; with one they are received where they come in.
func TestGatewaysSpread(t *testing.T) {
	testutil.Privileged(t)
	cpus := testutil.TwoCPUs(t)
	tb, err := (&gateways{placement: shared, mtu: defaultMTU}).build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tb.Close()
	m := tb.Means.(*gatewaysMeans)
	m.cpu, m.more = cpus[0], cpus[1:]
	for _, all := range []bool{true, false} {
		if err := tb.Serve(t.Context(), Service{Kind: "route", AllCPUs: all}); err != nil {
			t.Fatal(err)
		}
		want := cpuMask(nil)
		if all {
			want = cpuMask(cpus[:])
		}
		for i, s := range m.gates {
			for _, port := range []string{sides[i].dut, outerName} {
				err := netns.DoSys(s.Netns, func(sys *os.Root) error {
					b, err := sys.ReadFile("class/net/" + port + "/queues/rx-0/rps_cpus")
					if got := strings.TrimSpace(string(b)); strings.TrimLeft(got, "0,") != strings.TrimLeft(want, "0,") {
						t.Errorf("all %v: %s of the %s has %s, want %s", all, port, s.Label, got, want)
					}
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := burst(t, tb, way{from: 0, to: 1, srcPort: 10_000, dstPort: frame.Port}, 100, tb.TesterCPU); got != 100 {
			t.Errorf("all %v: %d of 100 frames came through", all, got)
		}
	}
}

// A sketch has the CPUs that the tester leaves.
func TestGatewaysSketch(t *testing.T) {
	f, err := newGateways().Sketch()
	if err != nil {
		t.Fatal(err)
	}
	cpus, err := host.AllowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	if want := len(cpus) > 1; f.Spreads != want || len(f.MoreCPUs) > max(0, len(cpus)-2) {
		t.Errorf("of CPUs %v: %+v", cpus, f)
	}
}
