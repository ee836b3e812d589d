// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"boxdyno/result"
)

// A Flood is what procedure flood found at a row; a figure that was not measured is nil.
// With several repeats the phases are those of the typical one.
type Flood struct {
	Kind    string       `json:"kind"`
	Rate    string       `json:"rate"`    // as it was given; "line", "search"
	Benign  string       `json:"benign"`  // as it was given
	Sources string       `json:"sources"` // network, any
	Phases  []result.KPI `json:"phases,omitempty"`

	Borne     *Figure `json:"flood_borne_fps,omitempty"`       // highest rate of the flood that the benign traffic survived
	Survival  *Figure `json:"benign_survival_ratio,omitempty"` // interval: of the samples
	Recovery  *Figure `json:"flood_recovery_s,omitempty"`      // nil: the box was not back
	Offered   *Figure `json:"flood_offered_fps,omitempty"`
	Forwarded *Figure `json:"flood_forwarded_fps,omitempty"`
	Sent      *Figure `json:"flood_sent,omitempty"`
	Arrived   *Figure `json:"flood_arrived,omitempty"`
	Load      *Figure `json:"benign_offered_bps,omitempty"` // during the flood
	Delay     *Figure `json:"benign_latency_p99_s,omitempty"`
	Before    *Figure `json:"benign_latency_before_p99_s,omitempty"` // the same, before the flood
	CPU       *Figure `json:"flood_cpu_ratio,omitempty"`
	Sensor    string  `json:"sensor,omitempty"` // that listened; "": none
	Seen      *Figure `json:"sensor_seen_ratio,omitempty"`
	Missed    *Figure `json:"sensor_missed,omitempty"`
	Entries   *Figure `json:"conntrack_entries,omitempty"`
	Most      *Figure `json:"conntrack_most,omitempty"`
	Failed    *Figure `json:"conntrack_insert_failed,omitempty"`
	Evicted   *Figure `json:"conntrack_early_drop,omitempty"`
}

const floodProcedure = "flood"

// floodWords are kinds in a reader's words.
var floodWords = map[string]string{
	"syn": "SYN flood", "ack": "ACK flood", "udp": "UDP flood", "icmp": "ICMP flood", "dns": "DNS amplification", "ntp": "NTP amplification", "fragments": "flood of fragments",
}

// floodOf is nil for rows of other procedures.
func floodOf(p result.Record, trials []result.Record, at func(metric string) *Figure) *Flood {
	if p.Procedure != floodProcedure {
		return nil
	}
	f := &Flood{
		Kind: result.Get(p.Config, "kind"), Rate: result.Get(p.Config, "rate"), Benign: result.Get(p.Config, "benign"), Sources: result.Get(p.Config, "sources"),
		Borne: at("flood_borne_fps"), Survival: at("benign_survival_ratio"), Recovery: at("flood_recovery_s"),
		Offered: at("flood_offered_fps"), Forwarded: at("flood_forwarded_fps"), Sent: at("flood_sent"), Arrived: at("flood_arrived"),
		Load: at("benign_offered_bps"), Delay: at("benign_latency_p99_s"), Before: at("benign_latency_before_p99_s"), CPU: at("flood_cpu_ratio"),
		Entries: at("conntrack_entries"), Most: at("conntrack_most"), Failed: at("conntrack_insert_failed"), Evicted: at("conntrack_early_drop"),
	}
	if name := result.Get(p.Config, "sensor"); name != "none" {
		f.Sensor, f.Seen, f.Missed = name, at("sensor_seen_ratio"), at("sensor_missed")
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
	text := fmt.Sprintf("%s of %s benign survived a %s of %s", survived(f.Survival.Value), quantity(f.Load.Value, "bit/s", ""), f.word(), quantity(f.Offered.Value, "frame/s", ""))
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
		text += "; the box was back within " + seconds(&f.Recovery.Value) + " of its end"
	default:
		text += "; the box was back " + seconds(&f.Recovery.Value) + " after it had ended"
	}
	if f.Seen != nil {
		text += fmt.Sprintf("; %s counted %s of the benign frames", f.Sensor, survived(f.Seen.Value))
	}
	if f.Borne != nil {
		text = "bears a " + f.word() + " of " + quantity(f.Borne.Value, "frame/s", f.Borne.Bound) + ": " + text
	}
	return text
}

// A floodTables is the tables of flood: those of all rows, and a row's phases.
type floodTables struct {
	survival, delay *table
	phases          []*table
}

func newFloodTables() *floodTables {
	make := func(title string, cols ...string) *table {
		t := &table{title: title, head: append([]string{"service", "flood", "frame/s"}, cols...)}
		for i, c := range t.head {
			t.right = append(t.right, i > 1 && c != notesColumn)
		}
		return t
	}
	return &floodTables{
		survival: make("Under flood: its frames and their share that came through; the benign share that survived, its samples; when back", "through", "survived", "samples", "back", notesColumn),
		delay:    make("Benign frames' delay (p99) before a flood and during it, and the receive threads' share of a CPU", "before", "during", "CPU", notesColumn),
	}
}

func (t *floodTables) add(r Row, notes func(t *table, texts []string) string, own []string) {
	f := r.Flood
	id := f.Kind
	switch f.Rate {
	case searched:
		id += ", limit"
	case "line":
		id += ", line"
	}
	if f.Sources == "any" {
		id += ", spoofed"
	}
	cells := []string{serviceName(r), id, f.Offered.si(""), "-", "-", "-", "-"}
	if f.Sent != nil && f.Arrived != nil && f.Sent.Value > 0 {
		cells[3] = percent(f.Arrived.Value / f.Sent.Value)
	}
	if s := f.Survival; s != nil {
		cells[4] = survived(s.Value)
		if s.Lo != nil && s.Hi != nil {
			cells[5] = percent(*s.Lo) + "–" + percent(*s.Hi)
			if *s.Lo == *s.Hi {
				cells[5] = percent(*s.Lo)
			}
		}
		cells[6] = "never"
		if f.Recovery != nil {
			cells[6] = f.Recovery.time()
			if f.Recovery.Bound != result.Exactly {
				cells[6] = string(f.Recovery.Bound) + " " + cells[6]
			}
		}
	}
	t.survival.add(append(cells, notes(t.survival, own))...)
	if f.Delay != nil || f.CPU != nil {
		t.delay.add(cells[0], cells[1], cells[2], f.Before.time(), f.Delay.time(), f.CPU.share(), notes(t.delay, nil))
	}
	if len(f.Phases) > 0 {
		t.phases = append(t.phases, f.table(r.Name))
	}
}

// table is the phases, a line each.
func (f *Flood) table(name string) *table {
	t := &table{title: name + ": benign frames in each phase (frame/s) and their delay; frames of the flood", head: []string{"phase", "offered", "forwarded", "lost", "delay", "mean", "p99", "max", "flood", "through"}}
	for i := range t.head {
		t.right = append(t.right, i > 0)
	}
	for _, k := range f.Phases {
		cells := []string{k.Phase, si(ptr(float64(k.Offered)), ""), si(ptr(float64(k.Forwarded)), ""), thousands(k.Lost)}
		if d := k.Delay; d != nil {
			cells = append(cells, seconds(&d.Min), seconds(&d.Mean), seconds(&d.P99), seconds(&d.Max))
		} else {
			cells = append(cells, "-", "-", "-", "-")
		}
		if k.BadSent > 0 || k.BadArrived > 0 {
			cells = append(cells, thousands(k.BadSent), thousands(k.BadArrived))
		} else {
			cells = append(cells, "", "")
		}
		t.add(cells...)
	}
	if f.Seen != nil && f.Missed != nil {
		t.notes = append(t.notes, note{"note", fmt.Sprintf("%s counted %s of the benign frames of all phases and missed %s", f.Sensor, survived(f.Seen.Value), thousands(int64(f.Missed.Value)))})
	}
	if f.Entries != nil && f.Most != nil {
		text := fmt.Sprintf("the connection table had %s of %s entries at the end", thousands(int64(f.Entries.Value)), thousands(int64(f.Most.Value)))
		for _, c := range []struct {
			f    *Figure
			what string
		}{{f.Failed, "connections found no place (insert_failed)"}, {f.Evicted, "were evicted for others (early_drop)"}} {
			if c.f != nil && c.f.Value > 0 {
				text += fmt.Sprintf("; %s %s", thousands(int64(c.f.Value)), c.what)
			}
		}
		t.notes = append(t.notes, note{"note", text})
	}
	return t
}

// lost says whether benign frames were.
func (f *Flood) lost() bool {
	return slices.ContainsFunc(f.Phases, func(k result.KPI) bool { return k.Lost > 0 })
}
