// SPDX-License-Identifier: Apache-2.0

package xsk

// A Peer is the kernel's end of a socket's rings.
type Peer struct {
	Fill       Consumer[uint64]
	RX         Producer[Desc]
	TX         Consumer[Desc]
	Completion Producer[uint64]
}

// InMemory is a socket without a port or a kernel, to test its users with: the
// test is the kernel, by the Peer, and kick answers Kick. The other methods that
// ask the kernel do not work.
func InMemory(c Config, kick func(*Peer) error) *Socket {
	s := &Socket{fd: -1, copy: !c.ZeroCopy, UMEM: make([]byte, (c.Receive+c.Send)*Chunk)}
	p := &Peer{}
	join(&s.Fill, &p.Fill, c.Receive)
	join(&p.RX, &s.RX, c.Receive)
	join(&s.TX, &p.TX, c.Sends)
	join(&p.Completion, &s.Completion, c.Sends)
	s.kick = func() error { return kick(p) }
	*s.TX.flags = ringNeedWakeup
	s.fill(c.Receive)
	return s
}

// join makes a ring between p and c. Its indices begin shortly before they wrap.
func join[T Desc | uint64](p *Producer[T], c *Consumer[T], entries int) {
	const begin = ^uint32(99)
	first := [3]uint32{begin, begin}
	mem := ring[T]{producer: &first[0], consumer: &first[1], flags: &first[2], entries: make([]T, entries)}
	*p, *c = Producer[T]{ring: mem, next: begin}, Consumer[T]{ring: mem, next: begin}
}
