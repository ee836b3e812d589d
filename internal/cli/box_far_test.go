// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/result"
)

// stressing counts processes of stress-ng that an agent runs, in namespaces of their own.
func stressing(stressor string) (n int) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range lines {
		line, _ := os.ReadFile(name)
		if bytes.HasPrefix(line, []byte(stressor+"\x00")) && bytes.Contains(line, []byte("/var/lib/boxdyno-agent/")) {
			n++
		}
	}
	return n
}

// A box carries out what needs no frames by itself; records, telemetry and machine are its
// own. After Ctrl-C, and after its agent was killed, nothing runs there, finished trials
// stay, and --resume goes on.
func TestBoxCarriesOut(t *testing.T) {
	testutil.Long(t)
	testutil.Alone(t)
	stressor, err := host.Program("stress-ng")
	if err != nil {
		t.Skip(err)
	}
	_, box := stranger(t)
	know, _ := sshBox(t, box.Path())
	know()
	var out bytes.Buffer
	call := func(ctx context.Context, want int, words ...string) {
		t.Helper()
		out.Reset()
		if code := Main(ctx, words, &out, &out); code != want {
			t.Fatalf("%q: exit code %d, want %d: %s", words, code, want, out.Bytes())
		}
	}
	call(t.Context(), exitOK, "box", "add", "box", "--ssh", "testbox", "--agent", builtAgent(t, runtime.GOARCH))
	call(t.Context(), exitUsage, "run", "cpu", "--box", "box", "--lab", "pair")
	call(t.Context(), exitUsage, "run", "cpu", "--box", "box", "--set", "subject=stress-matrix", "--set", "parallel=cpu999", "--quiet")
	if !strings.Contains(out.String(), "CPU 999 is not one of those") {
		t.Errorf("%s", out.Bytes())
	}

	dir := filepath.Join(t.TempDir(), "run")
	// Beside other work its rounds are invalid.
	if code := Main(t.Context(), []string{"run", "cpu", "--box", "box", "--quick", "--quiet", "--set", "subject=stress-matrix", "--out", dir}, &out, &out); code != exitOK && code != exitInvalid {
		t.Fatalf("exit code %d: %s", code, out.Bytes())
	}
	run, recs, err := result.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if run.Topology != "there" || len(run.Machines) != 1 || run.Machines[0].BootID != (&host.Local{}).Identify().BootID || result.Get(run.Environments[0], "clock measured") == "" {
		t.Errorf("%s, machines %+v, environment %v", run.Topology, run.Machines, run.Environments[0])
	}
	for _, s := range run.Series {
		if result.Get(s.Labels, result.MachineLabel) != "" {
			t.Errorf("series %s is of %v", s.Name, s.Labels)
		}
	}
	rounds := 0
	for _, r := range recs {
		if r.Status != result.Passed && r.Status != result.Invalid {
			t.Errorf("%s: %s %s", r.ID, r.Status, r.Reason)
		}
		if r.Parent == "" || len(r.Phases) == 0 {
			continue
		}
		rounds++
		if p := r.Phases[0]; p.Begin < r.Begin || p.End > r.End || len(r.Digests) == 0 || len(r.Usage) == 0 || r.Value("bogo_ops_rate") == nil {
			t.Errorf("%s: from %v to %v: %+v, %d digests, usage %v, %v", r.ID, r.Begin, r.End, p, len(r.Digests), r.Usage, r.Values)
		}
	}
	if rounds != 3 {
		t.Errorf("%d rounds", rounds)
	}

	const program = "/var/lib/boxdyno-agent/boxdyno-agent serve"
	dir = filepath.Join(t.TempDir(), "soak")
	interrupted, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	for _, c := range []struct {
		done  int // trials before it is broken off
		want  int
		words []string
		off   func()
	}{
		{1, exitInterrupted, []string{"run", "soak", "--box", "box", "--quiet", "--set", "stressors=cpu+vecmath+hash", "--set", "each=3s", "--out", dir}, interrupt},
		{2, exitOther, []string{"run", "--resume", dir, "--quiet"}, func() {
			for _, pid := range inside(t, box.Path(), program) {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}},
	} {
		ended := make(chan int)
		out.Reset()
		go func() { ended <- Main(interrupted, c.words, &out, &out) }()
		for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
			trials, _ := os.ReadFile(filepath.Join(dir, "trials.jsonl"))
			if bytes.Count(trials, []byte(`"verdict":"passed"`)) >= c.done && stressing(stressor) > 0 {
				break
			}
			if time.Since(begin) > time.Minute {
				t.Fatalf("no stressor runs: %s", out.Bytes())
			}
		}
		c.off()
		if code := <-ended; code != c.want {
			t.Fatalf("%q: exit code %d, want %d: %s", c.words, code, c.want, out.Bytes())
		}
		interrupted = t.Context()
		for begin := time.Now(); len(inside(t, box.Path(), program))+stressing(stressor) > 0; time.Sleep(50 * time.Millisecond) {
			if time.Since(begin) > time.Minute {
				t.Fatal("the agent or a stressor is still there")
			}
		}
	}
	call(t.Context(), exitOK, "run", "--resume", dir, "--quiet")
	_, recs, err = result.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	passed := 0
	for _, r := range recs {
		if r.Parent != "" && r.Status == result.Passed {
			passed++
		}
	}
	if passed != 3 {
		t.Errorf("%d stressors passed: %s", passed, out.Bytes())
	}
}
