// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"

	"boxdyno/report/internal/phrase"
	"boxdyno/result"
)

// securityOf is nil for rows of other procedures, and where the phases were not
// reached.
func securityOf(p result.Record, trials []result.Record, at func(metric string) *Figure) *Security {
	if p.Procedure != securityProcedure || at(knownBadSent) == nil {
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
	text := fmt.Sprintf("%s of %s good frames forwarded under sustained load, %s lost", phrase.Quantity(s.Forwarded.Value, "frame/s", ""), phrase.Quantity(s.Offered.Value, "frame/s", ""), phrase.Percent(s.Loss.Value))
	if s.Arrived.Value == 0 {
		return text + fmt.Sprintf("; none of %s known-bad frames came through", phrase.Thousands(int64(s.BadSent.Value)))
	}
	return text + fmt.Sprintf("; %s of %s known-bad frames came through", phrase.Thousands(int64(s.Arrived.Value)), phrase.Thousands(int64(s.BadSent.Value)))
}

// Wanted is an account of the frames that the box should forward alone: those that
// its rules threw away, as they must, are left out.
func Wanted(a *result.Account) *result.Account {
	if a == nil {
		return nil
	}
	w := *a
	blocked := a.DroppedAt(result.NFT)
	w.Accepted -= blocked
	w.Drops = slices.DeleteFunc(slices.Clone(a.Drops), func(t result.Term) bool { return t.Place == result.NFT })
	return &w
}
