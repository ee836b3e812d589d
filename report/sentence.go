// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"boxdyno/report/internal/phrase"
	"boxdyno/result"
	"boxdyno/unit"
)

var serviceWords = map[string]string{"drop-xdp": "drop in XDP", "drop-tc": "drop in tc", "drop-nft": "drop in nft"}

// serviceName is a row's service in a reader's words: "filter, 100 rules".
func serviceName(r Row) string {
	s := cmp.Or(serviceWords[r.Service], r.Service, r.Procedure) + r.said().through()
	switch r.Service {
	case "filter":
		s += ", " + phrase.Count(r.Rules, "rule")
	case "nat":
		if !r.kind().flowless {
			s += ", " + phrase.Count(r.Flows, "flow")
		}
	}
	if r.Networks > 1 {
		s += ", " + phrase.Count(r.Networks, "network")
	}
	if r.IP == 6 {
		s += ", IPv6"
	}
	if r.Beside != "" {
		s += ", " + r.Beside
	}
	return s
}

func name(r Row) string {
	words := []string{serviceName(r), r.Direction}
	if r.FrameSize != "0" { // it is not given
		words = append(words, phrase.FrameSize(r.FrameSize))
	}
	if slices.Contains(titled, r.Procedure) {
		words = append([]string{strings.ReplaceAll(r.Procedure, "-", " ")}, words...)
	}
	words = r.said().name(&r, words)
	if r.Tune != "" {
		words = append(words, "tune "+r.Tune)
	}
	words = append(words, r.said().last())
	return strings.Join(slices.DeleteFunc(words, func(s string) bool { return s == "" }), ", ")
}

// sentence is the verdict in one sentence with its number, unit and bound.
func sentence(d Document) string {
	if d.Ablation != nil && !broken(d.Verdict) {
		return d.Ablation.sentence()
	}
	if s := ownSentence(d); s != "" {
		return s
	}
	if d.Role == "" && len(d.Findings) == 0 {
		switch d.Verdict {
		case result.Passed:
			return cmp.Or(summary(d), headed(d), "Measured.")
		case result.Skipped:
			if !slices.ContainsFunc(d.Rows, func(r Row) bool { return r.Verdict != result.Skipped }) {
				s := "Nothing was measured"
				if len(d.Rows) > 0 && d.Rows[0].Reason != "" {
					s += ": " + d.Rows[0].Reason
				}
				return s + "."
			}
		case result.Running, result.Aborted:
			return unfinished(d)
		}
		for _, r := range d.Rows {
			if r.Verdict == d.Verdict {
				return fmt.Sprintf("%s: %s.", r.Name, strings.TrimSuffix(cmp.Or(r.Reason, string(r.Verdict)), "."))
			}
		}
		return string(d.Verdict)
	}
	if broken(d.Verdict) {
		return cmp.Or(unfinished(d), "The run was not finished.")
	}
	return roleHeadline(d)
}

// ownSentence joins the sentences of a document's rows where each has one of its own; else "".
func ownSentence(d Document) string {
	var parts []string
	for _, r := range d.Rows {
		text := r.said().sentence()
		if text == "" {
			return ""
		}
		if len(d.Rows) > 1 {
			text = r.Name + ": " + text
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return ""
	}
	text := strings.Join(parts, "; ")
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// budgeted is what the run's time budget left out; "" where it left nothing out.
func budgeted(d Document) string {
	b := d.Budget
	if b == nil || len(b.Ended)+len(b.NotMeasured) == 0 {
		return ""
	}
	var parts, names []string
	for _, r := range d.Rows {
		if slices.Contains(b.Ended, r.ID) {
			names = append(names, r.Name)
		}
	}
	if n := len(b.Ended); n > 0 {
		s := phrase.Plural(n, "point ended early, so that its interval may be wide", "points ended early, so that their intervals may be wide")
		if len(names) > 0 {
			s += " (" + strings.Join(names, "; ") + ")"
		}
		parts = append(parts, s)
	}
	if n := len(b.NotMeasured); n > 0 {
		parts = append(parts, phrase.Plural(n, "point was not measured", "points were not measured"))
	}
	return fmt.Sprintf("The time budget of %g s was spent: %s.", b.Seconds, strings.Join(parts, ", and "))
}

// unfinished says how much of a run that broke off there is.
func unfinished(d Document) string {
	n := 0
	for _, r := range d.Rows {
		if broken(r.Verdict) {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("The run was not finished: %d of the %s that were begun %s complete.", len(d.Rows)-n, phrase.Count(len(d.Rows), "row"), map[bool]string{true: "is", false: "are"}[len(d.Rows)-n == 1])
}

func broken(s result.Status) bool { return s == result.Running || s == result.Aborted }

// verdictWord is the verdict as a reader shall take it: without a criterion
// nothing was passed.
func verdictWord(d Document) string {
	switch {
	case broken(d.Verdict):
		return "not finished"
	case d.Verdict == result.Passed && len(d.Findings) == 0:
		return "measured"
	case len(d.Findings) > 0 && (d.Verdict == result.Invalid || d.Verdict == result.Skipped):
		if strings.HasPrefix(strings.ToLower(strings.TrimPrefix(d.Sentence, d.Box+": ")), strings.ToLower(tooClose)) {
			return "too close to call"
		}
		return "not decided"
	case d.Verdict == result.Skipped && d.Powers != nil:
		return "measured in part"
	case d.Verdict == result.Failed && d.Powers != nil:
		return "failed in part"
	}
	return string(d.Verdict)
}

// unpassed is a row's verdict with its reason.
func unpassed(r Row) string {
	if r.Verdict == result.Running {
		return "not finished"
	}
	return strings.TrimSuffix(string(r.Verdict)+": "+r.Reason, ": ")
}

// nearest is the row that a criterion touches whose figure has the least
// margin, as a share of what is asked; nil where no row has the figure.
func nearest(d Document, c result.Criterion) (best *Row, margin float64) {
	margin = math.Inf(1)
	for i := range d.Rows {
		r := &d.Rows[i]
		v, sym := r.figure(c.Metric)
		if sym == none || !r.holds(c.Where) {
			continue
		}
		m := math.Inf(1)
		if c.Min != nil {
			m = (v - *c.Min) / math.Max(math.Abs(*c.Min), 1e-300)
		}
		if c.Max != nil {
			m = math.Min(m, (*c.Max-v)/math.Max(math.Abs(*c.Max), 1e-300))
		}
		if !math.IsInf(m, 1) && (best == nil || m < margin) {
			best, margin = r, m
		}
	}
	return best, margin
}

const none unit.Symbol = "\x00"

// figure is the row's value of a metric and its unit; none where it has none.
func (r *Row) figure(metric string) (float64, unit.Symbol) {
	f := r.found.figures[metric]
	if f == nil {
		return 0, none
	}
	i := slices.IndexFunc(r.found.measured, func(m result.Metric) bool { return m.Name == metric })
	return f.Value, r.found.measured[i].Unit
}

// holds says whether the row's parameters are those that a criterion names.
func (r *Row) holds(where []result.Pair) bool {
	return !slices.ContainsFunc(where, func(p result.Pair) bool {
		return p.Value != result.Get(r.found.config, p.Key) && !(p.Key == ProcedureColumn && p.Value == r.Procedure)
	})
}

// summary is what was found at the row that is compared most: plain routing of
// the smallest frames from lan to wan, or else the first.
func summary(d Document) string {
	if d.Ablation != nil {
		return d.Ablation.sentence()
	}
	r := headline(d.Rows)
	if r == nil {
		for _, s := range d.SelfTests {
			if c := s.Ceiling(); c != "" {
				return fmt.Sprintf("The tester alone, %s: %s.", s.Name, c)
			}
		}
		return ""
	}
	if s := ownSentence(d); s != "" {
		return s
	}
	if name, text, whole := r.said().summary(r); whole && text == "" {
		return ""
	} else if whole {
		return name + ": " + text + "."
	}
	var parts []string
	size := phrase.FrameSize(r.FrameSize)
	if strings.HasSuffix(size, " B") {
		size = strings.TrimSuffix(size, " B") + "-byte"
	}
	if r.ThroughputFPS != nil && *r.ThroughputFPS == 0 {
		s := "no load without loss was confirmed"
		if r.ThroughputFPSHi != nil {
			s += ", and every load from " + unit.SI(*r.ThroughputFPSHi) + "frame/s lost"
		}
		parts = append(parts, s)
	} else if r.ThroughputFPS != nil {
		clean, lossy := phrase.Quantity(*r.ThroughputFPS, "frame/s", ""), ""
		if r.ThroughputFPSHi != nil && *r.ThroughputFPSHi > *r.ThroughputFPS {
			clean, lossy = unit.Apart(*r.ThroughputFPS, *r.ThroughputFPSHi)
			clean, lossy = clean+"frame/s", ", with loss at every load from "+lossy+"frame/s"
		}
		s := strings.TrimSpace(string(r.Bound) + " " + clean)
		if r.ThroughputBPS != nil {
			s += " (" + unit.SI(*r.ThroughputBPS) + "bit/s)"
		}
		s += " without loss" + lossy
		parts = append(parts, s)
	}
	if r.ForwardingFPS != nil && r.DropFPS == nil {
		parts = append(parts, phrase.Quantity(*r.ForwardingFPS, "frame/s", r.ForwardingBound)+" under overload")
	}
	if r.DropFPS != nil {
		parts = append(parts, phrase.Quantity(*r.DropFPS, "frame/s", r.DropBound)+" thrown away")
	}
	parts = append(parts, r.said().clauses(r)...)
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("%s frames, %s, %s: %s.", size, serviceName(*r), r.Direction, strings.Join(parts, "; "))
}

// headed is what the tables' columns that head the page say of their first row, for procedures
// without a sentence of their own.
func headed(d Document) string {
	var parts []string
	for _, t := range d.Tables {
		if len(t.Rows) == 0 {
			continue
		}
		var which, found []string
		for i, c := range t.Columns {
			switch cell := t.Rows[0][i]; {
			case c.Heads && c.Share && cell.Value != nil:
				found = append(found, c.Label+" "+cell.Text)
			case c.Heads && cell.Value != nil:
				found = append(found, c.Label+" "+phrase.Quantity(*cell.Value, c.Unit, cell.Bound))
			case !c.Metric && c.Name != "notes" && len(t.Rows) > 1 && cell.Text != "-":
				which = append(which, cell.Text)
			}
		}
		if len(found) == 0 {
			continue
		}
		part, _, _ := strings.Cut(t.Title, ":")
		if len(parts) > 0 {
			part = strings.ToLower(part[:1]) + part[1:]
		}
		if len(which) > 0 {
			part += " (" + strings.Join(which, ", ") + ")"
		}
		parts = append(parts, part+": "+strings.Join(found, ", "))
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, "; ") + "."
}

// headline is the row that is compared most, or else the first.
func headline(rows []Row) *Row {
	of := func(is func(r *Row) bool) *Row {
		if i := slices.IndexFunc(rows, func(r Row) bool { return !r.kind().aside && is(&r) }); i >= 0 {
			return &rows[i]
		}
		return nil
	}
	r := of(func(r *Row) bool { return r.Service == "route" && r.FrameSize == "64" && r.Direction == "lan-to-wan" })
	r = cmp.Or(r, of(func(*Row) bool { return true }))
	if r == nil && len(rows) > 0 {
		r = &rows[0]
	}
	return r
}

func caveat(d Document) string {
	var s string
	switch d.Kind {
	case result.KindSandbox:
		s = "Measured in a sandbox, network namespaces on one machine: this is the machine's own forwarding power, not a NIC's."
	case result.KindEmulated:
		s = "Measured on an emulated board: this shows that it works, and says nothing about a real board's speed."
	case result.KindMemory:
		s = "Measured on links in memory: this shows that the procedure works, and says nothing about a box."
	}
	if d.Kind != result.KindSandbox && d.Kind != result.KindMemory && d.Powers != nil && slices.ContainsFunc(d.Rows, func(r Row) bool { return r.kind().local && r.Verdict != result.Skipped }) {
		s = strings.TrimSpace(s + " Streams and tunnels were measured between network namespaces of this machine, which does the work of both ends. Two boxes would each carry more, and no NIC took part.")
	}
	if d.Placement == "shared" {
		bound := "the forwarding rate is a lower bound, and no throughput is claimed"
		if len(d.Rows) > 0 && !slices.ContainsFunc(d.Rows, func(r Row) bool { return !r.kind().flowless }) {
			bound = "the rate under overload is a lower bound, and no limit is searched"
		}
		s += " Tester and box share a CPU (placement shared): " + bound + "."
	}
	return strings.TrimSpace(s)
}
