// SPDX-License-Identifier: Apache-2.0

package infer

import (
	"encoding/binary"
	"math/rand/v2"
)

// A Frame is the first octets of a synthetic frame.
type Frame struct {
	Head [headLen]byte
	Size int     // octets without FCS
	At   float64 // s
}

const (
	headLen = 14 + 20 + 20 // Ethernet, IPv4, TCP

	poolOfTens     = 2048 // windows
	poolOfSeconds  = 1024
	framesOfSecond = 200
)

// Synthetic are frames from the seed that Cutter cuts into windows of the kind: IPv4
// with TCP, UDP and ICMP in shares, sizes, gaps and numbers of addresses and ports that
// change from window to window. frames is how many a window has.
func Synthetic(kind string, seed uint64) (pool []Frame, frames int) {
	windows, frames := poolOfTens, packetsOfTen
	if kind == PerSecond {
		windows, frames = poolOfSeconds, framesOfSecond
	}
	r := rand.New(rand.NewPCG(seed, 0x5eed))
	pool = make([]Frame, 0, windows*frames)
	now := 0.0
	for w := range windows {
		gap := 1e-6 * float64(1+r.IntN(5000))
		if kind == PerSecond {
			now, gap = 1.000001*float64(w), 1.0/framesOfSecond
		}
		tcp, udp := r.Float64(), r.Float64()
		opens := r.Float64() / 2
		hosts, ports, size := 1+r.IntN(100), 1+r.IntN(100), 60+r.IntN(1000)
		for i := range frames {
			f := Frame{Size: size + r.IntN(400), At: now}
			p := uint8(protoICMP)
			switch {
			case r.Float64() < tcp:
				p = protoTCP
			case r.Float64() < udp:
				p = protoUDP
			}
			flags := uint8(flagACK)
			if r.Float64() < opens {
				flags = [...]uint8{flagSYN, flagFIN | flagACK, flagRST}[r.IntN(3)]
			}
			f.fill(p, flags, r.IntN(hosts), r.IntN(hosts), r.IntN(ports), r.IntN(ports))
			pool = append(pool, f)
			if kind == PerTen || i < frames-1 {
				now += gap * r.Float64()
			}
		}
	}
	return pool, frames
}

func (f *Frame) fill(protocol, flags uint8, src, dst, sport, dport int) {
	b := f.Head[:]
	binary.BigEndian.PutUint16(b[12:], 0x0800)
	ip := b[14:]
	ip[0], ip[8], ip[9] = 0x45, 64, protocol
	binary.BigEndian.PutUint16(ip[2:], uint16(f.Size-14))
	binary.BigEndian.PutUint32(ip[12:], 0xc6120000|uint32(src)) // 198.18.0.0/16
	binary.BigEndian.PutUint32(ip[16:], 0xc6130000|uint32(dst))
	if protocol == protoICMP {
		return
	}
	binary.BigEndian.PutUint16(ip[20:], uint16(1024+sport))
	binary.BigEndian.PutUint16(ip[22:], uint16(1+dport))
	if protocol == protoTCP {
		ip[32], ip[33] = 5<<4, flags
	}
}

// Vectors are the windows of frames.
func Vectors(kind string, frames []Frame) (out []Vector, err error) {
	c, err := NewCutter(kind)
	if err != nil {
		return nil, err
	}
	for i := range frames {
		f := &frames[i]
		p := Decode(f.Head[:], f.Size, f.At)
		if x, done := c.Add(&p); done {
			out = append(out, x)
		}
	}
	return out, nil
}
