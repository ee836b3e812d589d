// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/engine"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/ethtool"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
	"boxdyno/ledger"
	"boxdyno/result"
	"boxdyno/unit"
)

// testSandbox builds one without an engine and closes it at the test's end.
func testSandbox(t *testing.T, placement string) *Testbed {
	t.Helper()
	testutil.Privileged(t)
	if placement == split {
		testutil.TwoCPUs(t)
	}
	tb, err := (&sandbox{placement: placement, mtu: defaultMTU}).build(t.Context())
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

// counters are all link counters of tester and DUT, loopback apart.
func counters(t *testing.T, tb *Testbed) map[string]uint64 {
	t.Helper()
	all := map[string]uint64{}
	for _, l := range []*host.Local{tb.DUT, tb.Path(0, 1, false).Hops[0].Host} {
		err := netns.DoSys(l.Netns, func(sys *os.Root) error {
			for _, port := range links(t) {
				for _, c := range []string{"rx_packets", "tx_packets", "rx_dropped", "tx_dropped"} {
					b, err := sys.ReadFile("class/net/" + port + "/statistics/" + c)
					if err != nil {
						return err
					}
					n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
					if err != nil {
						return err
					}
					all[port+" "+c] = n
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// links are those of the namespace that the calling thread stands in.
func links(t *testing.T) (names []string) {
	ifs, err := net.Interfaces()
	if err != nil {
		t.Error(err)
	}
	for _, i := range ifs {
		if i.Name != "lo" {
			names = append(names, i.Name)
		}
	}
	slices.Sort(names)
	return names
}

func TestSandboxIsSilent(t *testing.T) {
	tb := testSandbox(t, shared)
	before := counters(t, tb)
	if len(before) != 6*4 {
		t.Fatalf("counters of %d links, want 6: %v", len(before)/4, before)
	}
	time.Sleep(1500 * time.Millisecond)
	if after := counters(t, tb); !maps.Equal(before, after) {
		t.Errorf("counters moved by themselves:\n%v\n%v", before, after)
	}
}

func TestSandboxIsAsDescribed(t *testing.T) {
	tb := testSandbox(t, "")
	tester := tb.Path(0, 1, false).Hops[0].Host
	for _, c := range []struct {
		at    *host.Local
		ports []string
	}{{tb.DUT, []string{"lan", "wan"}}, {tester, []string{"loop0", "loop1", "p0", "p1"}}} {
		err := netns.Do(c.at.Netns, func() error {
			if got := links(t); !slices.Equal(got, c.ports) {
				return fmt.Errorf("links %v, want %v", got, c.ports)
			}
			e, err := ethtool.Open()
			if err != nil {
				return err
			}
			defer e.Close()
			for _, p := range c.ports {
				features, err := e.Features(p)
				if err != nil {
					return err
				}
				for _, f := range []string{"rx-gro", "tx-generic-segmentation", "tx-tcp-segmentation", "tx-checksum-ip-generic", "tx-udp-segmentation"} {
					if is, known := features[f]; is.Active || !known {
						t.Errorf("%s: offload %s is on (known: %v)", p, f, known)
					}
				}
				i, err := net.InterfaceByName(p)
				if err != nil {
					return err
				}
				addrs, err := i.Addrs()
				if err != nil {
					return err
				}
				if want := map[bool]int{true: 2, false: 0}[c.at == tb.DUT]; len(addrs) != want || i.MTU != defaultMTU {
					t.Errorf("%s: addresses %v, MTU %d; want %d addresses", p, addrs, i.MTU, want)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat("/sys/class/net/lan"); err == nil {
		t.Error("a link of the sandbox stands in the machine's own namespace")
	}
	for i, want := range []string{"198.18.0.2 198.18.0.1 2001:2:0:1::2 2001:2:0:1::1", "198.19.0.2 198.19.0.1 2001:2:0:2::2 2001:2:0:2::1"} {
		p := tb.Ports[i]
		if got := fmt.Sprint(p.Addr4, p.Gateway4, p.Addr6, p.Gateway6); got != want {
			t.Errorf("port %d has %s, want %s", i, got, want)
		}
	}
	if result.Get(tb.Settings, "placement") != tb.Placement || result.Get(tb.Settings, "ring") != "256" {
		t.Errorf("settings %v", tb.Settings)
	}
}

func TestMTU(t *testing.T) {
	testutil.Privileged(t)
	for _, mtu := range []int{minMTU, maxMTU} {
		tb, err := (&sandbox{placement: shared, mtu: mtu}).build(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w := lanToWan
		w.pad = mtu - 20 - 26 // IP header, least UDP datagram
		if got := burst(t, tb, w, 1, -1); got != 1 {
			t.Errorf("no packet of %d octets came through", mtu)
		}
		if tb.Ports[0].MTU != mtu {
			t.Errorf("the port claims MTU %d, want %d", tb.Ports[0].MTU, mtu)
		}
		if err := tb.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The engine finds its way through what Build gives it.
func TestEngine(t *testing.T) {
	testutil.Alone(t)
	testutil.Privileged(t)
	for _, spec := range All[:2] {
		topology := spec.New()
		topology.Flags(flag.NewFlagSet(spec.Name, flag.ContinueOnError))
		tb, err := topology.Build(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tb.Close()
		if tried := tb.Tried; len(tried) == 0 || tried[len(tried)-1].Err != nil {
			t.Errorf("%s: tried %v", spec.Name, tried)
		}
		for _, v6 := range []bool{false, true} {
			for from := range 2 {
				const frames = 500
				if got := trial(t, tb, from, v6, frames); got != frames {
					t.Errorf("%s by %s, from %s, IPv6 %v: %d of %d frames", spec.Name, tb.Engine.Name(), tb.Ports[from].Name, v6, got, frames)
				}
			}
		}
	}
}

// trial offers so many paced frames and says how many the other port's meter
// counted.
func trial(t *testing.T, tb *Testbed, from int, v6 bool, frames uint64) uint64 {
	t.Helper()
	ctx := t.Context()
	p, q := tb.Ports[from], tb.Ports[1-from]
	spec := frame.Spec{
		Sizes: []unit.FrameSize{128}, Flows: 100,
		SrcMAC: p.MAC, DstMAC: p.GatewayMAC, Src: p.Addr4, Dst: q.Addr4,
		SrcPort: frame.FirstPort, DstPort: frame.Port,
	}
	if v6 {
		spec.Src, spec.Dst = p.Addr6, q.Addr6
	}
	m, err := tb.Engine.OpenMeter(ctx, q.Port)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	tx, err := tb.Engine.OpenTransmitter(ctx, []host.Port{p.Port}, tb.TesterCPU)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Close()
	if err := m.Arm(ctx, false, 7); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Transmit(ctx, engine.Load{Rate: 5_000, Count: frames}, engine.Stream{ID: 7, Frames: spec}); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		rep, err := m.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if n := rep.Streams[0].Frames; n >= frames || time.Since(begin) > time.Minute {
			return n
		}
	}
}

func TestPaths(t *testing.T) {
	tb := testSandbox(t, shared)
	text := func(p ledger.Path) string {
		s := p.Name + ":"
		for _, h := range p.Hops {
			if h.Host.Netns != h.Port.Netns || h.Host.Label != h.Port.Host {
				t.Errorf("%s: %v is not on %v", p.Name, h.Port, h.Host)
			}
			s += fmt.Sprintf(" %s %s/%s,", h.Place, h.Host.Label, h.Port.Name)
		}
		return s
	}
	for _, c := range []struct {
		from, to int
		loop     bool
		want     string
	}{
		{0, 1, false, "lan-to-wan: tester tester/p0, dut nic dut/lan, dut nic dut/wan, meter tester/p1,"},
		{1, 0, false, "wan-to-lan: tester tester/p1, dut nic dut/wan, dut nic dut/lan, meter tester/p0,"},
		{0, 1, true, "loop0-to-loop1: tester tester/loop0, meter tester/loop1,"},
		{1, 0, true, "loop1-to-loop0: tester tester/loop1, meter tester/loop0,"},
	} {
		if got := text(tb.Path(c.from, c.to, c.loop)); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// With placement split the DUT's frames are worked on by the threads that were
// pinned, and nowhere else.
func TestSplitWorksOnItsCPU(t *testing.T) {
	before, err := napiThreads("lan")
	if err != nil {
		t.Fatal(err)
	}
	tb := testSandbox(t, split)
	after, err := napiThreads("lan")
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(after, func(tid int, _ bool) bool { return before[tid] })
	if len(after) != 1 {
		t.Fatalf("new NAPI threads of lan: %v, want 1", after)
	}
	tid := slices.Collect(maps.Keys(after))[0]
	dut, _ := strconv.Atoi(result.Get(tb.Settings, "dut_cpu"))
	if dut == tb.TesterCPU {
		t.Fatalf("split shares CPU %d", dut)
	}
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(tid, &set); err != nil || set.Count() != 1 || !set.IsSet(dut) {
		t.Fatalf("thread %d may run on %v (%v), want CPU %d", tid, set, err, dut)
	}
	has := func(policy uint32, nice int32) {
		t.Helper()
		if attr, err := unix.SchedGetAttr(tid, 0); err != nil || attr.Policy != policy || attr.Nice != nice {
			t.Errorf("thread %d has %+v (%v), want policy %d and nice %d", tid, attr, err, policy, nice)
		}
	}
	has(unix.SCHED_NORMAL, -20)
	for _, p := range []struct {
		precedence Precedence
		policy     uint32
		nice       int32
	}{{Even, unix.SCHED_NORMAL, 0}, {AtOnce, unix.SCHED_FIFO, 0}, {First, unix.SCHED_NORMAL, -20}} {
		if err := tb.Precede(p.precedence); err != nil {
			t.Fatal(err)
		}
		has(p.policy, p.nice)
	}
	ran := func() uint64 {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", tid))
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.ParseUint(strings.Fields(string(b))[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	idle := ran()
	const frames = 20_000
	got := burst(t, tb, lanToWan, frames, tb.TesterCPU)
	if got == 0 {
		t.Fatal("nothing came through")
	}
	work := ran() - idle
	if perFrame := work / uint64(got); perFrame < 200 {
		t.Errorf("the DUT's thread worked %d ns a frame: somebody else does its work", perFrame)
	} else {
		t.Logf("%d of %d frames, %d ns each in the DUT's thread", got, frames, perFrame)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", tid))
	if err != nil {
		t.Fatal(err)
	}
	if f := strings.Fields(string(stat)); f[38] != strconv.Itoa(dut) {
		t.Errorf("the thread ran on CPU %s last, want %d", f[38], dut)
	}
}

// A receive thread that went with its port needs no precedence.
func TestPrecedenceOfAThreadThatIsGone(t *testing.T) {
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	tb := &Testbed{Threads: []int{gone.Process.Pid}}
	if err := tb.Precede(AtOnce); err != nil {
		t.Error(err)
	}
}

// Where the NAPI threads cannot be seen there is no placement split, and none is
// taken by default: this child has a process namespace of its own.
func TestNoSplit(t *testing.T) {
	if os.Getenv("LAB_TEST_CHILD") != "" {
		if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
			t.Fatal(err)
		}
		tb := testSandbox(t, "")
		if why := result.Get(tb.Settings, "no_split"); tb.Placement != shared || !strings.Contains(why, "placement split") {
			t.Errorf("placement %s, because of %q", tb.Placement, why)
		}
		if got := burst(t, tb, lanToWan, 10, -1); got != 10 {
			t.Errorf("%d of 10 frames came through", got)
		}
		if _, err := (&sandbox{placement: split, mtu: defaultMTU}).build(t.Context()); !errors.Is(err, host.ErrNotSupported) {
			t.Errorf("got %v, want split not supported", err)
		}
		return
	}
	testutil.Privileged(t)
	testutil.TwoCPUs(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestNoSplit$")
	cmd.Env = append(os.Environ(), "LAB_TEST_CHILD=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID, Unshareflags: unix.CLONE_NEWNS}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}

func TestTwoLabs(t *testing.T) {
	testutil.Privileged(t)
	const labs = 3
	var beds [labs]*Testbed
	errs := make(chan error, labs)
	for i := range labs {
		go func() {
			var err error
			beds[i], err = (&sandbox{mtu: defaultMTU}).build(context.Background())
			errs <- err
		}()
	}
	for range labs {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	for i, tb := range beds {
		if tb == nil {
			continue
		}
		if got := burst(t, tb, lanToWan, 100, -1); got != 100 {
			t.Errorf("lab %d forwarded %d of 100 frames", i, got)
		}
		if err := tb.Close(); err != nil {
			t.Error(err)
		}
	}
}
