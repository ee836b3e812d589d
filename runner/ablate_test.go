// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"pgregory.net/rapid"

	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/ledger"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/tune"
)

func recipeOf(t interface{ Fatal(...any) }, steps string) tune.Recipe {
	r, err := tune.Parse("r.yaml", []byte("name: r\nsteps: ["+steps+"]"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Every pass over the points holds each of them once with every part of the recipe, in
// an order that depends on the seed alone, and their IDs differ.
func TestAblated(t *testing.T) {
	c := (&fake{}).catalogue()
	r := recipeOf(t, "{knob: mtu, value: 1400}, {knob: gro, value: on}, {knob: rps, value: 1}")
	rapid.Check(t, func(t *rapid.T) {
		repeat := rapid.IntRange(1, 5).Draw(t, "repeat")
		plan := fmt.Sprintf("procedures: [{use: probe, kind: [a, b]}]\nrepeat: %d\nseed: %d\n", repeat, rapid.Uint64().Draw(t, "seed"))
		p := resolved(t, c, plan)
		points, err := p.Ablated(c, r)
		if err != nil {
			t.Fatal(err)
		}
		again, _ := p.Ablated(c, r)
		const pass = 2 * (2 + 2*3)
		if len(points) != pass*repeat || !slices.EqualFunc(points, again, func(a, b Point) bool { return a.ID == b.ID }) {
			t.Fatalf("%d points, want %d, and the same again", len(points), pass*repeat)
		}
		ids := map[string]bool{}
		for i, pt := range points {
			ids[pt.ID] = true
			if pt.Repeat != i/pass+1 || result.Get(pt.config(), result.TuneKey) != pt.Tune || pt.Tune == "" || result.Get(pt.Params, result.TuneKey) != "" {
				t.Fatalf("point %d: %+v", i, pt)
			}
		}
		if len(ids) != len(points) {
			t.Fatalf("%d IDs of %d points", len(ids), len(points))
		}
	})
}

// Knobs are judged by the rate under overload, for which forward needs no search.
func TestAblatedMetric(t *testing.T) {
	c := Plugins()
	for _, x := range []struct{ plan, asked, want, search string }{
		{"procedures: [forward]", "", "forwarding_rate_fps", "none"},
		{"procedures: [{use: forward, service: [drop-tc, drop-nft]}]", "", "drop_rate_fps", "none"},
		{"procedures: [{use: forward, search: csit}]", "", "forwarding_rate_fps", "csit"},
		{"procedures: [forward]", "latency_p99_s", "latency_p99_s", "preset"},
		{"procedures: [latency]", "", "latency_mean_s", ""},
		{"procedures: [forward]", "offered_fps", "", ""},
		{"procedures: [forward]", "nonsense", "", ""},
	} {
		p, err := Parse("plan.yaml", []byte(x.plan))
		if err != nil {
			t.Fatal(err)
		}
		got, err := AblatedMetric(c, p, x.asked)
		if x.want == "" {
			if err == nil || !strings.Contains(err.Error(), "forwarding_rate_fps") {
				t.Errorf("%s by %s: %v", x.plan, x.asked, err)
			}
			continue
		}
		if err != nil || x.search != "" && got != x.want {
			t.Errorf("%s: %s, %v; want %s", x.plan, got, err, x.want)
		}
		p.Hasten(c, got)
		if p, err = p.Resolve(c); err != nil {
			t.Fatal(err)
		}
		if s := p.Procedures[0].Get("search"); x.search != "" && s.Values[0].Text != x.search {
			t.Errorf("%s: search %s, want %s", x.plan, s.Values[0].Text, x.search)
		}
	}
}

// A tunable is a testbed whose DUT is a namespace with two ports.
type tunable struct{ dut *host.Local }

func (tunable) Flags(*flag.FlagSet) {}

func (tunable) Sketch() (lab.Facts, error) {
	return lab.Facts{Topology: "sandbox", Kind: "memory", Ports: make([]lab.Port, 2), DUTPorts: []string{"lan", "wan"}}, nil
}

func (b tunable) Build(context.Context) (*lab.Testbed, error) {
	facts, err := b.Sketch()
	return &lab.Testbed{
		Facts: facts, DUT: b.dut, Means: tunableMeans{lab.TuneLocal(tune.On{Host: b.dut, Ports: facts.DUTPorts}), b.dut},
		Fixed: []result.Pair{{Key: "threaded", Value: "the testbed needs it"}},
	}, err
}

type tunableMeans struct {
	lab.Tuner
	dut *host.Local
}

func (m tunableMeans) Path(from, to int, _ bool) ledger.Path {
	names := []string{"lan", "wan"}
	return ledger.Path{Hops: []ledger.Hop{{}, {Host: m.dut, Port: host.Port{Name: names[from]}}, {Host: m.dut, Port: host.Port{Name: names[to]}}, {}}}
}

// settingsOf reads what the tested recipe sets, by other ways than package tune.
func settingsOf(path string) (mtu int, somaxconn string, err error) {
	err = netns.Do(path, func() error {
		l, err := netlink.LinkByName("wan")
		if err != nil {
			return err
		}
		mtu = l.Attrs().MTU
		data, err := os.ReadFile("/proc/sys/net/core/somaxconn")
		somaxconn = strings.TrimSpace(string(data))
		return err
	})
	return mtu, somaxconn, err
}

// At each trial the part of the recipe is in force that its record names, also in a run
// that is resumed wherever it broke off; what cannot be turned is named; and in the end
// everything is as it was.
func TestAblate(t *testing.T) {
	path := testutil.Cable{A: "lan", B: "wan"}.Make(t)
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	_, usual, err := settingsOf(path)
	if err != nil {
		t.Fatal(err)
	}
	said := func(mtu int, somaxconn string) string { return fmt.Sprintf("mtu %d, somaxconn %s", mtu, somaxconn) }
	r := recipeOf(t, `{knob: mtu, value: 1400}, {knob: "sysctl:net.core.somaxconn", value: 77}, {knob: rings, value: rx=512}, {knob: threaded, value: 1}, {knob: promiscuous, value: off}`)
	want := map[string]string{
		result.Full: said(1400, "77"), result.None: said(1500, usual),
		"without mtu": said(1500, "77"), "without sysctl:net.core.somaxconn": said(1400, usual),
	}
	run := func(f *fake, header result.Run, done []result.Record) (*memory, error) {
		f.shared = true
		f.trial = func(string) (procedure.Outcome, error) {
			mtu, n, err := settingsOf(path)
			return procedure.Outcome{Status: result.Passed, Warnings: []string{said(mtu, n)}}, err
		}
		c := f.catalogue()
		c.Procedures[0].Metrics[0].Better = 1
		c.Labs = []lab.Spec{{Name: "sandbox", Offers: lab.Ports, New: func() lab.Topology { return tunable{&host.Local{Label: "dut", Netns: path}} }}}
		p := resolved(t, c, "procedures: [{use: probe, kind: [a, b]}]\nrepeat: 2\n")
		m := &memory{}
		_, _, err := Run(t.Context(), p, m, Options{Catalogue: c, Ablate: &Ablation{r, "steps"}, Header: header, Done: done, Resume: done != nil})
		return m, err
	}
	whole := &fake{}
	m, err := run(whole, result.Run{ID: "one"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := m.run.Ablation
	if a == nil || len(a.Knobs) != 2 || len(a.Untested) != 3 || a.Metric != "steps" {
		t.Fatalf("%+v", a)
	}
	for _, u := range a.Untested {
		if wants := map[string]string{"rings": "not supported", "threaded": "the testbed needs it", "promiscuous": "it is off already"}[u.Knob]; !strings.Contains(u.Reason, wants) {
			t.Errorf("%s is not tested: %q, want %q", u.Name, u.Reason, wants)
		}
	}
	check := func(recs []result.Record, trials int) {
		t.Helper()
		n := 0
		for _, rec := range recs {
			part := result.Get(rec.Config, result.TuneKey)
			if rec.Procedure != "probe" || rec.Status != result.Passed {
				continue
			}
			if part == "" || want[part] == "" {
				t.Fatalf("%s is of no part of the recipe: %v", rec.ID, rec.Config)
			}
			if rec.Parent == "" {
				if got := len(rec.Settings); got != map[string]int{result.Full: 3, result.None: 0, "without mtu": 1, "without sysctl:net.core.somaxconn": 2}[part] {
					t.Errorf("%s: %d settings", rec.ID, got)
				}
				continue
			}
			if n++; !slices.Contains(rec.Warnings, want[part]) {
				t.Errorf("%s was measured with %v, want %s", rec.ID, rec.Warnings, want[part])
			}
		}
		if n != trials {
			t.Errorf("%d trials, want %d", n, trials)
		}
	}
	const trials = 4 * 2 * 4 * 2 // of a point, points, parts, repeats
	check(last(m.appended), trials)
	if mtu, n, err := settingsOf(path); err != nil || said(mtu, n) != want[result.None] {
		t.Errorf("afterwards: MTU %d, somaxconn %s, %v", mtu, n, err)
	}
	if left, _ := filepath.Glob(filepath.Join(state, "boxdyno", "tune", "*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	for cut := 1; cut < len(m.appended); cut += 41 {
		header := m.run
		header.Environments = header.Environments[:1]
		done := last(m.appended[:cut])
		rest := &fake{}
		again, err := run(rest, header, done)
		if err != nil {
			t.Fatal(err)
		}
		check(last(append(slices.Clone(m.appended[:cut]), again.appended...)), trials)
	}
}

// Where nothing of a recipe can be turned, nothing is measured.
func TestAblateNothing(t *testing.T) {
	testutil.Privileged(t)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	c := (&fake{}).catalogue()
	c.Labs = []lab.Spec{{Name: "sandbox", Offers: lab.Ports, New: func() lab.Topology { return tunable{&host.Local{Netns: ns.Path()}} }}}
	p := resolved(t, c, "procedures: [probe]")
	m := &memory{}
	_, _, err = Run(t.Context(), p, m, Options{Catalogue: c, Ablate: &Ablation{recipeOf(t, "{knob: mtu, value: 1400}"), "steps"}})
	if !errors.As(err, new(*host.Missing)) || !strings.Contains(err.Error(), "recipe r") || m.writes > 0 {
		t.Errorf("%v, %d writes", err, m.writes)
	}
	c.Labs = (&fake{}).catalogue().Labs
	if _, _, err = Run(t.Context(), p, m, Options{Catalogue: c, Ablate: &Ablation{recipeOf(t, "{knob: mtu, value: 1400}"), "steps"}}); !errors.As(err, new(*host.Missing)) {
		t.Errorf("a black box is tuned: %v", err)
	}
}
