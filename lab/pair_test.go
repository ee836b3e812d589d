// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"boxdyno/agent"
	"boxdyno/engine"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
	"boxdyno/internal/version"
	"boxdyno/ledger"
	"boxdyno/link"
	"boxdyno/link/hub"
	"boxdyno/result"
	"boxdyno/subject/catalog"
	"boxdyno/unit"
)

// The DUT's end of the tests below.
func TestPairChild(t *testing.T) {
	in, out := link.Streams()
	var err error
	switch os.Getenv("LAB_TEST_PAIR") {
	case "":
		return // it is a child of others
	case "none":
		err = link.Serve(context.Background(), in, out, version.Version(), func(string) link.Handler {
			return func(context.Context, *link.Request) (any, error) { return struct{}{}, nil }
		})
	case "slow": // a collector that needs longer than most
		err = link.Serve(context.Background(), in, out, version.Version(), func(name string) link.Handler {
			return func(context.Context, *link.Request) (any, error) {
				if name == string(agent.TelemetryOpen) {
					return agent.TelemetryOpened{Series: []result.Series{{Name: "x"}}, Absent: []string{"rapl: none"}}, nil
				}
				time.Sleep(400 * time.Millisecond)
				return agent.TelemetryReading{At: unit.Now(), Values: []float64{7}}, nil
			}
		})
	default:
		err = agent.Serve(context.Background(), in, out, os.Getenv("LAB_TEST_PAIR"), version.Version(), catalog.All, func(string) {})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (b bench) pair() *pair {
	return &pair{
		wire2: *b.wire(), dut: [2]string{"i0", "i1"},
		reached: reached{dial: hub.Dial, command: "nsenter --net=" + b.box.Netns, program: "env LAB_TEST_PAIR=" + b.folder + " " + os.Args[0] + " -test.run=^TestPairChild$"},
	}
}

func TestPairHasTheDUTsPlaces(t *testing.T) {
	testutil.Alone(t)
	b := newBench(t)
	b.box.sh(t, router)
	if err := host.Has("nft"); err != nil {
		t.Skip(err)
	}
	b.box.sh(t, strings.ReplaceAll(strings.ReplaceAll(limited, "table ip stranger {", "table ip stranger {\n\tcounter drop_policer {}"),
		"packets drop", "packets counter name drop_policer drop"))
	tb := built(t, b.pair())
	for range 2 { // one reading does not stand for the next
		a := offer(t, tb, false, 20_000, 4000)
		lost := a.Accepted - a.Received
		if lost < 4000 || a.DroppedAt(result.NFT) != lost || a.Unexplained != 0 || a.DroppedAt(result.BlackBox) != 0 {
			t.Errorf("%+v", a)
		}
		at := slices.IndexFunc(a.Passed, func(t result.Term) bool { return t.Name == "received by IPv4" && t.Host == "dut" })
		last := slices.IndexFunc(a.Passed, func(t result.Term) bool { return t.Place == result.MeterAt })
		if at < 1 || a.Passed[at].N != a.Accepted || last < at {
			t.Errorf("the DUT's checkpoints are not among the tester's, in path order: %+v", a.Passed)
		}
	}
	if len(tb.Machines) != 1 || tb.Machines[0].Kernel == "" {
		t.Errorf("%+v", tb.Machines)
	}
	seen := append(tb.Settings, tb.Means.(Observer).Observe()...)
	if !strings.Contains(result.Get(seen, "dut_clock_offset"), "off") || result.Get(seen, "dut_version") != version.Version() || !strings.Contains(result.Get(seen, "dut_link_i0"), "veth") {
		t.Errorf("%v", seen)
	}
	receiver := tb.Means.(Receiver)
	if _, err := receiver.Receive(t.Context()); err != nil {
		t.Error(err)
	}
	if a := offer(t, tb, hasIPv6(), 20_000, 2000); hasIPv6() && (a.Received != 4000 || a.Unexplained != 0) {
		t.Errorf("IPv6: %+v", a)
	}
	w, err := receiver.Receive(t.Context())
	if err != nil || result.Get(w.State, "i0 rx queues") == "" || result.Get(w.State, "i0 mtu") == "" {
		t.Errorf("how the box takes frames: %+v, %v", w, err)
	}
	offer(t, tb, false, 400_000, 100_000) // the kernel counts softirq in ticks of 1 to 10 ms
	if w, err = receiver.Receive(t.Context()); err != nil || w.Receive == nil || w.Receive.Ran <= 0 || len(w.Receive.CPUs) == 0 {
		t.Errorf("how its CPUs took 100,000 frames: %+v, %v", w.Receive, err)
	}
}

// What ssh is called with: a name that begins with a dash is no option of it.
func TestPairCommand(t *testing.T) {
	p := newPair().(*pair)
	p.ssh, p.program = "pi@box", "sudo -n boxdyno-agent"
	a, err := p.agent()
	if got := strings.Join(a.Argv, "|"); err != nil || a.Name != "pi@box" || !strings.HasSuffix(got, "|--|pi@box|sudo -n boxdyno-agent serve") ||
		!strings.Contains(got, "|StrictHostKeyChecking=yes|") || !strings.Contains(got, "|BatchMode=yes|") {
		t.Errorf("%+v, %v", a, err)
	}
	p.command = "ip netns exec box"
	if a, _ := p.agent(); strings.Join(a.Argv, "|") != "ip|netns|exec|box|sudo|-n|boxdyno-agent|serve" {
		t.Errorf("%q", a.Argv)
	}
}

// What the tester itself says to the DUT while a trial lasts is in no term.
func TestPairLeavesItsOwnTalkOut(t *testing.T) {
	b := newBench(t)
	b.box.sh(t, router)
	tb := built(t, b.pair())
	book, err := ledger.Open([]ledger.Path{tb.Path(0, 1, false)}, tb.Sources...)
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	if err := book.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, e := range tb.Sources[0].(*remoteDUT).ends {
		if err := errors.Join(e.introduce(e.gateway4, addressRun(e.address4, 5)), e.introduce(e.gateway6, addressRun(e.address6, 5))); err != nil {
			t.Fatal(err)
		}
	}
	a, err := book.Balance(t.Context(), func(context.Context) (ledger.Ends, error) { return ledger.Ends{}, nil })
	if err != nil || a.Unexplained != 0 || hasIPv6() && len(a.Drops) == 0 {
		t.Errorf("%+v, %v", a, err)
	}
}

// What others say to the DUT by another port, as ssh does on a real box, is in no term,
// and the books come to rest.
func TestPairLeavesOthersTalkOut(t *testing.T) {
	testutil.Alone(t)
	b := newBench(t)
	b.box.sh(t, router)
	control := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "c0"}, PeerName: "c1", PeerNamespace: netlink.NsFd(b.box.ns.Fd())}
	if err := b.tester.nl.LinkAdd(control); err != nil {
		t.Fatal(err)
	}
	b.tester.sh(t, "ip link set c0 up; ip address add 192.0.2.2/24 dev c0")
	b.box.sh(t, "ip link set c1 up; ip address add 192.0.2.1/24 dev c1")
	var talk net.Conn
	err := netns.Do(b.tester.Netns, func() (err error) {
		talk, err = net.Dial("udp4", "192.0.2.1:9")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var said atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
				if _, err := talk.Write([]byte("hello")); err == nil { // nobody listens: every second one is refused
					said.Add(1)
				}
			}
		}
	}()
	defer func() { close(stop); <-stopped; talk.Close() }()
	tb := built(t, b.pair())
	before := said.Load()
	a := offer(t, tb, false, 5000, 2000)
	if n := said.Load() - before; n < 20 {
		t.Fatalf("%d packets were said meanwhile: the test shows nothing", n)
	}
	if a.Accepted != 4000 || a.Received != a.Accepted || a.Unexplained != 0 || len(a.Drops) != 0 || len(a.Unread) != 0 || !a.Settled {
		t.Errorf("%+v", a)
	}
	if rules := b.box.sh(t, "nft list ruleset"); strings.Contains(rules, "boxdyno_ledger") {
		t.Error(rules)
	}
}

// With one cable the DUT is where frames end.
func TestPairWithOneCable(t *testing.T) {
	b := newBench(t)
	b.box.sh(t, router)
	b.tester.sh(t, "sysctl -qw net.ipv6.conf.all.disable_ipv6=1") // the account has the test's frames only
	p := b.pair()
	p.ends[1].port, p.dut[1] = "", ""
	if f, err := p.Sketch(); err != nil || !slices.Equal(f.DUTPorts, []string{"i0"}) { // which recipes may name
		t.Errorf("%q, %v", f.DUTPorts, err)
	}
	tb := built(t, p)
	if len(tb.Ports) != 1 || len(tb.Services) != 0 {
		t.Fatalf("%+v", tb)
	}
	ctx := t.Context()
	port := tb.Ports[0]
	tx, err := tb.Engine.OpenTransmitter(ctx, []host.Port{port.Port}, tb.TesterCPU)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Close()
	book, err := ledger.Open([]ledger.Path{tb.Path(0, 0, false)}, tb.Sources...)
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	if err := book.Begin(ctx); err != nil {
		t.Fatal(err)
	}
	spec := frame.Spec{Sizes: []unit.FrameSize{64}, Flows: 1, SrcMAC: port.MAC, DstMAC: port.GatewayMAC, Src: port.Addr4, Dst: port.Gateway4, SrcPort: frame.FirstPort, DstPort: frame.Port}
	sent, err := tx.Transmit(ctx, engine.Load{Rate: 5000, Count: 500}, engine.Stream{ID: 1, Frames: spec})
	if err != nil {
		t.Fatal(err)
	}
	a, err := book.Balance(ctx, func(context.Context) (ledger.Ends, error) { return ledger.Ends{Accepted: sent[0].Accepted}, nil })
	if err != nil || a.Accepted != 500 || a.Unexplained != 0 || a.DroppedAt(result.Routing) != 500 {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestPairRefuses(t *testing.T) {
	for _, c := range []struct {
		name, box string
		set       func(*pair)
		want      string
	}{
		{"no DUT", "", func(p *pair) { p.command = "" }, "ssh=user@box"},
		{"no port there", "", func(p *pair) { p.dut[1] = "" }, "dut_b=NAME"},
		{"a wrong port there", "", func(p *pair) { p.dut[1] = "i9" }, "on the DUT: port i9"},
		{"swapped", "", func(p *pair) { p.dut[0], p.dut[1] = "i1", "i0" }, "swapped"},
		{"no boxdyno", "", func(p *pair) { p.program = "/bin/false" }, "exit status 1"},
		{"half a bridge", "", func(p *pair) { p.ends[1].port, p.box = "", boxBridge }, "port_b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.box.sh(t, router+c.box)
			p := b.pair()
			c.set(p)
			tb, err := p.Build(t.Context())
			if err == nil {
				tb.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v does not say %q", err, c.want)
			}
		})
	}
}

// The control connection goes by no cable under load, as seen from either end.
func TestPairKeepsControlApart(t *testing.T) {
	for _, c := range []struct{ name, connection, want string }{
		{"there", "198.18.0.9 40000 192.0.2.1 22", "i0 of the DUT carries your own connection from 198.18.0.9"},
		{"here", "203.0.113.9 40000 192.0.2.1 22", "e0 of this machine carries the connection to the DUT"},
		{"apart", "203.0.113.9 40000 203.0.113.1 22", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.box.sh(t, router)
			b.tester.sh(t, "ip address add 192.0.2.7/24 dev e0")
			t.Setenv("SSH_CONNECTION", c.connection) // of the agent; this process keeps its own
			p := b.pair()
			p.force = true
			tb, err := p.Build(t.Context())
			if err == nil {
				tb.Close()
			}
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v does not say %q", err, c.want)
			}
		})
	}
}

// A connection that dies ends the trial with a sentence; nothing is left there.
func TestPairLosesItsDUT(t *testing.T) {
	b := newBench(t)
	b.box.sh(t, router)
	tb := built(t, b.pair())
	book, err := ledger.Open([]ledger.Path{tb.Path(0, 1, false)}, tb.Sources...)
	if err != nil {
		t.Fatal(err)
	}
	defer book.Close()
	if err := book.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	children := answering(t)
	if len(children) != 1 {
		t.Fatalf("%v answer for the DUT, want one", children)
	}
	if err := unix.Kill(children[0], unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_, err = book.Balance(t.Context(), func(context.Context) (ledger.Ends, error) { return ledger.Ends{}, nil })
	if err == nil || !strings.Contains(err.Error(), "the connection to the DUT ended") {
		t.Errorf("%v", err)
	}
}

func TestPairLeavesNothingThere(t *testing.T) {
	b := newBench(t)
	b.box.sh(t, router)
	tb := built(t, b.pair())
	if n := len(answering(t)); n != 1 {
		t.Fatalf("%d answer for the DUT, want one", n)
	}
	if err := tb.Close(); err != nil {
		t.Error(err)
	}
	for range 3000 { // a minute
		if len(answering(t)) == 0 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("%v still answer for the DUT", answering(t))
}

// answering are the processes that answer for this test's DUT.
func answering(t *testing.T) (pids []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		args, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		stat, _ := os.ReadFile("/proc/" + e.Name() + "/status")
		if strings.HasPrefix(string(args), os.Args[0]+"\x00-test.run=^TestPairChild$") && strings.Contains(string(stat), fmt.Sprintf("PPid:\t%d\n", os.Getpid())) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// A DUT that answers for no port is refused, and nothing panics.
func TestPairWithoutPorts(t *testing.T) {
	b := newBench(t)
	b.box.sh(t, router)
	b.folder = "none"
	p := b.pair()
	tb, err := p.Build(t.Context())
	if err == nil {
		tb.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "answers for 0 of 2 ports") {
		t.Errorf("%v", err)
	}
}

// A box whose answers take longer than a reading may is given more time, by and by.
func TestWatchBoxHasPatience(t *testing.T) {
	t.Parallel()
	c, err := hub.Dial(t.Context(), link.Agent{Name: "box", Version: version.Version(), Argv: []string{"env", "LAB_TEST_PAIR=slow", os.Args[0], "-test.run=^TestPairChild$"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w, err := WatchBox(c, []string{"cpu", "rapl"}, "dut", func(string) {}).New(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if r := w.(interface{ Reads(string) bool }); !r.Reads("cpu") || r.Reads("rapl") {
		t.Error("the box has another collector than it says")
	}
	dst := make([]float64, len(w.Series()))
	if err := w.Read(dst); err == nil || !strings.Contains(err.Error(), "did not answer within 2") {
		t.Errorf("%v", err)
	}
	for range 6 { // each late answer doubles it
		if err = w.Read(dst); err == nil {
			break
		}
	}
	if err != nil || dst[0] != 7 {
		t.Errorf("%v, %v", dst, err)
	}
	if least, most := patienceFor(0), patienceFor(time.Hour); least != telemetryPatience || most != mostPatience || patienceFor(100*time.Millisecond) <= 400*time.Millisecond {
		t.Errorf("%v to %v", least, most)
	}
}
