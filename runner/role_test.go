// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"boxdyno/examples"
	"boxdyno/internal/testutil"
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
			if preset == "quick" && p.Budget != 90*time.Second || preset != "quick" && p.Budget != 0 {
				t.Errorf("role %s, %s has a budget of %v", r.Name, preset, p.Budget)
			}
			// What its budget has no room for is left out; that must not be much.
			if most := map[string]float64{"firewall": 90, "probe": 140, "sensor": 220, "storage": 90, "vpn": 180}[r.Name]; preset == "quick" && e.Time.Seconds() > most {
				t.Errorf("role %s takes about %v without its budget, and quick at most %v s", r.Name, e.Time, most)
			}
			for _, cr := range r.Criteria(preset) {
				if cr.Metric == result.HottestMetric || cr.Optional && preset == "quick" {
					continue // of every point; left to the standard preset
				}
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
	cs := r.Criteria("quick")
	if len(cs) != 1 || *cs[0].Min != 1e9 || cs[0].Max != nil || cs[0].Text != "IMIX without loss at 1.00 Gbit/s each way" {
		t.Errorf("criteria %+v", cs)
	}
	r.LinkRate = 100e6
	if cs := r.Criteria("quick"); *cs[0].Min != 100e6 || cs[0].Text != "IMIX without loss at 100 Mbit/s each way" {
		t.Errorf("criteria at 100 Mbit/s: %+v", cs)
	}
}

func TestRoleMistakes(t *testing.T) {
	if _, err := FindRole("fridge"); err == nil || err.Error() != `unknown role "fridge": there are firewall, probe, probe-100m, probe-1g, sensor, sensor-100m, sensor-1g, storage, storage-100m, storage-1g, vpn, vpn-1g; a role's file has a dot or a slash in its name` {
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
		"name: x\ncriteria: [{text: a, min: much}]" + rest:     `min "much": want a number or link_rate, mix`,
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

// A role's terms stand in its plan, its texts and its limits; a preset's own go first.
func TestRoleTerms(t *testing.T) {
	const text = `
name: mine
link_rate: 1Gbps
also: {mine-slow: 25Mbps}
mix: imix
loss: 0.001
duration: 300s
criteria:
  - {text: "{mix} at {link_rate} for {duration}", metric: uncounted_ratio, where: {rate: "line:{link_rate}", duration: "{duration}"}, any: subject, max: loss, optional: true}
quick: {duration: 2s, plan: {procedures: [{use: capture, rate: "line:{link_rate}", duration: "{duration}", frame_size: "{mix}"}]}}
standard: {plan: {procedures: [{use: capture, rate: "line:{link_rate}", duration: "{duration}"}]}}
`
	name := t.TempDir() + "/mine.yaml"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := FindRole(name)
	if err != nil {
		t.Fatal(err)
	}
	r.LinkRate = r.Also[0].LinkRate
	for preset, want := range map[string]string{"quick": "imix at 25.0 Mbit/s for 2s", "standard": "imix at 25.0 Mbit/s for 5m"} {
		c := r.Criteria(preset)[0]
		if c.Text != want || *c.Max != 0.001 || c.Min != nil || !slices.Equal(c.Any, []string{"subject"}) || !c.Optional {
			t.Errorf("%s: %+v", preset, c)
		}
		p, _, _, err := r.Plan(preset)
		if err != nil {
			t.Fatal(err)
		}
		points, err := resolveIt(t, Plugins(), p).Points(Plugins())
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range c.Where {
			if got := result.Get(points[0].Params, w.Key); got != w.Value {
				t.Errorf("%s: the point's %s is %s, and the criterion asks for %s", preset, w.Key, got, w.Value)
			}
		}
	}
	for in, want := range map[string]string{
		strings.Replace(text, "loss: 0.001", "", 1):                     "a term that the role does not have",
		strings.Replace(text, "mix: imix", "", 1):                       `what {mix} is: it may have link_rate, mix`,
		strings.Replace(text, "loss: 0.001", "loss: little", 1):         `limit is "little"`,
		strings.Replace(text, "duration: 300s", "duration: long", 1):    `mine.yaml:7:11: duration "long"`,
		strings.Replace(text, "mine-slow: 25Mbps", "mine-slow: can", 1): `bit rate "can"`,
		strings.Replace(text, "optional: true", "optional: maybe", 1):   `optional "maybe"`,
	} {
		if _, err := ParseRole("mine.yaml", []byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if r, err := FindRole("probe-100m"); err != nil || r.Name != "probe-100m" || r.LinkRate != 100e6 {
		t.Errorf("%+v, %v", r, err)
	}
}

// What is not installed is left out and named, unless nothing else is left.
func TestInstalled(t *testing.T) {
	testutil.Privileged(t)
	t.Setenv("PATH", t.TempDir())
	p, err := Parse("p", []byte("procedures: [{use: capture, subject: [af_packet, tcpdump]}, {use: capture, subject: [dumpcap, tshark]}, {use: capture, subject: tcpdump}]"))
	if err != nil {
		t.Fatal(err)
	}
	got, missing := p.Installed(t.Context())
	var left []string
	for _, e := range got.Procedures {
		for _, w := range e.Get("subject").Values {
			left = append(left, w.Text)
		}
	}
	if want := "af_packet dumpcap tshark tcpdump"; strings.Join(left, " ") != want || len(missing) != 3 || !strings.Contains(missing[0], "tcpdump") {
		t.Errorf("%v are left, missing %q", left, missing)
	}
	if n := len(p.Procedures[0].Get("subject").Values); n != 2 {
		t.Errorf("the plan itself has %d", n)
	}
}

// A role on a box behind cables measures what that topology can do, and names the rest.
func TestOffered(t *testing.T) {
	role, err := FindRole("firewall")
	if err != nil {
		t.Fatal(err)
	}
	c := Plugins()
	offered := func(topology string, set ...string) (services []string, left []string) {
		t.Helper()
		p, _, _, err := role.Plan("quick")
		if err != nil {
			t.Fatal(err)
		}
		p.SetLab(topology, "--lab")
		for _, s := range set {
			if err := p.Set(c, s); err != nil {
				t.Fatal(err)
			}
		}
		if p, err = p.Resolve(c); err == nil {
			p, left, err = p.Offered(c)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range p.Procedures {
			for _, w := range e.Get("service").Values {
				services = append(services, w.Text)
			}
		}
		return services, left
	}
	all := []string{"route", "filter", "nat", "drop-xdp", "drop-tc", "drop-nft"}
	if services, left := offered("sandbox"); !slices.Equal(services, all) || len(left) != 0 {
		t.Errorf("sandbox: %v, left %q", services, left)
	}
	if services, left := offered("mem"); !slices.Equal(services, []string{"route", "filter", "drop-xdp", "drop-tc", "drop-nft"}) || len(left) != 1 || !strings.Contains(left[0], "service nat, and topology mem has none") {
		t.Errorf("mem: %v, left %q", services, left)
	}
	ends := []string{"port_a=veth0", "port_b=veth1"}
	path := testutil.Cable{A: "veth0", B: "veth1"}.Make(t)
	services, left := offered("wire2", append(ends, "netns="+path)...)
	if !slices.Equal(services, []string{"route"}) || len(left) != 5 || !strings.Contains(strings.Join(left, "\n"), "forward with service nat: the box of topology wire2 is measured as it is configured") {
		t.Errorf("wire2: %v, left %q", services, left)
	}
	box := append(ends, "netns="+path, "ssh=box", "dut_a=eth0", "dut_b=eth1")
	if services, left := offered("pair", box...); !slices.Equal(services, all) || len(left) != 0 {
		t.Errorf("pair, which the agent sets up: %v, left %q", services, left)
	}
	if services, left := offered("pair", append(box, "services=as-is")...); !slices.Equal(services, []string{"route"}) || len(left) != 5 {
		t.Errorf("pair, as it is configured: %v, left %q", services, left)
	}
	p, err := Parse("p", []byte("procedures: [{use: forward, service: [route, filter]}, {use: self-test}]"))
	if err != nil {
		t.Fatal(err)
	}
	p.SetLab("wire2", "--lab")
	for _, s := range append(ends, "netns="+path) {
		if err := p.Set(c, s); err != nil {
			t.Fatal(err)
		}
	}
	if p, err = p.Resolve(c); err != nil {
		t.Fatal(err)
	}
	if p, left, err := p.Offered(c); err != nil || len(p.Procedures) != 2 || len(left) != 1 {
		t.Errorf("a procedure without a service is left out beside one with it: %+v, left %q, %v", p.Procedures, left, err)
	}
	if services, left := offered("here"); !slices.Equal(services, all) || left != nil {
		t.Errorf("here, where nothing is left: %v, %q", services, left)
	}
}
