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

// orderConnections puts rates before what is held, and small responses first.
func orderConnections(a, b *Connections) int {
	if a == nil || b == nil {
		return 0
	}
	return cmp.Or(-cmp.Compare(a.Mode, b.Mode), cmp.Compare(a.ResponseSize, b.ResponseSize), cmp.Compare(a.Rate, b.Rate))
}

// concurrent says whether connections were held open at once.
func (c *Connections) concurrent() bool { return c.Mode == "concurrent" }

// connectionsOf is nil for rows of other procedures.
func connectionsOf(p result.Record, trials []result.Record, at func(metric string) *Figure) *Connections {
	if p.Procedure != connectionsProcedure {
		return nil
	}
	c := &Connections{
		Mode: result.Get(p.Config, "mode"),
		Gave: gave(trials),
	}
	fill(c, at)
	c.ResponseSize, _ = strconv.Atoi(result.Get(p.Config, "response_size"))
	c.Rate, _ = strconv.Atoi(result.Get(p.Config, "rate"))
	return c
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

// summary is the row in a sentence's second half.
func (c *Connections) summary() string {
	var parts []string
	switch {
	case c.concurrent() && c.Held != nil && c.Opened != nil:
		parts = append(parts, fmt.Sprintf("%s of %s connections open at once", phrase.Thousands(int64(c.Held.Value)), phrase.Thousands(int64(c.Opened.Value))))
	case c.Found != nil:
		parts = append(parts, perSecond(c.Found)+" without a failed one")
	case c.Overload == nil && c.Complete != nil && c.Offered != nil: // at the rate given
		parts = append(parts, fmt.Sprintf("%s complete, %s offered", perSecond(c.Complete), c.Offered.si("")))
		if c.Failed != nil && c.Opened != nil {
			parts = append(parts, fmt.Sprintf("%s of %s failed", phrase.Thousands(int64(c.Failed.Value)), phrase.Thousands(int64(c.Opened.Value))))
		}
	}
	if c.Overload != nil {
		s := c.Overload.si("") + " completed under overload"
		if c.Found == nil {
			s = perSecond(c.Overload) + " completed under overload"
		}
		parts = append(parts, s)
	}
	if len(parts) == 0 {
		return ""
	}
	text := strings.Join(parts, ", ")
	if len(c.Gave) > 0 {
		text += "; " + strings.Join(c.Gave, "; ")
	}
	return text
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
