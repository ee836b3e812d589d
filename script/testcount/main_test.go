// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// testdata/events.jsonl is "go test -json" over packages with subtests, skips
// with and without privilege, a failing subtest, a parent that fails alone, a
// package that does not build, one that panics, one whose process exits 3 and
// one without tests; times and stack frames struck.
func TestCounts(t *testing.T) {
	events, err := os.ReadFile("testdata/events.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	const clean = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":7.25}
{"Action":"pass","Package":"p"}
`
	later, wanted := filepath.Join(t.TempDir(), "later"), filepath.Join(t.TempDir(), "wanted")
	if err := os.WriteFile(wanted, []byte("p TestA\nq TestB\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, in string
		args     []string
		last     string
		says     []string
		code     int
	}{
		{"ordinary", string(events), nil, "3 passed, 5 failed, 2 skipped",
			[]string{"TestA/z/w/v\n", "boo", "TestParentOnly\n", "parent itself", "undefined: undefined", "panic: oh", "exit status 3",
				"1 skipped: no cable", "1 skipped: needs root or capabilities"}, 1},
		{"root", string(events), []string{"-root"}, "3 passed, 6 failed, 1 skipped",
			[]string{"TestPriv: skipped for lack of privilege though it ran as root"}, 1},
		{"later", string(events), []string{"-later", later}, "2 passed, 5 failed, 0 skipped", nil, 1},
		{"wanted", clean, []string{"-root", "-want", wanted}, "1 passed, 1 failed, 0 skipped", []string{"q TestB: was left to this run"}, 1},
		{"clean", clean, nil, "1 passed, 0 failed, 0 skipped", []string{"    7.2 s: p TestA\n"}, 0},
		{"nothing", "", nil, "0 passed, 1 failed, 0 skipped", []string{"it did not start"}, 1},
		{"no JSON", clean + "cannot find main module\n", nil, "1 passed, 1 failed, 0 skipped", []string{`line 4 of go test's output is not JSON: "cannot find main module"`}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			code := run(c.args, strings.NewReader(c.in), &out, &out)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			if last := lines[len(lines)-1]; last != c.last {
				t.Errorf("last line %q, want %q", last, c.last)
			}
			for _, s := range c.says {
				if !strings.Contains(out.String(), s) {
					t.Errorf("does not say %q:\n%s", s, &out)
				}
			}
		})
	}
	if names, err := os.ReadFile(later); err != nil || string(names) != "tc/ok TestA\ntc/ok TestPriv\n" {
		t.Errorf("left for later: %q, %v", names, err)
	}
}

// A test one of whose subtests was skipped is counted in whole by the run that it is left to.
func TestSubtestIsLeftForLater(t *testing.T) {
	const in = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/x"}
{"Action":"pass","Package":"p","Test":"TestA/x"}
{"Action":"run","Package":"p","Test":"TestA/y"}
{"Action":"skip","Package":"p","Test":"TestA/y"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"pass","Package":"p","Test":"TestB"}
{"Action":"pass","Package":"p"}
`
	got, err := count(strings.NewReader(in), asked{later: true})
	if err != nil || got.passed != 1 || !slices.Equal(got.later, []string{"p TestA"}) {
		t.Errorf("%d passed, later %q, %v", got.passed, got.later, err)
	}
}
