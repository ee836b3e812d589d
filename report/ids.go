// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"boxdyno/report/internal/phrase"
	"boxdyno/result"
	"boxdyno/unit"
)

const (
	idleIDS = "ids-idle" // parent of the trials at the idle load
)

func idsOf(m *measured) Block {
	get, trials := m.get, m.own()
	s := set[IDS](m)
	s.Rules += " generated"
	n, file := get("rules"), get("rules_file")
	if file == "auto" {
		file = usedRules(trials)
	}
	switch {
	case file != "" && file != "generated":
		if n == "0" {
			n = get("rules_sample")
		}
		s.Rules = filepath.Base(file)
		if n != "" && n != "0" {
			s.Rules = n + " of " + s.Rules
		}
	case n == "0":
		s.Rules = "none"
	}
	if s.Traffic != "appmix" {
		s.Traffic = filepath.Base(s.Traffic)
	}
	switch s.Flood {
	case "none":
		s.Flood = ""
	case "":
	default:
		share, _ := strconv.ParseFloat(get("flood_share"), 64)
		s.Traffic += fmt.Sprintf(" + %s %.3g %%", s.Flood, share*100)
	}
	for _, t := range trials {
		offered := t.Value(offeredBits)
		if !Fit(t) || offered == nil || t.Account == nil || t.Account.Accepted == 0 {
			continue
		}
		l := IDSLoad{ID: t.ID, Offered: offered.Value, Lost: float64(max(0, t.Account.Lost())) / float64(t.Account.Accepted)}
		if v, n := t.Value(detectedShare), t.Value(attacksPlanted); v != nil && n != nil {
			l.Detected, l.Planted = new(v.Value), int(n.Value)
		}
		s.Loads = append(s.Loads, l)
	}
	slices.SortStableFunc(s.Loads, func(a, b IDSLoad) int { return cmp.Compare(a.Offered, b.Offered) })
	return s
}

// usedRules returns the file or folder whose rules the trials had; empty: generated ones,
// or none.
func usedRules(trials []result.Record) string {
	for _, t := range trials {
		label := result.Get(t.Config, "rules")
		if label == "no rules" || strings.HasPrefix(label, "generated (") {
			return ""
		}
		if file, _, ok := strings.Cut(label, " (sha256 "); ok {
			return file
		}
	}
	return ""
}

// order puts few rules first, then low rates.
func (*IDS) order(x, y *Row) int {
	a, b := both[*IDS](x, y)
	rules := func(s *IDS) int {
		n, _, _ := strings.Cut(s.Rules, " ")
		v, _ := strconv.Atoi(n)
		return v
	}
	return cmp.Or(strings.Compare(a.Subject, b.Subject), strings.Compare(a.Traffic, b.Traffic), cmp.Compare(rules(a), rules(b)), strings.Compare(a.Rules, b.Rules), cmp.Compare(rateOf(a.Rate), rateOf(b.Rate)))
}

// words are what tells the row from others.
func (s *IDS) words() []string {
	words := []string{s.Subject, "rules " + s.Rules, s.Traffic}
	if s.Rate != searched {
		words = append(words, "at "+s.Rate)
	}
	return words
}

func (s *IDS) name(*Row, []string) []string { return append([]string{IDSProcedure}, s.words()...) }

func (s *IDS) tail(*Row) string {
	n, generated := strings.CutSuffix(s.Rules, " generated")
	if v, err := strconv.ParseFloat(n, 64); err == nil && generated {
		return ", with " + unit.Grouped(v, 0) + " rules"
	}
	return ", with " + s.Rules
}

func (s *IDS) summary(r *Row) (name, text string, whole bool) {
	var parts []string
	limit, lost, sent, planted, detected := r.at(idsRate), r.at(framesLost), r.at(framesOffered), r.at(attacksPlanted), r.at(attacksDetected)
	switch {
	case limit != nil:
		parts = append(parts, phrase.Quantity(limit.Value, "bit/s", limit.Bound)+" with hardly a frame lost")
	case lost != nil && sent != nil:
		parts = append(parts, fmt.Sprintf("%s of %s frames lost", phrase.Thousands(int64(lost.Value)), phrase.Thousands(int64(sent.Value))))
	}
	if planted != nil && detected != nil {
		parts = append(parts, fmt.Sprintf("%s of %s attacks detected there", phrase.Thousands(int64(detected.Value)), phrase.Thousands(int64(planted.Value))))
	}
	if f := r.at(blindRate); f != nil {
		parts = append(parts, "attacks missed from "+phrase.Quantity(f.Value, "bit/s", "")+" on")
	}
	if f := r.at(cpuPerFrame); f != nil {
		parts = append(parts, unit.SI(f.Value)+"s of CPU a frame")
	}
	return strings.Join(s.words(), ", "), strings.Join(parts, ", "), true
}
