// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/telemetry"
)

// A Catalogue is the plug-ins that a plan may name.
type Catalogue struct {
	Procedures []procedure.Spec
	Labs       []lab.Spec
	Collectors []telemetry.Spec
}

// Plugins is the catalogue of this binary.
func Plugins() Catalogue {
	return Catalogue{Procedures: procedure.All, Labs: lab.All, Collectors: telemetry.All}
}

func (c Catalogue) procedure(name, at string) (procedure.Spec, error) {
	var names []string
	for _, s := range c.Procedures {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return procedure.Spec{}, planErrorf(at, "unknown procedure %q: there are %s", name, strings.Join(names, ", "))
}

func (c Catalogue) lab(name, at string) (lab.Spec, error) {
	var names []string
	for _, s := range c.Labs {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return lab.Spec{}, planErrorf(at, "unknown topology %q: there are %s", name, strings.Join(names, ", "))
}

// declarer is a Procedure or a Topology.
type declarer interface{ Flags(fs *flag.FlagSet) }

func flags(d declarer) *flag.FlagSet {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	d.Flags(fs)
	return fs
}

// A Param is a plug-in's parameter as help, lists and the schema show it.
type Param struct {
	Name    string   `json:"name"`
	Default string   `json:"default"`
	Help    string   `json:"help"`
	Values  []string `json:"values,omitempty"` // all there are, where the set is closed
}

// Params are the parameters that d declares, by name.
func Params(d declarer) (ps []Param) {
	flags(d).VisitAll(func(f *flag.Flag) {
		_, help := flag.UnquoteUsage(f)
		p := Param{Name: f.Name, Default: f.DefValue, Help: help}
		if v, ok := f.Value.(interface{ Values() []string }); ok {
			p.Values = v.Values()
		}
		ps = append(ps, p)
	})
	return ps
}

// Set applies --set key=value[,value...] to p: to the procedures that have the
// parameter, else to the lab, else to the plan.
func (p *Plan) Set(c Catalogue, arg string) error {
	key, list, ok := strings.Cut(arg, "=")
	at := "--set " + key
	if !ok || key == "" {
		return planErrorf("--set "+arg, "want key=value or key=value,value")
	}
	s := Setting{Key: key, at: at}
	for v := range strings.SplitSeq(list, ",") {
		v = strings.TrimSpace(v)
		if v == "" {
			return planErrorf(at, "a value is empty")
		}
		s.Values = append(s.Values, Word{Text: v, At: at})
	}
	known := map[string]bool{}
	found := false
	for i := range p.Procedures {
		spec, err := c.procedure(p.Procedures[i].Use, p.Procedures[i].at)
		if err != nil {
			return err
		}
		for _, q := range Params(spec.New()) {
			known[q.Name] = true
			if q.Name == key {
				p.Procedures[i].put(s)
				found = true
			}
		}
	}
	if found {
		return nil
	}
	spec, err := c.lab(p.labName(c), p.Lab.at)
	if err != nil {
		return err
	}
	for _, q := range Params(spec.New()) {
		known[q.Name] = true
		if q.Name == key {
			p.Lab.Use = spec.Name
			p.Lab.put(s)
			return nil
		}
	}
	switch key {
	case "lab":
		if len(s.Values) > 1 {
			return planErrorf(at, "one run has one lab")
		}
		p.SetLab(s.Values[0].Text, at)
		return nil
	case "preset", "repeat", "seed", "telemetry":
		if len(s.Values) > 1 {
			return planErrorf(at, "one run has one %s", key)
		}
		return p.SetKey(key, s.Values[0].Text, at)
	}
	for _, k := range Keys {
		if k != "procedures" {
			known[k] = true
		}
	}
	return planErrorf(at, "unknown parameter: there are %s", strings.Join(sorted(known), ", "))
}

// SetKey sets preset, repeat, seed, telemetry (off, on or a rate) or one of
// WatchingKeys; at says where the text was given.
func (p *Plan) SetKey(key, text, at string) error {
	if err := p.setKey(key, text); err != nil {
		return &PlanError{At: at, Err: err}
	}
	if key == "repeat" { // of every procedure
		p.Procedures = slices.Clone(p.Procedures)
		for i := range p.Procedures {
			p.Procedures[i].Repeat = 0
		}
	}
	return nil
}

// SetLab takes another topology; the parameters of a different one before it are
// forgotten. at says where the name was given.
func (p *Plan) SetLab(name, at string) {
	if p.Lab.Use != name {
		p.Lab = Entry{Use: name}
	}
	p.Lab.at = at
}

// SetPreset takes a preset for everything that the plan runs.
func (p *Plan) SetPreset(preset string) error {
	if err := p.SetKey("preset", preset, "--"+preset); err != nil {
		return err
	}
	for i := range p.Procedures {
		e := &p.Procedures[i]
		e.Set = slices.DeleteFunc(slices.Clone(e.Set), func(s Setting) bool { return s.Key == "preset" })
	}
	return nil
}

// labName is the plan's topology, or the one that all its procedures are for.
func (p *Plan) labName(c Catalogue) string {
	if p.Lab.Use != "" {
		return p.Lab.Use
	}
	name, first := "", true
	for _, e := range p.Procedures {
		if e.Lab != "" {
			continue // one of its own
		}
		spec, err := c.procedure(e.Use, "")
		if err != nil || !first && spec.Lab != name {
			return DefaultLab
		}
		name, first = spec.Lab, false
	}
	return cmp.Or(name, DefaultLab)
}

func sorted(set map[string]bool) (names []string) {
	for n := range set {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Resolve gives every key a value in canonical text and refuses what does not
// exist, is out of range or absurd; its errors are *PlanError. A resolved plan
// resolves to itself.
func (p Plan) Resolve(c Catalogue) (Plan, error) {
	out := p
	if out.Repeat == 0 {
		out.Repeat = DefaultRepeat
	}
	if out.Repeat < 1 || out.Repeat > MaxRepeat {
		return p, planErrorf("", "repeat %d: want a whole number from 1 to %d", out.Repeat, MaxRepeat)
	}
	if !out.seed && out.Seed == 0 {
		out.Seed = DefaultSeed
	}
	out.seed = true
	if out.Preset == "" {
		out.Preset = DefaultPreset
	}
	watching, err := p.Telemetry.resolve(c.Collectors, p.at["telemetry"])
	if err != nil {
		return p, err
	}
	out.Telemetry = watching
	topology, err := c.lab(p.labName(c), p.Lab.at)
	if err != nil {
		return p, err
	}
	out.Lab.Use = topology.Name
	if out.Lab.Set, err = fill("topology "+topology.Name, func() declarer { return topology.New() }, nil, p.Lab.Set, nil); err != nil {
		return p, err
	}
	for _, s := range out.Lab.Set {
		if len(s.Values) > 1 {
			return p, planErrorf(s.Values[1].At, "%s has %d values, and a lab has no axes", s.Key, len(s.Values))
		}
	}
	out.Procedures = nil
	if len(p.Procedures) == 0 {
		return p, planErrorf("", "the plan has no procedures")
	}
	for _, e := range p.Procedures {
		spec, err := c.procedure(e.Use, e.at)
		if err != nil {
			return p, err
		}
		if e.Lab != "" {
			if _, err := c.lab(e.Lab, e.labAt); err != nil {
				return p, err
			}
		}
		preset := &Setting{Key: "preset", Values: []Word{{Text: out.Preset, At: "preset"}}}
		e.Set, err = fill("procedure "+spec.Name, func() declarer { return spec.New() }, spec.Names, e.Set, preset)
		if err != nil {
			return p, err
		}
		out.Procedures = append(out.Procedures, e)
	}
	n := 0
	for _, e := range out.Procedures {
		points := cmp.Or(e.Repeat, out.Repeat)
		for _, s := range e.Set {
			if points *= len(s.Values); points > MaxPoints {
				break
			}
		}
		if n += points; n > MaxPoints {
			return p, planErrorf("", "the plan has more than %d points (axes times repeat): split it", MaxPoints)
		}
	}
	return out, nil
}

// fill checks the settings of one plug-in and adds what they leave out: preset
// where the plug-in has such a parameter, else its own default. The order is
// names, then the alphabet's.
func fill(what string, fresh func() declarer, names []string, set []Setting, preset *Setting) ([]Setting, error) {
	var params []string
	given := map[string]Setting{}
	for _, q := range Params(fresh()) {
		params = append(params, q.Name)
		given[q.Name] = Setting{Key: q.Name, Values: []Word{{Text: q.Default}}}
	}
	if preset != nil && slices.Contains(params, preset.Key) {
		given[preset.Key] = *preset
	}
	for _, s := range set {
		if !slices.Contains(params, s.Key) {
			return nil, planErrorf(s.at, "%s has no parameter %q: there are %s", what, s.Key, strings.Join(params, ", "))
		}
		given[s.Key] = s
	}
	var order []string
	for _, n := range append(slices.Clone(names), params...) {
		if slices.Contains(params, n) && !slices.Contains(order, n) {
			order = append(order, n)
		}
	}
	var out []Setting
	for _, k := range order {
		s := given[k]
		s.Values = slices.Clone(s.Values)
		if len(s.Values) > MaxPoints {
			return nil, planErrorf(s.at, "%s has %d values, and a plan at most %d points", k, len(s.Values), MaxPoints)
		}
		seen := map[string]bool{}
		for i, w := range s.Values {
			canonical, err := check(fresh(), k, w)
			if err != nil {
				return nil, err
			}
			if seen[canonical] {
				return nil, planErrorf(w.At, "%s holds %s twice", k, canonical)
			}
			seen[canonical] = true
			s.Values[i].Text = canonical
		}
		out = append(out, s)
	}
	return out, nil
}

// check sets one parameter and returns its value in canonical text.
func check(d declarer, key string, w Word) (string, error) {
	fs := flags(d)
	f := fs.Lookup(key)
	say := key
	if strings.HasPrefix(w.At, "--") {
		say = "value" // the flag names the key
	}
	if w.Text == f.DefValue {
		return w.Text, nil // a default need not be settable: "" may mean none
	}
	if err := f.Value.Set(w.Text); err != nil {
		var missing *host.Missing
		switch {
		case errors.As(err, &missing):
			return "", err
		case err.Error() == "parse error" || err.Error() == "value out of range": // package flag's own, which name nothing
			return "", planErrorf(w.At, "%s %q: want %s", say, w.Text, f.Usage)
		}
		switch named := strings.Contains(err.Error(), w.Text); {
		case named && say != key:
			return "", &PlanError{At: w.At, Err: err}
		case named:
			return "", planErrorf(w.At, "%s: %w", key, err)
		}
		return "", planErrorf(w.At, "%s %q: %w", say, w.Text, err)
	}
	if canonical := f.Value.String(); canonical != "" {
		return canonical, nil
	}
	return w.Text, nil // flag.Func knows no text
}

// A Point is one procedure with one value for each parameter, to be measured
// once: what a record without parent tells of.
type Point struct {
	ID        string // "forward/route/lan-to-wan/64#1"
	Procedure string
	Params    []result.Pair
	Repeat    int    // from 1
	Tune      string // the part of a recipe that is in force, in an ablation; "": all of it
	Lab       string // the topology that it is measured in; "": the plan's

	at string
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
			pt := Point{ID: p.name(spec, params), Procedure: spec.Name, Params: params, Lab: e.Lab, at: e.at}
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

// Check asks every point whether its parameters fit together, and to bed where
// there is one, and adds up what the plan costs.
func Check(c Catalogue, points []Point, bed *lab.Testbed) (Estimate, error) {
	var sum Estimate
	add := func(p procedure.Procedure) {
		trials, d := p.Estimate()
		sum.Trials += trials
		sum.Time += d
	}
	counted := map[string]bool{} // points, and those that others build upon
	for _, pt := range points {
		counted[fmt.Sprintf("%s %q %s %d", pt.Procedure, pt.Params, pt.Tune, pt.Repeat)] = true
	}
	for _, pt := range points {
		p, err := pt.procedure(c)
		if err != nil {
			return sum, err
		}
		spec, err := c.procedure(pt.Procedure, pt.at)
		if err != nil {
			return sum, err
		}
		bed, topology := bed, pt.Lab
		switch {
		case bed != nil && (topology == "" || topology == bed.Topology):
			topology = bed.Topology
		default:
			bed = nil // its own is built when it is reached
		}
		if topology == lab.Here && spec.Lab != lab.Here {
			return sum, &PlanError{At: pt.at, Err: fmt.Errorf("%s: it offers frames, and topology %s has no ports", pt.Procedure, topology)}
		}
		if err := p.Check(bed); err != nil {
			var missing *host.Missing
			if errors.As(err, &missing) {
				return sum, fmt.Errorf("%s: %w", pt.ID, err)
			}
			return sum, &PlanError{At: pt.at, Err: fmt.Errorf("%s: %w", strings.TrimSuffix(pt.ID, fmt.Sprintf("#%d", pt.Repeat)), err)}
		}
		sum.Points++
		add(p)
		d, ok := p.(procedure.Dependent)
		if !ok || d.Upon() == "" {
			continue
		}
		spec, params, err := c.siblingParams(pt, d.Upon())
		if err != nil {
			return sum, err
		}
		key := fmt.Sprintf("%s %q %s %d", spec.Name, params, pt.Tune, pt.Repeat)
		if counted[key] {
			continue
		}
		counted[key] = true
		upon, err := Point{Procedure: spec.Name, Params: params, Repeat: pt.Repeat, at: pt.at}.procedure(c)
		if err != nil {
			return sum, err
		}
		add(upon)
	}
	return sum, nil
}
