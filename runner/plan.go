// SPDX-License-Identifier: Apache-2.0

// Package runner runs a plan: it expands its axes, builds the lab, carries out
// the procedures' trials, and keeps every record. It also says what this machine
// can measure (doctor) and holds the roles that qualify judges.
//
//	Parse (file) --set--> Resolve (every key has a value) --> Points (axes
//	expanded, repeats interleaved, order shuffled by the seed) --> Run
package runner

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"boxdyno/internal/yaml"
)

// A Plan is plain data: what is measured where, how often, in which order.
type Plan struct {
	Lab        Entry
	Procedures []Entry
	Preset     string        // value of every procedure's parameter "preset" that the plan does not set itself
	Repeat     int           // times that every point is measured; 0: DefaultRepeat
	Seed       uint64        // of the order; 0 is a seed like any other once Resolve has seen the plan
	Budget     time.Duration // that the whole run may take, waiting for the machine's lock aside; 0: as long as it needs
	Telemetry  Watching

	at   map[string]string // where plan keys were written, for errors
	seed bool              // Seed was given
}

// The limits of a plan, and what it says where it says nothing.
const (
	MaxRepeat     = 1000
	MaxPoints     = 10_000 // repeats included
	DefaultLab    = "sandbox"
	DefaultPreset = "quick"
	DefaultRepeat = 1
	DefaultSeed   = 1
)

// Presets are the values of the plan key preset.
var Presets = []string{"quick", "standard"}

// Keys are the plan's own.
var Keys = []string{"lab", "procedures", "preset", "repeat", "seed", "budget", "telemetry"}

// An Entry names a plug-in and sets its parameters.
type Entry struct {
	Use    string
	Set    []Setting
	Repeat int    // of a procedure: times that its points are measured; 0: as the plan says
	Lab    string // of a procedure: the topology that its points are measured in; "": the plan's

	at, labAt string
}

// A Setting is one parameter; several values are an axis.
type Setting struct {
	Key    string
	Values []Word

	at string
}

// A Word is a value as text, with where it was written: "plan.yaml:4:22".
type Word struct {
	Text string
	At   string
}

// A PlanError says what is wrong with a plan and where it was written.
type PlanError struct {
	At  string // "plan.yaml:4:22", "--set frame_size"; "" where it is the plan as a whole
	Err error
}

func (e *PlanError) Error() string {
	if e.At == "" {
		return e.Err.Error()
	}
	return e.At + ": " + e.Err.Error()
}

func (e *PlanError) Unwrap() error { return e.Err }

func planErrorf(at, format string, args ...any) error {
	return &PlanError{At: at, Err: fmt.Errorf(format, args...)}
}

// Get is the setting of key, nil where there is none.
func (e *Entry) Get(key string) *Setting {
	for i := range e.Set {
		if e.Set[i].Key == key {
			return &e.Set[i]
		}
	}
	return nil
}

// Labs are the topologies that a resolved plan measures in, the plan's own first.
func (p *Plan) Labs() []string {
	names := []string{p.Lab.Use}
	for _, e := range p.Procedures {
		if e.Lab != "" && !slices.Contains(names, e.Lab) {
			names = append(names, e.Lab)
		}
	}
	return names
}

// put sets key, replacing what it was.
func (e *Entry) put(s Setting) {
	if old := e.Get(s.Key); old != nil {
		*old = s
		return
	}
	e.Set = append(e.Set, s)
}

// Use is the plan that runs one procedure with its defaults.
func Use(procedure string) Plan { return Plan{Procedures: []Entry{{Use: procedure}}} }

// Parse reads a plan in YAML or JSON; name stands in its errors, which are
// *PlanError. Whether its plug-ins and parameters exist is for Resolve to say.
func Parse(name string, data []byte) (Plan, error) {
	root, err := yaml.Parse(name, data)
	if err != nil {
		return Plan{}, &PlanError{Err: err}
	}
	p, err := parse(root)
	if err != nil {
		return Plan{}, &PlanError{Err: err}
	}
	return p, nil
}

func parse(root *yaml.Node) (Plan, error) {
	p := Plan{at: map[string]string{}}
	if root.Kind == yaml.Null {
		return p, root.Errorf("the plan is empty: it needs at least procedures")
	}
	if err := root.Want(yaml.Map, "the plan"); err != nil {
		return p, err
	}
	if err := root.Only("the plan", Keys...); err != nil {
		return p, err
	}
	for _, f := range root.Map {
		p.at[f.Key] = f.Value.Pos.String()
		var err error
		switch f.Key {
		case "lab":
			p.Lab, err = parseEntry(f.Value, "lab")
		case "procedures":
			if err = f.Value.Want(yaml.List, "procedures"); err != nil {
				return p, err
			}
			if len(f.Value.List) == 0 {
				return p, f.Value.Errorf("procedures is empty, and must name at least one")
			}
			for _, n := range f.Value.List {
				e, err := parseEntry(n, "an entry of procedures")
				if err != nil {
					return p, err
				}
				if s := e.Get("repeat"); s != nil {
					if len(s.Values) > 1 {
						return p, n.Errorf("repeat is one number, and no axis")
					}
					if e.Repeat, err = parseRepeat(s.Values[0].Text); err != nil {
						return p, n.Errorf("%w", err)
					}
					e.Set = slices.DeleteFunc(e.Set, func(s Setting) bool { return s.Key == "repeat" })
				}
				if s := e.Get("lab"); s != nil {
					if len(s.Values) > 1 {
						return p, n.Errorf("lab is one topology, and no axis")
					}
					e.Lab, e.labAt = s.Values[0].Text, s.at
					e.Set = slices.DeleteFunc(e.Set, func(s Setting) bool { return s.Key == "lab" })
				}
				p.Procedures = append(p.Procedures, e)
			}
		case "telemetry":
			p.Telemetry, err = parseWatching(f.Value)
		default:
			if err = f.Value.Want(yaml.Scalar, f.Key); err == nil {
				if err = p.setKey(f.Key, f.Value.Text); err != nil {
					err = f.Value.Errorf("%w", err)
				}
			}
		}
		if err != nil {
			return p, err
		}
	}
	if len(p.Procedures) == 0 {
		return p, root.Errorf("the plan has no procedures")
	}
	return p, nil
}

// setKey sets one of the plan's scalar keys, or of the key telemetry's.
func (p *Plan) setKey(key, text string) error {
	switch key {
	case "preset":
		if !slices.Contains(Presets, text) {
			return fmt.Errorf("preset %q: there are %s", text, strings.Join(Presets, ", "))
		}
		p.Preset = text
	case "repeat":
		n, err := parseRepeat(text)
		if err != nil {
			return err
		}
		p.Repeat = n
	case "seed":
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return fmt.Errorf("seed %q: want a whole number from 0 to %d", text, uint64(1<<64-1))
		}
		p.Seed, p.seed = n, true
	case "budget":
		d, err := parseBudget(text)
		if err != nil {
			return err
		}
		p.Budget = d
	default:
		return p.Telemetry.Set(key, text)
	}
	return nil
}

func parseRepeat(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > MaxRepeat {
		return 0, fmt.Errorf("repeat %q: want a whole number from 1 to %d", text, MaxRepeat)
	}
	return n, nil
}

func parseEntry(n *yaml.Node, what string) (Entry, error) {
	e := Entry{at: n.Pos.String()}
	if n.Kind == yaml.Scalar {
		e.Use = n.Text
		return e, nil
	}
	if err := n.Want(yaml.Map, what); err != nil {
		return e, err
	}
	use := n.Get("use")
	if use == nil {
		return e, n.Errorf("%s has no key use, which names it", what)
	}
	if err := use.Want(yaml.Scalar, "use"); err != nil {
		return e, err
	}
	e.Use, e.at = use.Text, use.Pos.String()
	for _, f := range n.Map {
		if f.Key == "use" {
			continue
		}
		s := Setting{Key: f.Key, at: f.Pos.String()}
		values := []*yaml.Node{f.Value}
		if f.Value.Kind == yaml.List {
			values = f.Value.List
			if len(values) == 0 {
				return e, f.Value.Errorf("%s is an empty list, and must hold at least one value", f.Key)
			}
		}
		for _, v := range values {
			if v.Kind != yaml.Scalar {
				return e, v.Errorf("%s holds %s, and must be a value or a list of values", f.Key, v.Kind)
			}
			s.Values = append(s.Values, Word{Text: v.Text, At: v.Pos.String()})
		}
		e.Set = append(e.Set, s)
	}
	return e, nil
}

// MarshalJSON writes the plan in the form that Parse reads.
func (p Plan) MarshalJSON() ([]byte, error) {
	budget := ""
	if p.Budget > 0 {
		budget = p.Budget.String()
	}
	return json.Marshal(struct {
		Lab        Entry    `json:"lab"`
		Procedures []Entry  `json:"procedures"`
		Preset     string   `json:"preset,omitempty"`
		Repeat     int      `json:"repeat"`
		Seed       uint64   `json:"seed"`
		Budget     string   `json:"budget,omitempty"`
		Telemetry  Watching `json:"telemetry"`
	}{p.Lab, p.Procedures, p.Preset, p.Repeat, p.Seed, budget, p.Telemetry})
}

// MarshalJSON writes {"use": ..., parameters in their order}.
func (e Entry) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(`{"use":`)
	b.Write(text(e.Use))
	if e.Repeat > 0 {
		fmt.Fprintf(&b, `,"repeat":%d`, e.Repeat)
	}
	if e.Lab != "" {
		b.WriteString(`,"lab":`)
		b.Write(text(e.Lab))
	}
	for _, s := range e.Set {
		b.WriteByte(',')
		b.Write(text(s.Key))
		b.WriteByte(':')
		if len(s.Values) == 1 {
			b.Write(text(s.Values[0].Text))
			continue
		}
		for i, v := range s.Values {
			b.WriteByte("[,"[min(i, 1)])
			b.Write(text(v.Text))
		}
		b.WriteByte(']')
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// text is s as a JSON string, or as a number where that reads back as s.
func text(s string) []byte {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && strconv.FormatInt(n, 10) == s {
		return []byte(s)
	}
	b, _ := json.Marshal(s) // a string always encodes
	return b
}
