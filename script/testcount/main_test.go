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
		{"later", string(events), []string{"-later", later}, "3 passed, 5 failed, 0 skipped", nil, 1},
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
	if names, err := os.ReadFile(later); err != nil || string(names) != "tc/ok TestA/y\ntc/ok TestPriv\n" {
		t.Errorf("left for later: %q, %v", names, err)
	}
}

// Of what was skipped the next run has only what another run can see.
func TestIsLeftForLater(t *testing.T) {
	const in = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/x"}
{"Action":"pass","Package":"p","Test":"TestA/x"}
{"Action":"run","Package":"p","Test":"TestA/y"}
{"Action":"skip","Package":"p","Test":"TestA/y"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    a_test.go:1: takes long: runs in script/prove --tests\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
{"Action":"run","Package":"p","Test":"TestC"}
{"Action":"output","Package":"p","Test":"TestC","Output":"    a_test.go:1: runs with nothing beside it\n"}
{"Action":"skip","Package":"p","Test":"TestC"}
{"Action":"run","Package":"p","Test":"TestD"}
{"Action":"output","Package":"p","Test":"TestD","Output":"    a_test.go:1: the tester was held up: it offered 1 of 2\n"}
{"Action":"skip","Package":"p","Test":"TestD"}
{"Action":"pass","Package":"p"}
`
	for _, c := range []struct {
		asked   asked
		later   []string
		skipped int
	}{
		{asked{}, nil, 4},
		{asked{root: true}, nil, 4},
		{asked{later: true}, []string{"p TestA/y", "p TestC", "p TestD"}, 1},
		{asked{later: true, root: true}, []string{"p TestC", "p TestD"}, 2},
		{asked{later: true, root: true, want: []string{"p TestA/x", "p TestC/x"}}, []string{"p TestC", "p TestD"}, 2}, // TestC/x is left with TestC
	} {
		got, err := count(strings.NewReader(in), c.asked)
		skipped := 0
		for _, n := range got.skipped {
			skipped += n
		}
		if err != nil || got.passed != 1 || got.failed != 0 || skipped != c.skipped || !slices.Equal(got.later, c.later) {
			t.Errorf("%+v: %d passed, %d skipped, later %q, %v", c.asked, got.passed, skipped, got.later, err)
		}
		// Where nothing is left for another run, what found the machine busy has its name in the counts.
		if named := got.skipped["NOT JUDGED: p TestD: the tester was held up: it offered 1 of 2"] == 1; named != (c.asked.root && !c.asked.later) {
			t.Errorf("%+v: not judged: %v", c.asked, got.skipped)
		}
	}
}
