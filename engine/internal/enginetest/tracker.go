// SPDX-License-Identifier: Apache-2.0

package enginetest

// PlainTracker is the slow twin: it remembers every number that came.
type PlainTracker struct {
	Next                 uint64
	seen                 map[uint64]bool
	Reordered, Duplicate uint64
}

// Order counts the sequence number n.
func (p *PlainTracker) Order(n uint64) {
	switch {
	case p.seen == nil:
		p.seen = map[uint64]bool{}
		p.Next = n + 1
	case n >= p.Next:
		p.Next = n + 1
	case p.Next-n > 8192:
		p.Reordered++
	case p.seen[n]:
		p.Duplicate++
	default:
		p.Reordered++
	}
	p.seen[n] = true
}
