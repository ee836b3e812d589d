// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"boxdyno/report/internal/phrase"
	"boxdyno/result"
	"boxdyno/unit"
	"boxdyno/verdict"
)

// headlineMost is the most characters of a role's headline.
const headlineMost = 90

// hardlyLost begins the metrics of loads of which 0.5 % may be lost: no answer of a role that
// passes.
const hardlyLost = "counted_0_5pct_"

// tooClose is how the headline begins where an interval holds what is asked.
const tooClose = "Too close to call"

// roleHeadline is a role's answer with its number, in at most headlineMost characters:
// what was carried of what was asked. It is made from the findings of the criteria.
func roleHeadline(d Document) string {
	f := deciding(d)
	if f == nil {
		return shorten("Not decided: the role sets no criterion")
	}
	if l := loadOf(d, *f); l != nil {
		f = l
	}
	passes := ""
	if d.Verdict == result.Passed {
		passes = "Passes: "
	}
	v, c := f.Figure, f.Criterion
	switch {
	case v == nil, math.IsNaN(v.Value), c.Min == nil && c.Max == nil:
		if f.Status == result.Invalid && othersHeldUp(d) {
			return shorten(fmt.Sprintf("Not decided: other work kept this machine busy, %d of %d trials do not count", d.Books.Invalid, d.Books.Trials))
		}
		return shorten(undecided(*f))
	case c.Metric == uncounted && !f.Close:
		return lead(passes, lostAt(d, *f), tailOf(d, *f))
	case v.Unit == "bit/s" && c.Min != nil:
		return carried(d, *f, passes)
	case f.Close:
		return lead("", tooClose+": "+words(*f), ", "+c.Text)
	}
	return lead(passes, words(*f), " ("+strings.TrimSuffix(c.Text, ".")+")")
}

// deciding is the finding that the verdict is due to: of those that share its status,
// the one whose figure is nearest to missing (or furthest from meeting) what is asked.
func deciding(d Document) *verdict.Finding {
	var best *verdict.Finding
	least := math.Inf(1)
	for i := range d.Findings {
		f := &d.Findings[i]
		m := leeway(*f)
		switch {
		case best == nil, f.Status == d.Verdict && (best.Status != d.Verdict || m < least):
			best, least = f, m
		}
	}
	return best
}

// leeway is by which share of what is asked a finding's figure is better, below 0 worse;
// +Inf where it has none.
func leeway(f verdict.Finding) float64 {
	if f.Figure == nil {
		return math.Inf(1)
	}
	v, m := f.Figure.Value, math.Inf(1)
	if least := f.Criterion.Min; least != nil {
		m = (v - *least) / max(math.Abs(*least), 1e-300)
	}
	if most := f.Criterion.Max; most != nil {
		m = min(m, (*most-v)/max(math.Abs(*most), 1e-300))
	}
	return m
}

// loadOf is the finding that says which load is carried, where f does not and the
// reader wants to know it: of a role that passes, and where frames were lost at the
// load that is asked. nil: there is none, or it contradicts f.
func loadOf(d Document, f verdict.Finding) *verdict.Finding {
	load := func(f verdict.Finding) bool {
		return f.Figure != nil && f.Figure.Unit == "bit/s" && f.Figure.Value > 0 && f.Criterion.Min != nil
	}
	if load(f) || d.Verdict == result.Failed && f.Criterion.Metric != uncounted {
		return nil
	}
	var most *verdict.Finding // where only what is not carried is known
	for i, l := range d.Findings {
		// Where what is asked was lost, a load below it is an answer, too.
		below := func() bool { return d.Verdict == result.Failed && !l.Close && l.Figure.Value < *l.Criterion.Min }
		switch {
		case !load(l) || l.Status != d.Verdict && !below() || d.Verdict == result.Passed && strings.HasPrefix(l.Criterion.Metric, hardlyLost):
		case l.Figure.Bound != result.AtMost:
			return &d.Findings[i]
		case most == nil:
			most = &d.Findings[i]
		}
	}
	if most != nil {
		return most
	}
	if d.Verdict == result.Passed { // the frames that were lost say more than how many rules there are
		for i, l := range d.Findings {
			if l.Criterion.Metric == uncounted && l.Figure != nil {
				return &d.Findings[i]
			}
		}
	}
	return nil
}

// carried is how much of the bit rate asked a box carries.
func carried(d Document, f verdict.Finding, passes string) string {
	v, asked := f.Figure, *f.Criterion.Min
	lossless := ""
	switch {
	case strings.HasPrefix(v.Metric, "throughput_"), strings.HasPrefix(v.Metric, "lossless_"):
		lossless = " without loss"
	case strings.HasPrefix(v.Metric, hardlyLost):
		lossless = " with at most 0.5 % lost"
	}
	tail := tailOf(d, f)
	lo, hi := *cmp.Or(v.Lo, &v.Value), *cmp.Or(v.Hi, &v.Value)
	switch {
	case passes != "":
		least := ""
		if v.Bound == result.AtLeast {
			least = "at least "
		}
		return lead(passes, "Carries "+least+unit.SI(v.Value)+"bit/s"+lossless+", "+unit.SI(asked)+"bit/s asked", tail)
	case f.Close:
		return lead(tooClose+": ", ofAsked(asked, lo, hi)+lossless, tail)
	case v.Value <= 0 && f.Status == result.Failed:
		return lead("Fails: ", "no load carried"+lossless+", "+unit.SI(asked)+"bit/s asked", tail)
	case v.Value <= 0:
		return shorten("Not decided: no load confirmed" + lossless + ", " + unit.SI(asked) + "bit/s asked")
	case v.Bound == result.AtMost:
		begin := ""
		if f.Status == result.Invalid {
			begin = "Not decided: "
		}
		return lead(begin, "Carries less than "+ofAsked(asked, v.Value)+"; no load is confirmed", tail)
	case f.Status == result.Invalid && v.Bound == result.AtLeast && !v.Open && d.Verdict != result.Failed:
		return lead("", "Carries at least "+ofAsked(asked, v.Value)+", all that the tester offers", tail)
	case f.Status == result.Invalid && strings.Contains(f.Text, verdict.StandsStill):
		return lead("", "Carries at least "+ofAsked(asked, v.Value)+"; it stands still now and then", tail)
	case f.Status == result.Invalid:
		return lead("", "Carries at least "+ofAsked(asked, v.Value)+"; its limit was not found", tail)
	}
	if hi > pinned*lo {
		return lead("", "Carries between "+strings.Replace(ofAsked(asked, lo, hi), " to ", " and ", 1)+lossless, tail)
	}
	return lead("", "Carries "+ofAsked(asked, v.Value)+lossless, tail)
}

// pinned is how many times its lower end the upper end of an interval is at most where the
// headline has one figure alone.
const pinned = 1.1

// lostAt is how many frames were lost, or not counted, at the load asked.
func lostAt(d Document, f verdict.Finding) string {
	rate := strings.TrimPrefix(result.Get(f.Criterion.Where, "rate"), "line:")
	if r, err := unit.ParseBitRate(rate); err == nil {
		rate = r.String()
	}
	what := ""
	if rate != "" {
		what = " at " + rate
	}
	var lost, sent *Figure
	if r := rowAt(d, f); r != nil && r.kind().counted {
		lost, sent = r.at(framesLost), r.at(framesOffered)
	}
	switch {
	case lost == nil || sent == nil:
		return "Loses " + phrase.Percent(f.Figure.Value) + " of the frames" + what
	case lost.Value <= 0:
		return "Loses none of " + unit.Grouped(sent.Value, 0) + " frames" + what
	}
	return "Loses " + unit.Grouped(lost.Value, 0) + " of " + unit.Grouped(sent.Value, 0) + " frames" + what
}

// words are a figure that is no load, beside what is asked.
func words(f verdict.Finding) string {
	v, c := f.Figure, f.Criterion
	least, most := "", ""
	if c.Min != nil {
		least = figureOf(*c.Min, v.Unit)
	}
	if c.Max != nil {
		most = figureOf(*c.Max, v.Unit)
	}
	is := figureOf(v.Value, v.Unit)
	switch {
	case c.Metric == rulesLoaded && c.Min != nil:
		return "Loads " + unit.Grouped(v.Value, 0) + " of the " + unit.Grouped(*c.Min, 0) + " rules asked"
	case c.Metric == detectedShare && c.Min != nil:
		return "Detects " + phrase.Percent(v.Value) + " of the planted attacks, " + phrase.Percent(*c.Min) + " asked"
	case c.Metric == detectedIdle && c.Min != nil:
		return "Detects " + phrase.Percent(v.Value) + " of the planted attacks when idle, " + phrase.Percent(*c.Min) + " asked"
	case c.Metric == result.HottestMetric && c.Max != nil:
		return "Its hottest sensor reads " + is + ", at most " + most + " allowed"
	case c.Metric == knownAnswer:
		return map[bool]string{true: "What lies on the disk is right", false: "What lies on the disk is wrong"}[v.Value >= 1]
	case least != "" && most != "":
		return is + ", " + least + " to " + most + " asked"
	case most != "":
		return is + ", at most " + most + " allowed"
	}
	return is + " of the " + least + " asked"
}

// othersHeldUp says whether the machine was busy with other work, and many trials invalid.
func othersHeldUp(d Document) bool {
	return d.Books.Invalid*10 > d.Books.Trials && slices.ContainsFunc(d.Warnings, func(w string) bool { return strings.Contains(w, "was not idle") })
}

// undecided is why a criterion has no figure.
func undecided(f verdict.Finding) string {
	why := strings.TrimSuffix(f.Chosen(), ".")
	for _, p := range []string{": not measured: ", ": not decided: "} { // "tcpdump: not measured: ..."
		if _, text, found := strings.Cut(why, p); found {
			why = text
		}
	}
	for _, p := range []string{"not decided: ", "not measured: ", "the measurement is invalid: ", "no throughput: "} {
		why = strings.TrimPrefix(why, p)
	}
	for _, r := range remedies {
		if strings.HasPrefix(why, r.Key) {
			figures, _, _ := strings.Cut(why, " (")
			why = figures + r.Value
		}
	}
	return "Not decided: " + cmp.Or(why, string(f.Status))
}

// remedies are what to do where a reason begins with a key.
var remedies = []result.Pair{
	{Key: "the tester offered ", Value: "; use an idle or faster one"},
	{Key: "the tester's ", Value: "; use an idle or faster one"},
}

// atBox is a headline that names the box, where the run has one.
func atBox(d Document, text string) string {
	if d.Box == "" || text == "" {
		return text
	}
	if len(text) > 1 && text[1] >= 'a' && text[1] <= 'z' { // no acronym
		text = strings.ToLower(text[:1]) + text[1:]
	}
	return shorten(d.Box + ": " + text)
}

// tailOf says of what a finding's figure is: ", with 1,000 rules", " (route, both, IMIX)".
func tailOf(d Document, f verdict.Finding) string {
	r := rowAt(d, f)
	if r == nil {
		return ""
	}
	return r.said().tail(r)
}

// rowAt is the row of the point that decided a finding.
func rowAt(d Document, f verdict.Finding) *Row {
	for i := range d.Rows {
		if d.Rows[i].ID == f.Point {
			return &d.Rows[i]
		}
	}
	r, _ := nearest(d, f.Criterion) // one of several repeats
	return r
}

// ofAsked is one figure or two of what is asked, in one unit where that can be read:
// "310 of the 1,000 Mbit/s asked".
func ofAsked(asked float64, figures ...float64) string {
	least := slices.Min(append([]float64{asked}, figures...))
	scale, prefix := 1.0, ""
	for _, p := range []struct {
		scale  float64
		prefix string
	}{{1e3, "k"}, {1e6, "M"}, {1e9, "G"}, {1e12, "T"}} {
		if least >= p.scale*(1-1e-9) {
			scale, prefix = p.scale, p.prefix
		}
	}
	if asked/scale >= 10_000 {
		var parts []string
		for _, v := range figures {
			parts = append(parts, unit.SI(v)+"bit/s")
		}
		return strings.Join(parts, " to ") + " of the " + unit.SI(asked) + "bit/s asked"
	}
	var parts []string
	for _, v := range figures {
		parts = append(parts, distinct(v/scale, asked/scale))
	}
	return strings.Join(parts, " to ") + " of the " + unit.Grouped(asked/scale, 3) + " " + prefix + "bit/s asked"
}

// distinct is v to 3 digits, or to as many more as tell it from what is asked.
func distinct(v, asked float64) string {
	for digits := 3; ; digits++ {
		if s := unit.Grouped(v, digits); digits >= 6 || v == asked || s != unit.Grouped(asked, digits) {
			return s
		}
	}
}

func figureOf(v float64, u unit.Symbol) string {
	if u == "°C" {
		return phrase.Plain(v) + " °C"
	}
	return phrase.Quantity(v, u, "")
}

// lead is a headline: passes stands before it where the role passes. The tail is left
// out where it does not fit.
func lead(begin, text, tail string) string {
	if begin != "" {
		text = begin + strings.ToLower(text[:1]) + text[1:]
	}
	if utf8.RuneCountInString(text+tail) > headlineMost {
		return shorten(text)
	}
	return text + tail
}

// shorten cuts a text that is too long: before a clause or a parenthesis, else between two
// words.
func shorten(s string) string {
	runes := []rune(s)
	if len(runes) <= headlineMost {
		return s
	}
	cut := string(runes[:headlineMost-3])
	for _, end := range []string{", ", " ("} {
		if i := strings.LastIndex(cut, end); i > headlineMost/2 && strings.Count(cut[:i], "(") == strings.Count(cut[:i], ")") {
			return cut[:i]
		}
	}
	if i := strings.LastIndexByte(cut, ' '); i > headlineMost/2 {
		cut = cut[:i]
	}
	return strings.TrimRight(cut, " ,:;") + "..."
}

// FindingWord is what became of a criterion, in words.
func FindingWord(f verdict.Finding) string {
	switch {
	case f.Close:
		return "too close to call"
	case f.Status == result.Invalid:
		return "not decided"
	case f.Status == result.Skipped:
		return "not measured"
	}
	return string(f.Status)
}

// Opening is the first line: the verdict in a word, and the sentence without it.
func Opening(d Document) (word, rest string) {
	word, rest = verdictWord(d), d.Sentence
	box := ""
	if d.Box != "" {
		box = d.Box + ": "
		rest = strings.TrimPrefix(rest, box)
	}
	if n := len(word) + len(": "); len(rest) > n && strings.EqualFold(rest[:n], word+": ") {
		rest = rest[n:]
		if box == "" {
			rest = strings.ToUpper(rest[:1]) + rest[1:]
		}
	}
	return strings.ToUpper(word), box + rest
}

// Outcome is a finding's text without its word.
func Outcome(f verdict.Finding) string { return strings.TrimPrefix(f.Text, FindingWord(f)+": ") }
