// SPDX-License-Identifier: Apache-2.0

package infer

import (
	"math"
	"math/bits"
)

// A Window takes packets in and makes a Vector of them, in constant memory. The zero
// Window is empty.
type Window struct {
	n                int
	octets           int
	first, last      float64
	gaps, sizes      moments
	tcp, udp, icmp   int
	syn, ends        int
	src, dst, sport  sketch
	dport            sketch
	srcMix, dportMix histogram
}

// moments are Welford's.
type moments struct {
	n          int
	mean, m2   float64
	least, top float64
}

func (m *moments) add(v float64) {
	if m.n == 0 || v < m.least {
		m.least = v
	}
	if m.n == 0 || v > m.top {
		m.top = v
	}
	m.n++
	d := v - m.mean
	m.mean += d / float64(m.n)
	m.m2 += d * (v - m.mean)
}

// sd is that of all values, not of a sample.
func (m *moments) sd() float64 {
	if m.n == 0 {
		return 0
	}
	return math.Sqrt(m.m2 / float64(m.n))
}

// sketchBits is how many a sketch has.
const sketchBits = 1024

// A sketch estimates how many different values it was given by linear counting (Whang
// and others, 1990).
type sketch [sketchBits / 64]uint64

func (s *sketch) add(v uint64) { s[v/64%(sketchBits/64)] |= 1 << (v % 64) }

// distinct is at most n, the values that were given.
func (s *sketch) distinct(n int) float64 {
	set := 0
	for _, w := range s {
		set += bits.OnesCount64(w)
	}
	return linearCount(set, n)
}

func linearCount(set, n int) float64 {
	if set == sketchBits {
		return float64(n)
	}
	return min(float64(n), -sketchBits*math.Log(1-float64(set)/sketchBits))
}

// buckets of a histogram.
const buckets = 64

// A histogram tells the entropy of values by the buckets that they fall into.
type histogram [buckets]uint32

func (h *histogram) add(v uint64) { h[v%buckets]++ }

// entropy is Shannon's, in bits.
func (h *histogram) entropy(n int) (e float64) {
	for _, c := range h {
		if c > 0 {
			p := float64(c) / float64(n)
			e -= p * math.Log2(p)
		}
	}
	return e
}

// Add takes p in; arrivals do not go backwards, and one that does counts as a gap of 0.
func (w *Window) Add(p *Packet) {
	if w.n == 0 {
		w.first, w.last = p.At, p.At
	} else {
		w.gaps.add(max(p.At-w.last, 0))
		w.last = max(w.last, p.At)
	}
	w.n++
	w.octets += p.Size
	w.sizes.add(float64(p.Size))
	switch p.Protocol {
	case protoTCP:
		w.tcp++
		if p.Flags&(flagSYN|flagACK) == flagSYN {
			w.syn++
		}
		if p.Flags&(flagFIN|flagRST) != 0 {
			w.ends++
		}
	case protoUDP:
		w.udp++
	case protoICMP, protoICMPv6:
		w.icmp++
	}
	s, d := mix(uint64(p.Sport)+1), mix(uint64(p.Dport)+1)
	w.src.add(p.Src)
	w.dst.add(p.Dst)
	w.sport.add(s)
	w.dport.add(d)
	w.srcMix.add(p.Src >> 32)
	w.dportMix.add(d >> 32)
}

// clockTick is the resolution of arrivals, s: what takes less takes no time.
const clockTick = 1e-9

// Vector is its features; of an empty window all are 0.
func (w *Window) Vector() (x Vector) {
	if w.n == 0 {
		return x
	}
	n := float64(w.n)
	took := w.last - w.first
	perSecond := func(v float64) float64 {
		if took < clockTick {
			return 0
		}
		return v / took
	}
	for i, v := range [Features]float64{
		n, float64(w.octets), took, perSecond(n - 1), perSecond(float64(w.octets)),
		w.gaps.mean, w.gaps.sd(), w.gaps.least, w.gaps.top,
		w.sizes.mean, w.sizes.sd(), w.sizes.least, w.sizes.top,
		float64(w.tcp) / n, float64(w.udp) / n, float64(w.icmp) / n, float64(w.syn) / n, float64(w.ends) / n,
		w.src.distinct(w.n), w.dst.distinct(w.n), w.sport.distinct(w.n), w.dport.distinct(w.n),
		w.srcMix.entropy(w.n), w.dportMix.entropy(w.n),
	} {
		x[i] = float32(v)
	}
	return x
}
