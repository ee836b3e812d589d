// SPDX-License-Identifier: Apache-2.0

package boards

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// An Answer says whether a board has what is needed.
type Answer int

// Unknown is the answer where the catalogue does not say.
const (
	No Answer = iota
	Unknown
	Yes
)

// Needs are what somebody needs of a board. Zero: nothing.
type Needs struct {
	needs []need
	ports int     // that many
	speed float64 // of at least that, bit/s; 0: any
}

// A need is one condition on one value.
type need struct {
	text string
	of   func(Board) Answer
}

// NeedsHelp describes what ParseNeeds reads.
const NeedsHelp = `ports>=2 speed>=1G   at least so many Ethernet ports of at least that speed
aes sha2 ...         an instruction for ciphers
wifi poe             optional and by an add-on count
price<=100           the lowest price in USD of the newest year known
temperature<=-20     it may work at that ambient temperature (also >=70)
memory>=4 cores>=4   GiB at most fitted; cores of all kinds
width=64 idle<=3 load<=10 until>=2030 storage=nvme kind=router soc=RK3588`

// ParseNeeds reads conditions, apart by blanks or commas; NeedsHelp lists them.
func ParseNeeds(s string) (n Needs, err error) {
	for _, w := range strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == ',' || r == '\t' || r == '\n' }) {
		if err := n.add(w); err != nil {
			return Needs{}, fmt.Errorf("need %q: %w", w, err)
		}
	}
	if n.speed > 0 && n.ports == 0 {
		n.ports = 1
	}
	return n, nil
}

// Of says whether the board has all that is needed, and which needs it is not known to
// have. Yes only where every value is known; No where one is known to be missing.
func (n Needs) Of(b Board) (answer Answer, unknown []string) {
	answer = Yes
	all := n.needs
	if n.ports > 0 {
		all = append(slices.Clone(all), need{"ports", n.enoughPorts})
	}
	for _, x := range all {
		switch x.of(b) {
		case No:
			answer = No
		case Unknown:
			unknown = append(unknown, x.text)
			answer = min(answer, Unknown)
		}
	}
	return answer, unknown
}

// enoughPorts counts the ports that are known to be fast enough, and those whose speed
// is not known.
func (n Needs) enoughPorts(b Board) Answer {
	ports, ok := b.Ports()
	if !ok {
		return Unknown
	}
	fast, perhaps := 0, 0
	for _, p := range ports {
		switch {
		case n.speed == 0 || p.Speed >= n.speed:
			fast += p.Count
		case p.Speed == 0:
			perhaps += p.Count
		}
	}
	switch {
	case fast >= n.ports:
		return Yes
	case fast+perhaps >= n.ports:
		return Unknown
	}
	return No
}

// add adds one condition.
func (n *Needs) add(w string) error {
	name, op, want := split(w)
	if op == "" {
		if want := name; name == "wifi" || name == "poe" {
			n.needs = append(n.needs, need{w, func(b Board) Answer {
				vs := b.Of(want)
				if vs == nil {
					return Unknown
				}
				return truth(vs[0].Text != "no")
			}})
			return nil
		}
		if k := keyOf("instructions"); name == "none" || k.check(name) != nil {
			return fmt.Errorf("want wifi, poe, an instruction for ciphers such as aes, or a condition such as ports>=2")
		}
		n.needs = append(n.needs, has("instructions", name, w))
		return nil
	}
	switch name {
	case "storage", "kind", "soc":
		if op != "=" {
			return fmt.Errorf("want %s=...", name)
		}
		if name == "kind" && !slices.Contains(Kinds, want) {
			return fmt.Errorf("the kinds are %s", strings.Join(Kinds, ", "))
		}
		n.needs = append(n.needs, has(name, want, w))
		return nil
	}
	v, err := quantity(want)
	if err != nil {
		return err
	}
	return n.number(name, op, v, w)
}

// number adds a condition on a number.
func (n *Needs) number(name, op string, v float64, w string) error {
	switch {
	case name == "ports" && op == ">=" && v == float64(int(v)) && v >= 0 && v < 1000:
		n.ports = max(n.ports, int(v))
		return nil
	case name == "speed" && op == ">=":
		n.speed = max(n.speed, v)
		return nil
	case name == "ports", name == "speed":
		return fmt.Errorf("want %s>=...", name)
	}
	of := func(b Board) (float64, bool) { return b.Number(name) }
	switch name {
	case "memory", "width", "idle", "load":
	case "cores":
		of = func(b Board) (float64, bool) { c, ok := b.Cores(); return float64(c), ok }
	case "price":
		of = func(b Board) (float64, bool) { p, _, ok := b.Price("USD"); return p.Amount, ok }
	case "until":
		of = func(b Board) (float64, bool) {
			for _, x := range b.Of("until") {
				y, _ := strconv.ParseFloat(x.Text[:4], 64) // checked when it was read
				return y, true
			}
			return 0, false
		}
	case "temperature":
		key := "temperature_max"
		if op == "<=" {
			key = "temperature_min"
		}
		of = func(b Board) (float64, bool) { return b.Number(key) }
	default:
		return fmt.Errorf("there is no such value: the needs are\n%s", NeedsHelp)
	}
	n.needs = append(n.needs, need{w, func(b Board) Answer {
		x, ok := of(b)
		if !ok {
			return Unknown
		}
		return truth(op == ">=" && x >= v || op == "<=" && x <= v || op == "=" && x == v)
	}})
	return nil
}

// has is the need for one of a board's values of a key, whatever their case.
func has(key, want, text string) need {
	return need{text, func(b Board) Answer {
		if key == "kind" {
			return truth(b.Kind == want)
		}
		vs := b.Of(key)
		if vs == nil {
			return Unknown
		}
		found := slices.ContainsFunc(vs, func(v Value) bool {
			return strings.EqualFold(v.Text, want) || key == "soc" && strings.Contains(strings.ToLower(v.Text), strings.ToLower(want))
		})
		if !found && key == "storage" {
			return Unknown // the list of what it can hold may have gaps
		}
		return truth(found)
	}}
}

func truth(b bool) Answer {
	if b {
		return Yes
	}
	return No
}

func keyOf(name string) Key { return Keys[order(name)] }

// split parts "ports>=2".
func split(w string) (name, op, want string) {
	for _, op := range []string{">=", "<=", "="} {
		if name, want, ok := strings.Cut(w, op); ok {
			return strings.ToLower(name), op, want
		}
	}
	return strings.ToLower(w), "", ""
}

// quantity reads a number with k, M or G behind it.
func quantity(s string) (float64, error) {
	factor := 1.0
	for _, p := range []struct {
		suffix string
		factor float64
	}{{"G", 1e9}, {"M", 1e6}, {"k", 1e3}} {
		if rest, ok := strings.CutSuffix(s, p.suffix); ok {
			s, factor = rest, p.factor
			break
		}
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || v != v || v > 1e15 || v < -1e15 {
		return 0, fmt.Errorf("want a number, such as 2, -20 or 1G")
	}
	return v * factor, nil
}
