// SPDX-License-Identifier: Apache-2.0

package afxdp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"boxdyno/engine"
	"boxdyno/engine/packet"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/xsk"
	"boxdyno/unit"

	"golang.org/x/sys/unix"
)

// A Transmitter is packet's (engine/packet/send.go) up to the flush, which copies
// frames into the UMEM and waits for completions where there is no room. In copy mode the
// kernel sends the ring's frames within sendto(2); in zero-copy mode that wakes the driver,
// where it sleeps. A port that drops a frame answers EBUSY, and what its driver has counted
// in tx_dropped was accepted, as with sendmmsg.
type Transmitter struct {
	packet.Transmitter
	backend *Backend
	mu      sync.Mutex // Close waits for a Transmit: it takes the memory away
	outlets []*queueOutlet
}

// A queueOutlet is a lane's queue.
type queueOutlet struct {
	*queueSocket
	port  *openPort
	owner [mostSends]*packet.Stream // whose frame an entry of TX is
	taken uint32                    // first entry of TX that the kernel has not taken, as far as is known

	// Direct: frames are built where they are sent from, in memory that holds the
	// first one already. That is for one stream alone.
	direct bool
	lent   *packet.Stream // has pieces of memory to build in
}

// waitRoom is how long a sender sleeps that the port takes nothing from.
const waitRoom = 20 * time.Microsecond

// OpenTransmitter opens a queue of each lane: that of cpu, or the next one that
// has no transmitter.
func (b *Backend) OpenTransmitter(_ context.Context, lanes []host.Port, cpu int) (_ engine.Transmitter, err error) {
	if len(lanes) == 0 {
		return nil, errors.New("open an afxdp transmitter: no lanes are given")
	}
	t := &Transmitter{backend: b, Transmitter: packet.Transmitter{Netns: lanes[0].Netns}}
	if cpu >= 0 {
		t.CPUs = []int{cpu}
	}
	for _, p := range lanes {
		if p.Netns != t.Netns {
			return nil, errors.Join(fmt.Errorf("open an afxdp transmitter: %s and %s stand in two namespaces", lanes[0].Name, p.Name), t.Close())
		}
		if err := b.enter(p, func(open *openPort) error {
			q, err := b.sender(open, max(cpu, 0))
			if err != nil {
				return err
			}
			q.sender = true
			o := &queueOutlet{queueSocket: q, port: open, taken: q.TX.Next()}
			t.outlets = append(t.outlets, o)
			t.Lanes = append(t.Lanes, &packet.Lane{Port: p, FD: -1, MTU: open.mtu, Out: o})
			return nil
		}); err != nil {
			return nil, errors.Join(err, t.Close())
		}
	}
	return t, nil
}

// sender is a queue of p without a transmitter.
func (b *Backend) sender(p *openPort, cpu int) (*queueSocket, error) {
	n := p.sending
	for i := range n {
		if at := (cpu + i) % n; p.queues[at] == nil || !p.queues[at].sender {
			return b.queue(p, at)
		}
	}
	return nil, fmt.Errorf("open an afxdp transmitter on %s: each of its %d queues has one; give it more queues (ethtool -L), or use fewer CPUs: %w", p.port.Name, n, host.ErrNotSupported)
}

func (t *Transmitter) Close() (err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.backend.mu.Lock()
	defer t.backend.mu.Unlock()
	for _, o := range t.outlets {
		o.sender = false
		err = errors.Join(err, t.backend.sweep(o.port))
	}
	t.outlets, t.Lanes = nil, nil
	return err
}

// Transmit has each lane's memory in pieces of its longest frame.
func (t *Transmitter) Transmit(ctx context.Context, l engine.Load, streams ...engine.Stream) ([]engine.TxReport, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	longest, lone := make([]int, len(t.outlets)), make([]*frame.Builder, len(t.outlets))
	count := make([]int, len(t.outlets))
	for _, s := range streams {
		if s.Lane < 0 || s.Lane >= len(t.outlets) {
			continue // is refused below
		}
		n := 0
		if s.Source != nil {
			n = s.Source.Shape().Longest
		} else if b, err := frame.NewBuilder(s.Frames, s.ID); err == nil {
			for _, v := range b.Variants {
				n = max(n, v.Len)
			}
			lone[s.Lane] = b
		}
		if n > xsk.Longest {
			return nil, &engine.TooLongError{Longest: n, Limit: xsk.Longest}
		}
		longest[s.Lane] = max(longest[s.Lane], n)
		count[s.Lane]++
	}
	for i, o := range t.outlets {
		o.reap()
		o.memory.divide(longest[i])
		if o.direct = count[i] == 1 && lone[i] != nil; o.direct {
			o.memory.fill(o.UMEM, lone[i])
		}
		o.sending.Store(true)
		defer o.sending.Store(false)
	}
	return t.Transmitter.Transmit(ctx, l, streams...)
}

// Flush hands the queue's frames to the kernel. What has not been taken when time
// is up was not sent.
func (o *queueOutlet) Flush(s *packet.Sender, q *packet.Queue) error {
	left := 0
	for i := 0; i < q.Len; {
		o.reap()
		put := o.put(q, i)
		i += put
		left += put
		o.TX.Publish()
		sent, err := o.push(s, q)
		if !sent {
			left -= o.void()
		}
		if !sent || put == 0 && s.Over(s.Clock.Now()) {
			for ; i < q.Len; i++ {
				q.Streams[i].Unsent(int(q.Iovs[i].Len))
			}
		}
		if err != nil {
			return err
		}
		if put == 0 {
			o.rest()
		}
	}
	q.Batch = max(q.Batch, left)
	q.Len = 0
	return nil
}

// put puts the frames from i on on TX, as many as there is room for.
func (o *queueOutlet) put(q *packet.Queue, i int) (n int) {
	for room := o.TX.Free(); i+n < q.Len && n < room; n++ {
		at, ok := o.memory.take()
		if !ok {
			break
		}
		st, iov := q.Streams[i+n], &q.Iovs[i+n]
		length := int(iov.Len)
		if o.direct {
			at = o.swap(st, i+n, at, length)
		} else {
			copy(o.UMEM[at:], unsafe.Slice(iov.Base, length))
		}
		o.owner[o.TX.Next()%mostSends] = st
		o.TX.Put(xsk.Desc{Addr: at, Len: uint32(length)})
	}
	return n
}

// swap takes the piece in which the stream has built its frame i, for an empty
// one. The first ones are not pieces yet.
func (o *queueOutlet) swap(st *packet.Stream, i int, empty uint64, length int) uint64 {
	if built, ok := o.address(st.Bufs[i]); ok {
		st.Bufs[i] = o.piece(empty, st.Bufs[i])
		return built
	}
	copy(o.UMEM[empty:], st.Bufs[i][:length])
	if fresh, ok := o.memory.take(); ok {
		st.Bufs[i], o.lent = o.piece(fresh, st.Bufs[i]), st
	}
	return empty
}

// piece is the memory at an address, in place of buf.
func (o *queueOutlet) piece(at uint64, buf []byte) []byte {
	return o.UMEM[at:][:min(len(buf), o.memory.stride)]
}

// address is where buf is in the UMEM, if it is.
func (o *queueOutlet) address(buf []byte) (uint64, bool) {
	at := uintptr(unsafe.Pointer(&buf[0])) - uintptr(unsafe.Pointer(&o.UMEM[0]))
	return uint64(at), at < uintptr(len(o.UMEM))
}

// push makes the kernel take what is on TX. It reports false where time was up
// before that.
func (o *queueOutlet) push(s *packet.Sender, q *packet.Queue) (bool, error) {
	for o.taken != o.TX.Next() {
		err := o.Kick()
		taken := o.TX.Taken()
		moved := int32(taken-o.taken) > 0
		if moved {
			o.taken = taken
		}
		switch {
		case err == nil && o.zeroCopy:
			return true, nil // the driver takes it in its own time
		case err == nil && o.taken != o.TX.Next():
			return false, fmt.Errorf("send from %s: its queue sends no longer: did it lose queues (ethtool -L)?", q.Port.Name)
		case err == nil:
		case err == unix.EBUSY && !o.zeroCopy:
			if !moved {
				o.taken++ // the kernel does not say so before it has sent another one
			}
			st := o.owner[(o.taken-1)%mostSends]
			st.Failed++
			st.FailedOctets += uint64(o.TX.At(o.taken-1).Len) + unit.FCS
			q.Failed++
		case err == unix.EAGAIN || err == unix.ENOBUFS || err == unix.EBUSY:
			if moved || o.reap() > 0 {
				continue
			}
			if s.Over(s.Clock.Now()) {
				return false, nil
			}
			o.rest()
		default:
			return false, refused("send from "+q.Port.Name, err)
		}
	}
	return true, nil
}

func (o *queueOutlet) rest() {
	nap := unix.NsecToTimespec(int64(waitRoom))
	_ = unix.Nanosleep(&nap, nil) // EINTR: looks again
}

// void takes what the kernel has not taken off TX, and off what was sent.
func (o *queueOutlet) void() (n int) {
	for ; o.taken != o.TX.Next(); o.taken++ {
		d := o.TX.At(o.taken)
		o.owner[o.taken%mostSends].Unsent(int(d.Len))
		o.memory.back(d.Addr)
		d.Len = 0 // an invalid entry: the kernel skips it
		n++
	}
	return n
}

// reap takes memory back whose frames have left.
func (o *queueOutlet) reap() (n int) {
	for ; ; n++ {
		at, ok := o.Completion.Take()
		if !ok {
			break
		}
		o.memory.back(at)
	}
	if n > 0 {
		o.Completion.Release()
	}
	return n
}

// Finish waits for the driver to take what is on TX: a zero-copy one may have
// left some of it for later. What it leaves there for 100 ms was not sent.
func (o *queueOutlet) Finish(q *packet.Queue) (gone error) {
	const patience = 100 * time.Millisecond
	for last := time.Now(); o.zeroCopy && o.taken != o.TX.Next(); o.rest() {
		err := o.Kick()
		if taken := o.TX.Taken(); taken != o.taken {
			o.taken, last = taken, time.Now()
			continue
		}
		if err != nil && err != unix.EAGAIN && err != unix.ENOBUFS && err != unix.EBUSY {
			gone = refused("send from "+q.Port.Name, err)
		}
		if gone != nil || time.Since(last) > patience {
			o.void()
		}
	}
	if o.lent != nil {
		for _, buf := range o.lent.Bufs {
			if at, ok := o.address(buf); ok {
				o.memory.back(at)
			}
		}
		o.lent = nil
	}
	o.reap()
	return gone
}

// probe sends one frame.
func (t *Transmitter) probe(buf []byte) error {
	o := t.outlets[0]
	o.memory.divide(len(buf))
	at, _ := o.memory.take()
	copy(o.UMEM[at:], buf)
	o.TX.Put(xsk.Desc{Addr: at, Len: uint32(len(buf))})
	o.TX.Publish()
	if err := o.Kick(); err != nil && err != unix.EBUSY { // a drop is an answer too
		return refused("send a frame from "+o.port.port.Name, err)
	}
	return nil
}

// A sendMemory is the part of a UMEM that frames are sent from. Frames lie close
// together, several to a chunk, and what was freed last is used first, so that
// they stay in the caches.
type sendMemory struct {
	first  uint64   // address of the first chunk
	stride int      // of a frame
	free   []uint64 // addresses
	away   []uint16 // of each chunk, frames that the kernel has
	ours   []bool   // whether a chunk is divided by stride: its frames were back when it was
}

func newSendMemory(before, chunks int) *sendMemory {
	return &sendMemory{first: uint64(before * xsk.Chunk), away: make([]uint16, chunks), ours: make([]bool, chunks)}
}

// divide makes pieces for frames of up to longest octets of all chunks that have
// no frame under way.
func (m *sendMemory) divide(longest int) {
	m.stride = max((longest+63)&^63, 64)
	m.free = m.free[:0]
	for c := range m.away {
		m.ours[c] = m.away[c] == 0
		if !m.ours[c] {
			continue
		}
		for off := 0; off+m.stride <= xsk.Chunk && len(m.free) < mostSends; off += m.stride {
			m.free = append(m.free, m.first+uint64(c*xsk.Chunk+off))
		}
	}
}

// fill puts the first frame of b into every free piece, before octets that are
// zero.
func (m *sendMemory) fill(umem []byte, b *frame.Builder) {
	for _, at := range m.free {
		piece := umem[at : at+uint64(m.stride)]
		clear(piece)
		b.Build(0, piece)
	}
}

// take is the address of a piece; false where none is free.
func (m *sendMemory) take() (at uint64, ok bool) {
	if len(m.free) == 0 {
		return 0, false
	}
	at = m.free[len(m.free)-1]
	m.free = m.free[:len(m.free)-1]
	m.away[m.chunk(at)]++
	return at, true
}

// back frees a piece that was taken, perhaps before the last divide.
func (m *sendMemory) back(at uint64) {
	c := m.chunk(at)
	m.away[c]--
	if m.ours[c] {
		m.free = append(m.free, at)
	}
}

func (m *sendMemory) chunk(at uint64) int { return int(at-m.first) / xsk.Chunk }
