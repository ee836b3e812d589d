// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"boxdyno/agent"
	"boxdyno/engine"
	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
	"boxdyno/internal/version"
	"boxdyno/lab"
	boxlink "boxdyno/link"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/result"
	"boxdyno/subject/catalog"
)

func TestMain(m *testing.M) {
	catalog.Main()
	os.Exit(m.Run())
}

// The box's end of the tests below.
func TestAgentChild(t *testing.T) {
	folder := os.Getenv("REPLAY_TEST_AGENT")
	if folder == "" {
		return // it is a child of others
	}
	in, out := boxlink.Streams()
	if err := agent.Serve(context.Background(), in, out, folder, version.Version(), catalog.All, func(string) {}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A faulty wire is between a tester and a box with the agent:
//
//	tester: e0 == m0 | program: a fate for each frame of IPv4 | m1 == i0 :box
type faulty struct {
	set   map[string]string // of topology pair
	fates *ebpf.Map
}

// What becomes of the frames with these last digits of their number.
const (
	dropAt    = 3
	doubleAt  = 5
	alterAt   = 7
	foreignAt = 9
)

func newFaulty(t *testing.T) faulty {
	t.Helper()
	testutil.Privileged(t)
	var spaces [3]*netns.Namespace // tester, wire, box
	for i := range spaces {
		ns, err := netns.New()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ns.Close() })
		spaces[i] = ns
	}
	in := func(ns *netns.Namespace, f func() error) {
		t.Helper()
		if err := netns.Do(ns.Path(), f); err != nil {
			t.Fatal(err)
		}
	}
	sh := func(ns *netns.Namespace, script string) {
		t.Helper()
		if _, err := (&host.Local{Netns: ns.Path()}).Run(t.Context(), script, "sh", "-eu"); err != nil {
			t.Fatal(err)
		}
	}
	wire := spaces[1]
	in(wire, func() error {
		for name, peer := range map[string]struct {
			name string
			at   *netns.Namespace
		}{"m0": {"e0", spaces[0]}, "m1": {"i0", spaces[2]}} {
			attrs := netlink.NewLinkAttrs()
			attrs.Name, attrs.NumTxQueues, attrs.NumRxQueues = name, 2, 2 // backend afxdp has a sender a queue
			if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: peer.name, PeerNamespace: netlink.NsFd(peer.at.Fd())}); err != nil {
				return err
			}
		}
		return nil
	})
	for i, ports := range []string{"e0", "m0 m1", "i0"} {
		sh(spaces[i], "sysctl -qw net.ipv6.conf.all.disable_ipv6=1; for i in "+ports+"; do ip link set $i up; done")
	}
	// One CPU runs the program, whatever CPUs send: it counts without locks.
	sh(wire, "unshare --mount sh -euc 'mount -t sysfs none /sys; for q in /sys/class/net/m0/queues/rx-*; do echo 1 >$q/rps_cpus; done'")
	f := faulty{set: map[string]string{
		"netns": spaces[0].Path(), "port_a": "e0", "dut_a": "i0", "ssh_command": "nsenter --net=" + spaces[2].Path(),
		"program": "env REPLAY_TEST_AGENT=" + t.TempDir() + " " + os.Args[0] + " -test.run=^TestAgentChild$",
	}}
	var err error
	if f.fates, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 11}); err != nil { // by last digit; 10: all
		t.Fatal(err)
	}
	t.Cleanup(func() { f.fates.Close() })
	index := map[string]int{}
	in(wire, func() error {
		for _, name := range []string{"m0", "m1"} {
			l, err := net.InterfaceByName(name)
			if err != nil {
				return err
			}
			index[name] = l.Index
		}
		return nil
	})
	for port, insns := range map[string]asm.Instructions{"m0": f.program(index["m1"]), "m1": redirect(index["m0"])} {
		p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: insns})
		if err != nil {
			t.Fatalf("%+v", err)
		}
		t.Cleanup(func() { p.Close() })
		in(wire, func() error {
			l, err := link.AttachTCX(link.TCXOptions{Interface: index[port], Program: p, Attach: ebpf.AttachTCXIngress})
			if err == nil {
				t.Cleanup(func() { l.Close() })
			}
			return err
		})
	}
	return f
}

// redirect has every frame leave by a port.
func redirect(index int) asm.Instructions {
	return asm.Instructions{asm.Mov.Imm(asm.R1, int32(index)), asm.Mov.Imm(asm.R2, 0), asm.FnRedirect.Call(), asm.Return()}
}

// program counts frames of IPv4 and gives each its fate; they leave by a port.
func (f faulty) program(out int) asm.Instructions {
	const (
		ctx, n, digit      = asm.R6, asm.R7, asm.R8
		ipv4, octets, drop = 0x0008, 16, 2
		saved, made        = -40, -60 // on the stack
		addresses          = 26       // of a frame: addresses, ports and what follows
	)
	count := func(key int32) asm.Instructions { // R0 is the counter
		return asm.Instructions{
			asm.StoreImm(asm.RFP, -4, int64(key), asm.Word),
			asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, -4), asm.LoadMapPtr(asm.R1, f.fates.FD()), asm.FnMapLookupElem.Call(),
		}
	}
	clone := asm.Instructions{asm.Mov.Reg(asm.R1, ctx), asm.Mov.Imm(asm.R2, int32(out)), asm.Mov.Imm(asm.R3, 0), asm.FnCloneRedirect.Call()}
	store := func(at, from, size int32) asm.Instructions {
		return asm.Instructions{
			asm.Mov.Reg(asm.R1, ctx), asm.Mov.Imm(asm.R2, at), asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, from),
			asm.Mov.Imm(asm.R4, size), asm.Mov.Imm(asm.R5, 0), asm.FnSkbStoreBytes.Call(),
		}
	}
	first := func(symbol string, i asm.Instructions) asm.Instructions {
		return append(asm.Instructions{i[0].WithSymbol(symbol)}, i[1:]...)
	}
	var p asm.Instructions
	add := func(parts ...asm.Instructions) {
		for _, i := range parts {
			p = append(p, i...)
		}
	}
	add(asm.Instructions{asm.Mov.Reg(ctx, asm.R1), asm.LoadMem(asm.R2, asm.R1, 16, asm.Word), asm.JNE.Imm(asm.R2, ipv4, "out")})
	add(count(10), asm.Instructions{asm.JEq.Imm(asm.R0, 0, "out"), asm.LoadMem(n, asm.R0, 0, asm.DWord), asm.Add.Imm(n, 1), asm.StoreMem(asm.R0, 0, n, asm.DWord), asm.Mov.Reg(digit, n), asm.Mod.Imm(digit, 10)})
	for d := range int32(10) { // how many had this digit
		add(asm.Instructions{asm.JNE.Imm(digit, d, fmt.Sprint("not", d))}, count(d),
			asm.Instructions{asm.JEq.Imm(asm.R0, 0, "out"), asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord), asm.Add.Imm(asm.R1, 1), asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord)},
			asm.Instructions{asm.Mov.Imm(asm.R0, 0).WithSymbol(fmt.Sprint("not", d))})
	}
	add(asm.Instructions{asm.JEq.Imm(digit, dropAt, "drop"), asm.JEq.Imm(digit, doubleAt, "double"), asm.JEq.Imm(digit, alterAt, "alter"), asm.JEq.Imm(digit, foreignAt, "foreign"), asm.Ja.Label("out")})
	add(asm.Instructions{asm.Mov.Imm(asm.R0, drop).WithSymbol("drop"), asm.Return()})
	add(first("double", clone), asm.Instructions{asm.Ja.Label("out")})
	add(asm.Instructions{asm.StoreImm(asm.RFP, made, 0x5c, asm.Byte).WithSymbol("alter")}, store(15, made, 1), asm.Instructions{asm.Ja.Label("out")})
	add(asm.Instructions{
		asm.Mov.Reg(asm.R1, ctx).WithSymbol("foreign"), asm.Mov.Imm(asm.R2, addresses), asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, saved), asm.Mov.Imm(asm.R4, octets), asm.FnSkbLoadBytes.Call(),
		asm.StoreImm(asm.RFP, made, 1, asm.Word), asm.StoreImm(asm.RFP, made+4, 2, asm.Word), asm.StoreImm(asm.RFP, made+8, 3, asm.Word), asm.StoreImm(asm.RFP, made+12, 4, asm.Word),
	}, store(addresses, made, octets), clone, store(addresses, saved, octets))
	add(first("out", redirect(out)))
	return p
}

// fate is how many frames had a last digit.
func (f faulty) fate(t *testing.T, digit uint32) (n int) {
	t.Helper()
	var v uint64
	if err := f.fates.Lookup(digit, &v); err != nil {
		t.Fatal(err)
	}
	return int(v)
}

func (f faulty) forget(t *testing.T) {
	t.Helper()
	for i := range uint32(11) {
		if err := f.fates.Put(i, uint64(0)); err != nil {
			t.Fatal(err)
		}
	}
}

// anew calls begin whenever a sender opens.
type anew struct {
	engine.Backend
	begin func()
}

func (a anew) OpenTransmitter(ctx context.Context, lanes []host.Port, cpu int) (engine.Transmitter, error) {
	a.begin()
	return a.Backend.OpenTransmitter(ctx, lanes, cpu)
}

// A box with the agent at one cable tells what a faulty wire did to the frames of a capture,
// one by one, in a VLAN and from several senders, too.
func TestBoxTellsFramesApart(t *testing.T) {
	testutil.Alone(t)
	f := newFaulty(t)
	b := roomtest.NewBench(t, "pair", f.set)
	b.Bed.Engine = anew{b.Bed.Engine, func() { f.forget(t) }} // the self-test passes the wire, too
	for name, more := range map[string]map[string]string{
		"one sender": nil, "two senders in a VLAN": {"senders": "2", "vlan": "7"},
	} {
		t.Run(name, func(t *testing.T) {
			if b.T = t; more == nil {
				testutil.Long(t) // two senders in a VLAN are harder
			}
			set := map[string]string{"target": "box", "rate": "4k", "packets_of_file": "2000"}
			maps.Copy(set, more)
			o := b.Run(Spec, set)
			roomtest.Declared(t, o, Spec.Metrics)
			rec := b.Recs[len(b.Recs)-1]
			all := f.fate(t, 10)
			want := counts{all, all - f.fate(t, dropAt) - f.fate(t, alterAt), f.fate(t, dropAt), f.fate(t, alterAt), f.fate(t, doubleAt), f.fate(t, foreignAt)}
			t.Logf("the wire: %+v", want)
			// A busy machine makes the trial invalid, for its rate: the counts are right all the same.
			if got := countsOf(t, o); got != want || all < 1800 || rec.Status != result.Failed && rec.Status != result.Invalid {
				t.Errorf("%+v, want %+v: %s %s", got, want, rec.Status, rec.Reason)
			}
			// The wire is nobody's: what it lost and made is unexplained, and nothing else.
			if a := o.Account; a.Unexplained != int64(want.missing-want.twice) || len(a.Drops) != 0 {
				t.Errorf("%+v", a)
			}
			if v := roomtest.Figure(t, o, "replay_forwarded_fps"); v.Value <= 0 || v.Value > 5e3 {
				t.Errorf("%v", v)
			}
		})
	}
}

// A box that translates addresses begins the first trial without the self-test's connections,
// where that went through it.
func TestSelfTestLeavesNoConnections(t *testing.T) {
	for service, want := range map[string][]int{translated: {0, 1}, asRouted: {0}} {
		b := roomtest.NewBench(t, "mem", map[string]string{"capacity": "0"})
		b.Bed.Loop = nil // the tester has no way beside the box
		var after []int
		b.Serving(func(ctx context.Context, inner lab.Server, s lab.Service) error {
			if s.Kind != service {
				t.Errorf("service %s: %s is served", service, s.Kind)
			}
			after, s.Kind = append(after, len(b.Recs)), asRouted
			return inner.Serve(ctx, s)
		})
		if o := b.Run(Spec, map[string]string{"service": service, "rate": "20k", "packets_of_file": "1000"}); o.Status != result.Passed {
			t.Errorf("%s: %s", o.Status, o.Reason)
		}
		if len(b.Recs) != 2 || !slices.Equal(after, want) {
			t.Errorf("service %s: served after %v trials, want %v of %d", service, after, want, len(b.Recs))
		}
	}
}
