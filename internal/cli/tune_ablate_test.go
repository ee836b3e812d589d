// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"path/filepath"
	"testing"

	"boxdyno/report"
	"boxdyno/result"
	"boxdyno/tune"
)

// The best subset is kept as a recipe that can be applied; without one there is no file.
func TestBestSubset(t *testing.T) {
	dir := t.TempDir()
	a := &app{out: &bytes.Buffer{}, err: &bytes.Buffer{}}
	for _, d := range []report.Document{{}, {Ablation: &report.Ablation{}}} {
		if err := a.keepBest(&sink{dir: dir}, result.Run{ID: "one"}, d); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tune.FindRecipe(filepath.Join(dir, bestFile)); err == nil {
		t.Fatal("a recipe of nothing was kept")
	}
	best := []result.Ablated{{Knob: "mtu", Target: "wan", Value: "1400"}, {Knob: "sysctl:net.ipv4.tcp_rmem", Target: tune.ForHost, Value: "4096 100000 200000"}}
	if err := a.keepBest(&sink{dir: dir}, result.Run{ID: "one"}, report.Document{Ablation: &report.Ablation{Best: best}}); err != nil {
		t.Fatal(err)
	}
	r, err := tune.FindRecipe(filepath.Join(dir, bestFile))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Steps) != 2 || r.Steps[0].Target != "wan" || r.Steps[1].Value != best[1].Value || r.Steps[1].Knob != best[1].Knob {
		t.Errorf("%+v", r)
	}
}
