// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"boxdyno/report"
	"boxdyno/report/text"
	"boxdyno/result"
)

// TestProm reads every line by the grammar of Prometheus' text format: each figure of
// each valid point stands there once, whatever its settings are called.
func TestProm(t *testing.T) {
	runs := inTurn(rand.New(rand.NewPCG(1, 1)), 3, 0.9, 0.02)[0].Runs
	hostile := &runs[0].Records[0]
	hostile.Config = append(hostile.Config, result.Pair{Key: "9 a\n{", Value: "\"\\\n\xff"}, result.Pair{Key: "bound", Value: "x"})
	hostile.Values[0].Bound = result.AtLeast
	runs[1].Records[0].Values[0].Value = math.NaN()
	runs[2].Records[0].Status = result.Invalid
	want := len(runs) // when each began
	for _, run := range runs {
		for _, r := range run.Records {
			for _, v := range r.Values {
				if !report.Fit(r) {
					continue
				}
				for _, p := range []*float64{&v.Value, v.Lo, v.Hi} {
					if p != nil && !math.IsNaN(*p) {
						want++
					}
				}
			}
		}
	}
	var b bytes.Buffer
	if err := text.Prom(&b, runs...); err != nil {
		t.Fatal(err)
	}
	sample := regexp.MustCompile(`^([a-zA-Z_][a-zA-Z0-9_]*)(\{(?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*",?)*\}) (\S+)$`)
	seen, typed := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(b.String()) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name = strings.TrimSuffix(name, " gauge")
			if typed[name] {
				t.Errorf("%s has two families", name)
			}
			typed[name] = true
			continue
		}
		if strings.HasPrefix(line, "# HELP ") {
			continue
		}
		m := sample.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("%q is no sample", line)
		}
		if _, err := strconv.ParseFloat(m[3], 64); err != nil || !typed[m[1]] || seen[m[1]+m[2]] {
			t.Errorf("%q: value %v, declared %v, seen before %v", line, err, typed[m[1]], seen[m[1]+m[2]])
		}
		seen[m[1]+m[2]] = true
	}
	if len(seen) != want {
		t.Errorf("%d samples, want %d", len(seen), want)
	}
	// Prometheus' own parser reads it, and its linter finds nothing.
	if program, err := exec.LookPath("promtool"); err != nil {
		t.Run("promtool", func(t *testing.T) { t.Skip("promtool is missing: script/setup installs it") })
	} else {
		check := exec.Command(program, "check", "metrics")
		check.Stdin = strings.NewReader(b.String())
		if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("promtool check metrics: %v: %s", err, out)
		}
	}
	if !strings.Contains(b.String(), `_9_a__="\"\\\n`+"\uFFFD"+`",set_bound="x",bound=">="}`) {
		t.Errorf("hostile settings are not there:\n%s", b.String())
	}
}
