// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"boxdyno/result"
)

// A Power is one thing that a box can do, in a sentence with its numbers.
type Power struct {
	Name string `json:"name"` // "Ciphers"
	Text string `json:"text"`
}

// A Skip is why points could not be measured, and which.
type Skip struct {
	Reason string   `json:"reason"` // with the remedy
	Points []string `json:"points"`
}

// A boxed is what a box can do, told row by row: the sentence that stands first, and one
// for each of its powers.
type boxed struct {
	rows   []Row
	powers []Power
	first  []string // of the sentence that stands first
}

// powersOf are what a run of several kinds of work says of its box, in the order computing,
// hashing and what else works on CPUs, ciphers, streams, tunnels, storage; none where the
// run is of one kind, nothing was measured, or other things were, too.
func powersOf(rows []Row) (powers []Power, sentence string) {
	b := &boxed{rows: rows}
	kinds := map[string]bool{}
	for _, r := range rows {
		switch {
		case r.Work != nil:
			kinds["work"] = true
		case r.Crypto != nil:
			kinds[cryptoProcedure] = true
		case r.Tunnel != nil:
			kinds["tunnel"] = true
		case r.Storage != nil:
			kinds[storageProcedure] = true
		default:
			return nil, ""
		}
	}
	if len(kinds) < 2 {
		return nil, ""
	}
	for _, t := range workTables {
		b.work(t)
	}
	b.ciphers()
	b.schemes()
	b.streams()
	b.tunnels()
	b.disks()
	if len(b.powers) == 0 || len(b.first) == 0 {
		return nil, ""
	}
	last := len(b.first) - 1
	sentence = "This box " + b.first[last]
	if last > 0 {
		sentence = "This box " + strings.Join(b.first[:last], ", ") + " and " + b.first[last]
	}
	return b.powers, sentence + "."
}

func (b *boxed) say(name, text string) { b.powers = append(b.powers, Power{name, text + "."}) }

// wellKnown are figures that stand first, in words.
var wellKnown = []string{"DMIPS"}

// work is a procedure's programs on one CPU, and how many times as much all CPUs do.
func (b *boxed) work(t workTable) {
	type pair struct {
		program, id, what, suffix string
		one, all                  *Figure
	}
	var pairs []*pair
	var told []string
	for _, r := range b.rows {
		w := r.Work
		if w == nil || w.Procedure != t.procedure || len(w.Figures) == 0 {
			continue
		}
		f := w.Figures[0]
		for _, g := range w.Figures { // what is known by its own name says more than a rate
			if g.Metric == "dmips" {
				f = g
			}
		}
		i := slices.IndexFunc(pairs, func(p *pair) bool { return p.id == w.Program })
		if i < 0 {
			i = len(pairs)
			program, _, _ := strings.Cut(w.Program, ", size ")
			pairs = append(pairs, &pair{program: program, id: w.Program, what: f.What, suffix: f.suffix()})
		}
		switch w.CPUs {
		case parallelWords("1"):
			pairs[i].one = new(f.Figure)
		case parallelWords("all"):
			pairs[i].all = new(f.Figure)
		}
	}
	slices.SortStableFunc(pairs, func(a, b *pair) int { return cmp.Compare(index(wellKnown, a.what), index(wellKnown, b.what)) })
	for _, p := range pairs {
		switch {
		case p.one != nil && p.all != nil && p.one.Value > 0:
			told = append(told, fmt.Sprintf("%s: %s %s on one CPU, %s on all (%.3g times)", p.program, p.one.si(p.suffix), p.what, p.all.si(p.suffix), p.all.Value/p.one.Value))
		case p.one != nil:
			told = append(told, fmt.Sprintf("%s: %s %s on one CPU", p.program, p.one.si(p.suffix), p.what))
		case p.all != nil:
			told = append(told, fmt.Sprintf("%s: %s %s on all CPUs", p.program, p.all.si(p.suffix), p.what))
		}
	}
	if len(told) == 0 {
		return
	}
	const most = 3 // the table has them all
	b.say(cmp.Or(powerNames[t.procedure], t.procedure), strings.Join(told[:min(len(told), most)], "; "))
	if p := pairs[0]; len(b.first) == 0 { // computing, or the first that there is
		f, on := p.all, "all CPUs"
		if f == nil {
			f, on = p.one, "one CPU"
		}
		of := ""
		if !slices.Contains(wellKnown, p.what) {
			of = " with " + p.program
		}
		b.first = append(b.first, fmt.Sprintf("does %s %s%s on %s", f.si(p.suffix), p.what, of, on))
	}
}

// ciphers are each cipher on the path that encrypts fastest with one stream, or with all
// where nothing was measured with one.
func (b *boxed) ciphers() {
	var told []string
	var best *Crypto // all rows'
	for _, parallel := range []string{"1", "all"} {
		fastest := map[string]*Crypto{}
		var order []string
		for _, r := range b.rows {
			c := r.Crypto
			if c == nil || c.Encrypt == nil || c.Parallel != parallel {
				continue
			}
			if fastest[c.Cipher] == nil {
				order = append(order, c.Cipher)
			}
			if f := fastest[c.Cipher]; f == nil || c.Encrypt.Value > f.Encrypt.Value {
				fastest[c.Cipher] = c
			}
			if best == nil || c.Encrypt.Value > best.Encrypt.Value {
				best = c
			}
		}
		if len(told) > 0 {
			continue
		}
		for _, cipher := range order {
			c := fastest[cipher]
			told = append(told, fmt.Sprintf("%s at %s MiB/s (%s)", cipher, mebi(c.Encrypt), c.Path))
		}
		if len(told) > 0 && parallel == "1" {
			told[0] = "encrypted with one stream: " + told[0]
		}
	}
	if best == nil {
		return
	}
	text := strings.Join(told, ", ")
	if best.Parallel != "1" {
		text += fmt.Sprintf("; the fastest of all, on all CPUs: %s at %s MiB/s (%s)", best.Cipher, mebi(best.Encrypt), best.Path)
	}
	b.say("Ciphers", text)
	b.first = append(b.first, fmt.Sprintf("encrypts %s with %s", best.Encrypt.si("B/s"), best.Cipher))
}

// schemes are what signs and agrees on keys.
func (b *boxed) schemes() {
	var told []string
	for _, r := range b.rows {
		c := r.Crypto
		if c == nil || c.Parallel != "1" {
			continue
		}
		switch {
		case c.Sign != nil:
			told = append(told, fmt.Sprintf("%s signs %s", c.Cipher, c.Sign.si("/s")))
		case c.Agree != nil:
			told = append(told, fmt.Sprintf("%s agrees on %s", c.Cipher, c.Agree.si("/s")))
		case c.Encapsulate != nil:
			told = append(told, fmt.Sprintf("%s encapsulates %s", c.Cipher, c.Encapsulate.si("/s")))
		}
	}
	if len(told) > 0 {
		b.say("Handshakes", "on one CPU "+strings.Join(told, ", "))
	}
}

func (b *boxed) streams() {
	var told []string
	var best *Figure
	for _, r := range b.rows {
		if t := r.Tunnel; r.Procedure == streamProcedure && t.Goodput != nil {
			told = append(told, fmt.Sprintf("%s %s with offloads %s", strings.ToUpper(t.Protocol), t.Goodput.si("bit/s"), t.Offloads))
			if t.Protocol == "tcp" && (best == nil || t.Goodput.Value > best.Value) {
				best = t.Goodput
			}
		}
	}
	if len(told) > 0 {
		b.say("Streams", "between two namespaces of this machine "+strings.Join(told, ", "))
	}
	if best != nil {
		b.first = append(b.first, "carries "+best.si("bit/s")+" of TCP between two namespaces")
	}
}

func (b *boxed) tunnels() {
	var told []string
	var best *Tunnel
	for _, r := range b.rows {
		t := r.Tunnel
		if r.Procedure != vpnProcedure || t.Goodput == nil || t.Tunnel == "none" {
			continue
		}
		text := t.Tunnel
		if t.Cipher != "" {
			text += " with " + t.Cipher
		}
		text += " " + t.Goodput.si("bit/s")
		if t.Share != nil {
			text += " (" + t.Share.share() + " of the cable's)"
		}
		told = append(told, text)
		if best == nil || t.Goodput.Value > best.Goodput.Value {
			best = t
		}
	}
	if best == nil {
		return
	}
	b.say("Tunnels", "TCP through "+strings.Join(told, ", "))
	b.first = append(b.first, "brings "+best.Goodput.si("bit/s")+" through "+best.Tunnel)
}

func (b *boxed) disks() {
	var told []string
	var best *Figure
	for _, r := range b.rows {
		if r.Storage == nil {
			continue
		}
		s := r.Storage.summary()
		if s == "" {
			continue
		}
		told = append(told, r.Storage.what()+": "+s)
		if x := r.Storage.pattern("write"); x != nil && (best == nil || x.LUKS2.Value > best.Value) {
			best = x.LUKS2
		}
	}
	if best != nil {
		b.first = append(b.first, "writes "+best.si("B/s")+" to a disk through dm-crypt")
	}
	if len(told) > 0 {
		b.say("Storage", strings.Join(told, "; "))
	}
}

// skips gathers the rows that were skipped by their reasons, in order of appearance.
func skips(rows []Row) (out []Skip) {
	for _, r := range rows {
		if r.Verdict != result.Skipped {
			continue
		}
		i := slices.IndexFunc(out, func(s Skip) bool { return s.Reason == r.Reason })
		if i < 0 {
			i = len(out)
			out = append(out, Skip{Reason: r.Reason})
		}
		out[i].Points = append(out[i].Points, r.Name)
	}
	return out
}
