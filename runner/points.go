// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/result"
)

// A Point is one procedure with one value for each parameter, to be measured
// once: what a record without parent tells of.
type Point struct {
	ID        string // "forward/route/lan-to-wan/64#1"
	Procedure string
	Params    []result.Pair
	Repeat    int    // from 1
	Tune      string // the part of a recipe that is in force, in an ablation; "": all of it
	Lab       string // the topology that it is measured in; "": the plan's

	at  string
	lab Entry // the topology and its parameters
}

// config is what identifies the point's records, beside Repeat.
func (pt Point) config() []result.Pair {
	if pt.Tune == "" {
		return pt.Params
	}
	return append(slices.Clip(pt.Params), result.Pair{Key: result.TuneKey, Value: pt.Tune})
}

// part names the part of a recipe that is in force, for IDs.
func (pt Point) part() string {
	if pt.Tune == "" {
		return ""
	}
	return "/" + result.TuneKey + "=" + pt.Tune
}

// Points expands the axes of a resolved plan. Every repeat is a pass over all
// points in an order of its own, which depends on the seed alone; those in a lab of
// their own come after the others.
func (p Plan) Points(c Catalogue) ([]Point, error) { return p.expand(c, []string{""}) }

// labOf is the topology that e's points are measured in. One of their own is as it is by
// default.
func (p *Plan) labOf(e Entry, c Catalogue) Entry {
	if name := p.labName(c); e.Lab == "" || e.Lab == name {
		return Entry{Use: name, Set: p.Lab.Set, at: p.Lab.at}
	}
	return Entry{Use: e.Lab, at: e.labAt}
}

// expand is Points, each of them once for every part of a recipe.
func (p Plan) expand(c Catalogue, parts []string) ([]Point, error) {
	var pass []Point
	var repeats []int // of each of pass
	seen := map[string]int{}
	for n, e := range p.Procedures {
		spec, err := c.procedure(e.Use, e.at)
		if err != nil {
			return nil, err
		}
		combos := [][]result.Pair{nil}
		for _, s := range e.Set {
			var next [][]result.Pair
			for _, head := range combos {
				for _, w := range s.Values {
					next = append(next, append(slices.Clip(head), result.Pair{Key: s.Key, Value: w.Text}))
				}
			}
			combos = next
		}
		for _, params := range combos {
			pt := Point{ID: p.name(spec, params), Procedure: spec.Name, Params: params, Lab: e.Lab, at: e.at, lab: p.labOf(e, c)}
			if first, twice := seen[pt.ID]; twice {
				return nil, planErrorf(e.at, "entry %d of procedures measures %s, which entry %d measures already", n+1, pt.ID, first+1)
			}
			seen[pt.ID] = n
			for _, part := range parts {
				varied := pt
				varied.Tune = part
				varied.ID += varied.part()
				pass = append(pass, varied)
				repeats = append(repeats, cmp.Or(e.Repeat, p.Repeat))
			}
		}
	}
	n, most := 0, 0
	for _, r := range repeats {
		n += r
		most = max(most, r)
	}
	if n > MaxPoints {
		return nil, planErrorf("", "%d points are more than %d (axes times repeat, times the parts of a recipe): split the plan", n, MaxPoints)
	}
	var all []Point
	for r := 1; r <= most; r++ {
		order := rand.New(rand.NewPCG(p.Seed, uint64(r))).Perm(len(pass))
		labs := p.Labs()
		slices.SortStableFunc(order, func(a, b int) int { // one testbed after the other
			return cmp.Compare(max(slices.Index(labs, pass[a].Lab), 0), max(slices.Index(labs, pass[b].Lab), 0))
		})
		for _, i := range order {
			if r > repeats[i] {
				continue
			}
			pt := pass[i]
			pt.Repeat = r
			pt.ID = fmt.Sprintf("%s#%d", pt.ID, r)
			all = append(all, pt)
		}
	}
	return all, nil
}

// name is the procedure with the values of its naming parameters, and whatever
// else differs from its defaults and the plan's preset.
func (p Plan) name(spec procedure.Spec, params []result.Pair) string {
	parts := []string{spec.Name}
	for _, k := range spec.Names {
		if v := result.Get(params, k); v != "" {
			parts = append(parts, v)
		}
	}
	fs := flags(spec.New())
	for _, q := range params {
		usual := fs.Lookup(q.Key).DefValue
		if q.Key == "preset" {
			usual = p.Preset
		}
		if !slices.Contains(spec.Names, q.Key) && q.Value != usual {
			parts = append(parts, q.Key+"="+q.Value)
		}
	}
	return strings.Join(parts, "/")
}

// sibling is the ID and the parameters of procedure name's point at the parameters
// of pt and its repeat; what pt does not have is as that procedure has it by default.
func (c Catalogue) sibling(p Plan, pt Point, name string) (id string, params []result.Pair, err error) {
	spec, params, err := c.siblingParams(pt, name)
	if err != nil {
		return "", nil, err
	}
	id = fmt.Sprintf("%s%s#%d", p.name(spec, params), pt.part(), pt.Repeat)
	if pt.Tune != "" {
		params = append(params, result.Pair{Key: result.TuneKey, Value: pt.Tune})
	}
	return id, params, nil
}

func (c Catalogue) siblingParams(pt Point, name string) (spec procedure.Spec, params []result.Pair, err error) {
	if spec, err = c.procedure(name, pt.at); err != nil {
		return spec, nil, err
	}
	set, err := fill("procedure "+name, func() declarer { return spec.New() }, spec.Names, nil, nil)
	if err != nil {
		return spec, nil, err
	}
	for _, s := range set {
		q := result.Pair{Key: s.Key, Value: s.Values[0].Text}
		if i := slices.IndexFunc(pt.Params, func(o result.Pair) bool { return o.Key == s.Key }); i >= 0 {
			q.Value = pt.Params[i].Value
		}
		params = append(params, q)
	}
	return spec, params, nil
}

// procedure makes the point's procedure with its parameters set.
func (pt Point) procedure(c Catalogue) (procedure.Procedure, error) {
	spec, err := c.procedure(pt.Procedure, pt.at)
	if err != nil {
		return nil, err
	}
	p := spec.New()
	if err := apply(flags(p), pt.Params); err != nil {
		return nil, &PlanError{At: pt.at, Err: err}
	}
	return p, nil
}

func apply(fs *flag.FlagSet, params []result.Pair) error {
	for _, q := range params {
		if fs.Lookup(q.Key).DefValue == q.Value {
			continue
		}
		if err := fs.Set(q.Key, q.Value); err != nil {
			return fmt.Errorf("%s %q: %w", q.Key, q.Value, err)
		}
	}
	return nil
}

// An Estimate is about what a plan costs.
type Estimate struct {
	Points, Trials int
	Time           time.Duration
}

// Check asks every point whether its parameters fit together and to bed, and adds up
// what the plan costs. Without a bed it asks of the sketch of what would be built: what
// passes then is refused later only for what the machine or the box turns out to lack.
func Check(c Catalogue, points []Point, bed *lab.Testbed) (sum Estimate, err error) {
	each, err := Costs(c, points, bed)
	for _, e := range each {
		sum.Points += e.Points
		sum.Trials += e.Trials
		sum.Time += e.Time
	}
	return sum, err
}

// Costs is Check that tells what each point costs: what several share is the first one's.
func Costs(c Catalogue, points []Point, bed *lab.Testbed) (each []Estimate, err error) {
	sketches := map[string]*lab.Testbed{}
	counted := map[string]bool{} // points, those that others build upon, and what is measured once
	for _, pt := range points {
		counted[costKey(pt.Procedure, pt.Params, pt)] = true
	}
	for _, pt := range points {
		p, err := pt.procedure(c)
		if err != nil {
			return each, err
		}
		spec, err := c.procedure(pt.Procedure, pt.at)
		if err != nil {
			return each, err
		}
		if err := c.runsOn(pt, spec, p); err != nil {
			return each, err
		}
		bed := bed
		if bed == nil || pt.Lab != "" && pt.Lab != bed.Topology { // its own is built when it is reached
			if bed = sketches[pt.lab.Use]; bed == nil {
				if bed, err = c.sketch(pt.lab); err != nil {
					return each, err
				}
				sketches[pt.lab.Use] = bed
			}
		}
		if err := served(pt, p, bed); err != nil {
			return each, err
		}
		if bed.Topology == lab.There {
			bed = nil // the box is asked once it is reached
		}
		if err := p.Check(bed); err != nil {
			var missing *host.Missing
			if errors.As(err, &missing) {
				return each, fmt.Errorf("%s: %w", pt.ID, err)
			}
			return each, &PlanError{At: pt.at, Err: fmt.Errorf("%s: %w", strings.TrimSuffix(pt.ID, fmt.Sprintf("#%d", pt.Repeat)), err)}
		}
		e := Estimate{Points: 1}
		add := func(trials int, d time.Duration) {
			e.Trials += trials
			e.Time += d
		}
		add(p.Estimate())
		if s, ok := p.(procedure.Sharing); ok {
			key, trials, d := s.Once()
			if !counted[key] {
				counted[key] = true
				add(trials, d)
			}
		}
		upon, err := c.upon(pt, p, counted)
		if err != nil {
			return each, err
		}
		if upon != nil {
			add(upon.Estimate())
		}
		each = append(each, e)
	}
	return each, nil
}

// upon is the procedure that pt builds upon, nil where there is none or it is counted.
func (c Catalogue) upon(pt Point, p procedure.Procedure, counted map[string]bool) (procedure.Procedure, error) {
	d, ok := p.(procedure.Dependent)
	if !ok || d.Upon() == "" {
		return nil, nil
	}
	spec, params, err := c.siblingParams(pt, d.Upon())
	if err != nil {
		return nil, err
	}
	key := costKey(spec.Name, params, pt)
	if counted[key] {
		return nil, nil
	}
	counted[key] = true
	return Point{Procedure: spec.Name, Params: params, Repeat: pt.Repeat, at: pt.at}.procedure(c)
}

// costKey tells apart what is measured: procedure name at params, as pt is.
func costKey(name string, params []result.Pair, pt Point) string {
	return fmt.Sprintf("%s %q %s %d", name, params, pt.Tune, pt.Repeat)
}
