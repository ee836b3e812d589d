// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/runner"
)

// A half is a procedure whose level 2 lacks something.
type half struct {
	proc
	level int
}

func (h *half) Flags(fs *flag.FlagSet) { fs.IntVar(&h.level, "level", 1, "a number") }

func (h *half) Run(context.Context, *procedure.Env) (procedure.Outcome, error) {
	if h.level == 2 {
		return procedure.Outcome{}, &host.Missing{What: "a thing"}
	}
	return procedure.Outcome{Status: result.Passed, Values: []result.Value{{Metric: "speed", Value: 5}}}, nil
}

// A stuck is a testbed that is not taken down.
type stuck struct {
	bench
	err error
}

func (s stuck) Build(ctx context.Context) (*lab.Testbed, error) {
	tb, err := s.bench.Build(ctx)
	tb.Means = s
	return tb, err
}

func (s stuck) Close() error { return s.err }

// A role that passes without a missing alternative says so and exits with 0. Every other
// failure of the run keeps its exit code.
func TestExitCodeOfAnAlternative(t *testing.T) {
	for _, c := range []struct {
		least string
		fails error
		want  int
		said  string
	}{
		{"5", nil, exitOK, "! probe/level=2#1 was skipped: missing a thing\n"},
		{"6", nil, exitMissing, "probe/level=2#1 was skipped: missing a thing\n"},
		{"5", errors.New("it is stuck"), exitOther, "take the testbed down: it is stuck; finished trials are kept"},
		{"5", &host.Missing{What: "privilege"}, exitMissing, "take the testbed down: missing privilege\n"},
	} {
		dir := t.TempDir()
		role := filepath.Join(dir, "role.yaml")
		plan := "{plan: {lab: sandbox, procedures: [{use: probe, level: [1, 2]}]}}\n"
		text := "name: x\ndescription: x\nlink_rate: 1Gbps\ncriteria: [{text: x, metric: speed, any: level, min: " + c.least + "}]\nquick: " + plan + "standard: " + plan
		if err := os.WriteFile(role, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cat := runner.Catalogue{
			Procedures: []procedure.Spec{{Name: "probe", Doc: "a test", Metrics: []result.Metric{{Name: "speed", Better: 1}}, New: func() procedure.Procedure { return &half{} }}},
			Labs:       []lab.Spec{{Name: "sandbox", Doc: "a test", New: func() lab.Topology { return stuck{err: c.fails} }}},
		}
		code, _, errw := call(t.Context(), cat, "qualify", role, "--quick", "--quiet", "--out", filepath.Join(dir, "run"))
		if code != c.want || !strings.Contains(errw, c.said) {
			t.Errorf("at least %s, %v: exit code %d, want %d: %s", c.least, c.fails, code, c.want, errw)
		}
	}
}
