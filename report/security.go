// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"

	"boxdyno/result"
)

// A Security is what procedure security found at a row. With several repeats the
// phases are those of the typical one.
type Security struct {
	Load      string       `json:"load"`                        // share of the throughput, "80%", or frame/s
	Phases    []result.KPI `json:"phases,omitempty"`            // of load, in order
	Offered   *Figure      `json:"sustain_offered_fps"`         // frames to forward
	Forwarded *Figure      `json:"sustain_forwarded_fps"`       // of them
	Loss      *Figure      `json:"sustain_loss_ratio"`          // of them
	DelayMin  *Figure      `json:"sustain_latency_min_s"`       // of them
	DelayMean *Figure      `json:"sustain_latency_mean_s"`      //
	DelayP99  *Figure      `json:"sustain_latency_p99_s"`       //
	DelayMax  *Figure      `json:"sustain_latency_max_s"`       //
	BadSent   *Figure      `json:"known_bad_sent"`              // frames to block, in all phases
	Blocked   *Figure      `json:"known_bad_blocked,omitempty"` // by the box's rules; nil where nobody can look into it
	Arrived   *Figure      `json:"known_bad_arrived"`           // of them
}

const securityProcedure = "security"

// securityOf is nil for rows of other procedures, and where the phases were not
// reached.
func securityOf(p result.Record, trials []result.Record, at func(metric string) *Figure) *Security {
	if p.Procedure != securityProcedure || at("known_bad_sent") == nil {
		return nil
	}
	s := &Security{
		Load: result.Get(p.Config, "load"), Offered: at("sustain_offered_fps"), Forwarded: at("sustain_forwarded_fps"), Loss: at("sustain_loss_ratio"),
		DelayMin: at("sustain_latency_min_s"), DelayMean: at("sustain_latency_mean_s"), DelayP99: at("sustain_latency_p99_s"), DelayMax: at("sustain_latency_max_s"),
		BadSent: at("known_bad_sent"), Blocked: at("known_bad_blocked"), Arrived: at("known_bad_arrived"),
	}
	for _, t := range trials {
		if len(t.KPIs) > 0 {
			s.Phases = t.KPIs
		}
	}
	return s
}

// table is the KPIs of RFC 9411, a line a phase; the sustained one's with the least
// and the greatest of its samples.
func (s *Security) table(name string) table {
	t := table{title: name + ": phases with their rates in frame/s, least to greatest delay, known-bad frames sent and passed; of sustain the samples' least and greatest", head: []string{"phase", "offered", "forwarded", "lost", "delay", "mean", "p99", "max", "bad", "passed"}}
	for i := range t.head {
		t.right = append(t.right, i > 0)
	}
	for _, k := range s.Phases {
		cells := []string{k.Phase, si(ptr(float64(k.Offered)), ""), si(ptr(float64(k.Forwarded)), ""), thousands(k.Lost)}
		if d := k.Delay; d != nil {
			cells = append(cells, seconds(&d.Min), seconds(&d.Mean), seconds(&d.P99), seconds(&d.Max))
		} else {
			cells = append(cells, "-", "-", "-", "-")
		}
		t.add(append(cells, si(ptr(float64(k.BadSent)), ""), thousands(k.BadArrived))...)
		if k.Phase != "sustain" {
			continue
		}
		for _, end := range []struct {
			name string
			of   func(f *Figure) *float64
		}{{"  least", func(f *Figure) *float64 { return f.Lo }}, {"  greatest", func(f *Figure) *float64 { return f.Hi }}} {
			line := []string{end.name}
			for i, f := range []*Figure{s.Offered, s.Forwarded, s.Loss, s.DelayMin, s.DelayMean, s.DelayP99, s.DelayMax} {
				switch {
				case f == nil || end.of(f) == nil:
					line = append(line, "-")
				case i < 2:
					line = append(line, si(end.of(f), ""))
				case i == 2:
					line = append(line, share(end.of(f)))
				default:
					line = append(line, seconds(end.of(f)))
				}
			}
			t.add(append(line, "", "")...)
		}
	}
	return t
}

// summary is the row in a sentence's second half.
func (s *Security) summary() string {
	text := fmt.Sprintf("%s of %s good frames forwarded under sustained load, %s lost", quantity(s.Forwarded.Value, "frame/s", ""), quantity(s.Offered.Value, "frame/s", ""), percent(s.Loss.Value))
	if s.Arrived.Value == 0 {
		return text + fmt.Sprintf("; none of %s known-bad frames came through", thousands(int64(s.BadSent.Value)))
	}
	return text + fmt.Sprintf("; %s of %s known-bad frames came through", thousands(int64(s.Arrived.Value)), thousands(int64(s.BadSent.Value)))
}

// wanted is an account of the frames that the box should forward alone: those that
// its rules threw away, as they must, are left out.
func wanted(a *result.Account) *result.Account {
	if a == nil {
		return nil
	}
	w := *a
	blocked := a.DroppedAt(result.NFT)
	w.Accepted -= blocked
	w.Drops = slices.DeleteFunc(slices.Clone(a.Drops), func(t result.Term) bool { return t.Place == result.NFT })
	return &w
}
