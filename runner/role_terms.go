// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"boxdyno/host"
	"boxdyno/internal/yaml"
	"boxdyno/result"
	"boxdyno/subject/catalog"
	"boxdyno/unit"
)

// terms are what a role's criteria and plans speak of under a name: {mix} in a text or
// a plan's value stands for the term's text, and a criterion's limit may be its name.
// Other limits are made by editing these lines alone. A preset may have its own.
type terms map[string]string

const linkRate = "link_rate" // is a term too, which --link-rate replaces

// termKeys are the names, beside link_rate.
var termKeys = []string{"mix", "rules", "loss", "detections", "temperature", "duration"}

func (t terms) set(key string, n *yaml.Node) error {
	if err := n.Want(yaml.Scalar, key); err != nil {
		return err
	}
	if n.Text == "" {
		return n.Errorf("%s is empty", key)
	}
	t[key] = n.Text
	if key == "duration" {
		d, err := time.ParseDuration(n.Text)
		if err != nil || d <= 0 {
			return n.Errorf("duration %q: want a time such as 300s", n.Text)
		}
		t[key] = d.String() // as points have it
	}
	return nil
}

// of is the text of a term by a preset; "" where the role has none.
func (r *Role) of(key, preset string) string {
	if key == linkRate {
		return rateText(r.LinkRate)
	}
	if v := r.presets[preset].terms[key]; v != "" {
		return v
	}
	return r.terms[key]
}

// rateText is rate as a plan has it: "100Mbps".
func rateText(rate unit.BitRate) string {
	for _, p := range []struct {
		name  string
		scale float64
	}{{"G", 1e9}, {"M", 1e6}, {"k", 1e3}} {
		if float64(rate) >= p.scale {
			return strconv.FormatFloat(float64(rate)/p.scale, 'f', -1, 64) + p.name + "bps"
		}
	}
	return strconv.FormatFloat(float64(rate), 'f', -1, 64) + "bps"
}

// fill puts the terms into text; in a sentence link_rate is for people.
func (r *Role) fill(text, preset string, sentence bool) string {
	if !strings.Contains(text, "{") {
		return text
	}
	for _, key := range append([]string{linkRate}, termKeys...) {
		v := r.of(key, preset)
		switch {
		case !sentence:
		case key == linkRate:
			v = r.LinkRate.String()
		case strings.HasSuffix(v, "m0s"): // a time's
			v = strings.TrimSuffix(v, "0s")
		}
		if v != "" {
			text = strings.ReplaceAll(text, "{"+key+"}", v)
		}
	}
	return text
}

// limit is a number; nil for "".
func (r *Role) limit(s, preset string) (*float64, error) {
	if s == "" {
		return nil, nil
	}
	if s == linkRate {
		v := float64(r.LinkRate)
		return &v, nil
	}
	if slices.Contains(termKeys, s) {
		if s = r.of(s, preset); s == "" {
			return nil, errors.New("a criterion's limit is a term that the role does not have")
		}
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil, fmt.Errorf("a criterion's limit is %q, and must be a number", s)
	}
	return &v, nil
}

var unfilled = regexp.MustCompile(`\{[a-z_]+\}`)

// check says which terms and limits a preset leaves open.
func (r *Role) check(preset string) error {
	plan, words, more, err := r.Plan(preset)
	if err != nil {
		return err
	}
	texts := slices.Concat(words, more)
	for _, e := range plan.Procedures {
		for _, s := range e.Set {
			for _, w := range s.Values {
				texts = append(texts, w.Text)
			}
		}
	}
	for _, c := range r.Criteria(preset) {
		texts = append(texts, c.Text)
		for _, w := range c.Where {
			texts = append(texts, w.Value)
		}
	}
	for _, t := range texts {
		if term := unfilled.FindString(t); term != "" {
			return fmt.Errorf("%q: the role does not say what %s is: it may have %s", t, term, strings.Join(append([]string{linkRate}, termKeys...), ", "))
		}
	}
	for _, c := range r.criteria {
		for _, s := range []string{c.min, c.max} {
			if _, err := r.limit(s, preset); err != nil {
				return err
			}
		}
	}
	return nil
}

// Criteria are the role's, at its link rate, as a preset asks for them.
func (r Role) Criteria(preset string) (cs []result.Criterion) {
	for _, c := range r.criteria {
		out := c.Criterion
		out.Text = r.fill(c.Text, preset, true)
		out.Where = slices.Clone(c.Where)
		for i, w := range out.Where {
			out.Where[i].Value = r.fill(w.Value, preset, false)
		}
		out.Min, _ = r.limit(c.min, preset) // ParseRole has seen that they are numbers
		out.Max, _ = r.limit(c.max, preset)
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
	p = s.plan
	p.Preset = preset
	p.Procedures = slices.Clone(p.Procedures)
	for i := range p.Procedures {
		e := &p.Procedures[i]
		e.Set = slices.Clone(e.Set)
		for j := range e.Set {
			e.Set[j].Values = slices.Clone(e.Set[j].Values)
			for k, w := range e.Set[j].Values {
				e.Set[j].Values[k].Text = r.fill(w.Text, preset, false)
			}
		}
	}
	for i, list := range []*[]string{&s.notMeasured, &s.deviations} {
		words := make([]string, 0, len(*list))
		for _, w := range *list {
			words = append(words, r.fill(w, preset, true))
		}
		if i == 0 {
			notMeasured = words
		} else {
			deviations = words
		}
	}
	return p, notMeasured, deviations, nil
}

// Installed leaves those subjects out of p that are not installed on this machine, and
// says what they need. Where all that an entry names are missing it stays as it is, so
// that its points are skipped with the remedy.
func (p Plan) Installed(ctx context.Context) (_ Plan, missing []string) {
	p.Procedures = slices.Clone(p.Procedures)
	for i := range p.Procedures {
		e := &p.Procedures[i]
		s := e.Get("subject")
		if s == nil || len(s.Values) < 2 {
			continue
		}
		there := *s
		there.Values = nil
		for _, w := range s.Values {
			var m *host.Missing
			if spec, err := catalog.All.Find(w.Text); err == nil && errors.As(spec.New().Check(ctx, &host.Local{}), &m) {
				if text := fmt.Sprintf("%s with %s: %v", e.Use, w.Text, m); !slices.Contains(missing, text) {
					missing = append(missing, text)
				}
				continue
			}
			there.Values = append(there.Values, w)
		}
		if len(there.Values) > 0 {
			e.Set = slices.Clone(e.Set)
			e.put(there)
		}
	}
	return p, missing
}
