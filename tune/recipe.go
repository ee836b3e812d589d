// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"boxdyno/host"
	"boxdyno/internal/files"
	"boxdyno/internal/yaml"
)

// A Recipe is an ordered list of steps. Its first may be what later ones need.
type Recipe struct {
	Name  string `json:"name"`
	Doc   string `json:"doc,omitempty"`
	Steps []Step `json:"steps"`
}

// A Step sets one knob.
type Step struct {
	Knob   string `json:"knob"`
	Target string `json:"target,omitempty"` // ForPorts, ForHost, the name of one port; "": what the knob's scope says
	Value  string `json:"value"`
	Why    string `json:"why,omitempty"`
	Source string `json:"source,omitempty"`
}

// Targets of a step.
const (
	ForPorts = "{port}" // each of the ports that the recipe is applied to
	ForHost  = "host"   // the machine, or the namespace of its ports
)

//go:embed recipes/*.yaml
var embedded embed.FS

// Recipes are those that come with boxdyno, by name.
func Recipes() (all []Recipe, err error) {
	entries, _ := embedded.ReadDir("recipes") // embedded: always there
	for _, e := range entries {
		data, _ := embedded.ReadFile("recipes/" + e.Name())
		r, err := Parse(e.Name(), data)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// FindRecipe is an embedded recipe by its name, or one in a file: a name with a dot or
// a slash in it is a file's.
func FindRecipe(name string) (Recipe, error) {
	if strings.ContainsAny(name, "./") {
		data, err := files.Read(name, yaml.MaxSize)
		if err != nil {
			return Recipe{}, fmt.Errorf("read the recipe: %w", err)
		}
		return Parse(name, data)
	}
	all, err := Recipes()
	if err != nil {
		return Recipe{}, err
	}
	var names []string
	for _, r := range all {
		if r.Name == name {
			return r, nil
		}
		names = append(names, r.Name)
	}
	return Recipe{}, fmt.Errorf("there is no recipe %q: the recipes are %s; a recipe's file has a dot or a slash in its name", name, strings.Join(names, ", "))
}

// Parse reads a recipe and checks its knobs, targets and values as far as that goes
// without a machine. file stands in errors, which name the line. A knob stands at
// most once for a target.
func Parse(file string, data []byte) (r Recipe, err error) {
	root, err := yaml.Parse(file, data)
	if err != nil {
		return r, err
	}
	if err := root.Want(yaml.Map, "a recipe"); err != nil {
		return r, err
	}
	if err := root.Only("a recipe", "name", "doc", "steps"); err != nil {
		return r, err
	}
	text := func(n *yaml.Node, key string, needed bool) (string, error) {
		v := n.Get(key)
		if v == nil || v.Kind == yaml.Null {
			if needed {
				return "", n.Errorf("%s is missing", key)
			}
			return "", nil
		}
		return strings.TrimSpace(v.Text), v.Want(yaml.Scalar, key)
	}
	if r.Name, err = text(root, "name", true); err != nil {
		return r, err
	}
	if err := word(r.Name); err != nil {
		return r, root.Get("name").Errorf("name: %w", err)
	}
	if r.Doc, err = text(root, "doc", false); err != nil {
		return r, err
	}
	steps := root.Get("steps")
	if steps == nil {
		return r, root.Errorf("steps are missing")
	}
	if err := steps.Want(yaml.List, "steps"); err != nil {
		return r, err
	}
	for _, n := range steps.List {
		if err := n.Want(yaml.Map, "a step"); err != nil {
			return r, err
		}
		if err := n.Only("a step", "knob", "target", "value", "why", "source"); err != nil {
			return r, err
		}
		var s Step
		for _, f := range []struct {
			key    string
			to     *string
			needed bool
		}{{"knob", &s.Knob, true}, {"target", &s.Target, false}, {"value", &s.Value, true}, {"why", &s.Why, false}, {"source", &s.Source, false}} {
			if *f.to, err = text(n, f.key, f.needed); err != nil {
				return r, err
			}
		}
		spec, err := Find(s.Knob)
		if err != nil {
			return r, n.Errorf("%w", err)
		}
		if err := spec.Check(s.Value); err != nil {
			return r, n.Get("value").Errorf("%s: %w", s.Knob, err)
		}
		switch {
		case s.Target == "" && spec.Scope == PerPort:
			s.Target = ForPorts
		case s.Target == "":
			s.Target = ForHost
		case (s.Target == ForHost) == (spec.Scope == PerPort):
			return r, n.Get("target").Errorf("%s is one of the %s: its target cannot be %s", s.Knob, spec.Scope, s.Target)
		}
		if i := strings.IndexFunc(s.Target, func(c rune) bool {
			return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._:@-", c))
		}); s.Target != ForPorts && s.Target != ForHost && (i >= 0 || strings.HasPrefix(s.Target, "-") || len(s.Target) > 15) {
			return r, n.Get("target").Errorf("target %q is no name of a port: want at most 15 letters, digits and . _ : @ -", s.Target)
		}
		for _, o := range r.Steps {
			if o.Knob == s.Knob && (o.Target == s.Target || o.Target == ForPorts || s.Target == ForPorts) {
				return r, n.Errorf("%s for %s stands here a second time", s.Knob, s.Target)
			}
		}
		r.Steps = append(r.Steps, s)
	}
	return r, nil
}

// On is what a recipe is applied to: a machine's namespace, and ports in it.
type On struct {
	Host  *host.Local
	Ports []string
}

// Check is a *host.Missing where one of the ports is not there.
func (on On) Check() error {
	for _, p := range on.Ports {
		_, err := portIndex(Site{Netns: on.Host.Netns, Port: p})
		if gone(err) {
			return &host.Missing{What: "port " + p, Hint: "there is no interface of that name; ip link shows those there are"}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A turn is one step at one site.
type turn struct {
	step Step
	spec Spec
	ref  Ref
	site Site
}

// target is the site for people.
func (t turn) target() string {
	if t.ref.Port != "" {
		return t.ref.Port
	}
	return string(t.spec.Scope)
}

// Ports are those that r names by themselves.
func (r Recipe) Ports() (names []string) {
	for _, s := range r.Steps {
		spec, err := Find(s.Knob)
		if err == nil && spec.Scope == PerPort && s.Target != ForPorts && !slices.Contains(names, s.Target) {
			names = append(names, s.Target)
		}
	}
	return names
}

// turns expands a recipe for the ports. find is Find, or a test's.
func (t *Tuner) turns(r Recipe, on On) (out []turn, err error) {
	for _, s := range r.Steps {
		spec, err := t.find(s.Knob)
		if err != nil {
			return nil, err
		}
		ports := []string{""}
		if spec.Scope == PerPort {
			ports = on.Ports
			if s.Target != ForPorts {
				ports = []string{s.Target}
			}
		}
		for _, p := range ports {
			tn := turn{step: s, spec: spec, ref: Ref{Knob: s.Knob, Port: p}}
			tn.site = t.site(spec, on.Host.Netns, p)
			out = append(out, tn)
		}
	}
	return out, nil
}

func (t *Tuner) site(spec Spec, path, port string) Site {
	if spec.Scope == PerMachine {
		path = ""
	}
	return Site{Netns: path, Port: port, root: t.root}
}
