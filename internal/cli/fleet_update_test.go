// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"boxdyno/fleet/hub"
	"boxdyno/host"
	"boxdyno/internal/testutil"
)

// agentProgram builds an agent of a version, or another program from source.
func agentProgram(t *testing.T, version, source string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "agent")
	what := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -X boxdyno/internal/version.version=" + version, "-o", file}
	if source == "" {
		what = append(what, "boxdyno/cmd/boxdyno-agent")
	} else {
		path := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		what = append(what, path)
	}
	cmd := exec.Command("go", what...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return file
}

// besideThis puts a program where boxdyno looks for its agent for a processor.
func besideThis(t *testing.T, program, arch string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(filepath.Dir(self), "boxdyno-agent-"+arch)
	t.Cleanup(func() { _ = os.Remove(name) }) // it may not have been written
	if err := os.Symlink(program, name); err != nil {
		t.Fatal(err)
	}
}

// Boards for whose processor there is no agent are named and left out, whatever they say of
// it; nothing keeps the others.
func TestUpdateWithoutAgent(t *testing.T) {
	testutil.Privileged(t) // a file beside the test's program
	besideThis(t, "/bin/true", "arm")
	named := func(name, state, arch, version string) hub.Entry {
		return hub.Entry{Board: hub.Board{Name: name}, State: state, Arch: arch, Version: version}
	}
	u := &fleetUpdating{}
	with, without, err := u.load([]hub.Entry{named("b1", "", "sparc", ""), named("b2", "", "arm", ""), named("b3", "", "../arm", ""), named("b4", "", "arm", ""), named("b5", "", "", "")})
	if err != nil || len(with) != 2 || with[0].Name != "b2" || with[1].Name != "b4" || len(u.programs["arm"]) == 0 {
		t.Errorf("%+v, %v", with, err)
	}
	if len(without) != 3 || without[0].Name != "b1" || !strings.Contains(without[0].why.Error(), "boxdyno-agent for sparc") || without[1].Name != "b3" || without[2].Name != "b5" {
		t.Errorf("%+v", without)
	}
	var out bytes.Buffer
	a := &app{out: &out, quiet: true}
	err = a.updateBoards(t.Context(), nil, &fleetUpdating{waves: "1,all", atOnce: 1}, []hub.Entry{named("b1", "ready", "sparc", ""), named("b2", "ready", "arm", Version())})
	var missing *host.Missing
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "an agent for 1 of 2 boards, of which b1 is the first") || !strings.Contains(out.String(), "b1  left out: missing boxdyno-agent for sparc") || !strings.Contains(out.String(), "b2  has "+Version()) {
		t.Errorf("%v: %s", err, out.Bytes())
	}
}

// joined has a board of an agent's program join and answer the hub, as a person sets one up.
func (f *fleeted) joined(name, program string, allow ...string) {
	f.t.Helper()
	own := f.file(name, "boxdyno-agent")
	data, err := os.ReadFile(program)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(own), 0o700)
	}
	if err == nil {
		err = os.WriteFile(own, data, 0o755)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	f.call(exitOK, "fleet", "token", name)
	words := strings.Fields(f.out.String())
	args := append(words[1:], "--name", name, "--folder", filepath.Dir(own))
	if len(allow) > 0 {
		args = append(args, "--allow", strings.Join(allow, ","))
	}
	if out, err := exec.Command(own, args...).CombinedOutput(); err != nil {
		f.t.Fatalf("%v: %s", err, out)
	}
	f.connect(name)
}

// connect starts a board's agent, which ends with the test.
func (f *fleeted) connect(name string) *exec.Cmd {
	f.t.Helper()
	log, err := os.OpenFile(f.file(name, "connect.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		f.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(f.file(name, "boxdyno-agent"), "connect", "--folder", filepath.Dir(f.file(name, "x")))
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // it may have been killed
		_ = cmd.Wait()
	})
	f.is(name, "ready")
	return cmd
}

// is waits until fleet ls has a board, and these parts in its line.
func (f *fleeted) is(name string, parts ...string) {
	f.t.Helper()
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		f.call(exitOK, "fleet", "ls")
		for line := range strings.Lines(f.out.String()) {
			there := strings.HasPrefix(line, name+" ")
			for _, p := range parts {
				there = there && strings.Contains(line, p)
			}
			if there {
				return
			}
		}
		if time.Since(begin) > time.Minute {
			f.t.Fatalf("%s is not %q: %s", name, parts, f.out.Bytes())
		}
	}
}

// has fails unless a board has a program, and nothing of an update beside it.
func (f *fleeted) has(name, program string) {
	f.t.Helper()
	want, _ := os.ReadFile(program)
	got, err := os.ReadFile(f.file(name, "boxdyno-agent"))
	if err != nil || string(got) != string(want) {
		f.t.Errorf("%s has another program: %v", name, err)
	}
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		left, _ := filepath.Glob(f.file(name, "boxdyno-agent.*"))
		if len(left) == 0 {
			return
		}
		if time.Since(begin) > time.Minute {
			f.t.Fatalf("left behind on %s: %v", name, left)
		}
	}
}

// Boards are updated in waves by real agents. What crashes or hangs is rolled back by the
// board, and stops the waves; what is not allowed is refused.
func TestFleetUpdate(t *testing.T) {
	testutil.Long(t)
	testutil.Alone(t)
	f := newFleeted(t, "")
	f.hub()
	old, current := agentProgram(t, "0.1.0", ""), builtAgent(t, runtime.GOARCH)
	const says = `package main
import ("fmt"; "os"; "runtime"; "time")
func main() {
	if os.Args[1] == "--version" { fmt.Println("boxdyno-agent devel", runtime.GOOS+"/"+runtime.GOARCH); return }
	`
	crashes, hangs := agentProgram(t, "", says+`_ = time.Now; panic("boom") }`), agentProgram(t, "", says+`time.Sleep(time.Hour) }`)
	for _, name := range []string{"pi1", "pi2", "pi3"} {
		f.joined(name, old, "update")
	}
	f.joined("pi4", old)

	f.call(exitUsage, "fleet", "update", "--waves", "0")
	f.call(exitUsage, "fleet", "update", "pi9")
	f.call(exitOther, "fleet", "update", "pi4", "--older", "--agent", current)
	f.says("pi4  missing on pi4: the enrolment of this board does not allow update.check")
	f.call(exitOther, "fleet", "update", "pi1", "pi2", "pi3", "--agent", current)
	f.says("pi1  pi1: whether version devel is older than 0.1.0 here is not known: --older installs it all the same", "pi2  left as it is, with 0.1.0")
	f.call(exitOther, "fleet", "update", "pi1", "pi2", "pi3", "--older", "--agent", crashes)
	f.says("pi1  the update to devel was rolled back: it ended with exit status 2 (panic: boom)", "pi2  left as it is")
	f.is("pi1", "ready", "0.1.0", "rolled back")
	f.has("pi1", old)
	f.call(exitOther, "fleet", "update", "pi2", "--older", "--agent", hangs, "--within", "1s")
	f.says("pi2  the update to devel was rolled back: the hub did not greet it within 1s")
	f.has("pi2", old)

	// The agent is killed while it tries a program: its own begins anew.
	var out bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- Main(t.Context(), []string{"fleet", "update", "pi3", "--older", "--agent", hangs, "--within", "3s", "--quiet"}, &out, &out)
	}()
	for begin := time.Now(); exec.Command("pgrep", "-P", strconv.Itoa(f.pid("pi3")), "-f", "--", "--trial").Run() != nil; time.Sleep(5 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatal("no program is tried")
		}
	}
	if p, err := os.FindProcess(f.pid("pi3")); err != nil || p.Kill() != nil {
		t.Fatal("the agent of pi3 is not killed")
	}
	f.connect("pi3")
	f.has("pi3", old)
	if code := <-ended; code != exitOther || !strings.Contains(out.String(), "pi3  it came back with 0.1.0") {
		t.Errorf("exit code %d: %s", code, out.Bytes())
	}

	besideThis(t, current, runtime.GOARCH)
	if runtime.GOARCH == "amd64" { // for 386 there is none beside
		t.Setenv("GOARCH", "386")
		other := agentProgram(t, "0.1.0", "")
		t.Setenv("GOARCH", runtime.GOARCH)
		f.joined("pi5", other, "update")
		f.call(exitMissing, "fleet", "update", "pi1", "pi5", "--older")
		f.says("pi5  left out: missing boxdyno-agent for 386", "pi1  devel in the place of 0.1.0")
		f.has("pi5", other)
		f.call(exitOK, "fleet", "update", "pi1", "pi2", "pi3", "--older", "--waves", "1,all")
		f.says("pi1  has devel already", "pi3  devel in the place of 0.1.0, after")
	}
	f.call(exitOK, "fleet", "update", "pi1", "pi2", "pi3", "--older", "--agent", current, "--waves", "1,all")
	f.says("pi1  ", "pi2  ", "pi3  ")
	for _, name := range []string{"pi1", "pi2", "pi3"} {
		f.is(name, "ready", "devel")
		f.has(name, current)
	}
	f.call(exitOK, "fleet", "check", "pi1", "pi2", "pi3")
	f.call(exitOK, "fleet", "update", "pi1")
	f.says("pi1  has devel already")
	f.call(exitOther, "fleet", "update", "pi4", "--agent", current)
}

func TestWaves(t *testing.T) {
	for _, c := range []struct {
		text   string
		boards int
		want   []int
	}{
		{"1,10%,all", 100, []int{1, 10, 89}}, {"1,10%,all", 1, []int{1}}, {"1,10%,all", 5, []int{1, 1, 3}}, {"2", 5, []int{2, 3}}, {"all", 3, []int{3}},
		{"50%", 3, []int{2, 1}}, {"100", 3, []int{3}}, {"1,all,5", 0, nil},
	} {
		got, err := parseWaves(c.text, c.boards)
		if err != nil || len(got) != len(c.want) {
			t.Fatalf("%q of %d: %v, %v", c.text, c.boards, got, err)
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("%q of %d: %v", c.text, c.boards, got)
			}
		}
	}
	for _, bad := range []string{"", "0", "-1", "x", "0%", "101%", "NaN%", "1,,2", "1%%"} {
		if got, err := parseWaves(bad, 10); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
}
