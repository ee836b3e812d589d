// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"boxdyno/internal/files"
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
	Also              []Namesake   // names of the role at other rates
	terms             terms
	presets           map[string]rolePreset
	criteria          []criterion
}

// A Namesake is a role under another name and at another link's rate: probe-100m.
type Namesake struct {
	Name     string
	LinkRate unit.BitRate
}

type rolePreset struct {
	plan                    Plan
	terms                   terms // that differ from the role's
	notMeasured, deviations []string
}

// A criterion is a result.Criterion in which terms are not yet values.
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

// FindRole is the role of that name, or of the file of that name where it holds a dot
// or a slash; else a *PlanError that says which there are.
func FindRole(name string) (Role, error) {
	if strings.ContainsAny(name, "./") {
		data, err := files.Read(name, yaml.MaxSize)
		if err != nil {
			return Role{}, &PlanError{Err: fmt.Errorf("read the role: %w", err)}
		}
		r, err := ParseRole(name, data)
		if err != nil {
			return r, &PlanError{Err: err}
		}
		return r, nil
	}
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
		for _, n := range r.Also {
			if n.Name == name {
				r.Name, r.LinkRate = n.Name, n.LinkRate
				return r, nil
			}
			names = append(names, n.Name)
		}
	}
	return Role{}, planErrorf("", "unknown role %q%s: there are %s; a role's file has a dot or a slash in its name", name, DidYouMean(name, names), strings.Join(names, ", "))
}

// ParseRole reads a role; file stands in its errors.
func ParseRole(file string, data []byte) (Role, error) {
	r := Role{presets: map[string]rolePreset{}, terms: terms{}}
	root, err := yaml.Parse(file, data)
	if err != nil {
		return r, err
	}
	if err := root.Want(yaml.Map, "a role"); err != nil {
		return r, err
	}
	if err := root.Only("a role", slices.Concat([]string{"name", "description", "link_rate", "also", "criteria"}, termKeys, Presets)...); err != nil {
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
		case "also":
			if err := v.Want(yaml.Map, "also"); err != nil {
				return r, err
			}
			for _, f := range v.Map {
				rate, err := unit.ParseBitRate(f.Value.Text)
				if err != nil {
					return r, f.Value.Errorf("%w", err)
				}
				r.Also = append(r.Also, Namesake{f.Key, rate})
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
			if slices.Contains(termKeys, f.Key) {
				err = r.terms.set(f.Key, v)
			} else {
				r.presets[f.Key], err = parsePreset(v)
			}
			if err != nil {
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
		if err := r.check(p); err != nil {
			return r, root.Errorf("preset %s: %w", p, err)
		}
	}
	return r, nil
}

func parsePreset(n *yaml.Node) (p rolePreset, err error) {
	if err := n.Want(yaml.Map, "a preset"); err != nil {
		return p, err
	}
	if err := n.Only("a preset", append([]string{"plan", "not_measured", "deviations"}, termKeys...)...); err != nil {
		return p, err
	}
	plan := n.Get("plan")
	if plan == nil {
		return p, n.Errorf("a preset has no plan")
	}
	if p.plan, err = parse(plan); err != nil {
		return p, err
	}
	p.terms = terms{}
	for _, f := range n.Map {
		if slices.Contains(termKeys, f.Key) {
			if err := p.terms.set(f.Key, f.Value); err != nil {
				return p, err
			}
		}
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
	if err := n.Only("a criterion", "text", "metric", "where", "min", "max", "any", "optional"); err != nil {
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
		case "any":
			c.Any = []string{f.Value.Text}
			if f.Value.Kind == yaml.List {
				if c.Any, err = f.Value.Texts("any"); err != nil {
					return c, err
				}
			}
		case "optional":
			if c.Optional, err = strconv.ParseBool(f.Value.Text); err != nil {
				return c, f.Value.Errorf("optional %q: want true or false", f.Value.Text)
			}
		case "min", "max":
			if _, err := strconv.ParseFloat(f.Value.Text, 64); err != nil && f.Value.Text != linkRate && !slices.Contains(termKeys, f.Value.Text) {
				return c, f.Value.Errorf("%s %q: want a number or %s", f.Key, f.Value.Text, strings.Join(append([]string{linkRate}, termKeys...), ", "))
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
