// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/internal/testutil"
	"boxdyno/result"
)

// inside are the processes in a namespace whose command begins with words.
func inside(t *testing.T, netns, words string) (pids []int) {
	t.Helper()
	var want unix.Stat_t
	if err := unix.Stat(netns, &want); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		var at unix.Stat_t
		if err != nil || unix.Stat("/proc/"+e.Name()+"/ns/net", &at) != nil || at.Ino != want.Ino {
			continue
		}
		if line, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline"); strings.HasPrefix(string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})), words) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// A connection that breaks in mid-trial aborts the trial with its reason; the others stay,
// the agent is gone within seconds, and --resume goes on.
func TestBoxBreaks(t *testing.T) {
	const program = "/var/lib/boxdyno-agent/boxdyno-agent serve"
	for _, c := range []struct {
		name, victim string
		signal       unix.Signal
		want         string
	}{
		{"agent killed", program, unix.SIGKILL, "the connection to testbox ended"},
		{"sshd stopped", "sshd: ", unix.SIGSTOP, "the connection to testbox ended: Timeout, server testbox not responding"},
	} {
		t.Run(c.name, func(t *testing.T) {
			testutil.Long(t)
			testutil.Alone(t)
			tester, box := stranger(t)
			addBox(t, box, "e0=i0", "e1=i1")
			var out bytes.Buffer
			dir := filepath.Join(t.TempDir(), "run")
			ended := make(chan int)
			go func() {
				ended <- Main(t.Context(), []string{"run", "forward", "--box", "box", "--quick", "--quiet", "--out", dir, "--set", "netns=" + tester.Path()}, &out, &out)
			}()
			for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
				if trials, _ := os.ReadFile(filepath.Join(dir, "trials.jsonl")); bytes.Count(trials, []byte("\n")) > 12 {
					break
				}
				if time.Since(begin) > time.Minute {
					t.Fatalf("no trials: %s", out.Bytes())
				}
			}
			victims := inside(t, box.Path(), c.victim)
			if len(victims) == 0 {
				t.Fatalf("there is no %q", c.victim)
			}
			for _, pid := range victims {
				if err := unix.Kill(pid, c.signal); err != nil {
					t.Fatal(err)
				}
			}
			code := <-ended
			if code != exitOther || !strings.Contains(out.String(), c.want) {
				t.Fatalf("exit code %d: %s", code, out.Bytes())
			}
			for begin := time.Now(); len(inside(t, box.Path(), program)) > 0; time.Sleep(50 * time.Millisecond) {
				if time.Since(begin) > time.Minute {
					t.Fatal("the agent is still there")
				}
			}
			for _, pid := range victims {
				_ = unix.Kill(pid, unix.SIGCONT) // it may be gone
			}
			_, before, err := result.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			aborted, done := 0, map[string]bool{}
			for _, r := range before {
				if r.Status == result.Aborted {
					aborted++
				} else if r.Parent != "" {
					done[r.ID] = true
				}
			}
			if aborted == 0 || len(done) == 0 {
				t.Errorf("%d trials are aborted and %d done", aborted, len(done))
			}
			out.Reset()
			if code := Main(t.Context(), []string{"run", "--resume", dir, "--quiet"}, &out, &out); code != exitOK {
				t.Fatalf("exit code %d: %s", code, out.Bytes())
			}
			_, after, err := result.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range after {
				delete(done, r.ID)
			}
			if len(done) > 0 {
				t.Errorf("trials %v are lost", done)
			}
		})
	}
}
