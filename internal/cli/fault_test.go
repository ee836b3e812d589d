// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxdyno/host"
	"boxdyno/internal/guard"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/runner"
	"boxdyno/tune"
)

type faulty struct{}

func (faulty) Write([]byte) (int, error) { panic("faulty") }

// oneFault says whether a command ended as one with a fault does.
func oneFault(code int, said, value string) bool {
	return code == exitOther && strings.HasPrefix(said, "boxdyno: a fault of this program ended it ("+value+"): ") && strings.Count(said, "\n") == 1
}

// A fault of this program is one sentence and exit code 5.
func TestPanic(t *testing.T) {
	var errw bytes.Buffer
	if code := run(context.Background(), &app{out: faulty{}, err: &errw}, []string{"version"}); !oneFault(code, errw.String(), "faulty") {
		t.Errorf("exit code %d: %s", code, errw.String())
	}
}

// So it is in a goroutine, on a thread in a namespace, and in one that os/exec writes by.
func TestPanicElsewhere(t *testing.T) {
	for name, fault := range map[string]func(context.Context) error{
		"goroutine": func(context.Context) error { guard.Go(func() { panic("planted") }); return nil },
		"thread": func(context.Context) error {
			_, err := netns.Go("", nil, func() error { panic("planted") })
			return err
		},
		"output": func(ctx context.Context) error {
			_, err := (&host.Local{}).Start(ctx, host.Cmd{Argv: []string{"echo", "hello"}, Stdout: planted{}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := scripted(func(ctx context.Context, _ *procedure.Env) (procedure.Outcome, error) {
				if err := fault(ctx); err != nil {
					return procedure.Outcome{}, err
				}
				select {
				case <-ctx.Done():
				case <-time.After(time.Minute):
					t.Error("it goes on")
				}
				return procedure.Outcome{}, ctx.Err()
			})
			code, _, errw := call(t.Context(), c, "--quiet", "run", "probe", "--out", filepath.Join(t.TempDir(), "run"))
			if !oneFault(code, errw, "planted") {
				t.Errorf("exit code %d: %s", code, errw)
			}
		})
	}
}

type planted struct{}

func (planted) Write([]byte) (int, error) { panic("planted") }

// A command that does not end after a fault is ended.
func TestPanicThatHangs(t *testing.T) {
	ended := make(chan int, 1)
	was := faultPatience
	faultPatience, exit = time.Millisecond, func(code int) { ended <- code }
	defer func() { faultPatience, exit = was, os.Exit }()
	c := scripted(func(context.Context, *procedure.Env) (procedure.Outcome, error) {
		guard.Go(func() { panic("planted") })
		select {
		case code := <-ended:
			if code != exitOther {
				t.Errorf("exit code %d", code)
			}
		case <-time.After(time.Minute):
			t.Error("it goes on")
		}
		return procedure.Outcome{}, nil
	})
	call(t.Context(), c, "--quiet", "run", "probe", "--out", filepath.Join(t.TempDir(), "run"))
}

// A fault in a goroutine leaves no setting changed.
func TestPanicPutsBack(t *testing.T) {
	path := testutil.Cable{A: "lan", B: "wan"}.Make(t)
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	mtu := func() int { return testutil.MTU(t, path, "wan") }
	recipe := filepath.Join(t.TempDir(), "r.yaml")
	if err := os.WriteFile(recipe, []byte("name: r\nsteps: [{knob: mtu, value: 1400}]"), 0o644); err != nil {
		t.Fatal(err)
	}
	during := 0
	c := runner.Catalogue{
		Procedures: scripted(func(ctx context.Context, _ *procedure.Env) (procedure.Outcome, error) {
			during = mtu()
			guard.Go(func() { panic("planted") })
			<-ctx.Done()
			return procedure.Outcome{}, ctx.Err()
		}).Procedures,
		Labs: []lab.Spec{{Name: "sandbox", Doc: "a test", Offers: lab.Tunable, New: func() lab.Topology { return cabled(path) }}},
	}
	code, _, errw := call(t.Context(), c, "--quiet", "run", "probe", "--tune", recipe, "--out", filepath.Join(t.TempDir(), "run"))
	if !oneFault(code, errw, "planted") || during != 1400 || mtu() != 1500 {
		t.Errorf("exit code %d, MTU %d and then %d: %s", code, during, mtu(), errw)
	}
	if left, err := filepath.Glob(filepath.Join(state, "boxdyno", "tune", "*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// cabled is a testbed whose DUT is a namespace with ports lan and wan.
type cabled string

func (cabled) Flags(*flag.FlagSet) {}
func (c cabled) Sketch() (lab.Facts, error) {
	return lab.Facts{Topology: "sandbox", Kind: "memory", DUTPorts: []string{"lan", "wan"}, Ports: make([]lab.Port, 2)}, nil
}

func (c cabled) Build(context.Context) (*lab.Testbed, error) {
	facts, err := c.Sketch()
	dut := &host.Local{Label: "dut", Netns: string(c)}
	return &lab.Testbed{Facts: facts, DUT: dut, Means: lab.TuneLocal(tune.On{Host: dut, Ports: facts.DUTPorts})}, err
}
