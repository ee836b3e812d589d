// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/runner"
)

// A spinner is a procedure in one file: an axis, two metrics and a note.
type spinner struct{ load string }

func (s *spinner) Flags(fs *flag.FlagSet) {
	fs.StringVar(&s.load, "spin_load", "idle", "what it turns")
}
func (*spinner) Check(*lab.Testbed) error       { return nil }
func (*spinner) Estimate() (int, time.Duration) { return 1, time.Second }

func (s *spinner) Run(context.Context, *procedure.Env) (procedure.Outcome, error) {
	turns := map[string]float64{"idle": 1200, "full": 400}[s.load]
	low, high := turns-50, turns+50
	return procedure.Outcome{
		Status:   result.Passed,
		Values:   []result.Value{{Metric: "turns_per_s", Unit: "turn/s", Value: turns, Lo: &low, Hi: &high, N: 3}, {Metric: "slip_share", Unit: "1", Value: 0.25}},
		Warnings: []string{"the shaft of " + s.load + " wobbles"},
	}, nil
}

var spin = procedure.Spec{
	Name: "spin", Doc: "how fast a shaft turns", Names: []string{"spin_load"},
	Metrics: []result.Metric{
		{Name: "turns_per_s", Unit: "turn/s", Better: 1, Help: "turns of the shaft a second", Label: "speed", Group: "A shaft under load", Interval: "range", Heads: true},
		{Name: "slip_share", Unit: "1", Better: -1, Help: "of them, those that slipped", Label: "slips", Share: true},
	},
	New: func() procedure.Procedure { return &spinner{} },
}

// A procedure that is added in one file and one line is in every list and every form; its page
// is tested in internal/docs.
func TestNewcomer(t *testing.T) {
	c := runner.Plugins()
	c.Procedures = append(c.Procedures[:len(c.Procedures):len(c.Procedures)], spin)
	c.Labs = []lab.Spec{{Name: "sandbox", Doc: "a test", New: func() lab.Topology { return bench{} }}}
	dir := t.TempDir()
	say := func(args ...string) string {
		t.Helper()
		code, out, errw := call(t.Context(), c, args...)
		if code != exitOK {
			t.Fatalf("%v: %d\n%s%s", args, code, out, errw)
		}
		return out
	}
	run := filepath.Join(dir, "run")
	said := map[string]string{"text": say("run", "spin", "--set", "spin_load=idle,full", "--out", run, "--quiet")}
	said["list"] = say("list", "procedures")
	said["list of one"] = say("list", "procedures", "spin")
	said["schema"] = say("schema", "plan")
	said["completion"] = say("__complete", "run", "sp")
	for _, ext := range []string{".md", ".csv", ".json", ".html"} {
		name := filepath.Join(dir, "report"+ext)
		say("report", run, "-o", name)
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		said[ext] = string(data)
	}
	log, err := os.ReadFile(filepath.Join(run, result.LogFile))
	if err != nil {
		t.Fatal(err)
	}
	said["log"] = string(log)
	note, table := "shaft of idle wobbles", "A shaft under load"
	for form, want := range map[string][]string{
		"text":        {"MEASURED  A shaft under load (full): speed 400 turn/s.", table, "spin load", "speed", "1.20 kturn/s", "1.15–1.25 k", "slips", "25.0 %", note},
		".md":         {table, "| spin load |", "1.20 kturn/s", "25.0 %", note},
		".csv":        {"turns_per_s", "slip_share", "spin_load", "1200", note},
		".json":       {`"title": "` + table, `"label": "speed"`, `"value": 1200`, `"text": "25.0 %"`, note},
		".html":       {table, `"label":"speed"`, "1.20 kturn/s", note},
		"log":         {"measured, turns 1.20 kturn/s"},
		"list":        {"spin", "how fast a shaft turns"},
		"list of one": {"spin_load", "what it turns"},
		"schema":      {`"spin"`, `"spin_load"`},
		"completion":  {"spin\t"},
	} {
		for _, s := range want {
			if !strings.Contains(said[form], s) {
				t.Errorf("%s lacks %q:\n%.3000s", form, s, said[form])
			}
		}
	}
}
