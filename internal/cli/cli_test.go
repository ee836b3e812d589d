// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/procedure"
	procedures "boxdyno/procedure/catalog"
	"boxdyno/report"
	"boxdyno/result"
	"boxdyno/runner"
	"boxdyno/subject/catalog"
)

func TestMain(m *testing.M) {
	catalog.Main()
	testscript.Main(tidy{m}, map[string]func(){
		"boxdyno": func() {
			os.Exit(Main(Interruptible(context.Background()), os.Args[1:], os.Stdout, os.Stderr))
		},
	})
}

// tidy are the tests, without what they shared.
type tidy struct{ *testing.M }

func (t tidy) Run() int {
	code := t.M.Run()
	if err := os.RemoveAll(builtAgents); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// The scripts in testdata call the program as a person does. They need no
// privilege: what would need it runs in memory, or is refused. The race detector sees
// those that measure, send, or differ for an ordinary user.
var racedScripts = []string{"testdata/mem.txtar", "testdata/privilege.txtar", "testdata/traffic.txtar", "testdata/watch.txtar"}

func TestScripts(t *testing.T) { runScripts(t, racedScripts) }

func TestOtherScripts(t *testing.T) {
	testutil.Computed(t)
	all, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	others := slices.DeleteFunc(slices.Clone(all), func(f string) bool { return slices.Contains(racedScripts, f) })
	if len(others) != len(all)-len(racedScripts) {
		t.Errorf("%v has not all of %v", all, racedScripts)
	}
	runScripts(t, others)
}

func runScripts(t *testing.T, files []string) {
	testscript.Run(t, testscript.Params{
		Files:         files,
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state"))
			env.Setenv("SUDO_UID", "")
			return nil
		},
		Cmds: scriptCommands,
	})
}

// scriptCommands are what scripts have besides testscript's own.
var scriptCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	// code N PROGRAM... runs a program that must exit with N.
	"code": func(ts *testscript.TestScript, neg bool, args []string) {
		checkCode(ts, args[0], ts.Exec(args[1], args[2:]...))
	},
	// unprivileged N PROGRAM... does the same without any capability.
	"unprivileged": func(ts *testscript.TestScript, neg bool, args []string) {
		argv := args[1:]
		if os.Geteuid() == 0 {
			argv = append([]string{"setpriv", "--bounding-set=-all", "--inh-caps=-all", "--"}, argv...)
		}
		checkCode(ts, args[0], ts.Exec(argv[0], argv[1:]...))
	},
	// sentence PATTERN: standard error is one line that begins with the program's name and holds PATTERN.
	"sentence": func(ts *testscript.TestScript, neg bool, args []string) {
		s := ts.ReadFile("stderr")
		if strings.Count(s, "\n") != 1 || !strings.HasPrefix(s, "boxdyno: ") || !strings.Contains(s, args[0]) {
			ts.Fatalf("standard error is %q, want one sentence with %q", s, args[0])
		}
	},
	// nottwice FILE: no trial of the run was finished twice.
	"nottwice": func(ts *testscript.TestScript, neg bool, args []string) {
		finished := map[string]int{}
		for line := range strings.Lines(ts.ReadFile(args[0])) {
			var r result.Record
			ts.Check(json.Unmarshal([]byte(line), &r))
			if r.Finished() {
				finished[r.ID]++
			}
		}
		for id, n := range finished {
			if n != 1 {
				ts.Fatalf("%s was finished %d times", id, n)
			}
		}
		if len(finished) < 10 {
			ts.Fatalf("only %d records are finished", len(finished))
		}
	},
	// drawn DIR SEED DROP keeps drawn runs (drawnRuns).
	"drawn": func(ts *testscript.TestScript, neg bool, args []string) {
		seed, err1 := strconv.ParseUint(args[1], 10, 64)
		drop, err2 := strconv.ParseFloat(args[2], 64)
		ts.Check(errors.Join(err1, err2, drawnRuns(ts.MkAbs(args[0]), seed, drop)))
	},
	// big FILE N writes N octets of YAML.
	"big": func(ts *testscript.TestScript, neg bool, args []string) {
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs(args[0]), bytes.Repeat([]byte("# filler\n"), n/9), 0o644))
	},
	// spoil FROM TO copies trials, all of them invalid.
	"spoil": func(ts *testscript.TestScript, neg bool, args []string) {
		text := strings.NewReplacer(`"verdict":"passed"`, `"verdict":"invalid"`, `"verdict":"failed"`, `"verdict":"invalid"`).Replace(ts.ReadFile(args[0]))
		ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o644))
	},
	// truncate FILE N keeps the first N lines and half of the next.
	"truncate": func(ts *testscript.TestScript, neg bool, args []string) {
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		lines := strings.SplitAfter(ts.ReadFile(args[0]), "\n")
		cut := strings.Join(lines[:n], "") + lines[n][:len(lines[n])/2]
		ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(cut), 0o644))
	},
}

func checkCode(ts *testscript.TestScript, want string, err error) {
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(got) != want {
		ts.Fatalf("exit code %d, want %s", got, want)
	}
}

// scripted is a catalogue whose one procedure does what a test says.
func scripted(do func(ctx context.Context, env *procedure.Env) (procedure.Outcome, error)) runner.Catalogue {
	return runner.Catalogue{
		Procedures: []procedure.Spec{{Name: "probe", Doc: "a test", New: func() procedure.Procedure { return proc(do) }}},
		Labs:       []lab.Spec{{Name: "sandbox", Doc: "a test", New: func() lab.Topology { return bench{} }}},
	}
}

type proc func(ctx context.Context, env *procedure.Env) (procedure.Outcome, error)

func (proc) Flags(fs *flag.FlagSet)         { fs.Int("level", 1, "a number") }
func (proc) Check(*lab.Testbed) error       { return nil }
func (proc) Estimate() (int, time.Duration) { return 1, time.Second }
func (p proc) Run(ctx context.Context, env *procedure.Env) (procedure.Outcome, error) {
	return p(ctx, env)
}

type bench struct{}

func (bench) Flags(*flag.FlagSet) {}
func (bench) Sketch() (lab.Facts, error) {
	return lab.Facts{Topology: "sandbox", Kind: "memory"}, nil
}
func (b bench) Build(context.Context) (*lab.Testbed, error) {
	facts, err := b.Sketch()
	return &lab.Testbed{Facts: facts}, err
}

func call(ctx context.Context, c runner.Catalogue, args ...string) (code int, stdout, stderr string) {
	var out, errw bytes.Buffer
	code = run(ctx, &app{out: &out, err: &errw, plugins: c, argv: append([]string{"boxdyno"}, args...)}, args)
	return code, out.String(), errw.String()
}

func TestExitCodeOfVerdicts(t *testing.T) {
	words := map[result.Status]string{result.Passed: "measured"} // there is nothing to judge by
	for status, want := range map[result.Status]int{result.Passed: 0, result.Failed: 1, result.Invalid: 4, result.Skipped: 3} {
		c := scripted(func(context.Context, *procedure.Env) (procedure.Outcome, error) {
			return procedure.Outcome{Status: status, Reason: "because"}, nil
		})
		dir := filepath.Join(t.TempDir(), "run")
		code, out, errw := call(context.Background(), c, "run", "probe", "--out", dir)
		if code != want || out == "" {
			t.Errorf("%s: exit code %d, want %d\n%s%s", status, code, want, out, errw)
		}
		if !strings.Contains(errw, "[100 %] probe#1: "+cmp.Or(words[status], string(status))+" (because)") {
			t.Errorf("progress is %q", errw)
		}
		if code, out, _ := call(context.Background(), c, "--quiet", "run", "probe", "--json", "--out", dir+"2"); code != want || !json.Valid([]byte(out)) {
			t.Errorf("%s with --json: %d %q", status, code, out)
		}
	}
}

// all is topology mem that says it can serve everything, under the sandbox's name.
type all struct{ lab.Topology }

func (a all) Sketch() (lab.Facts, error) {
	facts, err := a.Topology.Sketch()
	facts.Services = lab.Services
	return facts, err
}

func (a all) Build(ctx context.Context) (*lab.Testbed, error) {
	bed, err := a.Topology.Build(ctx)
	if err != nil {
		return nil, err
	}
	bed.Services = lab.Services
	bed.Means = allMeans{bed.Means.(memory)}
	return bed, nil
}

type memory interface {
	lab.Pather
	lab.Rester
	lab.Server
}

type allMeans struct{ memory }

func (a allMeans) Serve(ctx context.Context, s lab.Service) error {
	if s.Kind == "filter" || s.Kind == "nat" {
		s = lab.Service{Kind: "route"}
	}
	return a.memory.Serve(ctx, s)
}

// The role judges the box in memory: 20,000 frames a second are not 1 Gbit/s of
// IMIX each way, and are 10 Mbit/s.
func TestQualify(t *testing.T) {
	testutil.Computed(t)
	i := slices.IndexFunc(lab.All, func(s lab.Spec) bool { return s.Name == "mem" })
	c := runner.Catalogue{Procedures: procedures.All, Labs: []lab.Spec{{Name: "sandbox", Doc: "memory", Offers: lab.All[i].Offers, Services: lab.Services, New: func() lab.Topology { return all{lab.All[i].New()} }}}}
	dir := t.TempDir()
	args := []string{"qualify", "firewall", "--quick", "--set", "capacity=20k", "--set", "ceiling=60k"}

	out := filepath.Join(dir, "10M")
	code, stdout, stderr := call(context.Background(), c, append(args, "--json", "--quiet", "--link-rate", "10Mbps", "--out", out)...)
	if code != exitOK || stderr != "" {
		t.Errorf("at 10 Mbit/s: exit code %d: %s", code, stderr)
	}
	var d report.Document
	if err := json.Unmarshal([]byte(stdout), &d); err != nil {
		t.Fatal(err)
	}
	if d.Role != "firewall" || len(d.Rows) != 15 || len(d.NotMeasured) == 0 || len(d.Deviations) < 2 || len(d.Findings) != 1 || d.Verdict != result.Passed {
		t.Errorf("role %q, %d rows, %d not measured, %d deviations, findings %+v, verdict %s", d.Role, len(d.Rows), len(d.NotMeasured), len(d.Deviations), d.Findings, d.Verdict)
	}
	if page, err := os.ReadFile(filepath.Join(out, "report.html")); err != nil || !bytes.Contains(page, []byte("<html")) {
		t.Errorf("the page: %v", err)
	}

	page := filepath.Join(dir, "new", "1G", "pages", "p.html") // as script/demo, below a folder that does not exist
	code, stdout, stderr = call(context.Background(), c, append(args, "--set", "frame_size=imix", "--report", page, "--out", filepath.Join(dir, "new", "1G"))...)
	if _, err := os.Stat(page); err != nil || code != exitFailed || !strings.Contains(stdout, "FAILED") || !strings.Contains(stderr, "page: "+page) {
		t.Errorf("at 1 Gbit/s: %d %v %q %q", code, err, stdout, stderr)
	}
}

func TestQuietSaysNothing(t *testing.T) {
	c := scripted(func(context.Context, *procedure.Env) (procedure.Outcome, error) {
		return procedure.Outcome{Status: result.Passed}, nil
	})
	if code, _, errw := call(context.Background(), c, "run", "probe", "--quiet", "--out", filepath.Join(t.TempDir(), "x")); code != 0 || errw != "" {
		t.Errorf("%d %q", code, errw)
	}
}

func TestWorst(t *testing.T) {
	for _, c := range [][3]int{{0, 0, 0}, {1, 0, 1}, {1, 3, 3}, {4, 3, 4}, {5, 4, 5}, {1, 130, 130}, {2, 1, 2}} {
		if worst(c[0], c[1]) != c[2] || worst(c[1], c[0]) != c[2] {
			t.Errorf("worst of %d and %d is not %d", c[0], c[1], c[2])
		}
	}
}

// What boxdyno writes under sudo belongs to the user who called it.
func TestOwner(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	if os.Geteuid() != 0 {
		if sudoer() != nil {
			t.Error("an ordinary user hands files over")
		}
		t.Skip("needs root: run script/test with sudo")
	}
	t.Setenv("SUDO_UID", "")
	if sudoer() != nil {
		t.Error("root without sudo hands files over")
	}
	t.Setenv("SUDO_UID", "12345")
	t.Setenv("SUDO_GID", "23456")
	o := sudoer()
	s := &sink{dir: dir, owner: o}
	for range 2 {
		if err := s.WriteRun(result.Run{Schema: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.Append(result.Record{ID: "x"}), s.Sample([]byte("{}\n"))); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(filepath.Dir(dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if st := info.Sys().(*syscall.Stat_t); err != nil || st.Uid != 12345 || st.Gid != 23456 {
			t.Errorf("%s belongs to %d:%d", path, st.Uid, st.Gid)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestReportNames(t *testing.T) {
	for name, ok := range map[string]bool{"a.html": true, "a.HTML": true, "a.md": true, "a.csv": true, "a.json": true, "a.bench": true, "a.txt": true, "a.pdf": false, "a": false, "a.xml": false, "mycomposite.xml": false, "": false} {
		if _, err := formatOf(name); (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, want := range map[string]string{"x/composite.xml": "composite.xml", "a.pts.xml": ".pts.xml", "a.SBC-bench.md": ".sbc-bench.md", "a.iperf3.json": ".iperf3.json", "iperf3.json": ".json", ".iperf3.json": ".iperf3.json"} {
		if got, err := formatOf(name); got != want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
}

// Names of files and words of peers steer no terminal, wherever they are printed.
func TestPrintedNames(t *testing.T) {
	const evil = "\x1b]0;title\a\u009b31m\u202ex\ny"
	c := scripted(func(context.Context, *procedure.Env) (procedure.Outcome, error) {
		return procedure.Outcome{Status: result.Passed, Reason: evil, Warnings: []string{evil}}, nil
	})
	dir := filepath.Join(t.TempDir(), "a"+evil)
	plan := filepath.Join(t.TempDir(), "p"+evil+".yaml")
	if err := os.WriteFile(plan, []byte("procedures: [{use: \"a\\e[2Jb\"}]"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"run", "probe", "--out", dir}, {"run", "probe", "--out", dir + "2", "--json"}, {"report", dir}, {"report", dir, "--json"},
		{"compare", dir, dir + "2"}, {"run", plan}, {"run", "--dry-run", "probe", "--set", "level=" + evil}, {evil}, {"tune", "show", plan}, {"run", "--tune", evil, "probe"}, {"send", "-i", evil, "-t"}, {"report", evil},
	} {
		code, out, errw := call(t.Context(), c, args...)
		if s := out + errw; strings.ContainsAny(s, "\x1b\a\u009b\u202e") || s == "" {
			t.Errorf("%q: exit code %d, %q", args, code, s)
		}
		if strings.HasSuffix(args[len(args)-1], "json") && !json.Valid([]byte(out)) {
			t.Errorf("%q: no JSON: %s", args, out)
		}
	}
	for _, ext := range []string{"md", "txt", "csv", "json", "bench"} {
		file := filepath.Join(t.TempDir(), "x."+ext)
		if code, _, errw := call(t.Context(), c, "report", dir, "-o", file); code != exitOK {
			t.Fatal(code, errw)
		}
		if data, err := os.ReadFile(file); err != nil || strings.ContainsAny(string(data), "\x1b\a\u009b\u202e") {
			t.Errorf("%s: %v, %q", ext, err, data)
		}
	}
	var b bytes.Buffer
	p := newProgress(&b, false)
	p.width = 60
	p.event(runner.Event{Kind: runner.PointStarts, Point: evil, Text: evil})
	p.event(runner.Event{Kind: runner.Note, Text: evil})
	p.event(runner.Event{Kind: runner.Waiting, Text: evil})
	p.stop()
	said := strings.ReplaceAll(b.String(), "\r\x1b[K", "")
	if strings.ContainsAny(said, "\x1b\a\u009b\u202e") || strings.Count(said, "\n") != 2 {
		t.Errorf("%q", said)
	}
	// A character whose octets come one by one.
	b.Reset()
	w := &printer{w: &b}
	for _, c := range []byte("µ\u009b\U0001F600\n") {
		if n, err := w.Write([]byte{c}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	if got, want := b.String(), `µ\u009b`+"\U0001F600\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// So do settings of a journal.
func TestPrintedSettings(t *testing.T) {
	const evil = "\x1b]0;title\a\u009b31m\u202ex"
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	journal := filepath.Join(state, "boxdyno", "tune", "00000000000000000001-1.journal")
	quoted, err := json.Marshal(evil)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("EVIL", string(quoted), "BOOT", (&host.Local{}).Identify().BootID).Replace(
		`{"begin":{"schema":1,"recipe":EVIL,"by":"hand","boot":"BOOT","pid":1}}` + "\n" + `{"set":{"n":0,"knob":"txqueuelen","port":EVIL,"old":EVIL,"new":EVIL}}` + "\n" + `{"hold":"x"}` + "\n")
	if err := errors.Join(os.MkdirAll(filepath.Dir(journal), 0o755), os.WriteFile(journal, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	code, out, errw := call(t.Context(), runner.Plugins(), "tune", "status")
	if s := out + errw; code != exitOK || strings.ContainsAny(s, "\x1b\a\u009b\u202e") || !strings.Contains(out, `\u001b]0;title`) {
		t.Errorf("exit code %d, %q, %q", code, out, errw)
	}
}

func TestProgressLine(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&b, false)
	p.width = 60
	rec := result.Record{Status: result.Passed, Load: &result.Load{Forwarded: 123456}}
	p.event(runner.Event{Kind: runner.PointStarts, Point: "forward/route/64#1", Share: 0.25, Left: time.Minute})
	p.event(runner.Event{Kind: runner.TrialDone, Point: "forward/route/64#1", Text: "forward/route/64#1/3 rate=9", Share: 0.25, Left: time.Minute, Record: &rec})
	p.event(runner.Event{Kind: runner.Note, Text: "careful"})
	p.stop()
	lines := strings.Split(b.String(), "\r\x1b[K")
	if len(lines) < 4 || !strings.HasPrefix(lines[1], "[###.........] 25 %, 60 s left, forward/route/64#1") || !strings.HasPrefix(lines[2], "[###.........] 25 %, 60 s left, 123 kframe/s, forward/route") || lines[len(lines)-1] != "warning: careful\n" {
		t.Errorf("drawn: %q", lines)
	}
	for _, l := range lines {
		if len(l) > 60 {
			t.Errorf("%q is wider than the terminal", l)
		}
	}
}
