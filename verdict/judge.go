// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"boxdyno/result"
	"boxdyno/unit"
)

// A Finding is one criterion's outcome.
type Finding struct {
	Criterion result.Criterion `json:"criterion"`
	Status    result.Status    `json:"verdict"`                     // passed, failed, invalid (not decided), skipped (not measured)
	Text      string           `json:"text"`                        // by which margin it was met or missed
	Close     bool             `json:"too_close_to_call,omitempty"` // not decided: what is asked lies within the figure's interval
	Point     string           `json:"point,omitempty"`             // ID of the point that decided; "": none
	Figure    *result.Value    `json:"figure,omitempty"`            // the criterion's metric there; nil: not measured
}

// resolution is how exactly an offered load is known. A box that lost nothing at
// all that a link of the asked rate carries is not held to be below that rate.
const resolution = 0.001

// Judge holds the points of a run (records without parent) against criteria. The
// status is failed where one of them is missed for certain, else that of the worst
// finding: invalid, skipped, passed; skipped where there is no criterion. A criterion
// that several points touch (repeats, an axis that its Where leaves open) is as well
// met as at the worst of them; of the values of its Any, the best ones are taken
// (choose.go). An optional one counts only where it was met or missed.
func Judge(cs []result.Criterion, recs []result.Record) (result.Status, []Finding) {
	var findings []Finding
	var statuses []result.Status
	choices := map[string]choice{}
	for _, c := range cs {
		key := strings.Join(c.Any, " ")
		if _, known := choices[key]; key != "" && !known {
			choices[key] = choose(c.Any, cs, recs)
		}
		f, _ := choices[key].judge(c, recs)
		findings = append(findings, f)
		if !c.Optional || f.Status == result.Passed || f.Status == result.Failed {
			statuses = append(statuses, f.Status)
		}
	}
	if slices.Contains(statuses, result.Failed) {
		return result.Failed, findings
	}
	return Worst(statuses...), findings
}

// judge is c's outcome, and by which share of what is asked it was met or, below 0,
// missed; NaN where that is not known.
func judge(c result.Criterion, recs []result.Record) (Finding, float64) {
	var found []Finding
	least := math.NaN()
	for _, r := range recs {
		if r.Parent == "" && Touches(c, r.Config) {
			found = append(found, hold(c, r, recs))
			if m := marginOf(c, r); !math.IsNaN(m) && !(m >= least) {
				least = m
			}
		}
	}
	if len(found) == 0 {
		return Finding{Criterion: c, Status: result.Skipped, Text: "not measured: the run has no such point"}, least
	}
	worst := slices.MaxFunc(found, func(a, b Finding) int {
		return slices.Index(gravity, a.Status) - slices.Index(gravity, b.Status)
	})
	if c.Optional && math.IsNaN(least) { // no point has the figure
		why := strings.TrimPrefix(strings.TrimPrefix(worst.Text, "not decided: "), "not measured: ")
		if c.Metric == result.HottestMetric {
			why = "no sensor reports it"
		}
		return Finding{Criterion: c, Status: result.Skipped, Text: "not measured: " + why}, least
	}
	if len(found) > 1 {
		worst.Text += fmt.Sprintf(" (the worst of %d points)", len(found))
	}
	return worst, least
}

// Touches says whether c judges a point of this configuration.
func Touches(c result.Criterion, config []result.Pair) bool {
	for _, p := range c.Where {
		if !slices.Contains(config, p) {
			return false
		}
	}
	return true
}

// hold holds one point of recs against c.
func hold(c result.Criterion, r result.Record, recs []result.Record) Finding {
	f := Finding{Criterion: c, Point: r.ID, Figure: r.Value(c.Metric)}
	say := func(s result.Status, text string) Finding {
		f.Status, f.Text = s, text
		return f
	}
	because := cmp.Or(r.Reason, string(r.Status))
	if r.Reason == "" {
		for _, w := range slices.Backward(r.Warnings) { // the last that speaks of it, else the first
			if because = w; strings.Contains(w, "forwarding rate") || strings.Contains(w, "throughput") {
				break
			}
		}
	}
	v := f.Figure
	switch {
	case r.Status == result.Invalid && (v == nil || c.Metric != result.HottestMetric): // a box is hot whatever the tester could do
		f.Figure = nil
		return say(result.Invalid, "not decided: the measurement is invalid: "+because)
	case r.Status == result.Running || r.Status == result.Aborted:
		f.Figure = nil
		return say(result.Invalid, "not decided: the measurement was not finished: "+because)
	case v == nil && because != string(result.Passed):
		return say(result.Skipped, "not measured: "+because)
	case v == nil:
		return say(result.Skipped, "not measured: the procedure gave no "+c.Metric)
	case math.IsNaN(v.Value):
		f.Figure = nil
		return say(result.Invalid, "not decided: "+c.Metric+" is not a number")
	case c.Min == nil && c.Max == nil:
		return say(result.Skipped, "the criterion asks for nothing: it has neither min nor max")
	}
	b := boundsOf(*v)
	statuses, texts, asked := []result.Status{}, []string{}, []float64{}
	if c.Min != nil {
		b.remedy = standsStill(r, v, *c.Min, recs)
		s, t := b.atLeast(*c.Min)
		statuses, texts, asked = append(statuses, s), append(texts, t), append(asked, *c.Min)
	}
	if c.Max != nil {
		s, t := b.atMost(*c.Max)
		statuses, texts, asked = append(statuses, s), append(texts, t), append(asked, *c.Max)
	}
	worst := Worst(statuses...)
	i := slices.Index(statuses, worst)
	f.Close = worst == result.Invalid && b.within(asked[i])
	return say(worst, texts[i])
}

// bounds is where a figure lies.
type bounds struct {
	lo, hi  float64 // -Inf, +Inf: not known
	ceiling bool    // hi is not known because the tester could do no more
	remedy  string  // of what is not decided; "": again
	unit    unit.Symbol
}

// boundsOf reads a figure's interval. A lower end without an upper one means that
// the upper is not known; without both, the figure is exact.
func boundsOf(v result.Value) bounds {
	b := bounds{lo: v.Value, hi: v.Value, unit: v.Unit}
	if v.Lo != nil {
		b.lo, b.hi = *v.Lo, math.Inf(1)
	}
	if v.Hi != nil {
		b.hi = *v.Hi
	}
	switch v.Bound {
	case result.AtLeast:
		b.hi, b.ceiling = math.Inf(1), !v.Open
	case result.AtMost:
		b.lo = math.Inf(-1)
	}
	return b
}

const again = "repeat with --standard or a longer --budget, or make the box and the tester quieter"

// StandsStill is why a criterion that was tried enough is not decided.
const StandsStill = "the box stands still now and then"

const (
	// alike is how far from the load asked for a trial is that was offered for its sake, as a
	// share.
	alike = 0.003
	// leastStalls is how many trials lost there at least where the box stands still.
	leastStalls = 2
)

// standsStill says so of a box that lost frames in some trials of point r's search at the load
// that is asked of its figure v, and carried that or more in most. "": nothing tells.
func standsStill(r result.Record, v *result.Value, asked float64, recs []result.Record) string {
	const limit = "throughput_" // begins the names of one load in several units
	i := slices.IndexFunc(r.Values, func(v result.Value) bool { return v.Unit == "frame/s" && strings.HasPrefix(v.Metric, limit) })
	if i < 0 || !(r.Values[i].Value > 0 && v.Value > 0) || !strings.HasPrefix(v.Metric, limit) {
		return ""
	}
	load := asked * r.Values[i].Value / v.Value // in frame/s
	lost, carried := 0, 0
	for _, t := range recs {
		if t.Parent != r.ID || t.Load == nil || result.Get(t.Config, "trial") != "search" {
			continue
		}
		switch offered := float64(t.Load.Offered) / load; {
		case t.Status == result.Passed && offered >= 1-alike:
			carried++
		case t.Status == result.Failed && math.Abs(offered-1) <= alike:
			lost++
		}
	}
	if lost < leastStalls || carried <= lost {
		return ""
	}
	return fmt.Sprintf(StandsStill+": %d trials at this load lost frames, and %d carried it or more: make the box quieter, or repeat", lost, carried)
}

// within says whether what is asked lies between two known ends.
func (b bounds) within(asked float64) bool {
	return b.lo <= asked && asked <= b.hi && b.lo > 0 && !math.IsInf(b.hi, 1)
}

// open is the text of a criterion that the figure does not decide.
func (b bounds) open(most string, limit float64) string {
	asked, remedy := most+" "+quantity(limit, b.unit), cmp.Or(b.remedy, again)
	switch {
	case b.within(limit):
		return fmt.Sprintf("too close to call: %s, and %s: %s", b.text(), asked, again)
	case b.lo > 0 && math.IsInf(b.hi, 1):
		return fmt.Sprintf("not decided: %s, no upper limit was found, and %s: %s", b.text(), asked, remedy)
	}
	return fmt.Sprintf("not decided: %s, and %s: %s", b.text(), asked, remedy)
}

func (b bounds) atLeast(least float64) (result.Status, string) {
	asked := quantity(least, b.unit)
	switch {
	case b.lo == least:
		return result.Passed, b.text() + ", as asked for"
	case b.lo > least:
		return result.Passed, fmt.Sprintf("%s, %s the %s asked for", b.text(), above(b.lo, least), asked)
	case b.ceiling && b.lo >= least*(1-resolution):
		return result.Passed, fmt.Sprintf("%s without loss, all that the tester could offer and within %s of the %s asked for", quantity(b.lo, b.unit), percent(resolution), asked)
	case b.hi < least:
		return result.Failed, fmt.Sprintf("%s, %s below the %s asked for", b.text(), margin(b.hi, least), asked)
	case b.ceiling:
		return result.Invalid, fmt.Sprintf("not decided: %s: the tester, not the box, is the limit, and %s is asked for: use a faster tester", b.text(), asked)
	}
	return result.Invalid, b.open("the criterion asks for at least", least)
}

func (b bounds) atMost(most float64) (result.Status, string) {
	asked := quantity(most, b.unit)
	switch {
	case b.hi == most:
		return result.Passed, b.text() + ", and no more is allowed"
	case b.hi < most:
		return result.Passed, fmt.Sprintf("%s, %s below the %s allowed", b.text(), margin(b.hi, most), asked)
	case b.lo > most:
		return result.Failed, fmt.Sprintf("%s, %s the %s allowed", b.text(), above(b.lo, most), asked)
	}
	return result.Invalid, b.open("the criterion allows at most", most)
}

// text is the figure with what is known of it.
func (b bounds) text() string {
	lo, hi := quantity(b.lo, b.unit), quantity(b.hi, b.unit)
	switch {
	case math.IsInf(b.hi, 1) && b.lo == 0:
		return "nothing is confirmed"
	case math.IsInf(b.hi, 1):
		return "at least " + lo
	case math.IsInf(b.lo, -1):
		return "at most " + hi
	case lo == hi:
		return lo
	}
	return "between " + lo + " and " + hi
}

// manifold is the multiple of what is asked from which a margin is told as one: beyond
// a few hundred per cent a share says little.
const manifold = 4

// above is how far v is above what is asked: "20.0 % above", "1,640 times".
func above(v, asked float64) string {
	times := v / asked
	if asked <= 0 || times < manifold || math.IsInf(times, 1) {
		return margin(v, asked) + " above"
	}
	if times < 1000 {
		return strconv.FormatFloat(times, 'g', 3, 64) + " times"
	}
	unit := math.Pow(10, math.Floor(math.Log10(times))-2) // of the third digit
	digits := strconv.FormatFloat(math.Round(times/unit)*unit, 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits + " times"
}

// margin is how far v is from what is asked, as a share of that.
func margin(v, asked float64) string {
	if asked == 0 {
		return fmt.Sprintf("%.3g", math.Abs(v))
	}
	return percent(math.Abs(v-asked) / math.Abs(asked))
}
