// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"fmt"
)

// A Sharder is a Source that knows better than Shard how to divide itself.
type Sharder interface {
	// Shard is part i of n, from the first frame on. Closing it closes what the
	// receiver is made of.
	Shard(i, n int) Source
}

// Shard is part i of n of a source: the flows whose hash (of both directions) falls on i.
// Each part needs a source of its own, made from the same input and seed, and closes it.
// Fragments go by their datagram, frames without IP by their MACs, and frames of a class
// with draws take turns. Synthetic sources and floods are whole in every part. Where the
// source knows the frames of a pass, Shard reads one pass.
func Shard(source Source, i, n int) (Source, error) {
	if n < 1 || i < 0 || i >= n {
		return nil, fmt.Errorf("part %d of %d of a source: want 0 to %d", i, n, n-1)
	}
	if n == 1 {
		return source, nil
	}
	if s, ok := source.(Sharder); ok {
		return s.Shard(i, n), nil
	}
	s := &shard{part: uint64(i), of: uint64(n)}
	for _, d := range source.Shape().Draws {
		s.drawn[d.Class] = true
	}
	var err error
	if s.chosen, err = choose(source, s.keep, func() { clear(s.turns[:]) }); err != nil {
		return nil, fmt.Errorf("part %d of %d of a source: %w", i, n, err)
	}
	if source.Shape().Frames > 0 && s.shape.Frames == 0 {
		return nil, fmt.Errorf("part %d of %d of a source has no frames, because its flows are too few: take fewer parts", i, n)
	}
	return s, nil
}

type shard struct {
	*chosen
	part, of uint64
	drawn    [MaxClasses]bool   // the octets of the class do not tell its flows
	turns    [MaxClasses]uint64 // frames of drawn classes so far in this pass
}

func (s *shard) keep(frm []byte, e *Entry) bool {
	hash := s.turns[e.Class]
	if s.drawn[e.Class] {
		s.turns[e.Class]++
	} else {
		hash = flowHash(frm, e)
	}
	return hash%s.of == s.part
}

// flowHash is the same for both directions of a flow, and for all fragments of a
// datagram.
func flowHash(b []byte, e *Entry) uint64 {
	if e.L3 == 0 {
		if len(b) < ethLen {
			return 0
		}
		return both(b[0:6], b[6:12], 0, 0) + uint64(binary.BigEndian.Uint16(b[12:]))
	}
	var src, dst []byte
	var salt uint64
	ip := b[e.L3:]
	ports := e.L4 != 0 && e.Sum != e.L4+2 && int(e.L4)+4 <= len(b)
	switch {
	case e.Flags&IPv4 != 0:
		src, dst, salt = ip[12:16], ip[16:20], uint64(ip[9])
		if fragment := binary.BigEndian.Uint16(ip[6:]) &^ 0xc000; fragment != 0 {
			ports = false
			salt |= uint64(binary.BigEndian.Uint16(ip[4:])) << 8
		}
		ports = ports && ip[9] != protoICMP
	case e.Flags&IPv6 != 0: // of fragments the addresses alone
		src, dst = ip[8:24], ip[24:40]
		ports = ports && int(e.L4) == int(e.L3)+ip6Len && ip[6] != protoICMPv6
	default:
		return 0
	}
	if !ports {
		return scramble(both(src, dst, 0, 0) + salt)
	}
	return scramble(both(src, dst, binary.BigEndian.Uint16(b[e.L4:]), binary.BigEndian.Uint16(b[e.L4+2:])) + salt)
}

// both adds up the hashes of two ends.
func both(a, b []byte, aPort, bPort uint16) uint64 { return end(a, aPort) + end(b, bPort) }

func end(address []byte, port uint16) uint64 {
	h := uint64(port)
	for _, octet := range address {
		h = h*0x100000001b3 + uint64(octet)
	}
	return scramble(h)
}

// scramble is the finisher of splitmix64.
func scramble(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
