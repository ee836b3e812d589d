// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/link"
	"boxdyno/link/hub"
	"boxdyno/procedure"
	"boxdyno/procedure/catalog"
	"boxdyno/result"
	"boxdyno/telemetry"
)

// A Catalogue is the plug-ins that a plan may name.
type Catalogue struct {
	Procedures []procedure.Spec
	Labs       []lab.Spec
	Collectors []telemetry.Spec
	Dial       link.Dial // that topologies reach boxes by
}

// Plugins is the catalogue of this binary.
func Plugins() Catalogue {
	return Catalogue{Procedures: catalog.All, Labs: lab.All, Collectors: telemetry.All(), Dial: hub.Dial}
}

// Declare fills in what run's procedures declare of their rows, where a run of before did
// not keep it, or no metric of it, and this binary has the procedure.
func (c Catalogue) Declare(run *result.Run, recs []result.Record) {
	for _, r := range recs {
		kept := slices.IndexFunc(run.Procedures, func(p result.Procedure) bool { return p.Name == r.Procedure })
		if kept >= 0 && len(run.Procedures[kept].Metrics) > 0 {
			continue
		}
		if i := slices.IndexFunc(c.Procedures, func(s procedure.Spec) bool { return s.Name == r.Procedure }); i >= 0 {
			all := slices.DeleteFunc(slices.Clone(run.Procedures), func(p result.Procedure) bool { return p.Name == r.Procedure })
			run.Procedures = append(all, c.Procedures[i].Declaration())
		}
	}
}

func (c Catalogue) procedure(name, at string) (procedure.Spec, error) {
	var names []string
	for _, s := range c.Procedures {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return procedure.Spec{}, planErrorf(at, "unknown procedure %q%s: there are %s", name, DidYouMean(name, names), strings.Join(names, ", "))
}

func (c Catalogue) lab(name, at string) (lab.Spec, error) {
	var names []string
	for _, s := range c.Labs {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return lab.Spec{}, planErrorf(at, "unknown topology %q%s: there are %s", name, DidYouMean(name, names), strings.Join(names, ", "))
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
	case "preset", "repeat", "seed", "budget", "telemetry":
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

// WithoutFrames says whether all that the plan measures, with settings that are still to come
// ("rate=none"), loads a whole machine or runs programs on it, and needs nothing else.
func (p *Plan) WithoutFrames(c Catalogue, settings []string) bool {
	const alone = lab.OwnMachine | lab.Subjects
	return p.all(c, func(e Entry, spec procedure.Spec) bool {
		proc := spec.New()
		fs := flags(proc)
		set := func(key, value string) {
			if fs.Lookup(key) != nil {
				_ = fs.Set(key, value) // Resolve says what is wrong with it
			}
		}
		for _, s := range e.Set {
			if len(s.Values) > 0 {
				set(s.Key, s.Values[0].Text)
			}
		}
		for _, s := range settings {
			key, values, _ := strings.Cut(s, "=")
			value, _, _ := strings.Cut(values, ",")
			set(key, value)
		}
		need, _ := needs(spec, proc)
		return need&alone != 0 && need&^alone == 0
	})
}

// Needs says whether all that the plan measures needs a capability of its testbed, whatever
// its parameters.
func (p *Plan) Needs(c Catalogue, need lab.Capability) bool {
	return p.all(c, func(_ Entry, spec procedure.Spec) bool { return spec.Needs&need != 0 })
}

// all says whether ok is true of every entry, but for those with a topology of their own.
func (p *Plan) all(c Catalogue, ok func(Entry, procedure.Spec) bool) bool {
	all := false
	for _, e := range p.Procedures {
		spec, err := c.procedure(e.Use, e.at)
		switch {
		case e.Lab != "":
		case err != nil || !ok(e, spec):
			return false
		default:
			all = true
		}
	}
	return all
}

// WithoutOwnLabs leaves out entries that are measured in a topology of their own, which this
// machine would be, and says why.
func (p Plan) WithoutOwnLabs() (_ Plan, left []string) {
	p.Procedures = slices.Clone(p.Procedures)
	p.Procedures = slices.DeleteFunc(p.Procedures, func(e Entry) bool {
		if text := fmt.Sprintf("%s in topology %s: that is this machine, not the box", e.Use, e.Lab); e.Lab != "" && !slices.Contains(left, text) {
			left = append(left, text)
		}
		return e.Lab != ""
	})
	return p, left
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
	watching, err := p.Telemetry.resolve(c.Collectors, p.at["telemetry"], p.Lab.Use)
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
