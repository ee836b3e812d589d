// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"maps"
	"slices"
	"strings"

	"boxdyno/result"
)

// A scope is whose counter a term is.
type scope int

const (
	ofPort scope = iota
	ofHost
	ofMachine
)

// A term is a counter and the term that its growth makes.
type term struct {
	result.Term
	scope   scope
	at      int // index of the port or host
	counter string
	passed  bool
	always  bool
	bits    int
	handed  bool
	unless  string
	lacking string
	order   int    // of checkpoints along the path
	common  bool   // a checkpoint that packets of other ports pass, too
	driver  string // of the port; "": it is none's
}

// portTerms are the terms of port at, which sends to or receives from the hop
// far (nil: unknown).
func portTerms(at int, d driver, dir direction, h Hop, far *Hop) (terms []term) {
	common := slices.DeleteFunc(slices.Clone(everyPort), func(m meaning) bool { return d.skips(m.counter) })
	for _, m := range slices.Concat(d.meanings, common) {
		if m.dir != dir || m.at != "" && m.at != h.Place {
			continue
		}
		t := term{scope: ofPort, at: at, counter: m.counter, passed: m.passed, always: m.always, bits: m.bits, unless: m.unless, lacking: m.lacking, driver: d.name,
			handed: m.handed && h.Place == result.MeterAt}
		t.Term = result.Term{Place: m.place, Host: h.Host.Label, Name: m.name, Link: h.Port.Name,
			From: h.Port.Name + " " + strings.TrimPrefix(m.counter, driversOwn)}
		if t.Place == "" {
			t.Place = h.Place
		}
		if m.far != "" && far != nil {
			t.Host, t.Link = far.Port.Host, far.Port.Name
			if far.Host != nil {
				t.Host = far.Host.Label
			}
			if far.Place == result.MeterAt {
				t.Place, t.Name = result.MeterAt, m.far
			}
		}
		if name, ok := h.Names[m.counter]; ok {
			t.Name = name
		}
		t.order = 2 * rank(t.Place)
		if dir == sends && t.Place == result.DUTNIC {
			t.order = 2*rank(result.Qdisc) + 1
		}
		terms = append(terms, t)
	}
	return terms
}

// AllNamespaces follows the name of a machine's counter: frames of other namespaces may be
// among its own.
const AllNamespaces = ", of all namespaces"

// stackTerms are the terms of the DUT's namespace at, and with the first those
// of the machine. A port's peer counts the backlog's drops: own says that of a port of this
// namespace, any of one in some namespace.
func stackTerms(at int, label string, in sharing, own, any bool) (terms []term) {
	for _, m := range stack {
		if m.where != anywhere && m.where != in {
			continue
		}
		t := term{scope: ofHost, at: at, counter: m.counter, passed: m.passed, bits: m.bits, order: 2 * rank(m.place), common: m.passed && in == shared}
		t.Term = result.Term{Place: m.place, Host: label, Name: m.name, From: m.counter}
		counted := own
		if m.machine {
			counted = any
			t.scope, t.From = ofMachine, m.counter+AllNamespaces
		}
		if m.machine && at > 0 || counted && m.place == result.Softnet {
			continue
		}
		terms = append(terms, t)
	}
	return terms
}

// once leaves every counter in once, and out those that another one of the same
// port includes.
func once(terms []term) (kept []term) {
	type key struct {
		scope   scope
		at      int
		counter string
	}
	seen := map[key]bool{}
	for _, t := range terms {
		k := key{t.scope, t.at, t.counter}
		if !seen[k] {
			kept = append(kept, t)
		}
		seen[k] = true
	}
	return slices.DeleteFunc(kept, func(t term) bool {
		return t.unless != "" && seen[key{t.scope, t.at, t.unless}]
	})
}

// driverCounters are those of want that the driver itself keeps.
func driverCounters(want map[string]bool) (names []string) {
	for name := range want {
		if strings.HasPrefix(name, driversOwn) {
			names = append(names, name)
		}
	}
	return names
}

// inStack says which names are in the stack's table.
var inStack = func() map[string]bool {
	names := map[string]bool{}
	for _, m := range stack {
		names[m.counter] = true
	}
	return names
}()

const nftPrefix = "nft "

func (n nftCounter) key() string { return nftPrefix + n.family + " " + n.table + " " + n.name }

// nftTerms are the named counters of the DUT's nftables: they come and go with
// the rules, so they are found at Close.
func nftTerms(at int, label string, c counters) (terms []term) {
	for _, key := range slices.Sorted(maps.Keys(c)) {
		from, ok := strings.CutPrefix(key, nftPrefix)
		if !ok {
			continue
		}
		name := from[strings.LastIndexByte(from, ' ')+1:]
		what, drop := strings.CutPrefix(name, NFTDrop)
		t := term{scope: ofHost, at: at, counter: key, passed: !drop, order: 2 * rank(result.NFT)}
		t.Term = result.Term{Place: result.NFT, Host: label, From: from}
		t.Name = "nft counter " + name
		if drop {
			t.Name = "nft drop (" + strings.ReplaceAll(what, "_", " ") + ")"
		}
		terms = append(terms, t)
	}
	return terms
}

func rank(p result.Place) int { return slices.Index(result.Places, p) }

// account makes the books of the growth from b.before to after.
func (b *Book) account(after snapshot, e Ends) result.Account {
	a := result.Account{
		Intended: int64(e.Intended), Accepted: int64(e.Accepted), Refused: int64(e.Refused),
		NotSent: int64(e.NotSent), Received: int64(e.Received), Duplicate: int64(e.Duplicate),
	}
	terms := slices.Clone(b.terms)
	for i, h := range b.hosts {
		terms = append(terms, nftTerms(i, h.local.Label, after.hosts[i])...)
	}
	var moved []term
	for _, t := range terms {
		now, ok := after.of(t)[t.counter]
		if !ok || after.of(t).has(t.lacking) {
			continue // this kernel has no such counter, or a better one
		}
		t.N = growth(b.before.of(t)[t.counter], now, t.bits)
		moved = append(moved, t)
	}
	for i, r := range after.remotes {
		moved = append(moved, r.since(b.before.remotes[i])...)
		a.InFlight += int64(r.Queued - b.before.remotes[i].Queued)
	}
	slices.SortStableFunc(moved, func(x, y term) int { return x.order - y.order })
	unhanded := int64(e.Unhanded)
	for _, t := range moved {
		if t.handed { // the meter tells of these itself
			n := max(min(t.N, unhanded), 0)
			t.N, unhanded = t.N-n, unhanded-n
		}
		switch {
		case t.passed && t.N != 0 || t.always && t.N == 0:
			a.Passed = append(a.Passed, t.Term)
		case !t.passed && t.N != 0:
			a.Drops = append(a.Drops, t.Term)
		}
	}
	a.Drops = append(a.Drops, grown(b.before.sources, after.sources)...)
	if e.LocalDrops != 0 {
		a.Drops = append(a.Drops, result.Term{Place: result.MeterAt, Host: b.label, Name: "meter overrun",
			From: "the meter's own count", N: int64(e.LocalDrops)})
	}
	slices.SortStableFunc(a.Drops, func(x, y result.Term) int { return rank(x.Place) - rank(y.Place) })
	for i := range b.ports {
		a.InFlight += growth(b.before.ports[i][queued], after.ports[i][queued], 32)
	}
	a.Unexplained = a.Accepted - a.Received - a.Dropped() - a.InFlight
	a.Unread = append(unreadSince(b.before, after), silentRings(moved, a)...)
	return a
}

// growth of a counter; negative where it was set back. One of 32 bit may wrap
// once in a trial of less than 2^31 events. One of 16 bit is not set back by
// anybody, so that it may wrap once in a trial of less than 2^16.
func growth(before, after uint64, bits int) int64 {
	switch bits {
	case 16:
		return int64(uint16(after) - uint16(before))
	case 32:
		return int64(int32(uint32(after) - uint32(before)))
	}
	return int64(after - before)
}

// grown is the growth of the further sources' terms, N != 0 only.
func grown(before, after []result.Term) (terms []result.Term) {
	old := map[result.Term]int64{}
	for _, t := range before {
		n := t.N
		t.N = 0
		old[t] += n
	}
	for _, t := range after {
		k := t
		k.N = 0
		t.N -= old[k]
		delete(old, k)
		if t.N != 0 {
			terms = append(terms, t)
		}
	}
	return terms
}

func (s snapshot) of(t term) counters {
	switch t.scope {
	case ofPort:
		return s.ports[t.at]
	case ofHost:
		return s.hosts[t.at]
	}
	return s.machine
}

func (s snapshot) equal(o snapshot) bool {
	same := func(a, b counters) bool { return maps.Equal(a, b) }
	return maps.Equal(s.machine, o.machine) && slices.Equal(s.sources, o.sources) && slices.EqualFunc(s.hosts, o.hosts, same) && slices.EqualFunc(s.ports, o.ports, same) &&
		slices.EqualFunc(s.remotes, o.remotes, sameReading)
}
