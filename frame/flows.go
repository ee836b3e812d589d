// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"net/netip"
)

// What sources of conversations (AppMixSource, TemplateSource) share: when flows
// begin, who takes part, and which frame is next.

// golden is the fraction of the golden ratio: its multiples modulo 1 fill the
// unit interval evenly, wherever one stops.
const golden = 0.6180339887498949

// arrivals is a Poisson process of flows of several kinds. The kinds are taken
// evenly, not drawn: any run of flows has nearly its share of each, and so nearly
// the mean load.
type arrivals struct {
	rate       float64   // flows a second
	cumulative []float64 // share of the kinds up to each
	pcg        rand.PCG
	even       float64 // what the next flow's kind follows from
	k          uint64  // number of the next flow
	at         uint64  // when it begins, ns
	exact      float64
	kind       int
}

func (a *arrivals) set(rate float64, weights []float64) {
	a.rate = rate
	a.cumulative = make([]float64, len(weights))
	total, sum := 0.0, 0.0
	for _, w := range weights {
		total += w
	}
	for i, w := range weights {
		sum += w / total
		a.cumulative[i] = sum
	}
}

// rewind goes back to the first flow, which begins at 0.
func (a *arrivals) rewind(seed uint64) {
	a.pcg.Seed(seed, 0x666c6f7773)
	a.k, a.at, a.exact = 0, 0, 0
	a.even = unitInterval(a.pcg.Uint64())
	a.draw()
}

func (a *arrivals) step() {
	a.exact += rand.New(&a.pcg).ExpFloat64() / a.rate * 1e9
	a.k, a.at = a.k+1, uint64(a.exact)
	a.draw()
}

func (a *arrivals) draw() {
	if a.even += golden; a.even >= 1 {
		a.even--
	}
	a.kind = 0
	for a.kind < len(a.cumulative)-1 && a.even >= a.cumulative[a.kind] {
		a.kind++
	}
}

// unitInterval maps a random number to [0, 1).
func unitInterval(v uint64) float64 { return float64(v>>11) / (1 << 53) }

// mix64 is splitmix64's step: a number that looks random, of one that does not.
func mix64(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// An endpoint is one end of a conversation; an IPv4 address stands in the first
// 4 octets.
type endpoint struct {
	mac  [6]byte
	addr [16]byte
	port uint16
}

// A pool is a run of addresses.
type pool struct {
	first netip.Addr
	n     uint64
}

func (p pool) at(i uint64) (a [16]byte) {
	if p.first.Is4() {
		v := p.first.As4()
		binary.BigEndian.PutUint32(a[:], binary.BigEndian.Uint32(v[:])+uint32(i))
		return a
	}
	a = p.first.As16()
	binary.BigEndian.PutUint64(a[8:], binary.BigEndian.Uint64(a[8:])+i)
	return a
}

func (p pool) addr(i uint64) netip.Addr {
	a := p.at(i)
	if p.first.Is4() {
		return netip.AddrFrom4([4]byte(a[:4]))
	}
	return netip.AddrFrom16(a)
}

func (p pool) last() netip.Addr { return p.addr(p.n - 1) }

const (
	firstClientPort = 1024
	clientPorts     = 65536 - firstClientPort
)

// addressing gives every flow of a pass ends of its own: clients take turns, and
// each uses its ports one after the other, from one of its own on; servers are
// drawn.
type addressing struct {
	seed             uint64
	clients, servers pool
	v6, random       bool // random: clients are drawn as well
	macs             [2][6]byte
	stride           uint64 // ports that a flow's client uses
}

func (n *addressing) setMACs(client, server [6]byte) {
	if client == ([6]byte{}) {
		client = [6]byte{2, 0, 0, 0, 0, 1}
	}
	if server == ([6]byte{}) {
		server = [6]byte{2, 0, 0, 0, 0, 2}
	}
	n.macs = [2][6]byte{client, server}
}

// assign gives flow k its ends, and says which address the server has.
func (n *addressing) assign(ends *[2]endpoint, k uint64, port uint16) (server uint64) {
	i, turn := k%n.clients.n, k/n.clients.n
	if n.random {
		i, turn = mix64(n.seed^k*3)%n.clients.n, k
	}
	own := (mix64(n.seed+i)>>32 + turn) % (clientPorts / n.stride) * n.stride
	server = mix64(n.seed^mix64(k)) % n.servers.n
	ends[0] = endpoint{n.macs[0], n.clients.at(i), uint16(firstClientPort + own)}
	ends[1] = endpoint{n.macs[1], n.servers.at(server), port}
	return server
}

// prefixes is the addressing of two prefixes. The first and the last address of
// one are left out where it has more than two.
func prefixes(clients, servers netip.Prefix) (n addressing, err error) {
	if !clients.IsValid() || !servers.IsValid() || clients.Addr().Is4() != servers.Addr().Is4() || clients.Addr().Is4In6() || servers.Addr().Is4In6() {
		return n, fmt.Errorf("clients %v and servers %v: want two prefixes of one IP version", clients, servers)
	}
	if clients.Overlaps(servers) {
		return n, fmt.Errorf("clients %v and servers %v overlap: want two prefixes apart from each other", clients, servers)
	}
	of := func(p netip.Prefix) pool {
		p = p.Masked()
		bits := min(p.Addr().BitLen()-p.Bits(), 32)
		if bits < 2 {
			return pool{p.Addr(), 1 << bits}
		}
		return pool{p.Addr().Next(), 1<<bits - 2}
	}
	n.clients, n.servers, n.v6, n.stride = of(clients), of(servers), clients.Addr().Is6(), 1
	return n, nil
}

// A timeline is a heap of what happens next; among equal times, what came first.
type timeline[T any] []due[T]

type due[T any] struct {
	at, order uint64
	of        T
}

func (t timeline[T]) before(i, j int) bool {
	return t[i].at < t[j].at || t[i].at == t[j].at && t[i].order < t[j].order
}

func (t *timeline[T]) push(at, order uint64, of T) {
	*t = append(*t, due[T]{at, order, of})
	h := *t
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h.before(i, up) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

// move puts the first off until at.
func (t timeline[T]) move(at uint64) {
	t[0].at = at
	for i := 0; ; {
		down := 2*i + 1
		if down >= len(t) {
			return
		}
		if down+1 < len(t) && t.before(down+1, down) {
			down++
		}
		if !t.before(down, i) {
			return
		}
		t[i], t[down] = t[down], t[i]
		i = down
	}
}

// pop takes the first away.
func (t *timeline[T]) pop() T {
	h := *t
	first := h[0].of
	h[0] = h[len(h)-1]
	h[len(h)-1] = due[T]{}
	*t = h[:len(h)-1]
	if len(*t) > 0 {
		t.move(h[0].at)
	}
	return first
}

// putIP writes Ethernet and IP headers of a frame whose IP packet carries n
// octets, and returns the sum of the pseudo header.
func putIP(b []byte, src, dst *endpoint, v6 bool, protocol, ttl byte, id uint16, n int) uint64 {
	copy(b[0:], dst.mac[:])
	copy(b[6:], src.mac[:])
	ip := b[ethLen:]
	if v6 {
		binary.BigEndian.PutUint16(b[12:], 0x86dd)
		binary.BigEndian.PutUint32(ip, 0x60000000)
		binary.BigEndian.PutUint16(ip[4:], uint16(n))
		ip[6], ip[7] = protocol, ttl
		copy(ip[8:], src.addr[:])
		copy(ip[24:], dst.addr[:])
		return uint64(protocol) + uint64(n) + addWords(0, ip[8:ip6Len])
	}
	binary.BigEndian.PutUint16(b[12:], 0x0800)
	binary.BigEndian.PutUint16(ip, 0x4500)
	binary.BigEndian.PutUint16(ip[2:], uint16(ip4Len+n))
	binary.BigEndian.PutUint16(ip[4:], id)
	binary.BigEndian.PutUint16(ip[6:], 0x4000) // do not fragment
	ip[8], ip[9] = ttl, protocol
	binary.BigEndian.PutUint16(ip[10:], 0)
	copy(ip[12:16], src.addr[:4])
	copy(ip[16:20], dst.addr[:4])
	binary.BigEndian.PutUint16(ip[10:], foldWords(addWords(0, ip[:ip4Len])))
	return uint64(protocol) + uint64(n) + addWords(0, ip[12:ip4Len])
}

// addWords adds b, a row of 16-bit words, to a sum for foldWords: by 8 octets with
// end-around carry, which folds to the same (RFC 1071, 2). b must begin at an even
// offset of what is summed.
func addWords(s uint64, b []byte) uint64 {
	var carry uint64
	for len(b) >= 32 {
		s, carry = bits.Add64(s, binary.BigEndian.Uint64(b), carry)
		s, carry = bits.Add64(s, binary.BigEndian.Uint64(b[8:]), carry)
		s, carry = bits.Add64(s, binary.BigEndian.Uint64(b[16:]), carry)
		s, carry = bits.Add64(s, binary.BigEndian.Uint64(b[24:]), carry)
		b = b[32:]
	}
	for len(b) >= 2 {
		s, carry = bits.Add64(s, uint64(binary.BigEndian.Uint16(b)), carry)
		b = b[2:]
	}
	if len(b) > 0 {
		s, carry = bits.Add64(s, uint64(b[0])<<8, carry)
	}
	s, carry = bits.Add64(s, 0, carry)
	return s + carry
}

// foldWords is the Internet checksum (RFC 1071) of what addWords added up.
func foldWords(s uint64) uint16 {
	for s>>16 != 0 {
		s = s>>16 + s&0xffff
	}
	return ^uint16(s)
}
