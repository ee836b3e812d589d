// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"boxdyno/result"
)

func TestParse(t *testing.T) {
	c := (&fake{}).catalogue()
	p := resolved(t, c, `
lab: {use: other, mtu: 9000}
procedures:
  - use: probe
    level: [1, 2, 3]
  - {use: probe, kind: b}
preset: standard
repeat: 2
seed: 7
`)
	got, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"lab":{"use":"other","link_rate":"","mtu":9000},"procedures":[` +
		`{"use":"probe","kind":"a","level":[1,2,3],"preset":"standard"},{"use":"probe","kind":"b","level":5,"preset":"standard"}],` +
		`"preset":"standard","repeat":2,"seed":7,"telemetry":{"rate":10}}`
	if string(got) != want {
		t.Errorf("resolved to\n%s, want\n%s", got, want)
	}
}

// A procedure's own repeat holds for its points, and --repeat for all.
func TestRepeatOfAProcedure(t *testing.T) {
	c := (&fake{}).catalogue()
	const text = "procedures: [{use: probe, level: [1, 2], repeat: 1}, {use: probe, kind: b}]\nrepeat: 3"
	count := func(p Plan) map[string]int {
		t.Helper()
		points, err := p.Points(c)
		if err != nil {
			t.Fatal(err)
		}
		n := map[string]int{}
		for _, pt := range points {
			id, _, _ := strings.Cut(pt.ID, "#")
			n[id]++
		}
		return n
	}
	p := resolved(t, c, text)
	n := count(p)
	if len(n) != 3 || slices.Max(slices.Collect(maps.Values(n))) != 3 || n["probe/b"]+len(n)-1 != 5 {
		t.Errorf("points are %v", n)
	}
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	if again := resolved(t, c, string(data)); !reflect.DeepEqual(count(again), n) {
		t.Errorf("read again: %v, not %v", count(again), n)
	}
	if err := p.SetKey("repeat", "2", "--repeat"); err != nil {
		t.Fatal(err)
	}
	for id, k := range count(p) {
		if k != 2 {
			t.Errorf("--repeat 2: %s is measured %d times", id, k)
		}
	}
	for in, want := range map[string]string{
		"procedures: [{use: probe, repeat: 0}]":      `repeat "0": want a whole number`,
		"procedures: [{use: probe, repeat: [1, 2]}]": "repeat is one number",
	} {
		if _, err := Parse("p", []byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestDefaults(t *testing.T) {
	c := (&fake{}).catalogue()
	p := resolved(t, c, "procedures: [probe]")
	if p.Lab.Use != DefaultLab || p.Repeat != DefaultRepeat || p.Seed != DefaultSeed || p.Preset != DefaultPreset {
		t.Errorf("defaults are %+v", p)
	}
	if p := resolved(t, c, "procedures: [probe]\nseed: 0"); p.Seed != 0 {
		t.Errorf("seed 0 became %d", p.Seed)
	}
}

// Every mistake is one sentence with the place where it was written, and what
// would be right.
func TestMistakes(t *testing.T) {
	c := (&fake{}).catalogue()
	many := make([]string, 9999)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	for in, want := range map[string]string{
		"":                                      "plan.yaml: the plan is empty",
		"- a":                                   "plan.yaml:1:1: the plan is a list, and must be a map",
		"lab: sandbox":                          "plan.yaml:1:1: the plan has no procedures",
		"procedures: []":                        "plan.yaml:1:13: procedures is empty",
		"procedures: forward":                   "plan.yaml:1:13: procedures is a single value, and must be a list",
		"procedures: [foo]":                     `plan.yaml:1:14: unknown procedure "foo": there are probe`,
		"procedures: [probe]\nlab: moon":        `plan.yaml:2:6: unknown topology "moon": there are sandbox, other`,
		"procedures: [probe]\ntune: x":          `plan.yaml:2:1: unknown key "tune" in the plan: there are lab, procedures, preset, repeat, seed`,
		"procedures:\n  - {kind: a}":            "plan.yaml:2:6: an entry of procedures has no key use",
		"procedures:\n  - {use: probe, lvl: 3}": `plan.yaml:2:18: procedure probe has no parameter "lvl": there are kind, level, preset`,
		"procedures:\n  - {use: probe, kind: [a, z]}":                                        `plan.yaml:2:28: kind: "z" is not one of a, b, c`,
		"procedures:\n  - {use: probe, level: many}":                                         `plan.yaml:2:25: level "many": want 0 to 9999`,
		"procedures:\n  - {use: probe, level: [1, 2, 1]}":                                    "plan.yaml:2:32: level holds 1 twice",
		"procedures:\n  - {use: probe, level: [1, 01]}":                                      "level holds 1 twice",
		"procedures:\n  - {use: probe, level: []}":                                           "plan.yaml:2:25: level is an empty list",
		"procedures:\n  - {use: probe, level: {a: 1}}":                                       "plan.yaml:2:26: level holds a map",
		"procedures:\n  - {use: probe, level: }":                                             "level holds nothing",
		"procedures: [probe]\nrepeat: 0":                                                     "plan.yaml:2:9: repeat \"0\": want a whole number from 1 to 1000",
		"procedures: [probe]\nrepeat: 1000000000":                                            "plan.yaml:2:9: repeat",
		"procedures: [probe]\nrepeat: [1]":                                                   "plan.yaml:2:9: repeat is a list",
		"procedures: [probe]\nseed: -1":                                                      "plan.yaml:2:7: seed",
		"procedures: [probe]\npreset: slow":                                                  `plan.yaml:2:9: preset "slow": there are quick, standard`,
		"procedures: [probe]\nprocedures: [probe]":                                           "plan.yaml:2:1: ",
		"procedures: [probe, probe]":                                                         "plan.yaml:1:21: entry 2 of procedures measures probe/a, which entry 1 measures already",
		"procedures: [probe]\nlab: {use: other, mtu: [1, 2]}":                                "plan.yaml:2:28: mtu has 2 values, and a lab has no axes",
		"procedures: [probe]\nlab: {use: other, mtu: x}":                                     `plan.yaml:2:24: mtu "x": want octets`,
		"procedures:\n  - {use: probe, kind: c, level: 500}":                                 "plan.yaml:2:11: probe/c/level=500: level over 100: kind c has none",
		"procedures:\n  - {use: probe, level: [" + strings.Join(many, ",") + "]}\nrepeat: 2": "more than 10000 points",
		"procedures:\n  - {use: probe, level: [1, 2\n":                                       "plan.yaml:",
	} {
		p, err := Parse("plan.yaml", []byte(in))
		if err == nil {
			p, err = p.Resolve(c)
		}
		var points []Point
		if err == nil {
			points, err = p.Points(c)
		}
		if err == nil {
			_, err = Check(c, points, nil)
		}
		var plan *PlanError
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || !errors.As(err, &plan) {
			t.Errorf("%.60q: %v, want %s", in, err, want)
		}
	}
}

func TestSet(t *testing.T) {
	c := (&fake{}).catalogue()
	p := Use("probe")
	for _, arg := range []string{"level=7", "level=1,2", "mtu=1400", "repeat=4", "seed=9", "kind= a , b"} {
		if err := p.Set(c, arg); err != nil {
			t.Fatal(err)
		}
	}
	p, err := p.Resolve(c)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := json.Marshal(p)
	want := `{"lab":{"use":"sandbox","link_rate":"","mtu":1400},"procedures":[{"use":"probe","kind":["a","b"],"level":[1,2],"preset":"quick"}],"preset":"quick","repeat":4,"seed":9,"telemetry":{"rate":10}}`
	if string(got) != want {
		t.Errorf("set to\n%s, want\n%s", got, want)
	}
	p.SetLab("sandbox", "--lab")
	if p.Lab.Get("mtu") == nil {
		t.Error("naming the same lab again forgot its parameters")
	}
	p.SetLab("other", "--lab")
	if len(p.Lab.Set) != 0 {
		t.Error("another lab keeps the parameters of the one before")
	}
	if err := p.SetPreset("standard"); err != nil {
		t.Fatal(err)
	}
	if p, err = p.Resolve(c); err != nil || p.Procedures[0].Get("preset").Values[0].Text != "standard" {
		t.Errorf("preset: %v %+v", err, p.Procedures)
	}
	for arg, want := range map[string]string{
		"level":             "--set level: want key=value",
		"=3":                "--set =3: want key=value",
		"level=":            "--set level: a value is empty",
		"level=1,,2":        "--set level: a value is empty",
		"nope=1":            "--set nope: unknown parameter: there are budget, kind, lab, level, link_rate, mtu, preset, repeat, seed",
		"procedures=x":      "--set procedures: unknown parameter",
		"repeat=0":          "--set repeat: repeat \"0\": want a whole number",
		"seed=1,2":          "--set seed: one run has one seed",
		"lab=sandbox,other": "--set lab: one run has one lab",
		"kind=z":            `--set kind: "z" is not one of a, b, c`,
		"level=x":           `--set level: value "x": want 0 to 9999`,
		"link_rate=fast":    `--set link_rate: bit rate "fast"`,
		"level=" + strings.Repeat("1,", 20000) + "2": "--set level: level has 20001 values",
	} {
		p := Use("probe")
		err := p.Set(c, arg)
		if err == nil {
			_, err = p.Resolve(c)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--set %.40s: %v, want %s", arg, err, want)
		}
	}
}

// Axes multiply, every repeat holds every point once, the order follows from the
// seed alone, and what is written to run.json is the same plan.
func TestPoints(t *testing.T) {
	c := (&fake{}).catalogue()
	rapid.Check(t, func(t *rapid.T) {
		levels := rapid.SliceOfNDistinct(rapid.IntRange(0, 9999), 1, 6, rapid.ID[int]).Draw(t, "levels")
		kinds := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b"}), 1, 2, rapid.ID[string]).Draw(t, "kinds")
		repeat := rapid.IntRange(1, 5).Draw(t, "repeat")
		seed := rapid.Uint64().Draw(t, "seed")
		text := fmt.Sprintf("procedures: [{use: probe, level: [%s], kind: [%s]}]\nrepeat: %d\nseed: %d\n",
			strings.Trim(strings.ReplaceAll(fmt.Sprint(levels), " ", ","), "[]"), strings.Join(kinds, ","), repeat, seed)
		p := resolved(t, c, text)
		points, err := p.Points(c)
		if err != nil {
			t.Fatal(err)
		}
		n := len(levels) * len(kinds)
		if len(points) != n*repeat {
			t.Fatalf("%d points, want %d x %d x %d", len(points), len(levels), len(kinds), repeat)
		}
		ids := map[string]bool{}
		for i, pt := range points {
			if pt.Repeat != i/n+1 {
				t.Fatalf("point %d is of repeat %d: repeats are not interleaved", i, pt.Repeat)
			}
			level, kind := result.Get(pt.Params, "level"), result.Get(pt.Params, "kind")
			if !slices.ContainsFunc(levels, func(l int) bool { return fmt.Sprint(l) == level }) || !slices.Contains(kinds, kind) {
				t.Fatalf("a point that nobody asked for: %v", pt)
			}
			ids[pt.ID] = true
		}
		if len(ids) != len(points) {
			t.Fatalf("%d IDs for %d points", len(ids), len(points))
		}
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		again, err := resolved(t, c, string(data)).Points(c)
		if err != nil {
			t.Fatal(err)
		}
		for i := range again {
			again[i].at, points[i].at = "", ""
			again[i].lab, points[i].lab = Entry{}, Entry{} // it says where it was written
		}
		if !reflect.DeepEqual(again, points) {
			t.Fatalf("the written plan has other points:\n%v\n%v", again, points)
		}
	})
}

func TestSeedDecidesTheOrder(t *testing.T) {
	c := (&fake{}).catalogue()
	order := func(seed int) (s string) {
		points, err := resolved(t, c, fmt.Sprintf("procedures: [{use: probe, level: [1,2,3,4,5,6,7,8,9]}]\nseed: %d\nrepeat: 2", seed)).Points(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range points {
			s += result.Get(p.Params, "level")
		}
		return s
	}
	one, again, two := order(1), order(1), order(2)
	if one == two || one[:9] == one[9:] || one != again || one[:9] == "123456789" {
		t.Errorf("orders %s, %s and %s", one, again, two)
	}
}

func TestEstimate(t *testing.T) {
	c := (&fake{}).catalogue()
	points, err := resolved(t, c, twoByTwo).Points(c)
	if err != nil {
		t.Fatal(err)
	}
	e, err := Check(c, points, nil)
	if err != nil || e != (Estimate{Points: 8, Trials: 40, Time: 16 * time.Second}) {
		t.Errorf("estimate %+v, %v", e, err)
	}
}

// What points of a run share is in the estimate once, however often they are measured.
func TestSharedEstimate(t *testing.T) {
	plan, err := Parse("plan", []byte(`{repeat: 2, procedures: [{use: capture, subject: [tcpdump, dumpcap], payload_size: 148, rate: 2Mbps, duration: 10s}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if plan, err = plan.Resolve(Plugins()); err != nil {
		t.Fatal(err)
	}
	points, err := plan.Points(Plugins())
	if err != nil {
		t.Fatal(err)
	}
	got, err := Check(Plugins(), points, nil)
	if want := (Estimate{Points: 4, Trials: 5, Time: 4*13*time.Second + 10*time.Second}); err != nil || got != want {
		t.Errorf("%+v, want %+v: %v", got, want, err)
	}
}

func TestText(t *testing.T) {
	for in, want := range map[string]string{"64": "64", "064": `"064"`, "-3": "-3", "+3": `"+3"`, "imix": `"imix"`, "1e3": `"1e3"`, "": `""`,
		"true": `"true"`, fmt.Sprint(uint64(math.MaxUint64)): `"18446744073709551615"`} {
		if got := string(text(in)); got != want {
			t.Errorf("%q is written %s, want %s", in, got, want)
		}
	}
}

func FuzzPlan(f *testing.F) {
	c := (&fake{}).catalogue()
	for _, s := range []string{twoByTwo, "procedures: [probe]", "procedures:\n- use: probe\n  kind: [a, b]\n  level: 7\nlab: {use: other, mtu: 3}\nseed: 18446744073709551615",
		"procedures: [{use: probe, kind: &a [*a]}]", "repeat: 1e9\nprocedures: [x]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := Parse("p", []byte(s))
		if err == nil {
			p, err = p.Resolve(c)
		}
		var points []Point
		if err == nil {
			points, err = p.Points(c)
		}
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q: the error %q has several lines", s, err)
			}
			return
		}
		if len(points) == 0 || len(points) > MaxPoints {
			t.Errorf("%q has %d points", s, len(points))
		}
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		q, err := Parse("q", data)
		if err == nil {
			q, err = q.Resolve(c)
		}
		if err != nil {
			t.Fatalf("%q is written as %s, which is refused: %v", s, data, err)
		}
		if again, _ := json.Marshal(q); string(again) != string(data) {
			t.Fatalf("%s resolves to %s", data, again)
		}
	})
}

// What a procedure sets itself goes before the plan's preset, in words too.
func TestPresetsUsed(t *testing.T) {
	c := (&fake{}).catalogue()
	for plan, want := range map[string]string{
		"procedures: [probe]":                                        "quick",
		"procedures: [{use: probe, preset: standard}]":               "standard",
		"procedures: [{use: probe, preset: standard}, probe, probe]": "standard, quick",
	} {
		if got := resolved(t, c, plan).PresetsUsed(); got != want {
			t.Errorf("%s: %q, want %q", plan, got, want)
		}
	}
}

// What a run keeps of a procedure stays; an empty declaration is filled in.
func TestDeclare(t *testing.T) {
	own := result.Procedure{Name: "forward", Metrics: []result.Metric{{Name: "own"}}}
	run := result.Run{Procedures: []result.Procedure{own, {Name: "cpu"}}}
	Plugins().Declare(&run, []result.Record{{Procedure: "forward"}, {Procedure: "cpu"}, {Procedure: "hash"}, {Procedure: "nobody's"}})
	var got []string
	for _, p := range run.Procedures {
		got = append(got, p.Name)
		if len(p.Metrics) == 0 {
			t.Errorf("%s is declared without metrics", p.Name)
		}
	}
	if run.Procedures[0].Metrics[0].Name != "own" || strings.Join(got, " ") != "forward cpu hash" {
		t.Errorf("declared: %+v", got)
	}
}
