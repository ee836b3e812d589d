// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"boxdyno/engine"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
	"boxdyno/ledger"
	"boxdyno/result"
	"boxdyno/unit"
)

// A bench is a tester's namespace with ports e0 and e1, and a stranger's with i0
// and i1 at the other ends of their cables. The stranger is a kernel as anybody
// configures it; the code under test knows nothing of it.
type bench struct {
	tester, box *space
	folder      string // of the agent on box
}

func newBench(t *testing.T) bench { return newBenchOf(t, 0) }

// newBenchOf is newBench with so many queues at each port; 0: as many as the kernel gives.
func newBenchOf(t *testing.T, queues int) bench {
	t.Helper()
	testutil.Privileged(t)
	b := bench{folder: t.TempDir()}
	for _, s := range []**space{&b.tester, &b.box} {
		var err error
		if *s, err = newSpace("bench", nil); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { (*s).close() })
	}
	for i := range 2 {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.NumTxQueues, attrs.NumRxQueues = fmt.Sprint("e", i), queues, queues
		veth := &netlink.Veth{LinkAttrs: attrs, PeerName: fmt.Sprint("i", i), PeerNamespace: netlink.NsFd(b.box.ns.Fd())}
		if err := b.tester.nl.LinkAdd(veth); err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{b.box.up(fmt.Sprint("i", i)), b.tester.up(fmt.Sprint("e", i))} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	return b
}

func (s *space) sh(t *testing.T, script string) string {
	t.Helper()
	out, err := s.Run(t.Context(), script, "sh", "-eu")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

const router = `
sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
for i in i0 i1; do sysctl -qw net.ipv6.conf.$i.accept_dad=0; done
ip address add 198.18.0.1/24 dev i0
ip address add 198.19.0.1/24 dev i1
ip address add 2001:2:0:1::1/64 dev i0 nodad
ip address add 2001:2:0:2::1/64 dev i1 nodad
`

// limited is a policer that no counter of the tester names.
const limited = `
nft -f - <<'END'
table ip stranger {
	chain forward {
		type filter hook forward priority 0
		limit rate over 2000/second burst 100 packets drop
	}
}
END
`

func (b bench) wire(more ...string) *wire2 {
	w := defaultWire()
	w.netns, w.ends[0].port, w.ends[1].port = b.tester.Netns, "e0", "e1"
	for i := range w.ends {
		if i < len(more) {
			w.loop[i] = more[i]
		}
	}
	return &w
}

func built(t *testing.T, top Topology) *Testbed {
	t.Helper()
	tb, err := top.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tb.Close(); err != nil {
			t.Error(err)
		}
	})
	return tb
}

// offer sends frames each way and returns the books.
func offer(t *testing.T, tb *Testbed, ipv6 bool, rate unit.FrameRate, count uint64) result.Account {
	t.Helper()
	ctx := t.Context()
	var streams []engine.Stream
	var meters []engine.Meter
	var lanes []host.Port
	var paths []ledger.Path
	size := frame.Smallest(ipv6)
	for from, p := range tb.Ports {
		q := tb.Ports[1-from]
		spec := frame.Spec{Sizes: []unit.FrameSize{size}, Flows: 1, SrcMAC: p.MAC, DstMAC: p.GatewayMAC, Src: p.Addr4, Dst: q.Addr4, SrcPort: frame.FirstPort, DstPort: frame.Port}
		if ipv6 {
			spec.Src, spec.Dst = p.Addr6, q.Addr6
		}
		streams = append(streams, engine.Stream{ID: uint16(from + 1), Frames: spec, Lane: from})
		lanes, paths = append(lanes, p.Port), append(paths, tb.Path(from, 1-from, false))
		m, err := tb.Engine.OpenMeter(ctx, q.Port)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if err := m.Arm(ctx, false, uint16(from+1)); err != nil {
			t.Fatal(err)
		}
		meters = append(meters, m)
	}
	tx, err := tb.Engine.OpenTransmitter(ctx, lanes, tb.TesterCPU)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Close()
	book, err := ledger.Open(paths, tb.Sources...)
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	if err := book.Begin(ctx); err != nil {
		t.Fatal(err)
	}
	sent, err := tx.Transmit(ctx, engine.Load{Rate: rate, Count: count}, streams...)
	if err != nil {
		t.Fatal(err)
	}
	a, err := book.Balance(ctx, func(ctx context.Context) (e ledger.Ends, err error) {
		for _, m := range meters {
			rep, err := m.Read(ctx)
			if err != nil {
				return e, err
			}
			for _, s := range rep.Streams {
				e.Received += s.Frames
			}
		}
		for _, s := range sent {
			e.Accepted += s.Accepted
		}
		return e, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestWireThroughARouter(t *testing.T) {
	testutil.Alone(t)
	b := newBench(t)
	b.box.sh(t, router)
	tb := built(t, b.wire())
	for i, p := range tb.Ports {
		if want := macOf(t, b.box, fmt.Sprint("i", i)); p.GatewayMAC != want {
			t.Errorf("port %d sends to %x, and the box is %x", i, p.GatewayMAC, want)
		}
		if hasIPv6() && !p.Addr6.IsValid() {
			t.Errorf("port %d has no IPv6: %v", i, tb.Settings)
		}
	}
	for _, ipv6 := range []bool{false, hasIPv6()} {
		a := offer(t, tb, ipv6, 20_000, 4000)
		if a.Accepted != 8000 || a.Received != 8000 || a.Unexplained != 0 || len(a.Drops) != 0 {
			t.Errorf("IPv6 %v, engine %s: %+v", ipv6, tb.Engine.Name(), a)
		}
	}
	// The box has asked and was answered, for every address that flows may take.
	seen := b.box.sh(t, "ip neighbour show dev i1")
	if n := strings.Count(seen, "lladdr "+net.HardwareAddr(tb.Ports[1].MAC[:]).String()); n < 2*testerHosts-1 {
		t.Errorf("the box knows %d addresses of the tester:\n%s", n, seen)
	}
}

// A tester that is a router itself sends nothing on that comes out of the box, and
// says nothing by itself.
func TestWireKeepsTheKernelOff(t *testing.T) {
	b := newBench(t)
	b.box.sh(t, router)
	b.settle(t)
	b.tester.sh(t, "sysctl -qw net.ipv4.ip_forward=1; ip link add d0 type veth peer name d1; ip link set d0 up; ip link set d1 up; ip route add default dev d0")
	heard := func() string {
		return b.tester.sh(t, "grep -h -A1 '^Ip: F' /proc/net/snmp | tail -1 | cut -d' ' -f4") // InReceives
	}
	send := func() {
		b.box.sh(t, "bash -c 'for i in 1 2 3; do echo x > /dev/udp/198.18.0.2/9; done'")
		time.Sleep(50 * time.Millisecond)
	}
	tb := built(t, b.wire())
	before := heard()
	send()
	if now := heard(); now != before {
		t.Errorf("the tester's kernel took %s packets, %s before", strings.TrimSpace(now), strings.TrimSpace(before))
	}
	tb.Close()
	send()
	if heard() == before {
		t.Error("without the testbed the kernel takes none either: this test could not fail")
	}
}

// What a policer throws away in there is lost in the black box, and the books close.
func TestWireLosesInTheBox(t *testing.T) {
	testutil.Alone(t)
	b := newBench(t)
	b.box.sh(t, router)
	if err := host.Has("nft"); err != nil {
		t.Skip(err)
	}
	b.box.sh(t, limited)
	tb := built(t, b.wire())
	a := offer(t, tb, false, 20_000, 4000) // 0.2 s, 2 x 4000 frames: 400 + 100 may pass
	if a.Received < 300 || a.Received > 4000 || a.DroppedAt(result.BlackBox) != 8000-a.Received || a.Unexplained != 0 {
		t.Errorf("%+v", a)
	}
}

// A neighbour entry that the box doubts is confirmed while a trial lasts: the box
// probes the tester itself, by unicast.
func TestWireAnswersMeanwhile(t *testing.T) {
	b := newBench(t)
	b.box.sh(t, router)
	tb := built(t, b.wire())
	b.box.sh(t, "sysctl -qw net.ipv4.neigh.i1.delay_first_probe_time=0 net.ipv4.neigh.i1.base_reachable_time_ms=500; ip neighbour flush dev i1")
	for range 3 {
		a := offer(t, tb, false, 2000, 1000)
		if a.Unexplained != 0 || a.Received != a.Accepted {
			t.Errorf("%+v", a)
		}
	}
	state := b.box.sh(t, "ip neighbour show 198.19.0.2 dev i1")
	if !strings.Contains(state, "REACHABLE") && !strings.Contains(state, "DELAY") && !strings.Contains(state, "PROBE") && !strings.Contains(state, "STALE") {
		t.Errorf("the box lost the tester: %s", state)
	}
}

func TestWireThroughABridge(t *testing.T) {
	b := newBench(t)
	b.box.sh(t, "ip link add br0 type bridge; ip link set br0 up; for i in i0 i1; do ip link set $i master br0; done")
	w := b.wire()
	w.box = boxBridge
	tb := built(t, w)
	for i, p := range tb.Ports {
		if p.GatewayMAC != tb.Ports[1-i].MAC {
			t.Errorf("port %d sends to %x", i, p.GatewayMAC)
		}
	}
	if a := offer(t, tb, false, 20_000, 4000); a.Received != 8000 || a.Unexplained != 0 || len(a.Drops) != 0 {
		t.Errorf("%+v", a)
	}
}

func TestWireSelfTestPorts(t *testing.T) {
	b := newBench(t)
	b.box.sh(t, router)
	b.tester.sh(t, "ip link add l0 type veth peer name l1; ip link set l0 up; ip link set l1 up")
	tb := built(t, b.wire("l0", "l1"))
	if len(tb.Loop) != 2 || tb.Loop[0].GatewayMAC != tb.Loop[1].MAC || len(tb.Path(0, 1, true).Hops) != 2 {
		t.Errorf("%+v", tb.Loop)
	}
	if slices.ContainsFunc(tb.Warnings, func(w string) bool { return strings.Contains(w, "loop_a") }) {
		t.Errorf("%v", tb.Warnings)
	}
	plain := built(t, func() Topology { tb.Close(); return b.wire() }())
	if plain.Loop != nil || !slices.ContainsFunc(plain.Warnings, func(w string) bool { return strings.Contains(w, "loop_a") }) {
		t.Errorf("%v, %v", plain.Loop, plain.Warnings)
	}
}

// A cable that is pulled between two trials ends the run, so that it can be resumed; a
// point that lacked a prerequisite would count as measured.
func TestWireUnplugged(t *testing.T) {
	testutil.Long(t)
	b := newBench(t)
	b.box.sh(t, router)
	tb := built(t, b.wire())
	b.box.sh(t, "ip link set i1 down")
	m, err := tb.Engine.OpenMeter(t.Context(), tb.Path(0, 1, false).Hops[3].Port)
	if err == nil {
		m.Close()
	}
	var missing *host.Missing
	if !errors.Is(err, ledger.ErrLink) || errors.As(err, &missing) || !strings.Contains(err.Error(), "e1") {
		t.Errorf("%v", err)
	}
}

// Whoever cannot be loaded is refused in a sentence that names port and remedy.
func TestWireRefuses(t *testing.T) {
	for i, c := range []struct {
		name, tester, box string
		set               func(*wire2)
		want              []string // of a *host.Missing, unless the sketch refuses it
	}{
		{"absent", "", "", func(w *wire2) { w.ends[1].port = "e9" }, []string{"no port e9", "ip link"}},
		{"unnamed", "", "", func(w *wire2) { w.ends[1].port = "" }, []string{"port_b=NAME"}},
		{"twice", "", "", func(w *wire2) { w.ends[1].port = "e0" }, []string{"port e0 is given twice"}},
		{"half a loop", "", "", func(w *wire2) { w.loop[0] = "e2" }, []string{"loop_a and loop_b"}},
		{"gateway of its own", "", "", func(w *wire2) { w.ends[0].gateway4 = netip.MustParseAddr("198.18.0.3") }, []string{"198.18.0.3", "port_a"}},
		{"down", "ip link set e0 down", "", nil, []string{"e0 is down", "ip link set e0 up"}},
		{"address", "ip address add 192.0.2.1/24 dev e1", "", nil, []string{"e1 has the address 192.0.2.1/24", "ip address del"}},
		{"bridge", "ip link add br0 type bridge; ip link set e1 master br0", "", nil, []string{"e1 belongs to br0", "nomaster"}},
		{"macvlan", "ip link add link e0 name e0.7 type macvlan", "", nil, []string{"e0 carries e0.7"}},
		{"default route", "ip route add default dev e0", "", nil, []string{"e0 carries the default route"}},
		{"merging", "ethtool -K e1 rx-udp-gro-forwarding on", "", nil, []string{"e1 has rx-udp-gro-forwarding on", "ethtool -K e1 rx-udp-gro-forwarding off"}},
		{"nobody", "", "ip address del 198.19.0.1/24 dev i1", nil, []string{"port e1", "198.19.0.1", "gateway_b"}},
		{"no bridge", "", "sysctl -qw net.ipv4.ip_forward=0", func(w *wire2) { w.box = boxBridge }, []string{"from port e0 to port e1", "box=router"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.box.sh(t, router+c.box)
			b.tester.sh(t, c.tester)
			w := b.wire()
			if c.set != nil {
				c.set(w)
			}
			_, sketched := w.Sketch()
			tb, err := w.Build(t.Context())
			var missing *host.Missing
			if err == nil {
				tb.Close()
			}
			if wrong := i < 5; wrong != (sketched != nil) || wrong == errors.As(err, &missing) || wrong && sketched.Error() != err.Error() {
				t.Fatalf("the sketch says %v, Build says %v", sketched, err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

func TestWireRefusesACapture(t *testing.T) {
	b := newBench(t)
	b.box.sh(t, router)
	var fd int
	err := netns.Do(b.tester.Netns, func() (err error) {
		fd, err = packetSocket("e1")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	tb, err := b.wire().Build(t.Context())
	if err == nil {
		tb.Close()
	}
	if want := fmt.Sprintf("(pid %d)", os.Getpid()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v does not say %q", err, want)
	}
	unix.Close(fd)
	built(t, b.wire())
}

// settle waits until the kernels have given themselves link-local addresses and said so.
func (b bench) settle(t *testing.T) {
	t.Helper()
	for range 3000 {
		text := b.tester.sh(t, "ip -o address show up scope link; ip -o link show")
		if !strings.Contains(text, "tentative") && !strings.Contains(text, "NO-CARRIER") && (!hasIPv6() || strings.Count(text, "fe80::") >= 2) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("the bench's links do not come to rest")
}

// state is the ports as anybody sees them.
func (b bench) state(t *testing.T) string {
	t.Helper()
	return b.tester.sh(t, `ip -j -d link; ip -j -d address; for p in e0 e1; do ethtool $p; ethtool -k $p; ethtool -i $p; done; tc qdisc; bpftool net 2>/dev/null || true; cat /proc/net/packet`)
}

func TestWireLeavesPortsAsFound(t *testing.T) {
	if path := os.Getenv("LAB_TEST_WIRE"); path != "" {
		w := bench{tester: &space{Local: &host.Local{Netns: path}}}.wire()
		_, err := w.Build(context.Background())
		fmt.Println("built", err)
		time.Sleep(time.Minute)
	}
	b := newBench(t)
	b.box.sh(t, router)
	b.settle(t)
	found := b.state(t)

	tb := built(t, b.wire())
	standing := b.state(t)
	if standing == found {
		t.Error("a testbed that stands is not seen: this test could not fail")
	}
	offer(t, tb, false, 20_000, 1000)
	if err := tb.Close(); err != nil {
		t.Error(err)
	}
	same := func(when string) {
		t.Helper()
		var now string
		for range 3000 { // a minute
			if now = b.state(t); now == found {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Errorf("%s:\n%s\nbefore:\n%s", when, now, found)
	}
	same("after Close")

	cmd := exec.Command(os.Args[0], "-test.run=^TestWireLeavesPortsAsFound$")
	cmd.Env = append(os.Environ(), "LAB_TEST_WIRE="+b.tester.Netns)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 500)
	n, _ := out.Read(buf)
	if !strings.HasPrefix(string(buf[:n]), "built <nil>") {
		t.Errorf("the child says %q", buf[:n])
	}
	if b.state(t) == found {
		t.Error("the child's testbed is not seen")
	}
	cmd.Process.Kill()
	cmd.Wait()
	same("after SIGKILL")
	built(t, b.wire()) // and it can be used again
}

func macOf(t *testing.T, s *space, name string) [6]byte {
	t.Helper()
	l, err := s.nl.LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return [6]byte(l.Attrs().HardwareAddr)
}
