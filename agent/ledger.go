// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"sync"

	"boxdyno/host"
	"boxdyno/ledger"
	"boxdyno/result"
)

// LedgerArgs are the paths of a ledger. Bare: without the witness of dropped frames.
type LedgerArgs struct {
	Paths []Path `json:"paths"`
	Bare  bool   `json:"bare,omitempty"`
}

// A Path is a ledger.Path as it is sent.
type Path struct {
	Name string `json:"name"`
	Hops []Hop  `json:"hops"`
}

// A Hop is a ledger.Hop as it is sent.
type Hop struct {
	Place result.Place `json:"place"`
	Host  string       `json:"host"`
	Port  string       `json:"port"`
	Mine  bool         `json:"mine"` // it stands on this machine
}

// LedgerReading is every counter of a ledger at one instant.
type LedgerReading = ledger.Reading

// Label is what places on the box are called.
const Label = "dut"

// A book is read by one call at a time.
type book struct {
	mu sync.Mutex
	*ledger.Book
	closed bool
	forget func() // that it ends with the connection
}

func (b *book) end() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.closed = true
		b.Book.Close()
	}
	return nil
}

// mostBooks is how many ledgers a tester may have open.
const mostBooks = 64

var errNoLedger = errors.New("there is no such ledger")

func (s *Session) openLedger(_ context.Context, a LedgerArgs) (int, error) {
	local := &host.Local{Label: Label}
	var paths []ledger.Path
	for _, p := range a.Paths {
		path := ledger.Path{Name: p.Name}
		for _, h := range p.Hops {
			hop := ledger.Hop{Place: h.Place, Port: host.Port{Host: h.Host, Name: h.Port}}
			if h.Mine {
				hop.Host = local
			}
			path.Hops = append(path.Hops, hop)
		}
		paths = append(paths, path)
	}
	s.mu.Lock()
	full := len(s.books) >= mostBooks
	s.last++
	id := s.last
	if !full {
		s.books[id] = nil // its place
	}
	s.mu.Unlock()
	if full {
		return 0, errors.New("too many ledgers are open")
	}
	open := ledger.Open
	if a.Bare {
		open = ledger.OpenBare
	}
	opened, err := open(paths)
	if err != nil {
		s.mu.Lock()
		delete(s.books, id)
		s.mu.Unlock()
		return 0, host.Permit("read the DUT's counters", err)
	}
	b := &book{Book: opened}
	b.forget = s.atEnd(b.end)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.books[id] = b
	return id, nil
}

func (s *Session) book(id int) *book {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.books[id]
}

func (s *Session) readLedger(ctx context.Context, id int) (LedgerReading, error) {
	b := s.book(id)
	if b == nil {
		return LedgerReading{}, errNoLedger
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return LedgerReading{}, errNoLedger
	}
	r, err := b.Reading(ctx)
	if err == nil {
		err = s.called(&r)
	}
	m := s.managed()
	if err != nil || m == nil {
		return r, err
	}
	drops, err := m.XDPDrops()
	for _, d := range drops {
		r.AddXDP(Label, d.Port, d.N, d.Native)
	}
	return r, err
}

func (s *Session) closeLedger(_ context.Context, id int) (None, error) {
	s.mu.Lock()
	b := s.books[id]
	if b != nil {
		delete(s.books, id)
	}
	s.mu.Unlock()
	if b == nil {
		return None{}, errNoLedger
	}
	b.forget()
	return None{}, b.end()
}
