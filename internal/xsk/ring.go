// SPDX-License-Identifier: Apache-2.0

package xsk

import "sync/atomic"

// A Desc is a frame on the receive or transmit ring: struct xdp_desc.
type Desc struct {
	Addr    uint64 // of the first octet in the UMEM
	Len     uint32
	Options uint32
}

// A ring has one writer and one reader, one of which is the kernel. Both indices
// run through all 32-bit numbers; an entry stands at index modulo size. Who owns
// an entry is said by the indices alone: sync/atomic's loads and stores order
// what was written to an entry before the index that hands it over.
type ring[T Desc | uint64] struct {
	producer, consumer, flags *uint32 // shared with the kernel
	entries                   []T     // a power of two
}

func (r *ring[T]) at(i uint32) *T { return &r.entries[i&uint32(len(r.entries)-1)] }

// needWakeup says whether the kernel waits for a system call.
func (r *ring[T]) needWakeup() bool { return atomic.LoadUint32(r.flags)&ringNeedWakeup != 0 }

// A Producer is the writer's end of a ring: of those for transmitting and for
// giving memory to receive into. It is for one goroutine.
type Producer[T Desc | uint64] struct {
	ring[T]
	next uint32 // first entry that was not written
	free uint32 // entries from next on that are known to be free
}

// Free is how many entries can be Put.
func (p *Producer[T]) Free() int {
	p.free = uint32(len(p.entries)) - (p.next - atomic.LoadUint32(p.consumer))
	return int(p.free)
}

// Put writes the next entry, which the reader sees with the next Publish. It
// reports false where the ring is full.
func (p *Producer[T]) Put(v T) bool {
	if p.free == 0 && p.Free() == 0 {
		return false
	}
	*p.at(p.next) = v
	p.next++
	p.free--
	return true
}

// Publish hands over what was Put.
func (p *Producer[T]) Publish() { atomic.StoreUint32(p.producer, p.next) }

// At is entry i, to read it again or, while the reader does not run, to change it.
func (p *Producer[T]) At(i uint32) *T { return p.at(i) }

// Next is the index of the next entry to Put.
func (p *Producer[T]) Next() uint32 { return p.next }

// Taken is the index of the first entry that the reader has not given back. A
// reader may have read on.
func (p *Producer[T]) Taken() uint32 { return atomic.LoadUint32(p.consumer) }

// A Consumer is the reader's end of a ring: of those for frames received and for
// memory that was transmitted. It is for one goroutine.
type Consumer[T Desc | uint64] struct {
	ring[T]
	next  uint32 // first entry that was not read
	ready uint32 // entries from next on that are known to be written
}

// Ready is how many entries can be taken.
func (c *Consumer[T]) Ready() int {
	c.ready = atomic.LoadUint32(c.producer) - c.next
	return int(c.ready)
}

// Take reads the next entry; it reports false where there is none. The entry is
// the reader's until Release.
func (c *Consumer[T]) Take() (v T, ok bool) {
	if c.ready == 0 && c.Ready() == 0 {
		return v, false
	}
	v = *c.at(c.next)
	c.next++
	c.ready--
	return v, true
}

// Release gives the entries that were taken back to the writer.
func (c *Consumer[T]) Release() { atomic.StoreUint32(c.consumer, c.next) }
