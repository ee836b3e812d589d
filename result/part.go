// SPDX-License-Identifier: Apache-2.0

package result

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Part is shared by boxes and counted once, from two of them on: a switch, a power supply,
// fans. It is declared in the file of boxes, in a plan of a fleet or on the command line.
type Part struct {
	Name  string  `json:"name"`
	USD   float64 `json:"usd"`
	Watts float64 `json:"watts"` // while boxes work
	// Idle is its power while none does, in W; nil: that of Watts.
	Idle *float64 `json:"idle_watts,omitempty"`
	// Meter is part of the name, or the covers, of a meter that stands at it in a run of a
	// fleet; its readings take the place of Watts and Idle.
	Meter string `json:"meter,omitempty"`
	// Inside says that the meter of the boards sees it, too.
	Inside bool `json:"inside,omitempty"`
}

const (
	mostOfPart = 1e9 // USD, W: more than any part has
	mostParts  = 64
)

var (
	partName  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._ -]{0,62}$`)
	partMeter = regexp.MustCompile(`^[^;,"[:cntrl:]]{0,63}$`)
)

// Check says what is wrong with a part: a name that is none, a figure that is no number from
// 0 to 1e9, more power idle than loaded, or nothing that is known of it.
func (p Part) Check() error {
	figure := func(v float64) bool { return v >= 0 && v <= mostOfPart } // not so of NaN
	switch {
	case !partName.MatchString(p.Name):
		return fmt.Errorf("a shared part is named %q: want letters, digits, blanks, dots and dashes, at most 63", p.Name)
	case !figure(p.USD):
		return fmt.Errorf("shared part %s: its price is %g USD: want 0 to %g", p.Name, p.USD, mostOfPart)
	case !figure(p.Watts):
		return fmt.Errorf("shared part %s: its power is %g W: want 0 to %g", p.Name, p.Watts, mostOfPart)
	case p.Idle != nil && !figure(*p.Idle):
		return fmt.Errorf("shared part %s: its idle power is %g W: want 0 to %g", p.Name, *p.Idle, mostOfPart)
	case p.Idle != nil && p.Meter == "" && *p.Idle > p.Watts:
		return fmt.Errorf("shared part %s: it takes %g W idle and %g W loaded: less is wanted idle", p.Name, *p.Idle, p.Watts)
	case !partMeter.MatchString(p.Meter):
		return fmt.Errorf("shared part %s: its meter is %q: want part of a meter's name, without commas and semicolons", p.Name, p.Meter)
	}
	return nil
}

// Keys of the environment of a fleet's run.
const (
	MeteredKey = "metered boards" // how many the one meter of all boards sees
	SharedKey  = "shared parts"   // as PartsText has them
)

// Shared are what the boards of a fleet's run share; a forged text has none.
func (r Run) Shared() []Part {
	for _, env := range r.Environments {
		if text := Get(env, SharedKey); text != "" {
			parts, err := ParseParts(text)
			if err != nil {
				return nil
			}
			return parts
		}
	}
	return nil
}

// ParsePart reads "switch=60USD,6..8W". Of a run, "meter=command" says which meter stands at
// the part, and "inside" that the meter of the boards sees it.
func ParsePart(s string) (p Part, err error) {
	bad := func(why string, args ...any) (Part, error) {
		return Part{}, fmt.Errorf("%q: %s: want a name with price, power or both, such as switch=60USD,8W or switch=60USD,6..8W, or with a meter, and no semicolon", s, fmt.Sprintf(why, args...))
	}
	name, rest, ok := strings.Cut(s, "=")
	if !ok || name == "" || rest == "" || strings.Contains(s, ";") {
		return bad("it is no shared part")
	}
	p.Name = name
	var seen []string
	once := func(what string) bool {
		twice := slices.Contains(seen, what)
		seen = append(seen, what)
		return !twice
	}
	number := func(s string) (v float64, ok bool) {
		v, err := strconv.ParseFloat(s, 64)
		return v, err == nil && !math.IsNaN(v)
	}
	for w := range strings.SplitSeq(rest, ",") {
		good := false
		if w == "inside" {
			p.Inside, good = true, once("inside")
		} else if meter, ok := strings.CutPrefix(w, "meter="); ok {
			p.Meter, good = meter, meter != "" && once("meter")
		} else if n, ok := strings.CutSuffix(w, "USD"); ok {
			p.USD, good = number(n)
			good = good && once("price")
		} else if n, ok := strings.CutSuffix(w, "W"); ok {
			idle, loaded, two := strings.Cut(n, "..")
			good = once("power")
			if two {
				v, ok := number(idle)
				p.Idle, n, good = &v, loaded, good && ok
			}
			if p.Watts, ok = number(n); !ok {
				good = false
			}
		}
		if !good {
			return bad("%q is none of its figures", w)
		}
	}
	if slices.Equal(seen, []string{"inside"}) {
		return bad("nothing is known of it")
	}
	if err := p.Check(); err != nil {
		return Part{}, err
	}
	return p, nil
}

// ParseParts reads parts with semicolons between them, each name once. "" and "none" are none.
func ParseParts(s string) (parts []Part, err error) {
	if s == "" || s == "none" {
		return nil, nil
	}
	for text := range strings.SplitSeq(s, ";") {
		p, err := ParsePart(text)
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	return parts, CheckParts(parts)
}

// CheckParts refuses a name that stands twice, and more parts than boxes share.
func CheckParts(parts []Part) error {
	if len(parts) > mostParts {
		return fmt.Errorf("%d shared parts: %d are the most", len(parts), mostParts)
	}
	for i, p := range parts {
		if slices.ContainsFunc(parts[:i], func(q Part) bool { return q.Name == p.Name }) {
			return fmt.Errorf("shared part %s is named twice", p.Name)
		}
	}
	return nil
}

// PartsText is what ParseParts reads.
func PartsText(parts []Part) string {
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = p.String()
	}
	return strings.Join(texts, ";")
}

// String is what ParsePart reads.
func (p Part) String() string {
	f := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	words := []string{f(p.USD) + "USD", f(p.Watts) + "W"}
	if p.Idle != nil {
		words[1] = f(*p.Idle) + ".." + words[1]
	}
	if p.Meter != "" {
		words = append(words, "meter="+p.Meter)
	}
	if p.Inside {
		words = append(words, "inside")
	}
	return p.Name + "=" + strings.Join(words, ",")
}
