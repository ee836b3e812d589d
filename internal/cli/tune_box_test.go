// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/result"
)

// boxRecipe is a file with a recipe of a knob of each port and one of the machine.
func boxRecipe(t *testing.T) string {
	t.Helper()
	recipe := filepath.Join(t.TempDir(), "mine.yaml")
	if err := os.WriteFile(recipe, []byte(`name: mine
steps:
  - {knob: txqueuelen, value: "77"}
  - {knob: "sysctl:net.ipv4.ip_default_ttl", value: "63"}
`), 0o644); err != nil {
		t.Fatal(err)
	}
	return recipe
}

// boxSettings are those that boxRecipe changes.
func boxSettings(t *testing.T, box *netns.Namespace) string {
	t.Helper()
	out, err := (&host.Local{Netns: box.Path()}).Run(t.Context(), "ip -o link show i0; ip -o link show i1; cat /proc/sys/net/ipv4/ip_default_ttl", "sh", "-eu")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// boxWasTuned wants boxRecipe's settings in the header of a run.
func boxWasTuned(t *testing.T, run result.Run) {
	t.Helper()
	got := map[string]string{}
	for _, s := range run.Settings {
		got[s.Knob+" "+s.Target] = s.Before + " " + s.Got
	}
	if got["txqueuelen i0"] != "0 77" || got["txqueuelen i1"] != "0 77" || len(got) != 3 {
		t.Errorf("%v", got)
	}
}

// A box is tuned by hand, by real ssh, and is as it was afterwards.
func TestTuneBox(t *testing.T) {
	_, box := stranger(t)
	queues := func() string { return boxSettings(t, box) }
	recipe := boxRecipe(t)
	run := func(want int, args ...string) string {
		t.Helper()
		var out, errw bytes.Buffer
		if code := Main(t.Context(), args, &out, &errw); code != want {
			t.Fatalf("%s: exit code %d, want %d: %s%s", args, code, want, out.Bytes(), errw.Bytes())
		}
		return out.String() + errw.String()
	}
	addBox(t, box, "e0=i0", "e1=i1")
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
}
