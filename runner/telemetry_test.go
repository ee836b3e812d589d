// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"boxdyno/host"
	"boxdyno/internal/schema"
	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/telemetry"
)

// A tallyCollector counts what a test counts, and knows whether it was closed.
type tallyCollector struct {
	n      atomic.Int64
	fails  atomic.Bool
	closed atomic.Int32
}

func (c *tallyCollector) Series() []result.Series {
	return []result.Series{{Name: "x_total", Unit: "1", Counter: true, Help: "trials"}, {Name: "still_total", Unit: "1", Counter: true, Help: "nothing"}}
}

func (c *tallyCollector) Read(dst []float64) error {
	if c.fails.Load() {
		return errors.New("it is gone")
	}
	dst[0], dst[1] = float64(c.n.Load()), 7
	return nil
}

func (c *tallyCollector) Close() error { c.closed.Add(1); return nil }

func (c *tallyCollector) spec() telemetry.Spec {
	return telemetry.Spec{Name: "x", Doc: "a test", Default: true, New: func(context.Context, *telemetry.Machine) (telemetry.Collector, error) { return c, nil }}
}

func TestPlanTelemetry(t *testing.T) {
	c := (&fake{}).catalogue()
	c.Collectors = []telemetry.Spec{{Name: "cpu"}, {Name: "thermal"}}
	for text, want := range map[string]string{
		"":                                `{"rate":10}`,
		"on":                              `{"rate":10}`,
		"off":                             `"off"`,
		"25":                              `{"rate":25}`,
		"{rate: 2.5}":                     `{"rate":2.5}`,
		"{collectors: cpu}":               `{"rate":10,"collectors":["cpu"]}`,
		"{collectors: [thermal, cpu]}":    `{"rate":10,"collectors":["thermal","cpu"]}`,
		"{collectors: all, meter: sh -x}": `{"rate":10,"collectors":["all"],"meter":"sh -x"}`,
		`{plug: "http://p", reading: 5W}`: `{"rate":10,"plug":"http://p","reading":"5W"}`,
	} {
		plan := "procedures: [probe]\n"
		if text != "" {
			plan += "telemetry: " + text + "\n"
		}
		p := resolved(t, c, plan)
		got, err := json.Marshal(p.Telemetry)
		if err != nil || string(got) != want {
			t.Errorf("%q is %s, want %s (%v)", text, got, want, err)
		}
		whole, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		again := resolved(t, c, string(whole))
		if back, _ := json.Marshal(again); !bytes.Equal(back, whole) {
			t.Errorf("%s resolves to %s", whole, back)
		}
		if err := valid(t, compile(t, PlanSchema(c)), json.RawMessage(whole)); err != nil {
			t.Errorf("%s: %v", whole, err)
		}
	}
	secret := resolved(t, c, `procedures: [probe]
telemetry: {plug: "http://me:pw@p/?id=1"}
`)
	if data, _ := json.Marshal(secret); bytes.Contains(data, []byte("pw")) || !bytes.Contains(data, []byte("http://p/?id=1")) || secret.Telemetry.Ask().Plug != "http://me:pw@p/?id=1" {
		t.Errorf("the plug's password is kept, or lost: %s, %s", data, secret.Telemetry.Ask().Plug)
	}
	for text, says := range map[string]string{
		"51":                   `plan.yaml:2:12: telemetry "51": want off, on, or a rate from 1 to 50 Hz`,
		"loud":                 `telemetry "loud"`,
		"{rate: 0}":            `plan.yaml:2:19: rate "0": want a number from 1 to 50 Hz`,
		"{speed: 1}":           `unknown key "speed" in telemetry: there are rate, collectors`,
		"{collectors: nope}":   `no collector "nope": there are all, cpu, thermal`,
		"{meter: [a, b]}":      "meter is given twice of the same boards",
		"[1]":                  "telemetry is a list",
		"{collectors: {a: 1}}": "collectors is a map",
	} {
		p, err := Parse("plan.yaml", []byte("procedures: [probe]\ntelemetry: "+text+"\n"))
		if err == nil {
			_, err = p.Resolve(c)
		}
		if err == nil || !strings.Contains(err.Error(), says) || !errors.As(err, new(*PlanError)) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
	p := Use("probe")
	if err := p.Set(c, "telemetry=off"); err != nil || !p.Telemetry.Off {
		t.Errorf("--set telemetry=off: %v", err)
	}
	if err := p.SetKey("telemetry", "20", "--telemetry"); err != nil || p.Telemetry.Off || p.Telemetry.Rate != 20 {
		t.Errorf("--telemetry=20: %+v, %v", p.Telemetry, err)
	}
}

func TestSamplerCPUs(t *testing.T) {
	for _, c := range []struct {
		bed     lab.Testbed
		allowed []int
		want    []int
	}{
		{lab.Testbed{Facts: lab.Facts{TesterCPU: 0, CPUs: []int{0, 1}, DUTCPUs: []int{1}}}, []int{0, 1}, []int{1}},          // no third: the DUT's
		{lab.Testbed{Facts: lab.Facts{TesterCPU: 2, CPUs: []int{2, 3}, DUTCPUs: []int{3}}}, []int{0, 1, 2, 3}, []int{0, 1}}, // those that are left
		{lab.Testbed{Facts: lab.Facts{TesterCPU: 1, CPUs: []int{1}, DUTCPUs: []int{1}}}, []int{0, 1}, []int{0}},             // shared
		{lab.Testbed{Facts: lab.Facts{TesterCPU: 0, CPUs: []int{0}, DUTCPUs: []int{0}}}, []int{0}, nil},                     // nowhere else
		{lab.Testbed{Facts: lab.Facts{TesterCPU: -1}}, []int{0, 1}, nil},                                                    // anywhere
		{lab.Testbed{Facts: lab.Facts{TesterCPU: -1, CPUs: []int{0, 1}}}, []int{0, 1}, nil},                                 // here
		{lab.Testbed{Facts: lab.Facts{TesterCPU: 0, CPUs: []int{0}}}, []int{0, 1, 2}, []int{1, 2}},                          // a box at a wire
		{lab.Testbed{Facts: lab.Facts{TesterCPU: 0, CPUs: []int{0, 1}, DUTCPUs: []int{1}}}, []int{0}, nil},
	} {
		if got := samplerCPUs(&c.bed, c.allowed); !slices.Equal(got, c.want) {
			t.Errorf("tester %d, DUT %v, bound %v, allowed %v: the sampler on %v, want %v", c.bed.TesterCPU, c.bed.DUTCPUs, c.bed.CPUs, c.allowed, got, c.want)
		}
	}
}

func TestSpaces(t *testing.T) {
	tester := []lab.Port{{Port: host.Port{Netns: "/t"}}, {Port: host.Port{Netns: "/t"}}}
	if got, want := spaces(&lab.Testbed{Facts: lab.Facts{Ports: tester}, DUT: &host.Local{Netns: "/d"}}), []telemetry.Space{{Name: "dut", Path: "/d"}, {Name: "tester", Path: "/t"}}; !slices.Equal(got, want) {
		t.Errorf("of a sandbox: %+v", got)
	}
	if got, want := spaces(&lab.Testbed{Facts: lab.Facts{Ports: make([]lab.Port, 2)}}), []telemetry.Space{{}}; !slices.Equal(got, want) {
		t.Errorf("of a wire: %+v", got)
	}
	if got := spaces(&lab.Testbed{}); got != nil {
		t.Errorf("of no ports: %+v", got)
	}
}

// Every trial's record has what telemetry saw in it, a point's has not; a resumed
// run goes on with the same series.
func TestRunIsWatched(t *testing.T) {
	testutil.Privileged(t) // of the lock of whoever measures
	testutil.NoLeaks(t)
	x := &tallyCollector{}
	open := false
	f := &fake{kind: "real", trial: func(id string) (procedure.Outcome, error) {
		x.n.Add(3)
		open = open || x.closed.Load() > 0
		return procedure.Outcome{Status: result.Passed}, nil
	}}
	c := f.catalogue()
	c.Collectors = []telemetry.Spec{x.spec()}
	p := resolved(t, c, "procedures: [probe]\nrepeat: 2\n")
	m := &memory{}
	run, recs, err := Run(t.Context(), p, m, Options{Catalogue: c})
	if err != nil {
		t.Fatal(err)
	}
	if !f.traffic {
		t.Error("telemetry is not told of traffic")
	}
	if open || x.closed.Load() != 1 || f.closed.Load() != 1 {
		t.Errorf("the collector was closed %d times, early: %v", x.closed.Load(), open)
	}
	check := func(recs []result.Record, run result.Run) {
		t.Helper()
		trials := 0
		for _, r := range recs {
			grew := map[string]float64{}
			for _, d := range r.Digests {
				grew[run.Series[d.Series].Name] = d.Growth
			}
			_, still := grew["still_total"]
			switch {
			case r.Parent == "" && r.Digests != nil:
				t.Errorf("the point %s has digests", r.ID)
			case r.Parent != "" && (grew["x_total"] != 3 || still):
				t.Errorf("%s: x grew by %v, want 3; still_total is there: %v", r.ID, grew["x_total"], still)
			case r.Parent != "":
				trials++
			}
			if err := valid(t, compile(t, schema.Of(reflect.TypeFor[result.Record]())), r); err != nil {
				t.Errorf("%s: %v", r.ID, err)
			}
		}
		if trials != 2*4+1 {
			t.Errorf("%d trials", trials)
		}
		if err := valid(t, compile(t, schema.Of(reflect.TypeFor[result.Run]())), run); err != nil {
			t.Error(err)
		}
	}
	check(recs, run)
	if len(run.Telemetry) != 1 || run.Telemetry[0].Samples < 2*9 || run.Telemetry[0].Rate != 10 || run.Series[0].Name != "x_total" || len(m.run.Series) != len(run.Series) {
		t.Errorf("the header says %+v of %d series", run.Telemetry, len(run.Series))
	}
	if !bytes.HasPrefix(m.lines, []byte(`{"schema":1,`)) || bytes.Count(m.lines, []byte("\n")) < 2*9 {
		t.Errorf("%d octets of telemetry: %.60s", len(m.lines), m.lines)
	}

	// Cut off, and resumed with another collector before the known one.
	other := &tallyCollector{}
	before := other.spec()
	before.Name = "before"
	c.Collectors = []telemetry.Spec{{Name: "before", Default: true, New: func(context.Context, *telemetry.Machine) (telemetry.Collector, error) {
		return renamed{other}, nil
	}}, x.spec()}
	done := last(m.appended[:len(m.appended)-6])
	header := run
	header.Environments = header.Environments[:1]
	again, recs, err := Run(t.Context(), p, m, Options{Catalogue: c, Header: header, Done: done, Resume: true})
	if err != nil {
		t.Fatal(err)
	}
	check(recs, again)
	if len(again.Telemetry) != 2 || len(again.Series) != len(run.Series)+2 || !again.Series[0].Same(run.Series[0]) || again.Series[len(run.Series)].Name != "other" {
		t.Errorf("the resumed run has %d parts and the series %+v", len(again.Telemetry), again.Series)
	}
}

// renamed has one series of another name, and one more.
type renamed struct{ *tallyCollector }

func (r renamed) Series() []result.Series {
	return []result.Series{{Name: "other", Unit: "1", Help: "x"}, {Name: "another", Unit: "1", Help: "x"}}
}

// Off is off, in memory there is none, and what fails is a warning and no end.
func TestRunIsNotWatched(t *testing.T) {
	testutil.Privileged(t)
	testutil.NoLeaks(t)
	for _, k := range []struct {
		kind, plan string
		fails      bool
	}{{"memory", "on", false}, {"real", "off", false}, {"real", "on", true}} {
		x := &tallyCollector{}
		f := &fake{kind: k.kind}
		c := f.catalogue()
		c.Collectors = []telemetry.Spec{x.spec()}
		if k.fails {
			f.trial = func(string) (procedure.Outcome, error) {
				x.fails.Store(true)
				return procedure.Outcome{Status: result.Passed}, nil
			}
		}
		m := &memory{}
		run, recs, err := Run(t.Context(), resolved(t, c, fmt.Sprintf("procedures: [probe]\ntelemetry: %s\n", k.plan)), m, Options{Catalogue: c})
		if err != nil {
			t.Fatal(err)
		}
		if k.fails {
			said := 0
			for _, w := range run.Warnings {
				if strings.Contains(w, "collector x failed") {
					said++
				}
			}
			if said != 1 || recs[len(recs)-1].Status != result.Passed {
				t.Errorf("a collector that fails: %q", run.Warnings)
			}
			continue
		}
		if f.traffic {
			t.Errorf("%+v wants to be told of traffic", k)
		}
		if m.lines != nil || run.Series != nil || run.Telemetry != nil || x.closed.Load() != 0 {
			t.Errorf("%+v has telemetry: %s", k, m.lines)
		}
		for _, r := range recs {
			if r.Digests != nil {
				t.Errorf("%s has digests", r.ID)
			}
		}
	}
}

// In the sandbox a record's digests are the kernel's own counters: what went in at
// the DUT's port is there to the frame.
func TestSandboxIsWatched(t *testing.T) {
	testutil.Privileged(t)
	c := Plugins()
	p := resolved(t, c, "procedures: [{use: throughput, frame_size: 1518}]\n")
	m := &memory{}
	// Ten trials flood the box and begin its search: more would tell no more.
	ctx, enough := context.WithCancel(t.Context())
	defer enough()
	ended := 0
	run, recs, err := Run(ctx, p, m, Options{Catalogue: c, Notify: func(e Event) {
		if e.Kind == TrialDone {
			if ended++; ended == 10 {
				enough()
			}
		}
	}})
	var missing *host.Missing
	if errors.As(err, &missing) {
		t.Skip(err)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	trials := 0
	for _, r := range recs {
		if r.Account == nil || r.Parent == "" || r.Procedure == "self-test" || r.Account.Accepted == 0 || r.Status == result.Aborted {
			continue
		}
		trials++
		var in, cpu float64
		for _, d := range r.Digests {
			s := run.Series[d.Series]
			switch s.Name {
			case "node_network_receive_packets_total":
				if result.Get(s.Labels, "netns") == "dut" && result.Get(s.Labels, "device") == "lan" {
					in = d.Growth
				}
			case "node_cpu_seconds_total":
				cpu += d.Growth
			}
		}
		a := r.Account
		if ring := a.DroppedAt(result.DUTNIC); float64(a.Accepted-ring) != in || cpu <= 0 {
			t.Errorf("%s: %d frames were accepted, %d found the ring full, and %.0f came in at the DUT; CPU time %v s", r.ID, a.Accepted, ring, in, cpu)
		}
	}
	if trials < 5 {
		t.Errorf("%d trials were carried out", trials)
	}
	if u := run.Telemetry[0]; u.CPUShare <= 0 || u.Memory == 0 || len(u.Collectors) < 5 {
		t.Errorf("%+v", u)
	}
}
