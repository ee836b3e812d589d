// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"boxdyno/result"
)

// Counters are read on the machine that they are on. A book of another machine
// reads its own with the same dictionary, and hands them over as data:
//
//	there: Book.Reading -> terms with their counters' values   here: Book.read -> growth -> account

// A Tally is one counter of another machine and the term that its growth makes.
type Tally struct {
	Term   result.Term `json:"term"` // N is 0
	Value  uint64      `json:"value"`
	Passed bool        `json:"passed,omitempty"` // a checkpoint, no drop
	Always bool        `json:"always,omitempty"` // a checkpoint that is told even if nothing passed
	Bits   int         `json:"bits,omitempty"`   // of a counter that wraps before 64
	Order  int         `json:"order"`            // along the path, comparable with this machine's: both have one version
	Common bool        `json:"common,omitempty"` // a checkpoint that packets of other ports pass, too: those of this reading itself
	Driver string      `json:"driver,omitempty"` // of the counter's port
}

// A Reading is another machine's counters at one instant.
type Reading struct {
	Tallies []Tally `json:"tallies"`
	Queued  uint64  `json:"queued"`  // frames in its egress queues
	Waiting bool    `json:"waiting"` // for somebody's address

	Unread []result.Unread `json:"unread,omitempty"` // counters that are no term; N is the value
	Links  []Link          `json:"links,omitempty"`
}

// A Remote is a further source that stands on the paths itself: a machine whose
// counters take the places of the hops that have no Host here. Its Count has what is
// no counter of that machine.
type Remote interface {
	Source
	// Open prepares reading the counters on paths; bare leaves the tracepoint out.
	Open(ctx context.Context, paths []Path, bare bool) (RemoteBook, error)
}

// A RemoteBook is the other machine's part of a Book.
type RemoteBook interface {
	Read(ctx context.Context) (Reading, error)
	Close()
}

// Reading is every counter of b as it stands now, for a Book on another machine.
func (b *Book) Reading(ctx context.Context) (Reading, error) {
	waiting, err := b.waiting()
	if err != nil {
		return Reading{}, fmt.Errorf("read the counters: %w", err)
	}
	s, err := b.read(ctx)
	if err != nil {
		return Reading{}, fmt.Errorf("read the counters: %w", err)
	}
	r := Reading{Waiting: waiting}
	terms := slices.Clone(b.terms)
	for i, h := range b.hosts {
		terms = append(terms, nftTerms(i, h.local.Label, s.hosts[i])...)
	}
	for _, t := range terms {
		if v, ok := s.of(t)[t.counter]; ok && !s.of(t).has(t.lacking) {
			r.Tallies = append(r.Tallies, Tally{Term: t.Term, Value: v, Passed: t.passed, Always: t.always, Bits: t.bits, Order: t.order, Common: t.common, Driver: t.driver})
		}
	}
	for i := range b.ports {
		r.Queued += s.ports[i][queued]
	}
	r.Unread, r.Links = s.unread, s.carriers
	return r, nil
}

// AddXDP adds n frames that a program of boxdyno's own has dropped at a port of host. A
// native program runs in the driver, and a driver that counts such drops has them in its
// own count: they leave that one.
func (r *Reading) AddXDP(host, port string, n uint64, native bool) {
	from := "drop-xdp at " + port
	if !native {
		from += ", behind the driver"
	}
	if native {
		r.LessXDP(host, port, n)
	}
	r.Tallies = append(r.Tallies, Tally{Value: n, Order: 2 * rank(result.XDP),
		Term: result.Term{Place: result.XDP, Host: host, Name: XDPDrop, From: from, Link: port}})
}

// since are the terms of a reading, grown from the one before. A counter that is
// new, of a rule that came meanwhile, began at 0.
func (r Reading) since(before Reading) (terms []term) {
	old := map[result.Term]uint64{}
	for _, t := range before.Tallies {
		old[t.Term] = t.Value
	}
	for _, t := range r.Tallies {
		g := term{Term: t.Term, passed: t.Passed, always: t.Always, order: t.Order, driver: t.Driver}
		g.N = growth(old[t.Term], t.Value, t.Bits)
		terms = append(terms, g)
	}
	return terms
}

// openRemotes opens the sources that are other machines.
func (b *Book) openRemotes(ctx context.Context, paths []Path) error {
	for _, m := range b.more {
		r, ok := m.(Remote)
		if !ok {
			continue
		}
		book, err := r.Open(ctx, paths, b.bare)
		if err != nil {
			return err
		}
		b.remotes = append(b.remotes, book)
	}
	return nil
}

// LessXDP takes n frames that a program of boxdyno's own has taken off a port of host, in its
// driver, out of the driver's count of drops, where it has one.
func (r *Reading) LessXDP(host, port string, n uint64) {
	for i := range r.Tallies {
		if t := &r.Tallies[i]; t.Term.Host == host && t.Term.Link == port && strings.HasSuffix(t.Term.Name, XDPDrop) {
			t.Value -= n
		}
	}
}

func sameReading(a, b Reading) bool {
	return a.Queued == b.Queued && slices.EqualFunc(a.Tallies, b.Tallies, func(x, y Tally) bool {
		return x.Common && y.Common && x.Term == y.Term || x == y
	})
}
