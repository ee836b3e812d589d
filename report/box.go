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
		if r.kind().power == 0 {
			return nil, ""
		}
		kinds[r.of.key] = true
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
	for _, w := range blocksOf[*Work](b.rows) {
		if w.Procedure != t.procedure || len(w.Figures) == 0 {
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
	var best *Row // of all
	for _, parallel := range []string{"1", "all"} {
		fastest := map[string]*Row{}
		var order []string
		for r, c := range blocksOf[*Crypto](b.rows) {
			rate := r.at(encryptRate)
			if rate == nil || c.Parallel != parallel {
				continue
			}
			if fastest[c.Cipher] == nil {
				order = append(order, c.Cipher)
			}
			if f := fastest[c.Cipher]; f == nil || rate.Value > f.at(encryptRate).Value {
				fastest[c.Cipher] = r
			}
			if best == nil || rate.Value > best.at(encryptRate).Value {
				best = r
			}
		}
		if len(told) > 0 {
			continue
		}
		for _, cipher := range order {
			told = append(told, encrypting(fastest[cipher]))
		}
		if len(told) > 0 && parallel == "1" {
			told[0] = "encrypted with one stream: " + told[0]
		}
	}
	if best == nil {
		return
	}
	text := strings.Join(told, ", ")
	c := blockOf[*Crypto](best)
	if c.Parallel != "1" {
		text += "; the fastest of all, on all CPUs: " + encrypting(best)
	}
	b.say("Ciphers", text)
	b.first = append(b.first, fmt.Sprintf("encrypts %s with %s", best.at(encryptRate).si("B/s"), c.Cipher))
}

func encrypting(r *Row) string {
	c := blockOf[*Crypto](r)
	return fmt.Sprintf("%s at %s MiB/s (%s)", c.Cipher, mebi(r.at(encryptRate)), c.Path)
}

// schemes are what signs and agrees on keys.
func (b *boxed) schemes() {
	var told []string
	for r, c := range blocksOf[*Crypto](b.rows) {
		if c.Parallel != "1" {
			continue
		}
		for _, does := range handshakeWords {
			if f := r.at(does.Key); f != nil {
				told = append(told, c.Cipher+" "+does.Value+" "+f.si("/s"))
				break
			}
		}
	}
	if len(told) > 0 {
		b.say("Handshakes", "on one CPU "+strings.Join(told, ", "))
	}
}

func (b *boxed) streams() {
	var told []string
	var best *Figure
	for r, t := range blocksOf[*Tunnel](b.rows) {
		if rate := r.at(goodput); r.Procedure == streamProcedure && rate != nil {
			told = append(told, fmt.Sprintf("%s %s with offloads %s", strings.ToUpper(t.Protocol), rate.si("bit/s"), t.Offloads))
			if t.Protocol == "tcp" && (best == nil || rate.Value > best.Value) {
				best = rate
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
	var best *Figure
	var through string
	for r, t := range blocksOf[*Tunnel](b.rows) {
		rate := r.at(goodput)
		if r.Procedure != vpnProcedure || rate == nil || t.Tunnel == "none" {
			continue
		}
		text := t.Tunnel
		if t.Cipher != "" {
			text += " with " + t.Cipher
		}
		text += " " + rate.si("bit/s")
		if share := r.at(goodputShare); share != nil {
			text += " (" + share.share() + " of the cable's)"
		}
		told = append(told, text)
		if best == nil || rate.Value > best.Value {
			best, through = rate, t.Tunnel
		}
	}
	if best == nil {
		return
	}
	b.say("Tunnels", "TCP through "+strings.Join(told, ", "))
	b.first = append(b.first, "brings "+best.si("bit/s")+" through "+through)
}

func (b *boxed) disks() {
	var told []string
	var best *Figure
	for _, disk := range blocksOf[*Storage](b.rows) {
		if disk.text() == "" {
			continue
		}
		told = append(told, disk.what()+": "+disk.text())
		if x := disk.pattern("write"); x != nil && (best == nil || x.LUKS2.Value > best.Value) {
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
