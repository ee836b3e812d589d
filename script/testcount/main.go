// SPDX-License-Identifier: Apache-2.0

// Testcount reads the output of "go test -json" from standard input, prints
// what failed, what took longest and what was skipped by reason, and ends with
// a line "N passed, N failed, N skipped".
//
// Only tests without subtests count, so that a table of ten cases is ten and
// not eleven; a test that fails itself while its subtests pass counts too, and
// so does a package that fails outside its tests (it does not build, it
// panics, it runs out of time).
//
// With -root a test that was skipped for lack of privilege counts as failed.
//
// With -later FILE a test or subtest that was skipped is not counted: its package
// and name are written to FILE, for another run to count. A test that only
// script/prove runs is counted as skipped at once. With -root only a test that
// runs with nothing beside it is left, or that found the machine too busy. With -root
// and without -later nothing is left for: such a test is named as NOT JUDGED.
// With -want FILE each test in FILE must have ended, or it counts as failed.
//
// The exit code is 1 if anything failed, else 0.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

// event is a line of "go test -json" (go doc test2json) with the fields used.
type event struct {
	Action      string
	Package     string
	ImportPath  string // of build-output, with the package under test in brackets
	Test        string
	Output      string
	FailedBuild string
	Elapsed     float64 // s
}

// tally is what a run of "go test" came to.
type tally struct {
	passed, failed int
	skipped        map[string]int // by reason
	report         []string       // one entry for each failure
	later          []string       // "package test" of what was skipped and not counted
	slow           []slow
}

// A slow test took at least slowest.
type slow struct {
	name    string
	seconds float64
}

// slowest and listed bound what is listed of how long tests took.
const (
	slowest = 5 // s
	listed  = 15
)

// asked is what the flags ask for.
type asked struct {
	root  bool
	later bool
	want  []string // "package test"
}

// privilege matches the reason of a test that had too few rights.
var privilege = regexp.MustCompile(`(?i)needs root|privilege|capabilit|not permitted|permission denied`)

// proved matches the reason of a test that takes too long here, and alone that of
// one that wants no other beside it, or found the machine too busy.
var (
	proved = regexp.MustCompile(`runs in script/prove`)
	alone  = regexp.MustCompile(`runs with nothing beside it|was held up|machine is (too )?busy`)
)

// left says whether another run is to count what was skipped for that reason.
func (a asked) left(why string) bool {
	return a.later && !proved.MatchString(why) && (!a.root || alone.MatchString(why))
}

// place is what the testing package writes before a message: "    x_test.go:12: ".
var place = regexp.MustCompile(`^\s*\S+\.go:\d+: `)

func count(r io.Reader, a asked) (t tally, err error) {
	t.skipped = map[string]int{}
	ended := map[string]bool{}       // "package test"
	left := map[string]bool{}        // those that are left to another run
	output := map[string][]string{}  // by package and test, of builds by import path
	parent := map[string]bool{}      // tests that have subtests
	failedBelow := map[string]bool{} // tests and packages with a failure counted inside
	open := map[string]bool{}        // tests that have not ended
	events := 0
	in := bufio.NewScanner(r)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var e event
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			return t, fmt.Errorf("line %d of go test's output is not JSON: %q", events+1, in.Text())
		}
		events++
		key := e.Package + "\t" + e.Test
		name := e.Package + " " + e.Test
		fail := func(why string) {
			t.failed++
			t.report = append(t.report, strings.TrimSpace(e.Package+" "+e.Test)+why+"\n"+strings.Join(output[key], ""))
			failedBelow[e.Package+"\t"] = true
			for test := e.Test; strings.Contains(test, "/"); {
				test = test[:strings.LastIndexByte(test, '/')]
				failedBelow[e.Package+"\t"+test] = true
			}
		}
		switch e.Action {
		case "build-output":
			output[e.ImportPath] = append(output[e.ImportPath], e.Output)
		case "output":
			output[key] = append(output[key], e.Output)
		case "run":
			open[key] = true
			if i := strings.LastIndexByte(e.Test, '/'); i >= 0 {
				parent[e.Package+"\t"+e.Test[:i]] = true
			}
		case "pass":
			if e.Test != "" && !parent[key] {
				t.passed++
			}
		case "skip":
			if e.Test == "" || parent[key] {
				break // a package without tests, or subtests that spoke for themselves
			}
			why := reason(output[key])
			if a.root && privilege.MatchString(why) {
				fail(": skipped for lack of privilege though it ran as root")
				break
			}
			if a.left(why) {
				t.later = append(t.later, name)
				left[name] = true
				break
			}
			if a.root && alone.MatchString(why) {
				why = "NOT JUDGED: " + name + ": " + why
			}
			t.skipped[why]++
		case "fail":
			if e.FailedBuild != "" {
				output[key] = append(output[e.FailedBuild], output[key]...)
			}
			if e.Test == "" {
				for test := range open { // what a panic or the time limit cut off
					if strings.HasPrefix(test, key) {
						output[key] = append(output[key], output[test]...)
					}
				}
			}
			if !failedBelow[key] {
				fail("")
			}
		}
		if e.Test != "" && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip") {
			delete(open, key)
			delete(output, key)
			ended[name] = true
			if !strings.Contains(e.Test, "/") && e.Elapsed >= slowest {
				t.slow = append(t.slow, slow{name, e.Elapsed})
			}
		}
	}
	if err := in.Err(); err != nil {
		return t, fmt.Errorf("read go test's output: %w", err)
	}
	for _, name := range a.want {
		if !ended[name] && !within(name, left) {
			t.failed++
			t.report = append(t.report, name+": was left to this run, which did not run it to its end\n")
		}
	}
	slices.Sort(t.later)
	if events == 0 {
		return t, fmt.Errorf("go test printed nothing: it did not start")
	}
	return t, nil
}

// within says whether one of those holds the test.
func within(name string, those map[string]bool) bool {
	for i, c := range name {
		if c == '/' && those[name[:i]] {
			return true
		}
	}
	return false
}

// reason is the message that a test gave when it skipped.
func reason(output []string) string {
	var said []string
	for _, line := range output {
		if s := strings.TrimSpace(line); s == "" || strings.HasPrefix(s, "=== ") || strings.HasPrefix(s, "--- ") {
			continue
		}
		said = append(said, strings.TrimSpace(place.ReplaceAllString(line, "")))
	}
	if len(said) == 0 {
		return "no reason given"
	}
	return said[len(said)-1]
}

func run(args []string, in io.Reader, out, errOut io.Writer) int {
	flags := flag.NewFlagSet("testcount", flag.ContinueOnError)
	flags.SetOutput(errOut)
	var a asked
	flags.BoolVar(&a.root, "root", false, "count skips for lack of privilege as failures")
	later := flags.String("later", "", "write tests that were skipped to `FILE` and do not count them")
	want := flags.String("want", "", "count a test of `FILE` that did not end as failed")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	a.later = *later != ""
	if *want != "" {
		data, err := os.ReadFile(*want)
		if err != nil {
			fmt.Fprintln(errOut, "testcount:", err)
			return 2
		}
		a.want = strings.FieldsFunc(string(data), func(r rune) bool { return r == '\n' })
	}
	t, err := count(in, a)
	if err != nil {
		t.failed++
		t.report = append(t.report, err.Error()+"\n")
	}
	if a.later {
		if err := os.WriteFile(*later, []byte(strings.Join(append(t.later, ""), "\n")), 0o644); err != nil {
			t.failed++
			t.report = append(t.report, err.Error()+"\n")
		}
	}
	skipped := 0
	for _, r := range t.report {
		fmt.Fprintf(out, "FAIL %s", r)
	}
	slices.SortStableFunc(t.slow, func(a, b slow) int { return cmp.Compare(b.seconds, a.seconds) })
	for _, s := range t.slow[:min(len(t.slow), listed)] {
		fmt.Fprintf(out, "  %5.1f s: %s\n", s.seconds, s.name)
	}
	for _, why := range slices.Sorted(maps.Keys(t.skipped)) {
		skipped += t.skipped[why]
		fmt.Fprintf(out, "  %d skipped: %s\n", t.skipped[why], why)
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", t.passed, t.failed, skipped)
	if t.failed > 0 {
		return 1
	}
	return 0
}

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
