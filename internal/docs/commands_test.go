// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"boxdyno/host"
)

// short is how long a privileged run may take to be executed, and not only
// planned.
const short = 0.7 // s

// whole is set for the proof that runs long commands, too (script/prove).
var whole = os.Getenv("BOXDYNO_COMMANDS") == "whole"

// longest is how long a command of that proof may take.
const longest = 900 // s

// What no test runs on whoever's machine, and why. Of these the flags are checked, and
// the plan where there is one.
var notRun = []struct{ pattern, why string }{
	{`--lab wire2 `, "needs a box between two ports"},
	{`--lab pair `, "needs a box with boxdyno, and ssh to it"},
	{`boxdyno(-amd64)? box (add|cables|check|update|rm)\b`, "needs a box, and ssh to it"},
	{` --box `, "needs a box, and ssh to it"},
	{`^script/release$`, "builds ten programs, which takes minutes"},
	{`boxdyno tune (apply|revert|show .* --box|status --box)\b`, "changes the machine's settings"},
	{`boxdyno tune ablate (router|\./mine\.yaml) --(procedure forward|metric throughput_fps)$`, "changes the machine's settings"},
	{`boxdyno fleet (check|enrol|hub|ls|revoke|run|token|update)\b`, "needs a hub, and boards"},
	{`boxdyno serve\b`, "answers browsers until Ctrl-C; its tests do"},
	{` --resume `, "needs a run that broke off"},
	{` --install `, "installs packages"},
	{`^sudo setcap `, "gives a program capabilities"},
	{`^script/prove `, "takes hours"},
	{`^sudo script/boards --`, "boots a board that stays, in a namespace of the machine"},
	{`^npm .* ci$`, "script/setup runs it where modules are missing or old"},
	{`^npm .* types$`, "writes into the checkout; check:types compares what it would write"},
	{`^npm .* build$`, "writes into the checkout; check:dist compares what it would write"},
}

// Which command of continuous integration runs a command that this test does not.
var elsewhere = []struct{ pattern, file, has string }{
	{`^script/demo$`, "script/test", `script/try-fresh "$fresh"`},
	{`^script/test$`, ".ci/run", "script/test"},
	{`^go test \./\.\.\.$`, "script/test", "-timeout 20m"},
	{`^CGO_ENABLED=0 go build -o bin/boxdyno \./cmd/boxdyno$`, "script/test", `"static build for $arch" static`},
	{`^go generate `, "script/test", "go generate -run bpf2go ./..."},
	{`^npm .* check$`, "script/test", "run --silent check\n"},
	{`^npm .* test$`, "script/test", "npm --prefix report/page/ui test"},
	{`^script/boards --test( --ci arm64)?$`, "script/test", "script/boards --test --ci"},
	{`^script/(boards \w+ |bench)`, "script/prove", "BOXDYNO_COMMANDS=whole"},
}

// Every command in a block of shell is known here. Those of boxdyno run in this
// process, in the order of the page, in an empty folder: whole where that needs
// no root or is short, else as --dry-run. The others are logged with the reason. Each is
// a test, so that script/test runs as root only what needs root.
func TestCommands(t *testing.T) {
	total := 0
	var rest []string
	defer func() {
		t.Logf("%d of %d commands are not run here:\n%s", len(rest), total, strings.Join(rest, "\n"))
	}()
	for _, p := range pages(t) {
		lines := p.commands()
		total += len(lines)
		t.Run(p.name, func(t *testing.T) {
			root := root(t)
			t.Chdir(t.TempDir())
			t.Setenv("XDG_STATE_HOME", t.TempDir())
			t.Setenv("XDG_CONFIG_HOME", t.TempDir())
			t.Setenv("SUDO_UID", "")
			if slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, " --box ") }) {
				keepBox(t)
			}
			for i, line := range lines {
				if slices.Contains(lines[:i], line) { // once more with what it prints
					continue
				}
				t.Run(fmt.Sprint(i+1), func(t *testing.T) {
					c := caller{t: t, root: root, line: line}
					c.command(words(t, line))
					for _, r := range c.rest {
						rest = append(rest, p.name+": "+r)
					}
					if c.unprivileged && !t.Failed() {
						t.Skipf("%s: needs root: run script/test with sudo", line)
					}
					if c.held {
						t.Skipf("%s: the tester was held up", line)
					}
				})
			}
		})
	}
	if total < 20 {
		t.Errorf("%d commands on all pages: are they still recognised?", total)
	}
}

// No command hides in a block that is not of shell: there nothing would run it.
func TestCommandsAreInShell(t *testing.T) {
	command := regexp.MustCompile(`^(sudo |script/|(bin/)?boxdyno (run|qualify|report|compare|send|replay|meter|tune|doctor|box|fleet|serve|size|history|runs|watch|list|schema) )`)
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			for _, line := range b.lines {
				if b.lang != "sh" && command.MatchString(line) {
					t.Errorf("%s: %s stands in a block that is not of sh", p.name, line)
				}
			}
		}
	}
}

// Commands of boxdyno in running text exist, with their flags.
func TestCommandsInText(t *testing.T) {
	for _, p := range pages(t) {
		c := caller{t: t, root: root(t)}
		for _, code := range codes(p.prose) {
			if strings.HasPrefix(code, "boxdyno ") || strings.HasPrefix(code, "go test ") {
				c.line = p.name + ": " + code
				c.inText(words(t, code))
			}
		}
	}
}

// Nothing is left out for a reason that no page has any more, and what runs
// elsewhere does.
func TestReasonsHold(t *testing.T) {
	var lines []string
	for _, p := range pages(t) {
		lines = append(lines, p.commands()...)
	}
	used := func(pattern string) {
		t.Helper()
		if !slices.ContainsFunc(lines, regexp.MustCompile(pattern).MatchString) {
			t.Errorf("no page has a command like %s", pattern)
		}
	}
	for _, n := range notRun {
		used(n.pattern)
	}
	for _, e := range elsewhere {
		used(e.pattern)
		text, err := os.ReadFile(filepath.Join(root(t), e.file))
		if err != nil || !strings.Contains(string(text), e.has) {
			t.Errorf("%s does not run %s: it has no %q (%v)", e.file, e.pattern, e.has, err)
		}
	}
}

// commands are the lines of the page's sh blocks, and those that begin with $.
func (p page) commands() (lines []string) {
	for _, b := range p.blocks {
		for _, line := range strings.Split(strings.ReplaceAll(strings.Join(b.lines, "\n"), "\\\n", ""), "\n") {
			after, prompted := strings.CutPrefix(line, "$ ")
			if after = strings.TrimSpace(after); (prompted || b.lang == "sh") && after != "" && !strings.HasPrefix(after, "#") {
				lines = append(lines, after)
			}
		}
	}
	return lines
}

// words splits a line as a shell does, which may quote and do nothing else.
func words(t *testing.T, line string) (out []string) {
	t.Helper()
	if strings.ContainsAny(regexp.MustCompile(`'[^']*'`).ReplaceAllString(line, ""), `|<>;&$\`) {
		t.Fatalf("%s: a page shows plain commands only, without pipes and expansion", line)
	}
	for _, m := range regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`).FindAllString(line, -1) {
		out = append(out, strings.Trim(m, `'"`))
	}
	return out
}

// The package gives a group's copy the capabilities that doctor asks for.
func TestPackagedCapabilities(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(t), "script/packages/boxdyno.postinst"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "setcap "+host.Capabilities+"=ep ") {
		t.Errorf("boxdyno.postinst does not give %s", host.Capabilities)
	}
}
