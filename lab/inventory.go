// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"boxdyno/internal/files"
	"boxdyno/internal/yaml"
)

const (
	mostInventory = 4 << 20 // octets of one in INI form
	mostHosts     = 10_000
)

// An inventory is hosts with their variables, by group.
type inventory struct {
	order    []string // of hosts
	hosts    map[string]map[string]string
	groups   map[string][]string          // of a host
	vars     map[string]map[string]string // of a group
	children map[string][]string          // of a group
}

// Inventory reads an Ansible inventory, in INI form or in YAML: hosts, groups, children,
// and of variables ansible_host, ansible_user, ansible_port and ansible_become.
func Inventory(path string) ([]Box, error) {
	data, err := files.Read(path, mostInventory)
	if err != nil {
		return nil, fmt.Errorf("read the inventory: %w", err)
	}
	v := &inventory{hosts: map[string]map[string]string{}, groups: map[string][]string{}, vars: map[string]map[string]string{}, children: map[string][]string{}}
	if strings.HasSuffix(path, ".yaml") || strings.HasSuffix(path, ".yml") {
		err = v.yaml(path, data)
	} else {
		err = v.ini(path, string(data))
	}
	if err != nil {
		return nil, err
	}
	if len(v.order) == 0 {
		return nil, fmt.Errorf("%s names no host", path)
	}
	return v.boxes(path)
}

func (v *inventory) host(name, group string, vars map[string]string) error {
	if v.hosts[name] == nil {
		if len(v.order) >= mostHosts {
			return fmt.Errorf("more than %d hosts", mostHosts)
		}
		v.order, v.hosts[name] = append(v.order, name), map[string]string{}
	}
	for k, x := range vars {
		v.hosts[name][k] = x
	}
	if group != "" && !slices.Contains(v.groups[name], group) {
		v.groups[name] = append(v.groups[name], group)
	}
	return nil
}

func (v *inventory) set(group, key, value string) {
	if v.vars[group] == nil {
		v.vars[group] = map[string]string{}
	}
	v.vars[group][key] = value
}

func (v *inventory) ini(path, text string) error {
	group, kind := "", ""
	for n, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		if name, ok := strings.CutPrefix(line, "["); ok {
			name, ok = strings.CutSuffix(name, "]")
			if !ok {
				return fmt.Errorf("%s:%d: the group's name does not end with ]", path, n+1)
			}
			group, kind, _ = strings.Cut(name, ":")
			continue
		}
		switch kind {
		case "vars":
			key, value, _ := strings.Cut(line, "=")
			v.set(group, strings.TrimSpace(key), unquote(strings.TrimSpace(value)))
		case "children":
			v.children[group] = append(v.children[group], line)
		default:
			words := strings.Fields(line)
			vars := map[string]string{}
			for _, w := range words[1:] {
				if strings.HasPrefix(w, "#") {
					break
				}
				key, value, _ := strings.Cut(w, "=")
				vars[key] = unquote(value)
			}
			names, err := spread(words[0])
			if err != nil {
				return fmt.Errorf("%s:%d: %w", path, n+1, err)
			}
			for _, name := range names {
				if err := v.host(name, group, vars); err != nil {
					return fmt.Errorf("%s:%d: %w", path, n+1, err)
				}
			}
		}
	}
	return nil
}

func unquote(s string) string { return strings.Trim(s, `"'`) }

// spread is the hosts of a name such as pi[01:20].lan.
func spread(name string) ([]string, error) {
	head, rest, found := strings.Cut(name, "[")
	if !found {
		return []string{name}, nil
	}
	within, tail, _ := strings.Cut(rest, "]")
	from, to, _ := strings.Cut(within, ":")
	a, aerr := strconv.Atoi(from)
	b, berr := strconv.Atoi(to)
	if aerr != nil || berr != nil || a < 0 || b < a || b-a >= mostHosts || strings.Contains(tail, "[") {
		return nil, fmt.Errorf("%q: want one range of numbers, such as pi[01:20]", name)
	}
	var names []string
	for n := a; n <= b; n++ {
		names = append(names, fmt.Sprintf("%s%0*d%s", head, len(from), n, tail))
	}
	return names, nil
}

func (v *inventory) yaml(path string, data []byte) error {
	root, err := yaml.Parse(path, data)
	if err != nil {
		return err
	}
	if err := root.Want(yaml.Map, "the inventory"); err != nil {
		return err
	}
	for _, g := range root.Map {
		if err := v.group(g.Key, g.Value); err != nil {
			return err
		}
	}
	return nil
}

// each calls f for the fields of a map; what is empty has none.
func each(n *yaml.Node, what string, f func(key string, value *yaml.Node) error) error {
	if n == nil || n.Kind == yaml.Null {
		return nil
	}
	if err := n.Want(yaml.Map, what); err != nil {
		return err
	}
	for _, x := range n.Map {
		if err := f(x.Key, x.Value); err != nil {
			return err
		}
	}
	return nil
}

func (v *inventory) group(name string, n *yaml.Node) error {
	if n.Kind == yaml.Null {
		return nil
	}
	if err := n.Want(yaml.Map, "group "+name); err != nil {
		return err
	}
	err := each(n.Get("hosts"), "hosts of "+name, func(pattern string, value *yaml.Node) error {
		vars := map[string]string{}
		if err := each(value, "host "+pattern, func(k string, x *yaml.Node) error { vars[k] = x.Text; return nil }); err != nil {
			return err
		}
		names, err := spread(pattern)
		for _, host := range names {
			err = errors.Join(err, v.host(host, name, vars))
		}
		return err
	})
	if err == nil {
		err = each(n.Get("vars"), "vars of "+name, func(k string, x *yaml.Node) error { v.set(name, k, x.Text); return nil })
	}
	if err == nil {
		err = each(n.Get("children"), "children of "+name, func(child string, x *yaml.Node) error {
			v.children[name] = append(v.children[name], child)
			return v.group(child, x)
		})
	}
	return err
}

// above are the groups that a group is in, itself first.
func (v *inventory) above(group string, seen []string) []string {
	if slices.Contains(seen, group) {
		return seen
	}
	seen = append(seen, group)
	for parent, children := range v.children {
		if slices.Contains(children, group) {
			seen = v.above(parent, seen)
		}
	}
	return seen
}

func (v *inventory) boxes(path string) (all []Box, err error) {
	for _, name := range v.order {
		var groups []string
		for _, g := range v.groups[name] {
			groups = v.above(g, groups)
		}
		get := func(key string) string {
			value := v.hosts[name][key]
			for _, g := range append(slices.Clone(groups), "all") {
				value = cmp.Or(value, v.vars[g][key])
			}
			return value
		}
		slices.Sort(groups)
		groups = slices.DeleteFunc(slices.Compact(groups), func(g string) bool { return g == "all" || g == "ungrouped" || g == "" })
		e := Box{Name: name, SSH: cmp.Or(get("ansible_host"), name), Agent: "/", Groups: groups}
		if user := get("ansible_user"); user != "" {
			e.SSH = user + "@" + e.SSH
		}
		if port := get("ansible_port"); port != "" {
			e.SSH = "ssh://" + e.SSH + ":" + port
		}
		switch strings.ToLower(get("ansible_become")) {
		case "true", "yes", "1":
			e.Become = "sudo -n"
		}
		if err := e.Check(); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, e)
	}
	return all, nil
}
