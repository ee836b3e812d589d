// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"embed"
	"fmt"
	"path"
	"strconv"
	"strings"

	"boxdyno/internal/yaml"
	"boxdyno/result"
	"boxdyno/unit"
)

//go:embed roles/*.yaml
var roleFiles embed.FS

// A Role is a kind of box that qualify judges: what is measured, and what the
// box must reach.
type Role struct {
	Name, Description string
	LinkRate          unit.BitRate // that the criteria ask for
	presets           map[string]rolePreset
	criteria          []criterion
}

type rolePreset struct {
	plan                    Plan
	notMeasured, deviations []string
}

// A criterion is a result.Criterion in which "link_rate" is not yet a number.
type criterion struct {
	result.Criterion
	min, max string
}

// Roles are the embedded roles, by name.
func Roles() ([]Role, error) {
	entries, err := roleFiles.ReadDir("roles")
	if err != nil {
		return nil, err
	}
	var roles []Role
	for _, e := range entries {
		data, err := roleFiles.ReadFile(path.Join("roles", e.Name()))
		if err != nil {
			return nil, err
		}
		r, err := ParseRole("role "+strings.TrimSuffix(e.Name(), ".yaml"), data)
		if err != nil {
			return nil, err
		}
		roles = append(roles, r)
	}
	return roles, nil
}

// FindRole is the role of that name, or a *PlanError that says which there are.
func FindRole(name string) (Role, error) {
	roles, err := Roles()
	if err != nil {
		return Role{}, err
	}
	var names []string
	for _, r := range roles {
		if r.Name == name {
			return r, nil
		}
		names = append(names, r.Name)
	}
	return Role{}, planErrorf("", "unknown role %q: there are %s", name, strings.Join(names, ", "))
}

// ParseRole reads a role; file stands in its errors.
func ParseRole(file string, data []byte) (Role, error) {
	r := Role{presets: map[string]rolePreset{}}
	root, err := yaml.Parse(file, data)
	if err != nil {
		return r, err
	}
	if err := root.Want(yaml.Map, "a role"); err != nil {
		return r, err
	}
	if err := root.Only("a role", append([]string{"name", "description", "link_rate", "criteria"}, Presets...)...); err != nil {
		return r, err
	}
	for _, f := range root.Map {
		v := f.Value
		switch f.Key {
		case "name":
			r.Name = v.Text
		case "description":
			r.Description = v.Text
		case "link_rate":
			if r.LinkRate, err = unit.ParseBitRate(v.Text); err != nil {
				return r, v.Errorf("%w", err)
			}
		case "criteria":
			if err := v.Want(yaml.List, "criteria"); err != nil {
				return r, err
			}
			for _, n := range v.List {
				c, err := parseCriterion(n)
				if err != nil {
					return r, err
				}
				r.criteria = append(r.criteria, c)
			}
		default:
			if r.presets[f.Key], err = parsePreset(v); err != nil {
				return r, err
			}
		}
	}
	if r.Name == "" {
		return r, root.Errorf("a role has no name")
	}
	for _, p := range Presets {
		if _, ok := r.presets[p]; !ok {
			return r, root.Errorf("a role has no preset %s", p)
		}
	}
	return r, nil
}

func parsePreset(n *yaml.Node) (p rolePreset, err error) {
	if err := n.Want(yaml.Map, "a preset"); err != nil {
		return p, err
	}
	if err := n.Only("a preset", "plan", "not_measured", "deviations"); err != nil {
		return p, err
	}
	plan := n.Get("plan")
	if plan == nil {
		return p, n.Errorf("a preset has no plan")
	}
	if p.plan, err = parse(plan); err != nil {
		return p, err
	}
	for key, into := range map[string]*[]string{"not_measured": &p.notMeasured, "deviations": &p.deviations} {
		if v := n.Get(key); v != nil {
			if *into, err = v.Texts(key); err != nil {
				return p, err
			}
		}
	}
	return p, nil
}

func parseCriterion(n *yaml.Node) (c criterion, err error) {
	if err := n.Want(yaml.Map, "a criterion"); err != nil {
		return c, err
	}
	if err := n.Only("a criterion", "text", "metric", "where", "min", "max"); err != nil {
		return c, err
	}
	for _, f := range n.Map {
		switch f.Key {
		case "text":
			c.Text = f.Value.Text
		case "metric":
			c.Metric = f.Value.Text
		case "where":
			if err := f.Value.Want(yaml.Map, "where"); err != nil {
				return c, err
			}
			for _, w := range f.Value.Map {
				if err := w.Value.Want(yaml.Scalar, w.Key); err != nil {
					return c, err
				}
				c.Where = append(c.Where, result.Pair{Key: w.Key, Value: w.Value.Text})
			}
		case "min", "max":
			if _, err := limit(f.Value.Text, 1); err != nil {
				return c, f.Value.Errorf("%s %q: want a number or link_rate", f.Key, f.Value.Text)
			}
			if f.Key == "min" {
				c.min = f.Value.Text
			} else {
				c.max = f.Value.Text
			}
		}
	}
	if c.Text == "" || c.Metric == "" || c.min == "" && c.max == "" {
		return c, n.Errorf("a criterion needs text, metric and min or max")
	}
	return c, nil
}

// limit is a number; "" is none.
func limit(s string, rate unit.BitRate) (*float64, error) {
	switch s {
	case "":
		return nil, nil
	case "link_rate":
		v := float64(rate)
		return &v, nil
	}
	v, err := strconv.ParseFloat(s, 64)
	return &v, err
}

// Criteria are the role's, at its link rate.
func (r Role) Criteria() (cs []result.Criterion) {
	for _, c := range r.criteria {
		out := c.Criterion
		out.Text = strings.ReplaceAll(c.Text, "{link_rate}", r.LinkRate.String())
		out.Min, _ = limit(c.min, r.LinkRate) // ParseRole has seen that they are numbers
		out.Max, _ = limit(c.max, r.LinkRate)
		cs = append(cs, out)
	}
	return cs
}

// Plan is what the role measures by a preset, with what it leaves out and where
// it departs from the standards, in words.
func (r Role) Plan(preset string) (p Plan, notMeasured, deviations []string, err error) {
	s, ok := r.presets[preset]
	if !ok {
		return p, nil, nil, fmt.Errorf("role %s has no preset %q: there are %s", r.Name, preset, strings.Join(Presets, ", "))
	}
	s.plan.Preset = preset
	return s.plan, s.notMeasured, s.deviations, nil
}
