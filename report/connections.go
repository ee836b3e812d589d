// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"boxdyno/report/internal/phrase"
	"boxdyno/result"
	"boxdyno/unit"
)

// order puts rates before what is held, and small responses first.
func (*Connections) order(x, y *Row) int {
	a, b := both[*Connections](x, y)
	return cmp.Or(-cmp.Compare(a.Mode, b.Mode), cmp.Compare(a.ResponseSize, b.ResponseSize), cmp.Compare(a.Rate, b.Rate))
}

// concurrent says whether connections were held open at once.
func (c *Connections) concurrent() bool { return c.Mode == "concurrent" }

func connectionsOf(m *measured) Block {
	c := set[Connections](m)
	c.Gave = gave(m.own())
	return c
}

func (c *Connections) name(_ *Row, words []string) []string {
	if c.concurrent() {
		words[0] += " at once"
	}
	words = append(words, "response "+phrase.FrameSize(strconv.Itoa(c.ResponseSize)))
	if c.Rate > 0 {
		words = append(words, "at "+phrase.SI(new(float64(c.Rate)), "")+" connections/s")
	}
	return words
}

// gave is what the box's counters say of the valid trials in which connections
// failed: of its connection table, or else where most frames ended.
func gave(trials []result.Record) (out []string) {
	var full, unplaced, evicted bool
	var drops []result.Term
	for _, t := range trials {
		count := func(metric string) float64 {
			if v := t.Value(metric); v != nil {
				return v.Value
			}
			return 0
		}
		if !Fit(t) || count(failedCount) == 0 {
			continue
		}
		full = full || count(tableRefused) > count(tableFull) && count(tableEntries) >= count(tableMost)
		unplaced = unplaced || count(tableFull) > 0
		evicted = evicted || count(tableEvicted) > 0
		if t.Account == nil {
			continue
		}
		for _, d := range t.Account.Drops {
			i := slices.IndexFunc(drops, func(o result.Term) bool { return o.Place == d.Place && o.Name == d.Name })
			if i < 0 {
				drops = append(drops, result.Term{Place: d.Place, Name: d.Name, N: d.N})
			} else {
				drops[i].N += d.N
			}
		}
	}
	if full {
		out = append(out, "the connection table was full")
	}
	if unplaced {
		out = append(out, "connections found no place in the connection table")
	}
	if evicted {
		out = append(out, "connections were evicted from the connection table for others")
	}
	if len(out) > 0 || len(drops) == 0 {
		return out
	}
	most := slices.MaxFunc(drops, func(a, b result.Term) int { return int(a.N - b.N) })
	return []string{fmt.Sprintf("most lost frames ended at %s (%s)", most.Place, most.Name)}
}

// perSecond is a rate of connections: ">= 144 k connections/s".
func perSecond(f *Figure) string { return f.si("") + " connections/s" }

func (c *Connections) summary(r *Row) (name, text string, whole bool) {
	var parts []string
	found, overload, offered, complete := r.at(connectionRate), r.at(connectionMost), r.at(attemptRate), r.at(completeRate)
	held, opened, failed := r.at(heldCount), r.at(openedCount), r.at(failedCount)
	switch {
	case c.concurrent() && held != nil && opened != nil:
		parts = append(parts, fmt.Sprintf("%s of %s connections open at once", phrase.Thousands(int64(held.Value)), phrase.Thousands(int64(opened.Value))))
	case found != nil:
		parts = append(parts, perSecond(found)+" without a failed one")
	case overload == nil && complete != nil && offered != nil: // at the rate given
		parts = append(parts, fmt.Sprintf("%s complete, %s offered", perSecond(complete), offered.si("")))
		if failed != nil && opened != nil {
			parts = append(parts, fmt.Sprintf("%s of %s failed", phrase.Thousands(int64(failed.Value)), phrase.Thousands(int64(opened.Value))))
		}
	}
	if overload != nil {
		s := overload.si("") + " completed under overload"
		if found == nil {
			s = perSecond(overload) + " completed under overload"
		}
		parts = append(parts, s)
	}
	if text = strings.Join(parts, ", "); text != "" && len(c.Gave) > 0 {
		text += "; " + strings.Join(c.Gave, "; ")
	}
	return "TCP, " + serviceName(*r), text, true
}

// Ceiling is what the tester can offer, with its unit; "" where it is not known.
func (s SelfTest) Ceiling() string {
	switch {
	case s.CeilingCPS != nil:
		return phrase.SI(s.CeilingCPS, "") + " connections/s"
	case s.CeilingFPS != nil:
		return phrase.Quantity(*s.CeilingFPS, unit.Symbol("frame/s"), "")
	}
	return ""
}
