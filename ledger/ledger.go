// SPDX-License-Identifier: Apache-2.0

// Package ledger closes the books of a trial: places along paths, the counters
// at each, what they mean by driver, the equations.
package ledger

import (
	"context"

	"boxdyno/host"
	"boxdyno/result"
)

// A Hop is one link end on a path.
type Hop struct {
	Place result.Place // Tester, DUTNIC (port of the DUT) or MeterAt
	Host  *host.Local  // nil: a black box, without counters
	Port  host.Port
}

// A Path is the hops from a transmitter to a meter, in a frame's order: tester
// port, DUT ingress, DUT egress, meter port. The topology fills it in, because
// only it knows the wiring.
type Path struct {
	Name string // "lan-to-wan"
	Hops []Hop
}

// A Source adds counters that are no kernel's: a BPF program's, a subject's own,
// the memory wire's. Names and values are cumulative; their growth is the term.
type Source interface {
	Count(ctx context.Context) ([]result.Term, error)
}

// Ends is what tester and meter say of the whole trial, all streams together.
type Ends struct{ Intended, Accepted, Refused, NotSent, Received, LocalDrops uint64 }

// A Book is the open account of one trial.
type Book struct{}

// Open snapshots every counter on paths, those of a whole host once.
func Open(ctx context.Context, paths []Path, more ...Source) (*Book, error) { return nil, nil }

// Close waits until the counters stand still (two equal reads 20 ms apart, at
// most 2 s, at least settle), then asks for the ends and closes the books: a meter read earlier
// would miss what was still under way.
func (b *Book) Close(ctx context.Context, ends func(context.Context) (Ends, error)) (result.Account, error) {
	return result.Account{}, nil
}
