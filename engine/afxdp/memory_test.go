// SPDX-License-Identifier: Apache-2.0

package afxdp

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/internal/enginetest"
	"boxdyno/engine/packet"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/xsk"
	"boxdyno/unit"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// A fakeKernel does with each frame on TX what next says, as the kernel does in
// copy mode: it says which it has taken only once it has sent one in the call, or
// has taken all.
type fakeKernel struct {
	socket *xsk.Socket
	next   func() error // nil: sends it; EBUSY: drops it; EAGAIN, ENOBUFS: leaves it there
	hold   int          // completions that are kept back
	quota  func() int   // frames that a call takes, as a zero-copy driver does; nil: all

	at, told uint32 // entries of TX that were taken, and that it said so of
	held     []uint64
	sent     []uint32 // sequence numbers
	dropped  []uint32
}

func (k *fakeKernel) kick(p *xsk.Peer) (err error) {
	tell, quota := false, -1
	if k.quota != nil {
		quota = k.quota()
	}
	for ; err == nil; quota-- {
		if k.at == k.socket.TX.Next() || quota == 0 {
			tell = true
			break
		}
		d := *k.socket.TX.At(k.at)
		if d.Len == 0 {
			k.at++
			continue
		}
		if err = k.next(); err != nil && err != unix.EBUSY {
			break
		}
		k.at++
		k.held = append(k.held, d.Addr)
		s, _ := frame.Parse(k.socket.UMEM[d.Addr : d.Addr+uint64(d.Len)])
		if err == nil {
			k.sent, tell = append(k.sent, s.Sequence), true
		} else {
			k.dropped = append(k.dropped, s.Sequence)
		}
	}
	if tell {
		for ; k.told != k.at; k.told++ {
			p.TX.Take()
		}
		p.TX.Release()
	}
	for len(k.held) > k.hold && p.Completion.Put(k.held[0]) {
		k.held = k.held[1:]
	}
	p.Completion.Publish()
	return err
}

func newFakeKernel(zeroCopy bool) (*fakeKernel, *Transmitter) {
	k := &fakeKernel{next: func() error { return nil }}
	const receive = 64
	k.socket = xsk.InMemory(xsk.Config{Receive: receive, Send: sendChunks, Sends: mostSends, ZeroCopy: zeroCopy}, k.kick)
	k.at = k.socket.TX.Next()
	k.told = k.at
	q := &queueSocket{Socket: k.socket, zeroCopy: zeroCopy, memory: newSendMemory(receive, sendChunks)}
	p := &openPort{port: host.Port{Name: "lo"}, queues: []*queueSocket{q}}
	o := &queueOutlet{queueSocket: q, port: p, taken: k.at}
	return k, &Transmitter{
		Transmitter: packet.Transmitter{Lanes: []*packet.Lane{{Port: p.port, FD: -1, MTU: 1500, Out: o}}},
		backend:     New().(*Backend), outlets: []*queueOutlet{o},
	}
}

// Whatever the kernel answers, each frame is sent, refused or not sent, and what
// was not sent in one load does not leave in the next.
func TestAFXDPAnswers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k, tx := newFakeKernel(false)
		k.hold = rapid.SampledFrom([]int{0, 3, 5000}).Draw(t, "completions held back")
		for load := range uint16(3) {
			held := rapid.Bool().Draw(t, "a port that is held")
			left := rapid.IntRange(0, 300).Draw(t, "frames before it is")
			answers := rapid.SliceOfN(rapid.SampledFrom([]error{nil, nil, nil, unix.EBUSY, unix.EAGAIN, unix.ENOBUFS}), 1, 20).Draw(t, "answers")
			answers = append(answers, nil)
			n := 0
			k.next = func() error {
				if n++; held {
					if left == 0 {
						return unix.EAGAIN
					}
					left--
				}
				return answers[n%len(answers)]
			}
			k.sent, k.dropped = nil, nil
			count := uint64(rapid.IntRange(1, 4000).Draw(t, "count"))
			sizes := rapid.SampledFrom([][]unit.FrameSize{{64}, {64, 1518}}).Draw(t, "sizes")
			reps, err := tx.Transmit(context.Background(), engine.Load{Count: count, Duration: 3 * time.Millisecond}, engine.Stream{ID: load, Frames: enginetest.Spec4(1, sizes...)})
			if err != nil {
				t.Fatal(err)
			}
			r := reps[0]
			away := 0
			for _, n := range tx.outlets[0].memory.away {
				away += int(n)
			}
			if away != len(k.held) {
				t.Fatalf("%d pieces of memory are away, and the kernel has %d", away, len(k.held))
			}
			if r.Accepted != uint64(len(k.sent)) || r.Refused != uint64(len(k.dropped)) || r.Accepted+r.Refused+r.NotSent != count {
				t.Fatalf("sent %d, dropped %d of %d: %+v", len(k.sent), len(k.dropped), count, r)
			}
			var octets uint64
			for _, s := range k.sent {
				octets += uint64(sizes[int(s)%len(sizes)])
			}
			if len(k.dropped) == 0 && r.Octets != octets {
				t.Fatalf("sent %d octets: %+v", octets, r)
			}
			for i, j := uint32(0), 0; i < uint32(len(k.sent)+len(k.dropped)); i++ {
				switch at := int(i) - j; {
				case at < len(k.sent) && k.sent[at] == i:
				case j < len(k.dropped) && k.dropped[j] == i:
					j++
				default:
					t.Fatalf("frame %d is missing among those sent %v and dropped %v", i, k.sent, k.dropped)
				}
			}
		}
	})
}

// A drop is the stream's whose frame it was.
func TestAFXDPDropsByStream(t *testing.T) {
	k, tx := newFakeKernel(false)
	n := 0
	k.next = func() error {
		if n++; n%4 == 2 || n%4 == 0 && n%8 != 0 {
			return unix.EBUSY
		}
		return nil
	}
	reps, err := tx.Transmit(context.Background(), engine.Load{Count: 400}, engine.Stream{ID: 1, Frames: enginetest.Spec4(1, 64)}, engine.Stream{ID: 2, Frames: enginetest.Spec4(1, 128)})
	if err != nil {
		t.Fatal(err)
	}
	if reps[0].Refused != 0 || reps[1].Refused != 300 || reps[1].Octets != 100*128 {
		t.Errorf("%+v", reps)
	}
}

// A zero-copy driver takes frames when it likes. The load waits for it at its end,
// and what it has not taken by then was not sent, nor is it in the next load.
func TestAFXDPZeroCopyBooks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k, tx := newFakeKernel(true)
		for load := range uint16(2) {
			left := 1 << 30
			if rapid.IntRange(0, 9).Draw(t, "a port that is held") == 0 {
				left = rapid.IntRange(0, 100).Draw(t, "frames before it is")
			}
			most := rapid.IntRange(1, 90).Draw(t, "frames of a call")
			k.quota = func() int {
				n := min(most, left)
				left -= n
				return n
			}
			k.sent = nil
			count := uint64(rapid.IntRange(1, 3000).Draw(t, "count"))
			reps, err := tx.Transmit(context.Background(), engine.Load{Count: count, Duration: time.Millisecond}, engine.Stream{ID: load, Frames: enginetest.Spec4(1, 64)})
			if err != nil {
				t.Fatal(err)
			}
			r := reps[0]
			if r.Accepted != uint64(len(k.sent)) || r.Refused != 0 || r.Accepted+r.NotSent != count || r.Octets != r.Accepted*64 {
				t.Fatalf("sent %d of %d: %+v", len(k.sent), count, r)
			}
			for i, s := range k.sent {
				if s != uint32(i) {
					t.Fatalf("frame %d is number %d", i, s)
				}
			}
		}
	})
}

// Errors that are final end the load with what it had sent.
func TestAFXDPFinalErrors(t *testing.T) {
	for _, want := range []error{unix.ENETDOWN, unix.ENXIO} {
		k, tx := newFakeKernel(false)
		n := 0
		k.next = func() error {
			if n++; n > 100 {
				return want
			}
			return nil
		}
		reps, err := tx.Transmit(context.Background(), engine.Load{Count: 1000}, engine.Stream{ID: 1, Frames: enginetest.Spec4(1, 64)})
		if !errors.Is(err, want) || len(k.sent) != 100 || reps[0].Accepted != 100 || reps[0].NotSent != 900 {
			t.Errorf("%v: %v, sent %d, %+v", want, err, len(k.sent), reps)
		}
	}
}

// A driver that binds a zero-copy socket and then refuses its XDP program is left
// to copy, unless zero-copy is what was asked for.
func TestAFXDPZeroCopyFallsBack(t *testing.T) {
	for _, no := range []error{host.ErrNotSupported, unix.EBUSY} {
		b := New().(*Backend)
		opened := []bool{}
		b.open = func(c xsk.Config) (*xsk.Socket, error) {
			opened = append(opened, c.ZeroCopy)
			return xsk.InMemory(c, nil), nil
		}
		b.attach = func(string, int, int, bool) (*redirect, error) { return nil, no }
		port := func() *openPort {
			return &openPort{port: host.Port{Name: "p"}, sending: 1, receiving: 1, queues: make([]*queueSocket, 1)}
		}
		p := port()
		q, err := b.queue(p, 0)
		if err != nil || q.zeroCopy || p.name() != "copy" || !slices.Equal(opened, []bool{true, false}) {
			t.Errorf("%v: %v, %s, opened %v", no, err, p.name(), opened)
		}
		b.modes = []bool{true}
		if _, err := b.queue(port(), 0); !errors.Is(err, no) {
			t.Errorf("%v: zero-copy alone: %v", no, err)
		}
		b.attach = func(string, int, int, bool) (*redirect, error) { return &redirect{}, nil }
		p = port()
		if q, err := b.queue(p, 0); err != nil || !q.zeroCopy || p.name() != "zero-copy" {
			t.Errorf("%v, %s", err, p.name())
		}
		// The kernel's program, there for a meter, does not do for the driver.
		p = port()
		p.redirect = &redirect{generic: true}
		if _, err := b.queue(p, 0); !errors.Is(err, host.ErrNotSupported) {
			t.Errorf("with a generic program: %v", err)
		}
	}
}
