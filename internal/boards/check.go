// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"boxdyno/internal/boards/job"
	"boxdyno/result"
)

// What --test runs in a board, and what reads it.
var checks = []struct {
	command job.Command
	read    func(*checker, ran)
}{
	{job.Command{Argv: []string{"boxdyno", "doctor", "--json"}, Limit: time.Minute}, (*checker).doctor},
	{job.Command{Argv: []string{"boxdyno", "run", "self-test", "--quiet", "--json", "--out", "run"}, Limit: time.Minute}, (*checker).bundle},
	{job.Command{Argv: []string{"tuning"}, Limit: 3 * time.Minute}, (*checker).tuning},
}

// A checker counts what holds.
type checker struct {
	w                       io.Writer
	board                   string
	files                   map[string][]byte
	passed, failed, skipped int
	reasons                 []string
}

// check looks at the results of checks, and ends with how many hold; it returns the
// exit code.
func check(w io.Writer, b board, r results) int {
	c := &checker{w: w, board: b.name, files: r.files}
	c.holds("boots", r.boot.Kernel != "", "it said nothing of its kernel")
	for i, ran := range r.commands {
		checks[i].read(c, ran)
	}
	for _, r := range c.reasons {
		fmt.Fprintf(w, "  1 skipped: %s\n", r)
	}
	fmt.Fprintf(w, "%d passed, %d failed, %d skipped\n", c.passed, c.failed, c.skipped)
	if c.failed > 0 {
		return 1
	}
	return 0
}

func (c *checker) holds(what string, ok bool, why string) {
	if ok {
		c.passed++
		fmt.Fprintf(c.w, "ok      %s: %s\n", c.board, what)
		return
	}
	c.failed++
	fmt.Fprintf(c.w, "FAILED  %s: %s: %s\n", c.board, what, why)
}

// doctor must know that this is no real board, and that engine and sandbox work there.
// The board has no programs but ours, so it misses some: exit code 3.
func (c *checker) doctor(r ran) {
	var ds []struct{ Group, Name, Answer, Detail string }
	err := json.Unmarshal(r.stdout, &ds)
	c.holds("doctor answers", err == nil && (r.Exit == 0 || r.Exit == 3), fmt.Sprintf("exit code %d %s: %v: %s", r.Exit, r.Problem, err, r.stderr))
	for _, want := range []struct{ name, answer, detail string }{
		{"not virtual", "no", "emulated (qemu)"}, {"network namespaces", "ok", ""}, {"BPF programs", "ok", ""}, {"packet", "ok", ""}, {"sandbox", "ok", ""},
	} {
		i := slices.IndexFunc(ds, func(d struct{ Group, Name, Answer, Detail string }) bool { return d.Name == want.name })
		if i < 0 {
			c.holds("doctor: "+want.name, false, "there is no such line")
			continue
		}
		ok := ds[i].Answer == want.answer && strings.HasPrefix(ds[i].Detail, want.detail)
		c.holds(fmt.Sprintf("doctor: %s: %s", want.name, want.answer), ok, fmt.Sprintf("it says %s: %s", ds[i].Answer, ds[i].Detail))
	}
}

// bundle must come back whole, and say in its header what it is from. How well the
// tester did is nothing to ask here.
func (c *checker) bundle(r ran) {
	var run result.Run
	err := json.Unmarshal(c.files["run/"+result.RunFile], &run)
	c.holds("a run comes back", err == nil && len(c.files["run/"+result.TrialsFile]) > 0 && (r.Exit == 0 || r.Exit == 4),
		fmt.Sprintf("exit code %d %s: %v: %s", r.Exit, r.Problem, err, r.stderr))
	kind := run.Kind
	for _, m := range run.Machines {
		kind += " " + m.Kind
	}
	c.holds("its run says that it is emulated", kind == "emulated emulated", fmt.Sprintf("kinds of run and machines are %q", kind))
}

// tuning's checks are counted one by one.
func (c *checker) tuning(r ran) {
	before := c.passed
	for line := range strings.Lines(string(r.stdout)) {
		word, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "ok":
			c.holds(what, true, "")
		case "FAILED":
			c.holds("tuning", false, what)
		case "skipped":
			c.skipped++
			c.reasons = append(c.reasons, c.board+": "+what)
		default:
			fmt.Fprintf(c.w, "        %s: %s\n", c.board, strings.TrimSpace(line))
		}
	}
	c.holds("tuning ends", r.Exit == 0 && c.passed-before > 20, fmt.Sprintf("exit code %d, %d checks %s: %s", r.Exit, c.passed-before, r.Problem, r.stderr))
}
