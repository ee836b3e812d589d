// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"boxdyno/report/internal/phrase"
	"boxdyno/result"
	"boxdyno/stat"
	"boxdyno/unit"
	"boxdyno/verdict"
)

// The orders in which rows stand; what is not listed comes last, by name.
var (
	services   = []string{"route", "filter", "nat", "drop-xdp", "drop-tc", "drop-nft"}
	directions = []string{"lan-to-wan", "wan-to-lan", "both"}
)

// Summarize makes the document of a run from its records: trials (with a
// Parent) and points (without). It invents nothing: what no record holds is
// absent.
func Summarize(run result.Run, recs []result.Record) Document {
	d := Document{
		Schema: result.Schema, Version: run.Version, ID: run.ID, Start: run.Start, Role: run.Role, Preset: run.Preset,
		Topology: run.Topology, Box: run.Box, Kind: run.Kind, Warnings: run.Warnings, NotMeasured: run.NotMeasured, Deviations: run.Deviations,
		Machines: run.Machines, Backend: backends(run.Backend), Metrics: run.Metrics, Plan: run.Plan, Seed: run.Seed,
		Command: shell(run.Command), Rows: []Row{}, Budget: run.Budget,
	}
	d.Environment = environment(run.Environments)
	for _, s := range d.Environment {
		if s.Key == "placement" {
			d.Placement = s.Before
		}
	}
	trials := map[string][]result.Record{}
	var points, tested []result.Record
	for _, r := range recs {
		if a := r.Account; a != nil && r.Status != result.Running && r.Parent != "" {
			d.Books.Trials++
			if a.Unexplained == 0 {
				d.Books.Closed++
			}
			if abs(a.Unexplained) > abs(d.Books.Largest) {
				d.Books.Largest = a.Unexplained
			}
		}
		switch {
		case r.Status != result.Invalid || r.Parent == "":
		case computes(r.Procedure):
			d.Books.Starved++
		default:
			d.Books.Invalid++
		}
		switch {
		case r.Parent == SelfTestProcedure:
			d.SelfTests = append(d.SelfTests, selfTestOf(r))
		case r.Procedure == SelfTestProcedure:
			tested = append(tested, r)
		case r.Parent != "":
			trials[r.Parent] = append(trials[r.Parent], r)
		default:
			points = append(points, r)
		}
	}
	var told []tableRow
	for _, group := range byConfig(points) {
		row := rowOf(run, group, trials)
		row.Energy, row.Apart = energyOf(group), apartOf(run, group)
		row.Warnings = append(row.Warnings, course(group, recs)...)
		d.Rows = append(d.Rows, row)
		told = append(told, row.found)
	}
	lineRates(d.Rows)
	publishTunnels(d.Rows)
	d.Published = citations(run, points)
	d.Cited = citedSentences(d.Published)
	slices.SortStableFunc(d.Rows, order)
	d.SharedWarnings = shared(d.Rows)

	// A role's judgement needs whole points; without a role the worst row speaks.
	if run.Role != "" || len(run.Criteria) > 0 {
		d.Verdict, d.Findings = verdict.Judge(run.Criteria, warmed(run, points, trials))
	} else {
		var all []result.Status
		for _, r := range d.Rows {
			all = append(all, r.Verdict)
		}
		for _, s := range d.SelfTests {
			all = append(all, s.Verdict)
		}
		d.Verdict = verdict.Worst(all...)
	}
	if d.Ablation = ablationOf(run, points); d.Ablation != nil {
		d.Verdict = d.Ablation.status(d.Verdict)
	}
	var powers string
	if run.Role == "" && len(run.Criteria) == 0 && d.Ablation == nil {
		if d.Powers, powers = powersOf(d.Rows); d.Powers != nil {
			d.Skipped = skips(d.Rows)
		}
	}
	d.Tables = append(d.tables(run, told, trials), fleetTables(run, recs)...)
	if len(points) == 0 {
		d.Tables = append(d.Tables, ceilingTables(run, tested)...)
	}
	d.Sentence, d.Summary, d.Caveat = sentence(d), summary(d), caveat(d)
	if powers != "" && !broken(d.Verdict) {
		d.Sentence, d.Summary = powers, powers
	}
	same := d.Summary == d.Sentence
	if d.Sentence = atBox(d, d.Sentence); same {
		d.Summary = d.Sentence
	}
	d.Sure = sure(d, recs)
	d.Watched = watched(run, recs)
	d.Metered = metered(run, d.Rows, recs)
	if d.Ablation != nil { // its rows are one box in many settings: what limits one of them is not the answer
		d.Next = append(slices.Clip(d.Ablation.Advice), next(d, "")...)
		return d
	}
	d.Beside = besideOf(d, points, recs)
	d.Study = studyOf(d, points)
	if d.Powers != nil { // what limits one of its programs is not the answer
		d.Next = next(d, "")
		return d
	}
	var advice string
	d.Bottleneck, advice = bottleneck(d, run, points, trials)
	d.Next = next(d, advice)
	return d
}

// of are the trials of a configuration's repeats.
func of(trials map[string][]result.Record, repeats []result.Record) (all []result.Record) {
	for _, p := range repeats {
		all = append(all, trials[p.ID]...)
	}
	return all
}

// byConfig gathers the repeats of each configuration, in order of appearance.
func byConfig(points []result.Record) [][]result.Record {
	var groups [][]result.Record
	at := map[string]int{}
	for _, p := range points {
		key := fmt.Sprintf("%q %q", p.Procedure, p.Config)
		i, ok := at[key]
		if !ok {
			i = len(groups)
			at[key] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], p)
	}
	return groups
}

func rowOf(run result.Run, repeats []result.Record, trials map[string][]result.Record) Row {
	valid := slices.DeleteFunc(slices.Clone(repeats), func(p result.Record) bool { return p.Status == result.Invalid })
	if len(valid) == 0 {
		valid = repeats
	}
	p := typical(valid)
	r := Row{
		ID: p.ID, Procedure: p.Procedure, Repeats: len(repeats), Verdict: p.Status, Reason: p.Reason, Ledger: p.Account,
		Service: result.Get(p.Config, "service"), Direction: result.Get(p.Config, "direction"), FrameSize: result.Get(p.Config, "frame_size"),
	}
	r.Rules, _ = strconv.Atoi(result.Get(p.Config, "rules"))
	r.Flows, _ = strconv.Atoi(result.Get(p.Config, "flows"))
	if n, _ := strconv.Atoi(result.Get(p.Config, "networks")); n > 1 {
		r.Networks = n
	}
	r.IP, _ = strconv.Atoi(result.Get(p.Config, "ip"))
	r.Tune = result.Get(p.Config, result.TuneKey)
	r.Beside = besideWords(p.Config)
	get := func(metric string) figure { return merge(metric, valid) }
	r.found = tabled(r.ID, repeats)
	r.blocked(&measured{&r, run, repeats, p, trials})
	r.found.id = r.ID
	r.Name = name(r)
	if !r.kind().unsized {
		r.MeanFrameSize = meanSize(r.FrameSize, p, trials[p.ID])
	}
	for _, x := range repeats {
		if x.Status != r.Verdict && verdict.Worst(x.Status, r.Verdict) == x.Status {
			r.Verdict, r.Reason = x.Status, x.Reason
		}
		for _, w := range x.Warnings {
			if !slices.Contains(r.Warnings, w) {
				r.Warnings = append(r.Warnings, w)
			}
		}
	}

	fill(&r, r.at)
	t, f, drop := get(throughput), get(forwardingRate), get(dropRate)
	r.ThroughputFPSLo, r.ThroughputFPSHi, r.ThroughputN = t.lo, t.hi, t.n
	r.ForwardingFPSLo, r.ForwardingFPSHi, r.ForwardingN, r.ForwardingBound = f.lo, f.hi, f.n, f.bound
	r.DropFPSLo, r.DropFPSHi, r.DropN, r.DropBound = drop.lo, drop.hi, drop.n, drop.bound
	r.Stalls = whole(get("stalls").value, 1)
	r.LongestStallNS = whole(get(longestStall).value, 1e9)
	if f := r.bounded(); f != nil {
		r.Bound = f.Bound
	}
	return r
}

// bounded is the figure whose bound is the row's; nil: there is none.
func (r *Row) bounded() *Figure {
	for _, m := range boundedBy {
		if f := r.at(m); f != nil {
			return f
		}
	}
	return nil
}

// open says whether the row's rate is a lower bound, and the tester is not why.
func (r *Row) open() bool {
	f := r.bounded()
	return f != nil && f.Open
}

// typical is the repeat whose forwarding (or drop) rate is the median one.
func typical(points []result.Record) result.Record {
	sorted := slices.Clone(points)
	slices.SortStableFunc(sorted, func(a, b result.Record) int { return cmp.Compare(overload(a), overload(b)) })
	return sorted[(len(sorted)-1)/2]
}

func overload(p result.Record) float64 {
	for _, m := range orderedBy {
		if v := p.Value(m); v != nil {
			return v.Value
		}
	}
	return 0
}

type figure struct {
	value, lo, hi *float64
	n             int
	bound         result.Bound
	open          bool
}

// merge is the median of metric over the repeats that have it; its interval
// encloses theirs. A bound holds as soon as one repeat has it; but a repeat that is open
// bounds nothing where another one found the upper end.
func merge(metric string, repeats []result.Record) (f figure) {
	var vs []float64
	open := false
	for _, p := range repeats {
		v := p.Value(metric)
		if v == nil || math.IsNaN(v.Value) || math.IsInf(v.Value, 0) {
			continue
		}
		vs = append(vs, v.Value)
		f.n += max(v.N, 1)
		if v.Open {
			open = true
		} else if v.Bound != result.Exactly {
			f.bound = v.Bound
		}
		if v.Lo != nil && (f.lo == nil || *v.Lo < *f.lo) {
			f.lo = v.Lo
		}
		if v.Hi != nil && (f.hi == nil || *v.Hi > *f.hi) {
			f.hi = v.Hi
		}
	}
	if len(vs) == 0 {
		return f
	}
	if open && f.bound == result.Exactly && f.hi == nil {
		f.bound, f.open = result.AtLeast, true
	}
	s := stat.Summarize(vs)
	f.value = &s.Center
	if len(vs) > 1 {
		if f.lo == nil || s.Lo < *f.lo {
			f.lo = &s.Lo
		}
		if f.bound == result.Exactly && (f.hi == nil || s.Hi > *f.hi) {
			f.hi = &s.Hi
		}
	}
	return f
}

// meanSize is in octets with FCS; 0 where nothing says it.
func meanSize(size string, p result.Record, trials []result.Record) float64 {
	for _, r := range append([]result.Record{p}, trials...) {
		if r.Load != nil && r.Load.MeanSize > 0 { // larger than asked where a signature did not fit
			return r.Load.MeanSize
		}
	}
	v, _ := strconv.ParseFloat(size, 64) // a mix has no mean of its own
	return v
}

func selfTestOf(r result.Record) SelfTest {
	s := SelfTest{Name: SelfTestProcedure, Verdict: r.Status, Reason: r.Reason, Warnings: r.Warnings}
	var words []string
	for _, p := range r.Config {
		if p.Key == "frame_size" {
			words = append(words, phrase.FrameSize(p.Value))
		} else if r.OfConnections() && p.Key == "response_size" {
			words = append(words, "response "+phrase.FrameSize(p.Value))
		} else if r.OfConnections() && p.Key == connectionsProcedure {
			words = append(words, p.Key)
		} else if p.Key != "trial" && p.Key != "duration" {
			words = append(words, p.Key+" "+p.Value)
		}
	}
	if len(words) > 0 {
		s.Name = strings.Join(words, ", ")
	}
	if r.OfConnections() {
		if v := r.Value(completeRate); v != nil {
			s.CeilingCPS = &v.Value
		}
	} else if v := r.Value(ceilingFPS); v != nil {
		s.CeilingFPS = &v.Value
	} else if r.Load != nil {
		s.CeilingFPS = new(float64(r.Ceiling()))
	}
	return s
}

func environment(envs [][]result.Pair) []Setting {
	if len(envs) == 0 {
		return nil
	}
	var out []Setting
	last := envs[len(envs)-1]
	for _, p := range envs[0] {
		s := Setting{Key: p.Key, Before: p.Value}
		if after := result.Get(last, p.Key); after != p.Value {
			if s.After = after; after == "" {
				s.After = "(gone)"
			}
		}
		s.Before, s.After = spaced(s.Before), spaced(s.After)
		out = append(out, s)
	}
	for _, p := range last {
		if !slices.ContainsFunc(out, func(s Setting) bool { return s.Key == p.Key }) {
			out = append(out, Setting{Key: p.Key, Before: "(not there)", After: p.Value})
		}
	}
	return out
}

// lineRates tells each row the line rate that its throughput is a share of. A
// row without throughput has the link of the others.
func lineRates(rows []Row) {
	var link float64 // layer 1, one direction
	for i := range rows {
		r := &rows[i]
		if r.LineRateShare != nil && *r.LineRateShare > 0 && r.ThroughputFPS != nil {
			r.LineRateFPS = new(*r.ThroughputFPS / *r.LineRateShare)
			link = *r.LineRateFPS / streams(r.Direction) * 8 * (r.MeanFrameSize + unit.Overhead)
		}
	}
	for i := range rows {
		if r := &rows[i]; r.LineRateFPS == nil && link > 0 && r.MeanFrameSize > 0 {
			r.LineRateFPS = new(float64(unit.LineRate(unit.BitRate(link), r.MeanFrameSize)) * streams(r.Direction))
		}
	}
}

// shared are the warnings that all of two or more rows carry.
func shared(rows []Row) (ws []string) {
	if len(rows) < 2 {
		return nil
	}
	for _, w := range rows[0].Warnings {
		if !slices.ContainsFunc(rows, func(r Row) bool { return !slices.Contains(r.Warnings, w) }) {
			ws = append(ws, w)
		}
	}
	return ws
}

// own are the row's warnings that not every row carries.
func (d *Document) own(r Row) (ws []string) {
	for _, w := range r.Warnings {
		if !slices.Contains(d.SharedWarnings, w) {
			ws = append(ws, w)
		}
	}
	return ws
}

func order(a, b Row) int {
	size := func(r Row) int {
		if n, err := strconv.Atoi(r.FrameSize); err == nil {
			return n
		}
		return math.MaxInt // mixes after the sizes
	}
	first := cmp.Or(cmp.Compare(a.power(), b.power()), cmp.Compare(index(services, a.Service), index(services, b.Service)), cmp.Compare(a.Service, b.Service),
		cmp.Compare(a.Rules, b.Rules), cmp.Compare(a.Flows, b.Flows), cmp.Compare(a.Networks, b.Networks), cmp.Compare(a.IP, b.IP), cmp.Compare(a.Beside, b.Beside),
		cmp.Compare(index(directions, a.Direction), index(directions, b.Direction)), cmp.Compare(size(a), size(b)), cmp.Compare(index(suiteProcedures, a.Procedure), index(suiteProcedures, b.Procedure)))
	if first == 0 && a.Block != nil && b.Block != nil && reflect.TypeOf(a.Block) == reflect.TypeOf(b.Block) {
		return a.Block.order(&a, &b)
	}
	return first
}

// power is in which order kinds of work stand, where a run measured several.
func (r *Row) power() int {
	k := r.kind()
	if k.ranked {
		return 100*k.power + slices.Index(k.procedures, r.Procedure)
	}
	return 100 * k.power
}

func index(list []string, s string) int {
	if i := slices.Index(list, s); i >= 0 {
		return i
	}
	return len(list)
}

func streams(direction string) float64 {
	if direction == "both" {
		return 2
	}
	return 1
}

func abs(n int64) int64 { return max(n, -n) }

func whole(v *float64, factor float64) *int64 {
	if v == nil {
		return nil
	}
	return new(int64(math.Round(*v * factor)))
}

// shell quotes argv for a POSIX shell.
func shell(argv []string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=,:@%+"
	var words []string
	for _, a := range argv {
		if a == "" || strings.Trim(a, plain) != "" {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}

// backends are the engine and what kept others from being it: that a backend works, the
// engine's name says.
func backends(tried []result.Pair) (out []result.Pair) {
	for _, p := range tried {
		if p.Value != "works" {
			out = append(out, p)
		}
	}
	return out
}

// spaced is a setting's value, where the kernel writes two words as one.
func spaced(value string) string {
	if value == "notsupported" {
		return "not supported"
	}
	return value
}
