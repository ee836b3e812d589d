// SPDX-License-Identifier: Apache-2.0

package frame

import "encoding/binary"

// A flow is one conversation that is under way. Frame after frame, next says what
// comes, write writes it, and advance goes on.
type flow struct {
	ends  [2]endpoint // client, server
	v6    bool
	app   uint8
	alert int8 // index of alerts; -1: none
	k     uint64
	at    uint64 // of the next frame, ns
	rng   uint64 // of gaps (next)
	salt  uint32 // where in the fillings its bodies begin
	mss   int
	rtt   uint64 // ns
	msgs  []message

	phase  phase
	msg    int // the message under way
	off    int // octets of it that were sent
	rep    int // datagrams of it that were sent
	seq    [2]uint32
	ipID   [2]uint16
	unread int    // segments since the other side's last ACK
	quick  [2]int // ACKs of single segments that each side has still to send
	rest   uint64 // of the wait for the message under way, behind a delayed ACK, ns
	window int    // segments to a round trip
	flight int    // segments of this round trip
}

type phase uint8

const (
	syn phase = iota
	synAck
	handshakeAck
	talking
	fin
	finBack
	lastAck
	over
)

// A message is what one side says at once: one or more TCP segments, or one UDP
// datagram, or times of them.
type message struct {
	from  int    // 0: the client, 1: the server
	wait  uint64 // ns since the frame before
	head  []byte
	body  int // octets of filling after head
	kind  filling
	tail  string
	mark  int // the head's octets up to the end of what a rule matches; 0: none
	times int // datagrams, alternately from both sides, if above 1
	every uint64
	vary  int // kind media: datagrams have up to so many octets less
}

func (m *message) len() int { return len(m.head) + m.body + len(m.tail) }

// An out is one frame to be.
type out struct {
	from  int // 0: the client, 1: the server
	n     int // octets of payload
	frame int // octets of the frame without FCS, padded
	flags byte
	mark  bool
}

const (
	tcpLen     = 20
	synOptions = 12
	// segmentGap is the time of a full segment at 100 Mbit/s, ackDelay that from a
	// segment to its ACK at a sensor near the client.
	segmentGap = 121_000
	ackDelay   = 60_000
	delayedAck = 40_000_000 // a single segment has waited so long for an answer to bring its ACK along

	flagFIN, flagSYN, flagPSH, flagACK = 1, 2, 8, 16
)

func (o *out) class(f *flow) uint8 {
	if o.mark {
		return uint8(len(apps))
	}
	return f.app
}

func (f *flow) tcp() bool { return !apps[f.app].udp }

// answered says whether the other side acknowledges now what m's has sent: every
// segment at first, as Linux does, then every second one (RFC 5681, 4.2).
func (f *flow) answered(m *message) bool {
	return f.unread == 2 || f.unread == 1 && f.quick[1-m.from] > 0
}

// next says what frame is due at f.at.
func (f *flow) next() (o out) {
	header := ethLen + ip4Len
	if f.v6 {
		header = ethLen + ip6Len
	}
	if !f.tcp() {
		m := &f.msgs[f.msg]
		o.from, o.n = (m.from+f.rep)&1, m.len()
		if m.vary > 0 {
			o.n -= int(mix64(uint64(f.salt)+uint64(f.rep)) % uint64(m.vary))
		}
		o.mark = m.mark > 0
		o.frame = max(header+udpLen+o.n, minBuffer)
		return o
	}
	header += tcpLen
	switch f.phase {
	case syn:
		o.flags = flagSYN
		header += synOptions
	case synAck:
		o.from, o.flags = 1, flagSYN|flagACK
		header += synOptions
	case handshakeAck, lastAck:
		o.flags = flagACK
	case talking:
		m := &f.msgs[f.msg]
		if f.answered(m) || f.rest > 0 {
			o.from, o.flags = 1-m.from, flagACK
			if f.rest > 0 {
				o.from = m.from
			}
			break
		}
		o.from, o.n, o.flags = m.from, min(f.mss, m.len()-f.off), flagACK
		if f.off+o.n == m.len() {
			o.flags |= flagPSH
		}
		o.mark = m.mark > f.off && m.mark <= f.off+o.n
	case fin:
		o.flags = flagFIN | flagACK
	case finBack:
		o.from, o.flags = 1, flagFIN|flagACK
	}
	o.frame = max(header+o.n, minBuffer)
	return o
}

// advance goes on to the frame after o, and is false where there is none.
func (f *flow) advance(o *out) bool {
	f.ipID[o.from]++
	if !f.tcp() {
		return f.advanceUDP()
	}
	f.seq[o.from] += uint32(o.n)
	if o.flags&(flagSYN|flagFIN) != 0 {
		f.seq[o.from]++
	}
	switch f.phase {
	case syn:
		f.at += f.rtt
		f.phase = synAck
	case synAck:
		f.at += ackDelay
		f.phase = handshakeAck
	case handshakeAck:
		f.phase = talking
		f.turn(0, f.msgs[0].from)
	case talking:
		f.advanceTalk(o)
	case fin:
		f.at += f.rtt
		f.phase = finBack
	case finBack:
		f.at += ackDelay
		f.phase = lastAck
	case lastAck:
		f.phase = over
	}
	return f.phase != over
}

func (f *flow) advanceTalk(o *out) {
	m := &f.msgs[f.msg]
	if o.n == 0 { // an ACK
		f.unread = 0
		f.quick[o.from] = max(f.quick[o.from]-1, 0)
		if f.rest > 0 {
			f.at += f.rest
			f.rest = 0
			return
		}
		if f.off < m.len() {
			f.at += f.gap()
			return
		}
	} else {
		f.unread++
		f.off += o.n
		if f.flight++; f.flight == f.window {
			f.at += f.rtt
			f.flight, f.window = 0, min(2*f.window, 128)
		}
		if f.answered(m) {
			f.at += ackDelay
			return
		}
		if f.off < m.len() {
			f.at += f.gap()
			return
		}
	}
	f.off = 0
	f.msg++
	if f.msg == len(f.msgs) {
		f.at += ackDelay
		f.phase = fin
		return
	}
	f.turn(m.from, f.msgs[f.msg].from)
}

// turn lets the time pass until the next message: what is heard of the server has
// gone to it and back.
func (f *flow) turn(last, from int) {
	wait := f.msgs[f.msg].wait
	if last != from && f.unread > 0 && wait > delayedAck {
		wait, f.rest = delayedAck, wait-delayedAck
	}
	f.at += wait
	if last != from || f.msg == 0 {
		f.unread, f.flight = 0, 0
		if from == 1 {
			f.at += f.rtt
		} else {
			f.at += ackDelay
		}
	}
}

// gap is the time from one segment to the next.
func (f *flow) gap() uint64 { return segmentGap + uint64(below(next(&f.rng), segmentGap/2)) }

func (f *flow) advanceUDP() bool {
	m := &f.msgs[f.msg]
	if f.rep++; f.rep < m.times {
		f.at += m.every - m.every/8 + uint64(below(next(&f.rng), uint32(m.every/4)))
		return true
	}
	last := (m.from + f.rep - 1) & 1
	f.rep = 0
	if f.msg++; f.msg == len(f.msgs) {
		f.phase = over
		return false
	}
	f.turn(last, f.msgs[f.msg].from)
	return true
}

// minBuffer is what a frame is padded to.
const minBuffer = 60

// write writes frame o into b, all of it.
func (f *flow) write(e *Entry, b []byte, o *out) {
	src, dst := &f.ends[o.from], &f.ends[1-o.from]
	e.At, e.L3, e.L4, e.Flags = f.at, ethLen, ethLen+ip4Len, IPv4|Rewrite
	if f.v6 {
		e.L4, e.Flags = ethLen+ip6Len, IPv6|Rewrite
	}
	ttl := byte(64)
	if o.from == 1 {
		ttl = 56
	}
	l4 := b[e.L4:]
	if !f.tcp() {
		n := udpLen + o.n
		s := putIP(b, src, dst, f.v6, 17, ttl, f.ipID[o.from], n)
		e.Sum = e.L4 + 6
		e.Flags |= SumUDP
		ports := [2]uint16{f.ends[client].port, f.ends[server].port}
		if f.app == appSIP && f.msgs[f.msg].kind == media {
			ports[server] = voicePort
		}
		binary.BigEndian.PutUint16(l4[0:], ports[o.from])
		binary.BigEndian.PutUint16(l4[2:], ports[1-o.from])
		binary.BigEndian.PutUint32(l4[4:], uint32(n)<<16)
		f.payload(l4[udpLen:n], o)
		clear(l4[n:])
		c := foldWords(addWords(s, l4[:n]))
		if c == 0 {
			c = 0xffff
		}
		binary.BigEndian.PutUint16(l4[6:], c)
		return
	}
	header := tcpLen
	if o.flags&flagSYN != 0 {
		header += synOptions
	}
	n := header + o.n
	s := putIP(b, src, dst, f.v6, 6, ttl, f.ipID[o.from], n)
	e.Sum = e.L4 + 16
	binary.BigEndian.PutUint16(l4[0:], src.port)
	binary.BigEndian.PutUint16(l4[2:], dst.port)
	binary.BigEndian.PutUint32(l4[4:], f.seq[o.from])
	ack, window := f.seq[1-o.from], uint32(501) // scaled by 2^7
	if o.flags&flagACK == 0 {
		ack = 0
	}
	if o.flags&flagSYN != 0 {
		window = 64240
		binary.BigEndian.PutUint32(l4[tcpLen:], 0x02040000|uint32(f.mss)) // MSS
		binary.BigEndian.PutUint32(l4[tcpLen+4:], 0x01030307)             // window scale 7
		binary.BigEndian.PutUint32(l4[tcpLen+8:], 0x01010402)             // SACK permitted
	}
	binary.BigEndian.PutUint32(l4[8:], ack)
	binary.BigEndian.PutUint32(l4[12:], uint32(header/4)<<28|uint32(o.flags)<<16|window)
	binary.BigEndian.PutUint32(l4[16:], 0)
	f.payload(l4[header:n], o)
	clear(l4[n:])
	binary.BigEndian.PutUint16(l4[16:], foldWords(addWords(s, l4[:n])))
}

// payload writes what o carries of the message under way.
func (f *flow) payload(b []byte, o *out) {
	if len(b) == 0 {
		return
	}
	m := &f.msgs[f.msg]
	off := f.off
	if off < len(m.head) {
		n := copy(b, m.head[off:])
		if m.kind == media {
			f.rtp(b)
		}
		b, off = b[n:], off+n
	}
	off -= len(m.head)
	if off < m.body {
		n := min(len(b), m.body-off)
		m.kind.fill(b[:n], f.salt, off, m.body)
		b, off = b[n:], off+n
	}
	if len(b) > 0 {
		copy(b, m.tail[off-m.body:])
	}
}

// rtp puts sequence number, time and source into a header of RFC 3550.
func (f *flow) rtp(b []byte) {
	m := &f.msgs[f.msg]
	i := uint32(f.rep / 2)
	binary.BigEndian.PutUint16(b[2:], uint16(f.salt+i))
	step := uint32(160) // G.711: 8 kHz
	if b[1]&0x7f >= 96 {
		step = 3000 // video: 90 kHz
	}
	binary.BigEndian.PutUint32(b[4:], f.salt+i*step)
	binary.BigEndian.PutUint32(b[8:], f.salt^uint32((m.from+f.rep)&1))
}
