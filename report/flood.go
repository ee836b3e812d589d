// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"boxdyno/report/internal/phrase"
	"boxdyno/result"
)

// floodWords are kinds in a reader's words.
var floodWords = map[string]string{
	"syn": "SYN flood", "ack": "ACK flood", "udp": "UDP flood", "icmp": "ICMP flood", "dns": "DNS amplification", "ntp": "NTP amplification", "fragments": "flood of fragments",
}

// floodOf is nil for rows of other procedures, and where the box itself was flooded.
func floodOf(p result.Record, trials []result.Record, at func(metric string) *Figure) *Flood {
	if p.Procedure != floodProcedure || result.Get(p.Config, "target") == "box" {
		return nil
	}
	f := &Flood{
		Kind: result.Get(p.Config, "kind"), Rate: result.Get(p.Config, "rate"), Benign: result.Get(p.Config, "benign"), Sources: result.Get(p.Config, "sources"),
	}
	fill(f, at)
	if name := result.Get(p.Config, "sensor"); name != "none" {
		f.Sensor = name
	}
	for _, t := range trials {
		if result.Get(t.Config, "trial") == floodProcedure && len(t.KPIs) > 0 {
			f.Phases = t.KPIs
		}
	}
	return f
}

// orderFlood puts kinds in the order of their names, then low rates.
func orderFlood(a, b *Flood) int {
	if a == nil || b == nil {
		return 0
	}
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Sources, b.Sources), cmp.Compare(rateOf(a.Benign), rateOf(b.Benign)), cmp.Compare(rateOf(a.Rate), rateOf(b.Rate)))
}

func (f *Flood) word() string { return cmp.Or(floodWords[f.Kind], f.Kind) }

// how is what tells the row from others.
func (f *Flood) how() []string {
	words := []string{f.word() + " at " + f.Rate}
	switch f.Rate {
	case searched:
		words[0] = f.word()
	case "line":
		words[0] = f.word() + " at line rate"
	}
	if f.Sources == "any" {
		words = append(words, "spoofed")
	}
	if f.Sensor != "" {
		words = append(words, f.Sensor+" listening")
	}
	return append(words, f.Benign+" benign")
}

// survived is a share that says 100 % only where nothing was lost.
func survived(v float64) string {
	for digits := 1; digits < 7; digits++ {
		if s := strconv.FormatFloat(v*100, 'f', digits, 64); v >= 1 || math.Round(v*math.Pow10(digits+2)) < math.Pow10(digits+2) {
			if v >= 1 {
				return "100 %"
			}
			return s + " %"
		}
	}
	return "< 100 %"
}

// summary is the row in a sentence's second half.
func (f *Flood) summary() string {
	if f.Survival == nil || f.Offered == nil || f.Load == nil {
		return ""
	}
	text := fmt.Sprintf("%s of %s benign survived a %s of %s", survived(f.Survival.Value), phrase.Quantity(f.Load.Value, "bit/s", ""), f.word(), phrase.Quantity(f.Offered.Value, "frame/s", ""))
	if f.Sent != nil && f.Arrived != nil && f.Sent.Value > 0 {
		switch share := f.Arrived.Value / f.Sent.Value; {
		case share == 0:
			text += ", none of which came through"
		case share == 1:
			text += ", all of which came through"
		default:
			text += ", " + survived(share) + " of which came through"
		}
	}
	switch {
	case f.Recovery == nil:
		text += "; the box was not back at the end"
	case f.Recovery.Bound == result.AtMost:
		text += "; the box was back within " + phrase.Seconds(&f.Recovery.Value) + " of its end"
	default:
		text += "; the box was back " + phrase.Seconds(&f.Recovery.Value) + " after it had ended"
	}
	if f.Seen != nil {
		text += fmt.Sprintf("; %s counted %s of the benign frames", f.Sensor, survived(f.Seen.Value))
	}
	if f.Borne != nil {
		text = "bears a " + f.word() + " of " + phrase.Quantity(f.Borne.Value, "frame/s", f.Borne.Bound) + ": " + text
	}
	return text
}

// lost says whether benign frames were.
func (f *Flood) lost() bool {
	return slices.ContainsFunc(f.Phases, func(k result.KPI) bool { return k.Lost > 0 })
}
