// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/internal/enginetest"
	"boxdyno/engine/packet"
	"boxdyno/engine/xdp"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// What becomes of a frame on a faulty link.
const (
	fatePass uint32 = iota
	fateLose
	fateDouble
	fateHold // until the test lets it go
)

// A faultyLink does to each frame what its sequence number is told:
//
//	a --- b [BPF in tc: fate of the sequence] --- c --- d (meter)
//	                 | held
//	                 e --- f (test, which sends it on from c)
type faultyLink struct {
	a, c, d host.Port
	fate    *ebpf.Map
	held    int // packet socket on f
}

const fates = 4096

func newFaultyLink(t testing.TB) *faultyLink {
	t.Helper()
	testutil.Privileged(t)
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	port := func(name string) host.Port { return host.Port{Netns: ns.Path(), Name: name} }
	l := &faultyLink{a: port("a"), c: port("c"), d: port("d")}
	l.fate, err = ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: fates})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.fate.Close() })
	err = netns.Do(ns.Path(), func() error {
		index := map[string]int{}
		for _, names := range [][2]string{{"a", "b"}, {"c", "d"}, {"e", "f"}} {
			attrs := netlink.NewLinkAttrs()
			attrs.Name = names[0]
			if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: names[1]}); err != nil {
				return err
			}
			for _, name := range names {
				err := os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/disable_ipv6", []byte("1"), 0)
				if err != nil && !errors.Is(err, os.ErrNotExist) {
					return err
				}
				link, err := netlink.LinkByName(name)
				if err == nil {
					err = netlink.LinkSetUp(link)
				}
				if err != nil {
					return err
				}
				index[name] = link.Attrs().Index
			}
		}
		// Until the kernel has seen a new port's carrier, what is sent there is lost.
		for name := range index {
			for begin := time.Now(); ; time.Sleep(time.Millisecond) {
				link, err := netlink.LinkByName(name)
				if err != nil {
					return err
				}
				if link.Attrs().OperState == netlink.OperUp {
					break
				}
				if time.Since(begin) > time.Minute {
					return fmt.Errorf("%s is %v, not up", name, link.Attrs().OperState)
				}
			}
		}
		prog, err := l.program(index["c"], index["e"])
		if err != nil {
			return err
		}
		defer prog.Close() // the filter keeps it
		b := netlink.QdiscAttrs{LinkIndex: index["b"], Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}
		if err := netlink.QdiscAdd(&netlink.Clsact{QdiscAttrs: b}); err != nil {
			return fmt.Errorf("add clsact: %w", err)
		}
		if err := netlink.FilterAdd(&netlink.BpfFilter{
			FilterAttrs: netlink.FilterAttrs{LinkIndex: index["b"], Parent: netlink.HANDLE_MIN_INGRESS, Handle: 1, Protocol: unix.ETH_P_ALL, Priority: 1},
			Fd:          prog.FD(), Name: "fate", DirectAction: true,
		}); err != nil {
			return fmt.Errorf("add the filter: %w", err)
		}
		if l.held, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		all := uint16(unix.ETH_P_ALL)
		return unix.Bind(l.held, &unix.SockaddrLinklayer{Protocol: all<<8 | all>>8, Ifindex: index["f"]})
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(l.held) })
	return l
}

// program lets untagged IPv4 test frames pass to port c, or not; nothing else.
func (l *faultyLink) program(c, e int) (*ebpf.Program, error) {
	const sequence = 14 + 20 + 8 + 6
	redirect := func(to int) asm.Instructions {
		return asm.Instructions{asm.Mov.Imm(asm.R1, int32(to)), asm.Mov.Imm(asm.R2, 0), asm.FnRedirect.Call(), asm.Return()}
	}
	ins := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		// The sequence number, if there is the magic before it.
		asm.Mov.Imm(asm.R2, sequence-6),
		asm.Mov.Reg(asm.R3, asm.R10), asm.Add.Imm(asm.R3, -16),
		asm.Mov.Imm(asm.R4, 10),
		asm.FnSkbLoadBytes.Call(),
		asm.JNE.Imm(asm.R0, 0, "lose"),
		asm.LoadMem(asm.R1, asm.R10, -16, asm.Word),
		asm.HostTo(asm.BE, asm.R1, asm.Word),
		asm.JNE.Imm(asm.R1, int32(frame.Magic), "lose"),
		asm.LoadMem(asm.R1, asm.R10, -10, asm.Half),
		asm.LoadMem(asm.R2, asm.R10, -8, asm.Half),
		asm.HostTo(asm.BE, asm.R1, asm.Half), asm.HostTo(asm.BE, asm.R2, asm.Half),
		asm.LSh.Imm(asm.R1, 16), asm.Or.Reg(asm.R1, asm.R2),
		asm.StoreMem(asm.R10, -20, asm.R1, asm.Word),
		// Its fate.
		asm.LoadMapPtr(asm.R1, l.fate.FD()),
		asm.Mov.Reg(asm.R2, asm.R10), asm.Add.Imm(asm.R2, -20),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "lose"),
		asm.LoadMem(asm.R7, asm.R0, 0, asm.Word),
		asm.JEq.Imm(asm.R7, int32(fateLose), "lose"),
		asm.JEq.Imm(asm.R7, int32(fateHold), "hold"),
		asm.JNE.Imm(asm.R7, int32(fateDouble), "pass"),
		asm.Mov.Reg(asm.R1, asm.R6), asm.Mov.Imm(asm.R2, int32(c)), asm.Mov.Imm(asm.R3, 0),
		asm.FnCloneRedirect.Call(),
	}
	label := func(name string, block asm.Instructions) {
		block[0] = block[0].WithSymbol(name)
		ins = append(ins, block...)
	}
	label("pass", redirect(c))
	label("hold", redirect(e))
	label("lose", asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}) // TC_ACT_SHOT
	return ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, Instructions: ins, License: "Dual BSD/GPL"})
}

// takeHeld reads n frames that the link held back.
func (l *faultyLink) takeHeld(t testing.TB, n int) (frames [][]byte) {
	t.Helper()
	limit := unix.NsecToTimeval(int64(5 * time.Second))
	if err := unix.SetsockoptTimeval(l.held, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		t.Fatal(err)
	}
	for len(frames) < n {
		buf := make([]byte, 2048)
		got, err := unix.Read(l.held, buf)
		if err != nil {
			t.Fatalf("read held frame %d of %d: %v", len(frames), n, err)
		}
		if got > 46 && binary.BigEndian.Uint32(buf[42:]) == frame.Magic {
			frames = append(frames, buf[:got])
		}
	}
	return frames
}

// The meters count what a link lost, doubled and held back: against a list of all
// that was sent on, which the test keeps. Generic XDP sees nothing that BPF in tc
// redirected.
func TestMetersOnAFaultyLink(t *testing.T) {
	l := newFaultyLink(t)
	for _, backend := range []engine.Backend{xdp.New(), packet.New()} {
		t.Run(backend.Name(), func(t *testing.T) {
			m, err := backend.OpenMeter(context.Background(), l.d)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := m.Close(); err != nil {
					t.Error(err)
				}
			}()
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			rnd := rand.New(rand.NewPCG(seed, 0))
			for _, kinds := range [][]uint32{
				{fatePass}, {fatePass, fatePass, fatePass, fateLose}, {fatePass, fateDouble}, {fatePass, fatePass, fateHold},
				{fatePass, fateLose, fateDouble, fateHold}, {fatePass, fateLose, fateDouble, fateHold},
			} {
				enginetest.Arm(t, m, rnd.IntN(2) == 0, 5)
				n, hold := 1+rnd.IntN(300), 1+rnd.IntN(100) // frames, and how many held ones are enough to let them go
				fate := make([]uint32, n)
				for i := range fate {
					fate[i] = kinds[rnd.IntN(len(kinds))]
				}

				var model enginetest.PlainTracker
				var loss, received int
				arrives := func(seq int) { model.Order(1<<32 + uint64(seq)); received++ }
				var numbers []int
				release := func() {
					pending := l.takeHeld(t, len(numbers))
					slices.Reverse(pending) // so that each is out of order by itself
					slices.Reverse(numbers)
					enginetest.FromCPU0(t, l.c, pending...)
					for _, seq := range numbers {
						arrives(seq)
					}
					enginetest.Settled(t, m, uint64(received))
					numbers = nil
				}
				for begin := 0; begin < n; begin += 50 {
					var frames [][]byte
					for seq := begin; seq < min(begin+50, n); seq++ {
						if err := l.fate.Put(uint32(seq), fate[seq]); err != nil {
							t.Fatal(err)
						}
						frames = append(frames, enginetest.Frame(t, enginetest.Spec(), 5, uint64(seq)))
						switch fate[seq] {
						case fateLose:
							loss++
						case fateHold:
							numbers = append(numbers, seq)
						case fateDouble:
							arrives(seq)
							arrives(seq)
						default:
							arrives(seq)
						}
					}
					enginetest.FromCPU0(t, l.a, frames...)
					enginetest.Settled(t, m, uint64(received))
					if len(numbers) >= hold {
						release()
					}
				}
				release()

				r := enginetest.Settled(t, m, uint64(received))
				s := r.Streams[0]
				if s.Frames != uint64(received) || s.Octets != 64*uint64(received) || s.Duplicate != model.Duplicate || s.Reordered != model.Reordered || s.Broken+r.Foreign+r.Drops != 0 {
					t.Fatalf("%+v; want %d frames, %d twice, %d out of order", s, received, model.Duplicate, model.Reordered)
				}
				span := 0 // to the highest that was not lost
				for seq, f := range fate {
					if f != fateLose {
						span = seq + 1
					}
				}
				tail := n - span // what is lost at the end, a meter alone cannot know
				if missing := s.Span - (s.Frames - s.Duplicate); s.Span != uint64(span) || missing != uint64(loss-tail) {
					t.Fatalf("%d missing of %d, want %d of %d", missing, s.Span, loss-tail, span)
				}
			}
		})
	}
}
