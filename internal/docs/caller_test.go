// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"boxdyno/host"
	"boxdyno/internal/cli"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
	"boxdyno/lab"
)

// A caller checks a command of a page.
type caller struct {
	t    *testing.T
	root string
	line string
	held bool // its measurement was invalid: the machine was busy

	rest         []string // what was not run, with the reason
	unprivileged bool     // it was not run for lack of privilege
}

// left says whether the line is not run here, and notes why.
func (c *caller) left() bool {
	for _, n := range notRun {
		if regexp.MustCompile(n.pattern).MatchString(c.line) {
			c.rest = append(c.rest, c.line+": "+n.why)
			return true
		}
	}
	for _, e := range elsewhere {
		if regexp.MustCompile(e.pattern).MatchString(c.line) {
			c.rest = append(c.rest, c.line+": "+e.file+" runs it")
			return true
		}
	}
	return false
}

func (c *caller) command(argv []string) {
	for len(argv) > 1 && (argv[0] == "sudo" || regexp.MustCompile(`^[A-Z_]+=`).MatchString(argv[0])) {
		argv = argv[1:]
	}
	name, args := argv[0], argv[1:]
	switch {
	case name == "boxdyno" || name == "bin/boxdyno" || name == "dist/boxdyno-amd64":
		c.boxdyno(args)
	case strings.HasPrefix(name, "script/"):
		c.script(name, args)
	case (name == "go" || name == "npm") && !c.left():
		c.t.Errorf("%s: no test runs it", c.line)
	case name == "go":
		c.golang(args)
	case name == "npm":
		c.npm(args)
	case name == "setcap" && c.left():
		if caps, _, _ := strings.Cut(args[0], "="); caps != host.Capabilities {
			c.t.Errorf("%s: the capabilities are %s", c.line, host.Capabilities)
		}
	case name == "install": // not on whoever's machine
		if options := []string{"-o", "root", "-g", "boxdyno", "-m", "0750"}; len(args) != len(options)+2 || !slices.Equal(args[:len(options)], options) {
			c.t.Errorf("%s: others than the group's members may execute what is to have capabilities: want %s", c.line, strings.Join(options, " "))
		}
	case name == "groupadd": // not on whoever's machine
	case name == "dpkg-statoverride", name == "dpkg-reconfigure", name == "systemctl", name == "apt":
		c.packages(argv)
	default:
		c.t.Errorf("%s: this test does not know how to check it", c.line)
	}
}

// packages checks a command on packages: script/prove --packages runs it, apt and
// systemctl aside, or what is named in it is there.
func (c *caller) packages(argv []string) {
	try, err := os.ReadFile(filepath.Join(c.root, "script/packages/try"))
	if err != nil {
		c.t.Fatal(err)
	}
	switch line := strings.ReplaceAll(strings.Join(argv, " "), "/usr/bin/boxdyno", "$program"); {
	case argv[0] == "apt": // not on whoever's machine
		for _, word := range argv[2:] {
			name, _, _ := strings.Cut(strings.TrimPrefix(word, "./dist/"), "_")
			if _, err := os.Stat(filepath.Join(c.root, "script/packages", name+".yaml")); err != nil && !strings.HasPrefix(word, "-") && word != "libcap2-bin" {
				c.t.Errorf("%s: there is no package %s", c.line, name)
			}
		}
	case argv[0] == "systemctl":
		if _, err := os.Stat(filepath.Join(c.root, "script/packages", argv[len(argv)-1]+".service")); err != nil {
			c.t.Errorf("%s: there is no such service", c.line)
		}
	case !strings.Contains(string(try), line):
		c.t.Errorf("%s: script/packages/try, which tries packages, does not run it", c.line)
	}
	c.rest = append(c.rest, c.line+": changes the machine")
}

// doctored are the calls of doctor that were made: it says the same on every page.
var doctored = map[string]bool{}

func (c *caller) boxdyno(args []string) {
	has := func(s string) bool { return slices.Contains(args, s) }
	left := c.left()
	switch {
	case left && args[0] != "run":
		c.flags(args)
	case args[0] == "send" || args[0] == "replay" || args[0] == "meter":
		c.traffic(args)
	case args[0] == "doctor": // what this machine lacks is not the page's fault
		if once := strings.Join(args, " "); doctored[once] {
			return
		} else {
			doctored[once] = true
		}
		c.unprivileged = strings.HasPrefix(c.line, "sudo ") && !privileged()
		if code, _ := c.call(args); code != 0 && code != 3 {
			c.t.Errorf("%s: exit code %d", c.line, code)
		}
	case args[0] != "run" && args[0] != "qualify" || has("--dry-run") || has("mem"):
		c.succeeds(args)
	default:
		var plan struct {
			Seconds float64
		}
		dry := append(slices.Clone(args), "--dry-run", "--json")
		there := slices.Contains([]string{"box", "cpu", "crypto", "soak", "storage"}, args[1]) || args[1] == "infer" && !strings.Contains(c.line, " rate=")
		if slices.ContainsFunc(args, func(s string) bool { return strings.HasPrefix(s, "group=") }) { // a run of its own for each
			c.succeeds(append(slices.Clone(args), "--dry-run"))
			c.rest = append(c.rest, c.line+": needs those boxes")
			return
		}
		if has("--box") && there { // in topology there
			c.succeeds(dry)
			c.rest = append(c.rest, c.line+": needs that box")
			return
		}
		if has("--box") || slices.ContainsFunc(args, func(s string) bool { return strings.HasPrefix(s, "port_a=") }) {
			if !privileged() {
				c.unprivileged = true
				return
			}
			dry = append(dry, "--set", "netns="+c.cables())
		}
		out := c.succeeds(dry)
		if err := json.Unmarshal(out, &plan); err != nil || plan.Seconds <= 0 {
			c.t.Errorf("%s: the dry run says %v (%v)", c.line, plan.Seconds, err)
		}
		switch limit := map[bool]float64{false: short, true: longest}[whole]; {
		case left:
			return
		case plan.Seconds > limit:
			c.rest = append(c.rest, fmt.Sprintf("%s: takes about %.0f s", c.line, plan.Seconds))
			return
		case !privileged():
			c.unprivileged = true
			return
		}
		code, out := c.call(args)
		switch {
		case code == 4 && bytes.Contains(out, []byte("the machine was not idle")):
			c.held = true
		case code != 0:
			c.t.Errorf("%s: exit code %d", c.line, code)
		}
	}
}

// keepBox keeps the box of the pages that measure one, as box add does.
func keepBox(t *testing.T) {
	t.Helper()
	path := filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "boxdyno", "boxes.yaml")
	err := lab.EditBoxes(path, nil, func(boxes []lab.Box) []lab.Box {
		return append(boxes, lab.Box{Name: "pi5", SSH: "pi@pi5.lan", Become: "sudo -n", Agent: "/var/lib/boxdyno-agent/boxdyno-agent", Arch: "arm64", Cables: []string{"eth1=eth0", "eth2=eth1"}, Groups: []string{"rack1"}})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// cables are those from eth1 to eth2 and from eth3 to eth4, in a namespace of their own.
func (c *caller) cables() (path string) {
	c.t.Helper()
	path = testutil.Cable{A: "eth1", B: "eth2"}.Make(c.t)
	if err := netns.Do(path, testutil.Cable{A: "eth3", B: "eth4"}.Plug); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// privileged says whether this process may make a network namespace.
func privileged() bool {
	ns, err := netns.New()
	return err == nil && ns.Close() == nil
}

func (c *caller) succeeds(args []string) []byte {
	code, out := c.call(args)
	if code != 0 {
		c.t.Errorf("%s: exit code %d", c.line, code)
	}
	return out
}

func (c *caller) call(args []string) (int, []byte) {
	limit := 3 * time.Minute // somebody else may be measuring
	if whole {
		limit = 3 * longest * time.Second
	}
	ctx, stop := context.WithTimeout(c.t.Context(), limit)
	defer stop()
	var out, errw bytes.Buffer
	code := cli.Main(ctx, args, &out, &errw)
	if code != 0 {
		c.t.Logf("boxdyno %s: %d\n%s%s", strings.Join(args, " "), code, errw.Bytes(), out.Bytes())
	}
	return code, out.Bytes()
}

// flags checks that the command exists and has the flags.
func (c *caller) flags(args []string) {
	c.t.Helper()
	out := c.succeeds(append(slices.Clone(args), "--help"))
	if !bytes.Contains(out, []byte("boxdyno "+args[0])) {
		c.t.Errorf("%s: there is no such command", c.line)
	}
}

func (c *caller) inText(argv []string) {
	if argv[0] == "go" {
		c.golang(argv[1:])
		return
	}
	c.flags(argv[1:])
}

func (c *caller) script(name string, args []string) {
	if !c.left() {
		c.t.Errorf("%s: no test runs it", c.line)
	} else if whole && regexp.MustCompile(`^script/(boards|bench)`).MatchString(c.line) {
		cmd := exec.CommandContext(c.t.Context(), filepath.Join(c.root, name), args...)
		if out, err := cmd.CombinedOutput(); err != nil {
			c.t.Errorf("%s: %v\n%s", c.line, err, out)
		}
	}
	info, err := os.Stat(filepath.Join(c.root, name))
	if err != nil || info.Mode()&0o111 == 0 {
		c.t.Errorf("%s: %s is no program (%v)", c.line, name, err)
		return
	}
	sources, _ := filepath.Glob(filepath.Join(c.root, "script/proof", filepath.Base(name), "*.go")) // the pattern is good
	var text []byte
	for _, s := range append(sources, filepath.Join(c.root, name)) {
		data, err := os.ReadFile(s)
		if err != nil {
			c.t.Fatal(err)
		}
		text = append(text, data...)
	}
	if i := slices.Index(args, "--in"); i >= 0 { // a command where the boards are
		if inside := args[i+1:]; len(inside) > 1 && inside[0] == "boxdyno" {
			c.flags(inside[1:])
		}
		args = args[:i+1]
	}
	for _, a := range args {
		if flag, ok := strings.CutPrefix(a, "--"); ok && !regexp.MustCompile(`flag\.\w+\((&[\w.]+, )?"`+flag+`"|(?m)^\s*(--\w+ \| )*`+a+`( \| --\w+)*\)`).Match(text) {
			c.t.Errorf("%s: %s has no flag %s", c.line, name, a)
		}
	}
}

// golang checks that packages exist, and that there is something to test or to
// generate in them.
func (c *caller) golang(args []string) {
	run := ""
	if i := slices.Index(args, "-run"); i >= 0 {
		run = args[i+1]
	}
	want := map[string]string{"build": `(?m)^package `, "generate": `(?m)^//go:generate `, "test": `(?m)^func Test\w*` + run}[args[0]]
	if want == "" {
		c.t.Errorf("%s: this test does not know how to check it", c.line)
		return
	}
	for _, a := range args[1:] {
		if !strings.HasPrefix(a, "./") || a == "./..." {
			continue
		}
		sources, _ := filepath.Glob(filepath.Join(c.root, a, "*.go")) // none: no package
		if !slices.ContainsFunc(sources, func(name string) bool {
			data, err := os.ReadFile(name)
			return err == nil && regexp.MustCompile(want).Match(data)
		}) {
			c.t.Errorf("%s: %s has nothing to %s", c.line, a, args[0])
		}
	}
}

// npm checks that the folder and the script exist.
func (c *caller) npm(args []string) {
	if len(args) < 3 || args[0] != "--prefix" {
		c.t.Errorf("%s: want npm --prefix FOLDER and what to do", c.line)
		return
	}
	var pkg struct {
		Scripts map[string]string
	}
	data, err := os.ReadFile(filepath.Join(c.root, args[1], "package.json"))
	if err == nil {
		err = json.Unmarshal(data, &pkg)
	}
	name := args[len(args)-1]
	if err != nil || name != "ci" && pkg.Scripts[name] == "" {
		c.t.Errorf("%s: %s has no script %s (%v)", c.line, args[1], name, err)
	}
}
