// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/result"
)

// A box is tuned by hand and for a run, by real ssh, and is as it was afterwards.
func TestTuneBox(t *testing.T) {
	testutil.Alone(t)
	tester, box := stranger(t)
	know, _ := sshBox(t, box.Path())
	know()
	queues := func() string {
		t.Helper()
		out, err := (&host.Local{Netns: box.Path()}).Run(t.Context(), "ip -o link show i0; ip -o link show i1; cat /proc/sys/net/ipv4/ip_default_ttl", "sh", "-eu")
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	recipe := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(recipe, []byte(`name: mine
steps:
  - {knob: txqueuelen, value: "77"}
  - {knob: "sysctl:net.ipv4.ip_default_ttl", value: "63"}
`), 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(want int, args ...string) string {
		t.Helper()
		var out, errw bytes.Buffer
		if code := Main(t.Context(), args, &out, &errw); code != want {
			t.Fatalf("%s: exit code %d, want %d: %s%s", args, code, want, out.Bytes(), errw.Bytes())
		}
		return out.String() + errw.String()
	}
	run(exitOK, "box", "add", "box", "--ssh", "testbox", "--agent", builtAgent(t, runtime.GOARCH), "--cable", "e0=i0", "--cable", "e1=i1")
	before := queues()
	if said := run(exitOK, "tune", "show", recipe, "--box", "box"); !strings.Contains(said, "txqueuelen of i1: 0 -> 77") || queues() != before {
		t.Errorf("%s, and it is %s", said, queues())
	}
	run(exitUsage, "tune", "show", recipe, "--box", "none")
	run(exitUsage, "tune", "show", recipe, "--box", "box", "--netns", "x")
	run(exitMissing, "tune", "apply", recipe, "--box", "box", "--port", "i9")
	run(exitOK, "tune", "apply", recipe, "--box", "box")
	if now := queues(); strings.Count(now, "qlen 77") != 2 || !strings.HasSuffix(now, "\n63\n") {
		t.Errorf("it is %s", now)
	}
	if said := run(exitOK, "tune", "status", "--box", "box"); !strings.Contains(said, "by hand") || !strings.Contains(said, "63, had been 64") {
		t.Error(said)
	}
	run(exitOK, "tune", "revert", "--box", "box")
	if now := queues(); now != before {
		t.Errorf("it is %s, and was %s", now, before)
	}
	if said := run(exitOK, "tune", "revert", "--box", "box"); !strings.Contains(said, "nothing is applied") {
		t.Error(said)
	}
	dir := filepath.Join(t.TempDir(), "run")
	var out bytes.Buffer
	if code := Main(t.Context(), []string{"run", "forward", "--box", "box", "--tune", recipe, "--quick", "--quiet", "--budget", "10s", "--out", dir, "--set", "netns=" + tester.Path()}, &out, &out); code != exitOK && code != exitInvalid {
		t.Fatalf("exit code %d: %s", code, out.Bytes())
	}
	kept, _, err := result.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, s := range kept.Settings {
		got[s.Knob+" "+s.Target] = s.Before + " " + s.Got
	}
	if got["txqueuelen i0"] != "0 77" || got["txqueuelen i1"] != "0 77" || len(got) != 3 {
		t.Errorf("%v", got)
	}
	if now := queues(); now != before {
		t.Errorf("after the run it is %s, and was %s", now, before)
	}
}
