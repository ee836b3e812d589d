// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"slices"
	"strings"
	"testing"

	"boxdyno/examples"
	"boxdyno/result"
)

// Every role that comes with boxdyno asks for figures that its plan measures.
func TestRoles(t *testing.T) {
	c := Plugins()
	roles, err := Roles()
	if err != nil || len(roles) == 0 {
		t.Fatal(len(roles), err)
	}
	for _, r := range roles {
		for _, preset := range Presets {
			p, notMeasured, _, err := r.Plan(preset)
			if err != nil {
				t.Fatal(err)
			}
			p = resolveIt(t, c, p)
			points, err := p.Points(c)
			if err != nil {
				t.Fatal(err)
			}
			e, err := Check(c, points, nil)
			if err != nil {
				t.Fatal(err)
			}
			if p.Preset != preset || len(notMeasured) == 0 {
				t.Errorf("role %s: preset %s, not measured %q", r.Name, p.Preset, notMeasured)
			}
			if preset == "quick" && e.Time.Seconds() > 90 {
				t.Errorf("role %s takes about %v, and quick at most 90 s", r.Name, e.Time)
			}
			for _, cr := range r.Criteria() {
				if !slices.ContainsFunc(c.Procedures, func(s spec) bool {
					return slices.ContainsFunc(s.Metrics, func(m result.Metric) bool { return m.Name == cr.Metric })
				}) {
					t.Errorf("role %s asks for %s, which no procedure declares", r.Name, cr.Metric)
				}
				if !slices.ContainsFunc(points, func(pt Point) bool {
					return !slices.ContainsFunc(cr.Where, func(w result.Pair) bool { return result.Get(pt.Params, w.Key) != w.Value })
				}) {
					t.Errorf("role %s, %s: no point is %v", r.Name, preset, cr.Where)
				}
			}
		}
	}
}

func resolveIt(t *testing.T, c Catalogue, p Plan) Plan {
	p, err := p.Resolve(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestFirewallQuick(t *testing.T) {
	r, err := FindRole("firewall")
	if err != nil {
		t.Fatal(err)
	}
	p, _, _, err := r.Plan("quick")
	if err != nil {
		t.Fatal(err)
	}
	c := Plugins()
	points, err := resolveIt(t, c, p).Points(c)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, pt := range points {
		ids = append(ids, strings.TrimPrefix(pt.ID, "forward/"))
	}
	slices.Sort(ids)
	want := strings.Fields(`drop-nft/lan-to-wan/64#1 drop-tc/lan-to-wan/64#1 drop-xdp/lan-to-wan/64#1
		filter/lan-to-wan/64/rules=1000#1 filter/lan-to-wan/64/rules=100#1 nat/lan-to-wan/64/flows=1000#1
		route/both/1518#1 route/both/64#1 route/both/imix#1 route/lan-to-wan/1518#1 route/lan-to-wan/64#1 route/lan-to-wan/imix#1
		route/wan-to-lan/1518#1 route/wan-to-lan/64#1 route/wan-to-lan/imix#1`)
	slices.Sort(want)
	if !slices.Equal(ids, want) {
		t.Errorf("points are\n%s\nwant\n%s", strings.Join(ids, "\n"), strings.Join(want, "\n"))
	}
	cs := r.Criteria()
	if len(cs) != 1 || *cs[0].Min != 1e9 || cs[0].Max != nil || cs[0].Text != "IMIX without loss at 1.00 Gbit/s each way" {
		t.Errorf("criteria %+v", cs)
	}
	r.LinkRate = 100e6
	if cs := r.Criteria(); *cs[0].Min != 100e6 || cs[0].Text != "IMIX without loss at 100 Mbit/s each way" {
		t.Errorf("criteria at 100 Mbit/s: %+v", cs)
	}
}

func TestRoleMistakes(t *testing.T) {
	if _, err := FindRole("fridge"); err == nil || err.Error() != `unknown role "fridge": there are firewall` {
		t.Error(err)
	}
	const rest = "\nquick: {plan: {procedures: [probe]}}\nstandard: {plan: {procedures: [probe]}}\n"
	for in, want := range map[string]string{
		"name: x" + rest:                  "",
		"x: 1":                            `unknown key "x"`,
		"description: x" + rest:           "a role has no name",
		"name: x":                         "has no preset quick",
		"name: x\nquick: {}":              "f:2:8: a preset has no plan",
		"name: x\nquick: {plan: {}}":      "the plan has no procedures",
		"name: x\nlink_rate: fast" + rest: `f:2:12: bit rate "fast"`,
		"name: x\ncriteria: [{text: a, metric: b}]" + rest:     "f:2:13: a criterion needs",
		"name: x\ncriteria: [{text: a, min: much}]" + rest:     `min "much": want a number or link_rate`,
		"name: x\ncriteria: [{text: a, where: [b]}]" + rest:    "where is a list",
		"name: x\nquick: {plan: {procedures: [p]}, nope: [a]}": `unknown key "nope" in a preset`,
	} {
		_, err := ParseRole("f", []byte(in))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
}

func TestExamples(t *testing.T) {
	c := Plugins()
	for _, e := range examples.All() {
		p, err := Parse(e.Name, e.Data)
		if err != nil {
			t.Error(err)
			continue
		}
		points, err := resolveIt(t, c, p).Points(c)
		if err == nil {
			_, err = Check(c, points, nil)
		}
		if err != nil || len(e.Doc) < 10 {
			t.Errorf("%s (%s): %v", e.Name, e.Doc, err)
		}
	}
}
