// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/result"
	"boxdyno/subject"
	"boxdyno/subject/internal/made"
	"boxdyno/subject/internal/subjecttest"
	"boxdyno/unit"
)

// compiled has the libpcap counter made by the test itself, and not in the user's store.
func compiled(t *testing.T, name string) {
	t.Helper()
	if name == counter.Name {
		t.Setenv("XDG_CACHE_HOME", t.TempDir())
	}
}

// captureOf is the capture of a name.
func captureOf(t *testing.T, name string) *Capture {
	t.Helper()
	for _, s := range Specs() {
		if s.Name == name {
			return s.New().(*Capture)
		}
	}
	t.Fatalf("no capture %s", name)
	return nil
}

// Every subject that is installed sees each frame that is sent to its port, or says
// that it was dropped, at a low rate and in a burst, and leaves nothing behind.
func TestSubjectsCount(t *testing.T) {
	for _, spec := range Specs() {
		c, ok := spec.New().(*Capture)
		if !ok || spec.Name == Own {
			continue
		}
		t.Run(spec.Name, func(t *testing.T) {
			testutil.NoLeaks(t)
			compiled(t, spec.Name)
			from, to := subjecttest.Pair(t)
			var missing *host.Missing
			if err := c.Check(t.Context(), nil); errors.As(err, &missing) {
				t.Skip(missing)
			} else if err != nil {
				t.Fatal(err)
			}
			r, err := c.Run(t.Context(), subject.Env{Port: to, CPUs: []int{subjecttest.ACPU(t)}})
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Ready(t.Context()); err != nil {
				t.Fatalf("%v\n%s", errors.Join(err, r.Stop(t.Context())), r.Log.String())
			}
			before, err := r.Usage()
			if err != nil {
				t.Error(err)
			}
			const probes, n = 50, 1000
			sent := int64(0)
			subjecttest.Eventually(t, "its counter moves", func() bool { // pyshark needs a second for its first frame
				subjecttest.Send(t, from, probes, 1000)
				sent += probes
				time.Sleep(200 * time.Millisecond)
				counted, _, _ := r.Progress()
				return counted > 0 || r.Ended() != nil
			})
			subjecttest.Send(t, from, n, 1000)
			sent += n
			if spec.Name != "pyshark" { // which would count for half a minute
				subjecttest.Send(t, from, 20*n, 200_000)
				sent += 20 * n
			}
			counted := int64(0)
			for last := int64(-1); counted != last; {
				last = counted
				time.Sleep(max(500*time.Millisecond, c.Tool.Lag))
				counted, _, _ = r.Progress()
			}
			_, at, ok := r.Progress()
			if !ok || counted == 0 || at > unit.Now() {
				t.Errorf("it counted %d at %v while it ran", counted, at)
			}
			if err := errors.Join(r.Stop(t.Context()), r.Ended()); err != nil {
				t.Fatal(err)
			}
			totals := r.Totals()
			if sum := totals.known(); sum.Captured+sum.Kernel+sum.Own != sent {
				t.Errorf("of %d frames it says %+v at its end", sent, totals)
			}
			if counted > totals.Captured || counted < totals.Captured && !r.Behind() {
				t.Errorf("it counted %d while it ran, and says %+v at its end", counted, totals)
			}
			if totals.Kernel < 0 {
				t.Errorf("it does not say what the kernel dropped: %+v", totals)
			}
			terms, err := r.Count(t.Context())
			if err != nil || len(terms) != 2 || terms[0].Place != result.Socket || terms[0].N != totals.known().Kernel {
				t.Errorf("%+v, %v", terms, err)
			}
			u, err := r.Usage()
			if err != nil || u.CPU <= before.CPU || u.PeakMemory == 0 || u.Subject != spec.Name || !strings.HasSuffix(u.Source, memorySource) || strings.Count(u.Source, "memory") != 1 {
				t.Errorf("it used %+v, before %+v, %v", u, before, err)
			}
			s := r.Startup()
			if s.Process <= 0 || s.Sign <= 0 || s.First <= 0 || (s.Socket <= 0) != c.Tool.Unseen {
				t.Errorf("start-up %+v", s)
			}
			if _, err := os.Stat(r.Dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("its folder is still there: %v", err)
			}
			t.Logf("of %d frames %+v; %v a frame, %d B; start-up %+v", sent, totals, (u.CPU-before.CPU)/time.Duration(sent), u.PeakMemory, s)
		})
	}
}

// fake is a capture whose program is a shell script. It has no packet socket.
func fake(script string) *Capture {
	return &Capture{Tool: &Tool{
		Name: "fake", Work: Count, Unseen: true,
		Argv: func(*Capture, Place) ([]string, error) { return []string{"sh", "-c", script}, nil },
		Said: func(*Capture, subject.Env) (Parser, Parser) { return ParseCounter, nil },
	}}
}

const isReady = `echo '{"ready": true, "count": 0}'; `

func begin(t *testing.T, c *Capture) *Capturing {
	t.Helper()
	_, port := subjecttest.Pair(t)
	r, err := c.Run(t.Context(), subject.Env{Port: port})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Process.Kill() })
	return r
}

// Whatever a program does that it must not, one sentence says so, and nothing is left.
func TestWhatGoesWrong(t *testing.T) {
	for name, c := range map[string]struct {
		script, want string
	}{
		"killed":         {isReady + `kill -9 $$`, "fake was ended by signal killed"},
		"fails":          {isReady + `echo no such thing >&2; exit 3`, `fake ended with exit code 3; it said "no such thing"`},
		"ends":           {isReady + `exit 0`, "fake ended by itself, without an error"},
		"prints garbage": {isReady + `while :; do head -c 100000 /dev/urandom; echo; done`, "fake printed what is no count: "},
		"goes backwards": {isReady + `echo '{"count": -7}'; exec sleep 1000`, `fake printed what is no count: "{\"count\": -7}"`},
		"fills the disk": {isReady + `while :; do head -c 1000000 /dev/zero >> $TMPDIR/x; sleep 0.01; done`, "fake was ended: its temporary files had "},
	} {
		t.Run(name, func(t *testing.T) {
			testutil.NoLeaks(t)
			f := fake(c.script)
			f.room = 4 << 20
			r := begin(t, f)
			subjecttest.Eventually(t, "it is said", func() bool { return r.Ended() != nil })
			err := r.Ended()
			if !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q, want %q", err, c.want)
			}
			if err := r.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			if again := r.Ended(); again == nil || again.Error() != err.Error() {
				t.Errorf("after Stop it is %v", again)
			}
			if _, err := r.Count(t.Context()); err == nil {
				t.Error("its counts are taken for known")
			}
			if _, err := os.Stat(r.Dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("its folder is still there: %v", err)
			}
		})
	}
}

func TestNeverReady(t *testing.T) {
	testutil.NoLeaks(t)
	r := begin(t, fake(`echo still loading >&2; exec sleep 1000`))
	subjecttest.Eventually(t, "it spoke", func() bool { return r.Log.String() != "" })
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := r.Ready(ctx); err == nil || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), `fake is not ready: it does not say that it captures; it said "still loading"`) {
		t.Errorf("%v", err)
	}
	if err := r.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if _, _, ok := r.Progress(); ok {
		t.Error("it has counted")
	}
	r = begin(t, fake(`exit 4`))
	if err := r.Ready(t.Context()); err == nil || err.Error() != "fake ended with exit code 4" {
		t.Errorf("%v", err)
	}
	// One that says that it captures, and does not, is not ready either.
	c := fake(isReady + `exec sleep 1000`)
	c.Tool.Unseen = false
	r = begin(t, c)
	ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := r.Ready(ctx); err == nil || !strings.Contains(err.Error(), "no packet socket of it listens") {
		t.Errorf("%v", err)
	}
	if err := r.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// One that hangs is killed together with what it has forked.
func TestHangsAndForks(t *testing.T) {
	testutil.NoLeaks(t)
	r := begin(t, fake(`trap '' INT; (setsid sleep 1000 &); `+isReady+`while :; do sleep 1; done`))
	if err := r.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	subjecttest.Eventually(t, "it forks", func() bool { return len(r.Process.PIDs()) >= 3 })
	pids := r.Process.PIDs()
	if err := r.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); err == nil {
			t.Errorf("process %d is still there", pid)
		}
	}
	if err := r.Ended(); err == nil || !strings.Contains(err.Error(), "did not end when it was told to and was killed") {
		t.Errorf("%v", err)
	}
}

func TestCheckCapture(t *testing.T) {
	for name, c := range map[string]*Capture{
		"buffer 5":     {Buffer: 5, Tool: &tcpdump},
		"buffer 8":     {Buffer: 8192, Tool: &afPacket},
		"give 10240":   {Buffer: 9999, Tool: &tcpdump},
		"give 1048576": {Buffer: 64 << 10, Tool: &dumpcap},
		"give 3145728": {Buffer: 2<<20 + 1, Tool: &tshark},
		`filter "ip`:   {Filter: "ip", Tool: &afPacket},
		"filter: ":     {Filter: "udp\nor", Tool: &tcpdump},
		"give file=":   {Tool: &own},
		"nothere":      {File: "nothere.yaml", Tool: &own},
	} {
		if err := c.Check(t.Context(), nil); err == nil || !strings.Contains(err.Error(), strings.TrimSuffix(name, " 8")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(&afPacket).Run(t.Context(), subject.Env{}); err == nil {
		t.Error("a capture without a port runs")
	}
}

// A program that is to say its count before the line before is out says whole lines.
func TestPythonSaysWholeLines(t *testing.T) {
	testutil.Privileged(t)
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3: install it")
	}
	const interrupted = `import builtins, runpy, signal, sys
real, left = print, [3]
def halves(text, flush):
    real(text, end="")
    if left[0] and callable(signal.getsignal(signal.SIGALRM)):
        left[0] -= 1
        signal.raise_signal(signal.SIGALRM)
    real(flush=True)
    if not left[0]:
        left[0] = -1
        signal.raise_signal(signal.SIGINT)
builtins.print, sys.argv = halves, sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
`
	script := filepath.Join(t.TempDir(), "count.py")
	if err := os.WriteFile(script, []byte(made.Embedded("count.py")), 0o644); err != nil {
		t.Fatal(err)
	}
	said, err := exec.CommandContext(t.Context(), python, "-c", interrupted, script, "python-socket", "lo", "", "0").Output()
	if err != nil {
		t.Errorf("%v", err)
	}
	lines := strings.Split(strings.TrimSpace(string(said)), "\n")
	for _, l := range lines {
		if !json.Valid([]byte(l)) {
			t.Errorf("it said %s", l)
		}
	}
	if len(lines) < 3 || !strings.Contains(lines[len(lines)-1], `"end"`) {
		t.Errorf("it said %d lines: %v", len(lines), lines)
	}
}
