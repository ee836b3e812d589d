// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"boxdyno/result"
	"boxdyno/stat"
	"boxdyno/unit"
	"boxdyno/verdict"
)

var serviceWords = map[string]string{"drop-xdp": "drop in XDP", "drop-tc": "drop in tc", "drop-nft": "drop in nft"}

// serviceName is a row's service in a reader's words: "filter, 100 rules".
func serviceName(r Row) string {
	s := cmp.Or(serviceWords[r.Service], r.Service, r.Procedure)
	switch r.Service {
	case "filter":
		s += ", " + count(r.Rules, "rule")
	case "nat":
		s += ", " + count(r.Flows, "flow")
	}
	if r.IP == 6 {
		s += ", IPv6"
	}
	return s
}

func name(r Row) string {
	return strings.Join(slices.DeleteFunc([]string{serviceName(r), r.Direction, frameWords(r.FrameSize)}, func(s string) bool { return s == "" }), ", ")
}

func frameWords(size string) string {
	if _, err := strconv.Atoi(size); err == nil {
		return size + " B"
	}
	return strings.ToUpper(size)
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// quantity prints v with its unit and bound: ">= 1.26 Mframe/s".
func quantity(v float64, sym unit.Symbol, b result.Bound) string {
	s := ""
	if b != result.Exactly {
		s = string(b) + " "
	}
	switch sym {
	case "1", "":
		return s + plain(v)
	case "frame":
		return s + plain(v) + " frames"
	}
	return s + unit.SI(v) + string(sym)
}

func plain(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }

func percent(v float64) string {
	if v > 0 && v < 0.001 {
		return "< 0.1 %"
	}
	digits := 1
	if v >= 0.9995 {
		digits = 0
	}
	return strconv.FormatFloat(v*100, 'f', digits, 64) + " %"
}

// sentence is the verdict in one sentence with its number, unit and bound. The
// number is the one nearest to missing (or furthest from meeting) its criterion.
func sentence(d Document) string {
	if d.Role == "" && len(d.Findings) == 0 {
		switch d.Verdict {
		case result.Passed:
			if s := summary(d); s != "" {
				return s
			}
			return "Measured."
		case result.Skipped:
			return "Nothing was measured."
		}
		for _, r := range d.Rows {
			if r.Verdict == d.Verdict {
				return fmt.Sprintf("%s: %s.", r.Name, strings.TrimSuffix(cmp.Or(r.Reason, string(r.Verdict)), "."))
			}
		}
		return string(d.Verdict)
	}
	role := cmp.Or(d.Role, "this role")
	begin := map[result.Status]string{
		result.Passed: "Passes as a " + role, result.Failed: "Fails as a " + role,
		result.Invalid: "Not decided whether it passes as a " + role, result.Skipped: "Not decided whether it passes as a " + role,
	}[d.Verdict]
	if begin == "" {
		begin = "Ended as " + string(d.Verdict)
	}
	if len(d.Findings) == 0 {
		return begin + ": the role sets no criterion."
	}
	f := d.Findings[0]
	tight := math.Inf(1)
	for _, g := range d.Findings {
		if g.Status != d.Verdict {
			continue
		}
		_, m := nearest(d, g.Criterion)
		if f.Status != d.Verdict || m < tight {
			f, tight = g, m
		}
	}
	text := strings.TrimSuffix(f.Criterion.Text, ".")
	r, _ := nearest(d, f.Criterion)
	if r == nil || d.Verdict == result.Invalid || d.Verdict == result.Skipped {
		return fmt.Sprintf("%s: %s; %s.", begin, text, strings.TrimPrefix(strings.TrimSuffix(cmp.Or(f.Text, string(f.Status)), "."), "not decided: "))
	}
	fig, sym := r.figure(f.Criterion.Metric)
	return fmt.Sprintf("%s: %s was asked, and %s was measured (%s).", begin, text, quantity(fig, sym, r.Bound), r.Name)
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
	for _, m := range []struct {
		name string
		v    *float64
		sym  unit.Symbol
	}{
		{"throughput_fps", r.ThroughputFPS, "frame/s"}, {"throughput_bps", r.ThroughputBPS, "bit/s"}, {"throughput_l1_bps", r.ThroughputL1BPS, "bit/s"},
		{"forwarding_rate_fps", r.ForwardingFPS, "frame/s"}, {"forwarding_rate_bps", r.ForwardingBPS, "bit/s"}, {"drop_rate_fps", r.DropFPS, "frame/s"},
		{"line_rate_share", r.LineRateShare, "1"}, {"latency_p50_s", r.LatencyP50, "s"}, {"latency_p99_s", r.LatencyP99, "s"}, {"latency_max_s", r.LatencyMax, "s"},
	} {
		if m.name == metric && m.v != nil {
			return *m.v, m.sym
		}
	}
	return 0, none
}

func (r *Row) holds(where []result.Pair) bool {
	have := map[string]string{"service": r.Service, "direction": r.Direction, "frame_size": r.FrameSize,
		"rules": strconv.Itoa(r.Rules), "flows": strconv.Itoa(r.Flows), "ip": strconv.Itoa(r.IP), "procedure": r.Procedure}
	return !slices.ContainsFunc(where, func(p result.Pair) bool { return have[p.Key] != p.Value })
}

// summary is what was found at the row that is compared most: plain routing of
// the smallest frames from lan to wan, or else the first.
func summary(d Document) string {
	r := headline(d.Rows)
	if r == nil {
		for _, s := range d.SelfTests {
			if s.CeilingFPS != nil {
				return fmt.Sprintf("The tester alone, %s: %s.", s.Name, quantity(*s.CeilingFPS, "frame/s", ""))
			}
		}
		return ""
	}
	var parts []string
	size := frameWords(r.FrameSize)
	if strings.HasSuffix(size, " B") {
		size = strings.TrimSuffix(size, " B") + "-byte"
	}
	if r.ThroughputFPS != nil {
		s := quantity(*r.ThroughputFPS, "frame/s", r.Bound) + " without loss"
		if r.ThroughputBPS != nil {
			s = quantity(*r.ThroughputFPS, "frame/s", r.Bound) + " (" + unit.SI(*r.ThroughputBPS) + "bit/s) without loss"
		}
		if r.ThroughputFPSHi != nil && *r.ThroughputFPSHi > *r.ThroughputFPS {
			s += ", with loss at every load from " + unit.SI(*r.ThroughputFPSHi) + "frame/s"
		}
		parts = append(parts, s)
	}
	if r.ForwardingFPS != nil && r.DropFPS == nil {
		parts = append(parts, quantity(*r.ForwardingFPS, "frame/s", r.ForwardingBound)+" under overload")
	}
	if r.DropFPS != nil {
		parts = append(parts, quantity(*r.DropFPS, "frame/s", r.DropBound)+" thrown away")
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("%s frames, %s, %s: %s.", size, serviceName(*r), r.Direction, strings.Join(parts, "; "))
}

func headline(rows []Row) *Row {
	for i := range rows {
		if r := &rows[i]; r.Service == "route" && r.FrameSize == "64" && r.Direction == "lan-to-wan" {
			return r
		}
	}
	if len(rows) > 0 {
		return &rows[0]
	}
	return nil
}

func caveat(d Document) string {
	var s string
	switch d.Kind {
	case "sandbox":
		s = "Measured in a sandbox, network namespaces on one machine: this is the machine's own forwarding power, not a NIC's."
	case "emulated":
		s = "Measured on an emulated board: this shows that it works, and says nothing about a real board's speed."
	case "memory":
		s = "Measured on links in memory: this shows that the procedure works, and says nothing about a box."
	}
	if d.Placement == "shared" {
		s += " Tester and box share a CPU (placement shared): the forwarding rate is a lower bound, and no throughput is claimed."
	}
	return strings.TrimSpace(s)
}

// sure says in sentences how far the figures can be relied on.
func sure(d Document, recs []result.Record) []string {
	var out []string
	if n := d.Books.Trials; n > 0 {
		if d.Books.Closed == n {
			out = append(out, fmt.Sprintf("The books close in all of %s: unexplained = 0 frames.", count(n, "trial")))
		} else {
			out = append(out, fmt.Sprintf("The books do not close in %d of %s: at most %d frames are unexplained.", n-d.Books.Closed, count(n, "trial"), d.Books.Largest))
		}
	}
	if n := d.Books.Invalid; n > 0 {
		out = append(out, fmt.Sprintf("%s invalid, because the tester could not do its part: in no figure.", strings.Replace(count(n, "trial")+" was", "s was", "s were", 1)))
	}
	intervals, over := 0, 0
	var widest *Row
	var spread float64
	least := math.MaxInt
	bounded := 0
	for i := range d.Rows {
		r := &d.Rows[i]
		if r.ThroughputFPS != nil && r.ThroughputFPSHi != nil && *r.ThroughputFPS > 0 {
			intervals++
			if s := *r.ThroughputFPSHi / *r.ThroughputFPS; s > spread {
				widest, spread = r, s
			}
		}
		if n := max(r.ForwardingN, r.DropN); n > 0 {
			over++
			least = min(least, n)
		}
		if r.Bound != result.Exactly || r.ForwardingBound != result.Exactly || r.DropBound != result.Exactly {
			bounded++
		}
	}
	if widest != nil {
		out = append(out, fmt.Sprintf("Each of %s reaches from the highest load confirmed without loss to the lowest from which every trial lost; the widest, %s, is %s to %s.",
			count(intervals, "throughput interval"), widest.Name, quantity(*widest.ThroughputFPS, "frame/s", ""), quantity(*widest.ThroughputFPSHi, "frame/s", "")))
	}
	if over > 0 {
		s := fmt.Sprintf("Rates under overload are medians of at least %s", count(least, "trial"))
		if w := stat.Summarize(make([]float64, least)).Warnings; len(w) > 0 {
			s += ": " + w[len(w)-1]
		} else {
			s += fmt.Sprintf(", with their %g %% intervals", stat.Confidence*100)
		}
		out = append(out, s+".")
	}
	if bounded > 0 {
		out = append(out, fmt.Sprintf("%s near the tester's own ceiling and %s the bound >=: the box may do more.", plural(bounded, "row lies", "rows lie"), map[bool]string{true: "carries", false: "carry"}[bounded == 1]))
	}
	var stalls, longest int64
	var steal float64
	for _, r := range recs {
		if r.Load != nil {
			stalls += r.Load.Stalls
			longest = max(longest, r.Load.LongestStall)
			steal = math.Max(steal, r.Load.StealRatio)
		}
	}
	if stalls > 0 {
		out = append(out, fmt.Sprintf("The sender stood still for more than 50 µs %s, at the longest for %s; the hypervisor took at most %s of the CPU time of a trial.",
			plural(int(stalls), "time", "times"), unit.SI(time.Duration(longest).Seconds())+"s", percent(steal)))
	} else if d.Books.Trials > 0 {
		out = append(out, fmt.Sprintf("The sender never stood still for more than 50 µs; the hypervisor took at most %s of the CPU time of a trial.", percent(steal)))
	}
	return out
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// bottleneck looks at the row that decided the verdict, or else at the
// headline's, and says what to try there.
func bottleneck(d Document, points []result.Record, trials map[string][]result.Record) (*Bottleneck, string) {
	r := headline(d.Rows)
	for _, f := range d.Findings {
		if f.Status == d.Verdict && f.Status != result.Passed {
			if missed, _ := nearest(d, f.Criterion); missed != nil {
				r = missed
			}
			break
		}
	}
	if r == nil {
		return nil, ""
	}
	p := points[slices.IndexFunc(points, func(p result.Record) bool { return p.ID == r.ID })]
	for _, t := range trials[p.ID] {
		if t.Account != nil && t.Status != result.Invalid && result.Get(t.Config, "trial") == "overload" {
			p = t
		}
	}
	s, ev := verdict.Bottleneck(p)
	if s == "" {
		return nil, ""
	}
	return &Bottleneck{Row: r.ID, Name: r.Name, Sentence: s, Evidence: ev}, verdict.Next(p)
}

func next(d Document, advice string) (out []string) {
	if advice != "" {
		out = append(out, advice)
	}
	if d.Placement == "shared" {
		out = append(out, "Give the box's receive work a CPU of its own (placement split): then throughput without loss can be measured.")
	}
	if d.Preset == "quick" && len(d.NotMeasured) > 0 {
		out = append(out, "Run it with --standard: it takes longer, narrows the intervals, and measures some of what the quick preset leaves out.")
	}
	return out
}
