// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"boxdyno/result"
	"boxdyno/unit"
)

// A Connections is what procedure connections found at a row; a figure that was not
// measured is nil. Rates are in connections/s.
type Connections struct {
	Mode         string `json:"mode"`           // rate, concurrent
	ResponseSize int    `json:"response_size"`  // octets, beside the HTTP header
	Rate         int    `json:"rate,omitempty"` // that was given, connections/s; 0: searched, or the procedure's own

	Found    *Figure `json:"connections_cps,omitempty"`          // highest rate of which none failed; nil where a rate was given
	Overload *Figure `json:"connections_overload_cps,omitempty"` // most that were complete, whatever failed
	Ceiling  *Figure `json:"connections_ceiling_cps,omitempty"`  // of the tester, by its self-test

	Offered      *Figure `json:"connections_offered_cps,omitempty"` // in the trial that all that follows is of
	Complete     *Figure `json:"connections_complete_cps,omitempty"`
	Opened       *Figure `json:"connections_opened,omitempty"`
	Held         *Figure `json:"connections_concurrent,omitempty"` // mode concurrent
	Failed       *Figure `json:"connections_failed,omitempty"`
	HandshakeP50 *Figure `json:"handshake_p50_s,omitempty"` // SYN to SYN-ACK
	HandshakeP99 *Figure `json:"handshake_p99_s,omitempty"`
	OctetP50     *Figure `json:"ttfb_p50_s,omitempty"` // SYN to the response's first octet
	OctetP99     *Figure `json:"ttfb_p99_s,omitempty"`
	OctetMax     *Figure `json:"ttfb_max_s,omitempty"`
	Goodput      *Figure `json:"goodput_bps,omitempty"`
	Entries      *Figure `json:"conntrack_entries,omitempty"` // of the box's connection table
	Most         *Figure `json:"conntrack_most,omitempty"`    // that it takes

	Gave []string `json:"gave,omitempty"` // what the box's counters say of the trials in which connections failed, in clauses
}

const connectionsProcedure = "connections"

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
		if !fit(t) || count("connections_failed") == 0 {
			continue
		}
		full = full || count("conntrack_drop") > count("conntrack_insert_failed") && count("conntrack_entries") >= count("conntrack_most")
		unplaced = unplaced || count("conntrack_insert_failed") > 0
		evicted = evicted || count("conntrack_early_drop") > 0
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
		parts = append(parts, fmt.Sprintf("%s of %s connections open at once", thousands(int64(c.Held.Value)), thousands(int64(c.Opened.Value))))
	case c.Found != nil:
		parts = append(parts, perSecond(c.Found)+" without a failed one")
	case c.Overload == nil && c.Complete != nil && c.Offered != nil: // at the rate given
		parts = append(parts, fmt.Sprintf("%s complete, %s offered", perSecond(c.Complete), c.Offered.si("")))
		if c.Failed != nil && c.Opened != nil {
			parts = append(parts, fmt.Sprintf("%s of %s failed", thousands(int64(c.Failed.Value)), thousands(int64(c.Opened.Value))))
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

// ceiling is what the tester can offer, with its unit; "" where it is not known.
func (s SelfTest) ceiling() string {
	switch {
	case s.CeilingCPS != nil:
		return si(s.CeilingCPS, "") + " connections/s"
	case s.CeilingFPS != nil:
		return quantity(*s.CeilingFPS, unit.Symbol("frame/s"), "")
	}
	return ""
}
