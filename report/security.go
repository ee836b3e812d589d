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
		Load: result.Get(p.Config, "load"),
	}
	fill(s, at)
	for _, t := range trials {
		if len(t.KPIs) > 0 {
			s.Phases = t.KPIs
		}
	}
	return s
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
