// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
)

// A Sinker is a meter that can keep foreign frames from the stack: those of the
// xdp backends and of afxdp are.
type Sinker interface {
	// Sink drops foreign frames from now on, once they are counted, or hands them
	// to the stack again, as a new meter does. A port that sinks answers nobody,
	// neither ARP nor neighbour discovery.
	Sink(on bool) error
}

// A Screener is a meter that tells foreign frames from those by which neighbours find each
// other (ARP, ICMPv6 133 to 137): all but that of mem are.
type Screener interface {
	// Screen leaves the frames of neighbours out of every count from now on. It keeps all
	// other foreign ones from the stack, as Sink does, where the meter is a Sinker.
	Screen() error
}

// A Hasher is a meter that can hash what arrives: those of packet and mem are, and
// of afxdp on a port with one queue, which then keeps all frames from the stack, and
// hashes all, but those of ARP and neighbour discovery; others leave
// MeterReport.Hash empty.
type Hasher interface {
	// Hash puts the Digest of all frames into the reports from the next Arm on, or
	// no longer. It is that of what was sent where the port neither merges frames
	// (GRO) nor spreads them over several queues, and nobody else sends to it.
	Hash(on bool)
}

// A PlainCounter is a meter that can count without looking into frames: that of packet is.
type PlainCounter interface {
	// CountUDP counts frames of UDP alone, told by the kernel's filter, all as foreign,
	// from now on. It cannot be taken back.
	CountUDP() error
}

// A Digest is SHA-256 over frames in their order: of each its length, as 4 octets
// in network byte order, and its octets without FCS.
type Digest struct{ h hash.Hash }

// NewDigest is the digest of no frames yet.
func NewDigest() *Digest { return &Digest{sha256.New()} }

// DigestBy is NewDigest by another hash.
func DigestBy(h hash.Hash) *Digest { return &Digest{h} }

// Add appends a frame. It keeps nothing of buf.
func (d *Digest) Add(buf []byte) {
	var length [4]byte
	binary.BigEndian.PutUint32(length[:], uint32(len(buf)))
	d.h.Write(length[:])
	d.h.Write(buf)
}

// Sum is the digest of the frames so far, in hexadecimal; more may follow.
func (d *Digest) Sum() string { return hex.EncodeToString(d.h.Sum(nil)) }
