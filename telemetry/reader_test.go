// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"boxdyno/result"
)

// A counting collector tells how often it was read, and fails when it is told to.
type counting struct {
	n    float64
	fail bool
	shut bool
}

func (c *counting) Series() []result.Series { return []result.Series{{Name: "reads", Unit: "1"}} }
func (c *counting) Close() error            { c.shut = true; return nil }
func (c *counting) Read(dst []float64) error {
	c.n++
	if dst[0] = c.n; c.fail {
		return errors.New("broken")
	}
	return nil
}

// A Reader reads when it is asked to: slow collectors in their turn, a broken one as absent.
func TestReader(t *testing.T) {
	fast, slow, broken := &counting{}, &counting{}, &counting{fail: true}
	spec := func(name string, every int, c Collector) Spec {
		return Spec{Name: name, Every: every, Default: true, New: func(context.Context, *Machine) (Collector, error) { return c, nil }}
	}
	none := Spec{Name: "none", Default: true, New: func(context.Context, *Machine) (Collector, error) { return nil, ErrAbsent }}
	var said []string
	r, err := NewReader(t.Context(), &Machine{}, Options{Specs: []Spec{spec("fast", 0, fast), none, spec("slow", 600, slow), spec("broken", 0, broken)}, Warn: func(s string) { said = append(said, s) }})
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]float64, len(r.Series()))
	for range 3 {
		if err := r.Read(dst); err != nil {
			t.Fatal(err)
		}
	}
	if len(dst) != 3 || dst[0] != 3 || dst[1] != 1 || !math.IsNaN(dst[2]) || broken.n != 1 {
		t.Errorf("%v, the broken one was read %v times", dst, broken.n)
	}
	if len(said) != 1 || !slices.Equal(r.Absent(), []string{"none: nothing to read"}) {
		t.Errorf("%q, %q", said, r.Absent())
	}
	if err := r.Close(); err != nil || !fast.shut || !slow.shut || !broken.shut {
		t.Errorf("%v, %+v %+v %+v", err, fast, slow, broken)
	}
	if r.Read(dst) == nil {
		t.Error("it is read after its end")
	}
}

// Series of this machine are told from those of another; what the user gave is either's.
func TestSamplerOfTwoMachines(t *testing.T) {
	spec := func(name, machine string) Spec {
		list := []result.Series{{Name: "watts", Unit: "W", Labels: []result.Pair{{Key: "covers", Value: name}}}}
		if machine != "" {
			list = Label(list, machine)
		}
		return Spec{Name: name, Default: true, New: func(context.Context, *Machine) (Collector, error) { return constant(list), nil }}
	}
	s, err := Start(t.Context(), &Machine{}, Options{Specs: []Spec{spec("hwmon", ""), spec("plug", "")}, Beside: []Spec{spec("box", result.MachineDUT)}, Of: result.MachineTester})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range s.Series()[:3] {
		got = append(got, result.Get(x.Labels, "covers")+" "+result.Get(x.Labels, result.MachineLabel))
	}
	if want := []string{"hwmon tester", "plug ", "box dut"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if s.Meters() != 2 {
		t.Errorf("%d meters, want those of plug and box", s.Meters())
	}
	if _, err := s.Close(); err != nil {
		t.Error(err)
	}
}

type constant []result.Series

func (c constant) Series() []result.Series  { return c }
func (c constant) Read(dst []float64) error { clear(dst); return nil }
