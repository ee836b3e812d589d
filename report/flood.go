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

// floodOf is nil where the box itself was flooded.
func floodOf(m *measured) Block {
	if m.get("target") == "box" {
		return nil
	}
	f := set[Flood](m)
	if f.Sensor == "none" {
		f.Sensor = ""
	}
	for _, t := range m.own() {
		if result.Get(t.Config, "trial") == floodProcedure && len(t.KPIs) > 0 {
			f.Phases = t.KPIs
		}
	}
	return f
}

// order puts kinds in the order of their names, then low rates.
func (*Flood) order(x, y *Row) int {
	a, b := both[*Flood](x, y)
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Sources, b.Sources), cmp.Compare(rateOf(a.Benign), rateOf(b.Benign)), cmp.Compare(rateOf(a.Rate), rateOf(b.Rate)))
}

func (f *Flood) word() string { return cmp.Or(floodWords[f.Kind], f.Kind) }

func (f *Flood) name(_ *Row, words []string) []string {
	return slices.Concat([]string{floodProcedure}, words, f.how())
}

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

func (f *Flood) summary(r *Row) (name, text string, whole bool) {
	survival, offered, load, sent, arrived, back := r.at(benignShare), r.at(floodRate), r.at(benignLoad), r.at(floodSent), r.at(floodArrived), r.at(floodRecovery)
	if survival == nil || offered == nil || load == nil {
		return serviceName(*r), "", true
	}
	text = fmt.Sprintf("%s of %s benign survived a %s of %s", survived(survival.Value), phrase.Quantity(load.Value, "bit/s", ""), f.word(), phrase.Quantity(offered.Value, "frame/s", ""))
	if sent != nil && arrived != nil && sent.Value > 0 {
		switch share := arrived.Value / sent.Value; {
		case share == 0:
			text += ", none of which came through"
		case share == 1:
			text += ", all of which came through"
		default:
			text += ", " + survived(share) + " of which came through"
		}
	}
	switch {
	case back == nil:
		text += "; the box was not back at the end"
	case back.Bound == result.AtMost:
		text += "; the box was back within " + phrase.Seconds(&back.Value) + " of its end"
	default:
		text += "; the box was back " + phrase.Seconds(&back.Value) + " after it had ended"
	}
	if seen := r.at(sensorShare); seen != nil {
		text += fmt.Sprintf("; %s counted %s of the benign frames", f.Sensor, survived(seen.Value))
	}
	if borne := r.at(floodBorne); borne != nil {
		text = "bears a " + f.word() + " of " + phrase.Quantity(borne.Value, "frame/s", borne.Bound) + ": " + text
	}
	return serviceName(*r), text, true
}

// limited is nil where all that was lost was the flood's.
func (f *Flood) limited(_ *Row, p result.Record) *result.Account {
	if p.Status != result.Invalid && !f.lost() {
		return nil
	}
	return wanted(p.Account)
}

// lost says whether benign frames were.
func (f *Flood) lost() bool {
	return slices.ContainsFunc(f.Phases, func(k result.KPI) bool { return k.Lost > 0 })
}
