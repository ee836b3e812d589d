// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"path/filepath"
	"runtime"
	"testing"

	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
	"boxdyno/result"
)

// oneCable is a tester's namespace and a box at its port e0 that is reached by a real
// sshd, added under the name box.
func oneCable(t *testing.T) (tester, box *netns.Namespace) {
	t.Helper()
	tester, box = stranger(t)
	know, _ := sshBox(t, box.Path())
	know()
	var out bytes.Buffer
	if code := Main(t.Context(), []string{"box", "add", "box", "--ssh", "testbox", "--agent", builtAgent(t, runtime.GOARCH), "--cable", "e0=i0"}, &out, &out); code != exitOK {
		t.Fatalf("exit code %d: %s", code, out.Bytes())
	}
	return tester, box
}

// runBox runs a procedure on the box and returns its records. A machine
// that holds the tester up makes trials invalid.
func runBox(t *testing.T, tester *netns.Namespace, words ...string) []result.Record {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	args := append([]string{"run"}, words...)
	args = append(args, "--box", "box", "--quick", "--quiet", "--out", dir, "--set", "netns="+tester.Path())
	var out bytes.Buffer
	if code := Main(t.Context(), args, &out, &out); code != exitOK && code != exitInvalid {
		t.Fatalf("%q: exit code %d: %s", words, code, out.Bytes())
	}
	_, recs, err := result.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return recs
}

// A capture on a box at one cable counts every frame, and the box's counters are in the
// same books.
func TestBoxCaptures(t *testing.T) {
	testutil.Alone(t)
	tester, _ := oneCable(t)
	points := 0
	for _, r := range runBox(t, tester, "capture", "--set", "subject=af_packet", "--set", "rate=2k", "--set", "duration=500ms") {
		a := r.Account
		if a == nil || r.Procedure != "capture" {
			continue
		}
		if a.Accepted == 0 || a.Received != a.Accepted || a.Unexplained != 0 || len(a.Drops) != 0 || r.Status == result.Failed {
			t.Errorf("%s: %s %s: %+v", r.ID, r.Status, r.Reason, a)
		}
		if r.Parent == "" {
			points++
			for _, name := range []string{"subject_cpu_s", "subject_memory_bytes", "subject_processes", "startup_s", "first_frame_s"} {
				if v := r.Value(name); v == nil || v.Value <= 0 {
					t.Errorf("%s: %+v", name, v)
				}
			}
		}
	}
	if points != 1 {
		t.Errorf("%d points", points)
	}
}
