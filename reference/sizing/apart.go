// SPDX-License-Identifier: Apache-2.0

package sizing

import (
	"cmp"
	"slices"
	"strconv"

	"boxdyno/result"
)

// An Apart is a fleet's power in a point, in W, told apart. A board is in it once, whether a
// meter of its own sees it, one of a shelf, or both.
type Apart struct {
	N      int     // boards that served
	Boards float64 // of them
	Idle   float64 // of boards that idled at the same meters
	IdleN  int
	Shared float64 // of shared parts: by a meter at them, else as stated
	// Before is what the N took before the run, and SharedBefore the shared parts; nil: the
	// meters were not read then.
	Before       *float64
	SharedBefore float64
	Meters       []string // by which the boards' is known
	Covers       string   // what the first of them does
	Energy       []result.Energy
}

// TellApart is a point's power by those of its energies that are of one work; served are the
// boards of the point. why says what is missing; both are empty where there was no meter.
func TellApart(r result.Run, p result.Record) (a Apart, why string) {
	n, err := strconv.Atoi(result.Get(p.Config, "nodes"))
	if err != nil || n < 1 || r.Topology != Fleet {
		return a, ""
	}
	idle := idleOf(r)
	var c Candidate
	c.shared(r, idle, []int{n}, map[int]measurement{n: {of: p}})
	a, f := tell(r, p, n, c.Shared, idle)
	if f != nil {
		return Apart{}, f.Source + ": " + f.Said
	}
	return a, ""
}

// A view is what a meter sees in a point.
type view struct {
	result.Energy
	idle   *result.Energy // before the run
	serves []string       // names of boards; of the one meter of all by number alone
	idles  []string
	parts  []Part
}

// power that the meter saw of its parts while boards worked, and before the run.
func (v view) shared(n int) (loaded, idle float64) {
	for _, p := range v.parts {
		loaded, idle = loaded+p.loaded(n), idle+p.idle()
	}
	return loaded, idle
}

// tell tells the power of a point of n boards apart:
//
//	meter before the run  = its boards, idle            + its parts, idle
//	meter while they work = its boards that serve + its boards that idle + its parts, loaded
//
// Of several meters those count that see each board which serves once, and as little else as
// can be: what else they see is an estimate, unless a board that idles has a meter of its own.
func tell(r result.Run, p result.Record, n int, parts []Part, idle []result.Energy) (a Apart, why *Figure) {
	views := viewsOf(r, p, n, parts, idle)
	chosen := cover(views, n)
	if len(views) > 0 && len(chosen) == 0 {
		return a, &Figure{What: "watts", Text: "not known", Source: "meters of this run", Said: "not all boards that served have one, or are seen by one of all"}
	}
	a.N = n
	before, known := 0., true
	for _, v := range chosen {
		bad := func(said string) (Apart, *Figure) {
			return Apart{}, &Figure{What: "watts", Text: "not known", Source: v.Meter, Said: said}
		}
		loaded, idled := v.shared(n)
		watts, each := v.Watts()-loaded, 0.
		boards := len(v.serves) + len(v.idles)
		if v.idle != nil {
			each = (v.idle.Watts() - idled) / float64(boards)
			if each < 0 && len(v.idles) > 0 {
				return bad("it read less of idle boards and shared parts than is stated of the parts")
			}
		}
		for _, name := range v.idles {
			w := each
			if own := slices.IndexFunc(views, func(o view) bool { return o.Of == name && name != "" }); own >= 0 {
				w = views[own].Watts()
			} else if v.idle == nil {
				return bad("it sees boards that idled, and their power was not measured before the run")
			}
			watts, a.Idle, a.IdleN = watts-w, a.Idle+w, a.IdleN+1
		}
		if !(watts > 0) {
			return bad("it read less than is stated of shared parts and idle boards")
		}
		before, known = before+each*float64(len(v.serves)), known && v.idle != nil && each >= 0
		a.Boards, a.Meters, a.Covers = a.Boards+watts, append(a.Meters, v.Meter), cmp.Or(a.Covers, v.Covers)
		a.Energy = append(a.Energy, v.Energy)
	}
	if known && len(chosen) > 0 {
		a.Before = &before
	}
	for _, s := range parts {
		a.Shared, a.SharedBefore = a.Shared+s.loaded(n), a.SharedBefore+s.idle()
	}
	return a, nil
}

// viewsOf are the meters that see boards, the widest first.
func viewsOf(r result.Run, p result.Record, n int, parts []Part, idle []result.Energy) (out []view) {
	var boards []string
	for _, b := range p.Boards {
		boards = append(boards, b.Name)
	}
	for len(boards) < n { // of a record that does not name them
		boards = append(boards, "")
	}
	metered, err := strconv.Atoi(environment(r, result.MeteredKey))
	if err != nil {
		metered = n // in runs of versions before: the boards that serve
	}
	var others []string // that were selected, and did not serve
	for _, m := range r.Machines {
		if !slices.Contains(boards, m.Name) && !slices.Contains(others, m.Name) {
			others = append(others, m.Name)
		}
	}
	declared := r.Shared()
	for _, e := range p.Energy {
		v := view{Energy: e}
		if i := slices.IndexFunc(idle, func(i result.Energy) bool { return i.Meter == e.Meter }); i >= 0 {
			v.idle = &idle[i]
		}
		if e.Tester || !(e.Seconds > 0 && e.Joules > 0) || slices.ContainsFunc(parts, func(s Part) bool { return s.stands(e) }) ||
			slices.ContainsFunc(out, func(o view) bool { return o.Meter == e.Meter }) {
			continue
		}
		for _, s := range parts {
			if e.SeesPart(s.Part) {
				v.parts = append(v.parts, s)
			}
		}
		if e.Of == "" {
			v.serves, v.idles = boards[:n], others
			if len(others) != max(metered-n, 0) { // it sees others than were selected
				v.idles = make([]string, max(metered-n, 0))
			}
			out = append(out, v)
			continue
		}
		for _, b := range boards {
			if e.Sees(b) {
				v.serves = append(v.serves, b)
			}
		}
		for _, name := range e.Names(r) {
			if !slices.Contains(boards, name) && !slices.ContainsFunc(declared, func(q result.Part) bool { return q.Name == name }) {
				v.idles = append(v.idles, name)
			}
		}
		out = append(out, v)
	}
	order := []string{"wall", "board", "command", "line", "platform"}
	rank := func(v view) int { return slices.Index(order, v.Covers) }
	out = slices.DeleteFunc(out, func(v view) bool { return rank(v) < 0 })
	slices.SortStableFunc(out, func(a, b view) int { return cmp.Compare(rank(a), rank(b)) })
	return out
}

// cover chooses meters that see each of the n boards that serve once: one of all, or several
// that have no board in common, whichever sees less beside them.
func cover(views []view, n int) (chosen []view) {
	beside := func(vs []view) (k int) {
		for _, v := range vs {
			k += len(v.idles) + len(v.parts)
		}
		return k
	}
	best := -1
	for _, v := range views {
		if k := beside([]view{v}); len(v.serves) == n && (best < 0 || k < best) {
			best, chosen = k, []view{v}
		}
	}
	narrow := slices.Clone(views)
	slices.SortStableFunc(narrow, func(a, b view) int {
		return cmp.Compare(beside([]view{a}), beside([]view{b}))
	})
	var several []view
	var seen []string
	for _, v := range narrow {
		if v.Of == "" || len(v.serves) == 0 || slices.ContainsFunc(v.serves, func(b string) bool { return slices.Contains(seen, b) }) ||
			slices.ContainsFunc(several, func(o view) bool {
				return overlap(o.idles, v.idles) || overlap(o.idles, v.serves) || overlap(o.serves, v.idles)
			}) {
			continue
		}
		several, seen = append(several, v), append(seen, v.serves...)
	}
	if len(seen) == n && (best < 0 || beside(several) < best) {
		return several
	}
	return chosen
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}
