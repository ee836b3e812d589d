// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/result"
	"boxdyno/tune"
)

// A recipe acts on the DUT's ports, stands in the header with what the DUT lacks, goes
// on in a resumed run, and is taken back.
func TestTuned(t *testing.T) {
	path := testutil.Cable{A: "lan", B: "wan"}.Make(t)
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	mtu := func() int { return testutil.MTU(t, path, "wan") }
	dut := &host.Local{Label: "dut", Netns: path}
	bed := &lab.Testbed{Means: lab.TuneLocal(tune.On{Host: dut, Ports: []string{"lan", "wan"}})}
	recipe, err := tune.Parse("r.yaml", []byte("name: r\nsteps: [{knob: mtu, value: 1400}, {knob: rings, value: rx=512}]"))
	if err != nil {
		t.Fatal(err)
	}
	x := &execution{bed: bed, o: Options{Tune: &recipe, Notify: func(Event) {}}, run: result.Run{ID: "one"}}
	if err := x.tune(t.Context()); err != nil {
		t.Fatal(err)
	}
	run := x.run
	if mtu() != 1400 || len(run.Settings) != 4 || len(x.tuned) != 4 || len(run.Warnings) != 2 || !strings.Contains(run.Warnings[0], "rings of lan is not as asked") {
		t.Errorf("MTU %d, %+v, %v", mtu(), run.Settings, run.Warnings)
	}
	if err := x.takeDown(); err != nil || mtu() != 1500 {
		t.Error(err, mtu())
	}
	x = &execution{bed: bed, o: Options{Resume: true, Notify: func(Event) {}}, run: run}
	if err := x.tune(t.Context()); err != nil || mtu() != 1400 {
		t.Fatal(err, mtu())
	}
	if err := x.takeDown(); err != nil || mtu() != 1500 {
		t.Error(err, mtu())
	}
	if left, _ := filepath.Glob(filepath.Join(state, "boxdyno", "tune", "*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	x.bed = &lab.Testbed{}
	if err := x.tune(t.Context()); !errors.As(err, new(*host.Missing)) {
		t.Errorf("a black box is tuned: %v", err)
	}
}

func TestTakeDown(t *testing.T) {
	x := &execution{}
	var order []string
	for _, name := range []string{"testbed", "recipe", "telemetry"} {
		x.later(func() error { order = append(order, name); return errors.New(name) })
	}
	err := x.takeDown()
	if want := "telemetry recipe testbed"; strings.Join(order, " ") != want || strings.ReplaceAll(err.Error(), "\n", " ") != want {
		t.Errorf("taken down in the order %v, %v", order, err)
	}
}
