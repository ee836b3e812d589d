// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"

	"boxdyno/report/internal/phrase"
	"boxdyno/result"
)

// securityOf is nil where the phases were not reached.
func securityOf(m *measured) Block {
	if m.row.at(knownBadSent) == nil {
		return nil
	}
	s := set[Security](m)
	for _, t := range m.own() {
		if len(t.KPIs) > 0 {
			s.Phases = t.KPIs
		}
	}
	return s
}

func (s *Security) last() string { return "load " + strings.Replace(s.Load, "%", " %", 1) }

func (s *Security) clauses(r *Row) []string {
	forwarded, offered, loss, arrived, sent := r.at(goodForwarded), r.at(goodOffered), r.at(goodLoss), r.at(knownBadArrived), r.at(knownBadSent)
	if forwarded == nil || offered == nil || loss == nil || arrived == nil {
		return nil
	}
	text := fmt.Sprintf("%s of %s good frames forwarded under sustained load, %s lost", phrase.Quantity(forwarded.Value, "frame/s", ""), phrase.Quantity(offered.Value, "frame/s", ""), phrase.Percent(loss.Value))
	if arrived.Value == 0 {
		return []string{text + fmt.Sprintf("; none of %s known-bad frames came through", phrase.Thousands(int64(sent.Value)))}
	}
	return []string{text + fmt.Sprintf("; %s of %s known-bad frames came through", phrase.Thousands(int64(arrived.Value)), phrase.Thousands(int64(sent.Value)))}
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
