// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"path/filepath"
	"testing"

	"boxdyno/result"
)

// A detector without frames runs on a box, on the box's CPUs, without a cable.
func TestBoxInfersWithoutFrames(t *testing.T) {
	_, box := stranger(t)
	addBox(t, box)
	dir := filepath.Join(t.TempDir(), "run")
	var out bytes.Buffer
	if code := Main(t.Context(), []string{"run", "infer", "--box", "box", "--quick", "--quiet", "--set", "duration=100ms", "--out", dir}, &out, &out); code != exitOK {
		t.Fatalf("exit code %d: %s", code, out.Bytes())
	}
	run, recs, err := result.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	points := 0
	for _, r := range recs {
		if r.Parent != "" || r.Procedure != "infer" {
			continue
		}
		points++
		for _, name := range []string{"windows_per_s", "model_s", "subject_memory_bytes"} {
			if v := r.Value(name); v == nil || v.Value <= 0 {
				t.Errorf("%s %s: %s: %+v", r.Status, r.Reason, name, v)
			}
		}
	}
	if points != 1 || run.Topology != "there" {
		t.Errorf("%d points in topology %s", points, run.Topology)
	}
}
