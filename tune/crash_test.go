// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"boxdyno/internal/testutil"
)

// A simulated machine: knobs that are numbers, and a disk, which crash at the step
// that is asked for.
//
// "even" is rounded down by its driver, "fixed" refuses, "absent" is not there, "odd"
// takes half of what it is asked and then fails; "queues" resets "mask" on the side,
// as channels do with rps; "pair" is set one after the other.

// A process that dies at any step of apply and revert, with the last write torn
// anywhere, leaves a machine that Recover puts back byte for byte; so does one whose
// disk lost what was not synced, and one whose Recover dies at any step, too.
func TestEveryCrash(t *testing.T) {
	testutil.Computed(t)
	for _, o := range []Options{{}, {Hold: true}, {Strict: true}} {
		r := simulated
		if o.Strict {
			r = steps("a", "even", "b") // even rounds: all is put back
		}
		whole := newMachine()
		want := maps.Clone(whole.values)
		whole.live(func() { whole.all(r, o) })
		if !maps.Equal(whole.values, want) || len(whole.files) > 0 {
			t.Fatalf("%+v: without a crash %v is left, and files %v", o, whole.values, whole.files)
		}
		if whole.step < 20 {
			t.Fatalf("%+v: only %d steps", o, whole.step)
		}
		crashes := 0
		for at := 1; at <= whole.step; at++ {
			for _, torn := range []int{0, 1, 10, 60, -1} {
				if torn > 0 && !whole.writes[at] {
					continue
				}
				for _, lost := range []int{-1, 0, 7} { // -1: nothing
					first := newMachine()
					first.at, first.torn = at, torn
					if !first.live(func() { first.all(r, o) }) {
						t.Fatalf("%+v: no crash at step %d", o, at)
					}
					if lost >= 0 {
						first.lose(lost)
					}
					for again := 0; ; again++ { // Recover dies at each of its steps, and then does not
						m := first.copy()
						m.step, m.at, m.torn, m.pid = 0, again, torn, 101
						died := m.live(func() { m.recover(t, o) })
						if again > 0 && died {
							crashes++
							m.step, m.at, m.pid = 0, 0, 102
							m.live(func() { m.recover(t, o) })
						}
						if !maps.Equal(m.values, want) || len(m.files) > 0 {
							t.Fatalf("%+v: crash at step %d (torn at %d, lost %d), of Recover at %d: %v instead of %v, files %v", o, at, torn, lost, again, m.values, want, m.texts())
						}
						if again > 0 && !died {
							break
						}
					}
				}
			}
		}
		t.Logf("%+v: %d steps of a life, %d crashes of Recover after one", o, whole.step, crashes)
	}
}

// The same for random recipes, at random steps, with a second life in between that
// applies something else on top of what the first one's Recover put back.
func TestRandomCrashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		knobs := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "even", "fixed", "odd", "queues", "absent", "mask", "pair"}), 1, 6, rapid.ID).Draw(t, "knobs")
		m := newMachine()
		want := maps.Clone(m.values)
		for life := range rapid.IntRange(1, 4).Draw(t, "lives") {
			m.pid = 100 + life
			m.step, m.at = 0, rapid.IntRange(1, 120).Draw(t, "crash")
			m.torn = rapid.IntRange(-1, 80).Draw(t, "torn")
			m.live(func() {
				if _, err := m.tuner().Recover(context.Background(), nil); err != nil {
					t.Fatal(err)
				}
				m.all(steps(knobs...), Options{})
			})
		}
		m.pid, m.at = 200, 0
		if _, err := m.tuner().Recover(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(m.values, want) || len(m.files) > 0 {
			t.Fatalf("%v instead of %v; %v", m.values, want, m.texts())
		}
	})
}

// A machine that was started anew has lost its settings: nothing is written.
func TestReboot(t *testing.T) {
	for _, o := range []Options{{}, {Hold: true}} {
		m := newMachine()
		m.at, m.torn = 12, -1
		if o.Hold {
			m.at = 0
		}
		m.live(func() { _, _, _ = m.tuner().Apply(t.Context(), steps("a", "b"), here, o) })
		if m.values["a"] != "21" {
			t.Fatal("nothing was applied: ", m.values)
		}
		m.values = newMachine().values
		m.values["a"] = "set at start"
		m.boot, m.pid, m.at = "second", 100, 0
		notes, err := m.tuner().Recover(t.Context(), nil)
		if err != nil || !strings.Contains(strings.Join(notes, " "), "started anew") {
			t.Errorf("%+v: %v, %v", o, notes, err)
		}
		if m.values["a"] != "set at start" || len(m.files) > 0 {
			t.Errorf("%+v: %v, files %v", o, m.values, m.texts())
		}
	}
}

// Journals of a living process, and what was applied by hand, stay.
func TestLivingAndHeldStay(t *testing.T) {
	m := newMachine()
	a, _, err := m.tuner().Apply(t.Context(), steps("a"), here, Options{})
	if err != nil {
		t.Fatal(err)
	}
	m.pid = 101
	if notes, err := m.tuner().Recover(t.Context(), func(context.Context) (func(), error) { t.Error("waited for others"); return func() {}, nil }); err != nil || notes != nil || m.values["a"] != "21" {
		t.Error(notes, err, m.values)
	}
	if _, err := a.Revert(t.Context(), Revert{}); err != nil || m.values["a"] != "1" {
		t.Error(err, m.values)
	}
	m.live(func() { _, _, err = m.tuner().Apply(t.Context(), steps("b"), here, Options{Hold: true}) })
	if err != nil {
		t.Fatal(err)
	}
	m.pid = 102
	if notes, err := m.tuner().Recover(t.Context(), nil); err != nil || notes != nil || m.values["b"] != "21" {
		t.Error(notes, err, m.values)
	}
	if _, _, err := m.tuner().Apply(t.Context(), steps("c"), here, Options{Hold: true}); err == nil || !strings.Contains(err.Error(), "boxdyno tune revert") {
		t.Error("a second recipe by hand: ", err)
	}
	if n, notes, err := m.tuner().Held(t.Context(), Revert{}); n != 1 || err != nil || m.values["b"] != "2" || len(m.files) > 0 {
		t.Error(n, notes, err, m.values)
	}
}

// What somebody else set meanwhile stays, and is said, until --force or --keep.
func TestChangedMeanwhile(t *testing.T) {
	for _, how := range []Revert{{Force: true}, {Keep: true}} {
		m := newMachine()
		a, _, err := m.tuner().Apply(t.Context(), steps("a", "b", "c"), here, Options{})
		if err != nil {
			t.Fatal(err)
		}
		m.values["b"] = "theirs"
		if _, err := a.Revert(t.Context(), Revert{}); !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "theirs") {
			t.Error("not said: ", err)
		}
		if want := map[string]string{"a": "1", "b": "theirs", "c": "3"}; m.values["a"] != want["a"] || m.values["b"] != want["b"] || m.values["c"] != want["c"] {
			t.Errorf("%v instead of %v", m.values, want)
		}
		m.dead[100], m.pid = true, 101
		if _, err := m.tuner().Recover(t.Context(), nil); !errors.Is(err, ErrChanged) || m.values["b"] != "theirs" {
			t.Error(err, m.values)
		}
		s, _, err := m.tuner().Status(t.Context())
		if err != nil || len(s) != 1 || s[0].Problem == "" || s[0].Now != "theirs" || s[0].Before != "2" || s[0].State != "left" {
			t.Errorf("%+v, %v", s, err)
		}
		n, notes, err := m.tuner().Held(t.Context(), how)
		want := map[bool]string{true: "2", false: "theirs"}[how.Force]
		if n != 1 || err != nil || len(notes) != 1 || m.values["b"] != want || len(m.files) > 0 {
			t.Errorf("%+v: %d, %v, %v, %v, %v", how, n, notes, err, m.values, m.texts())
		}
	}
}

// What a machine lacks, refuses or rounds is named, and the rest goes on; with strict
// nothing stands.
func TestProblems(t *testing.T) {
	m := newMachine()
	a, settings, err := m.tuner().Apply(t.Context(), simulated, here, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][2]string{
		"a": {"21", ""}, "even": {"22", "the driver made 22 of 23"}, "queues": {"25", ""}, "absent": {"", "not supported here"}, "fixed": {"5", "the driver refuses it"},
		"odd": {"half of 31", "it is half of 31 now, and was not set as asked: the driver gave up half-way"}, "b": {"33", ""}, "c": {"35", ""},
	}
	for _, s := range settings {
		if w := want[s.Knob]; s.Got != w[0] || s.Problem != w[1] || s.Target != "host" {
			t.Errorf("%+v, want %v", s, w)
		}
	}
	if len(settings) != len(want) {
		t.Errorf("%d settings of %d", len(settings), len(want))
	}
	if _, err := a.Revert(t.Context(), Revert{}); err != nil {
		t.Error(err)
	}
	for _, r := range []Recipe{steps("a", "even"), steps("a", "fixed"), steps("a", "odd"), steps("a", "absent")} {
		_, _, err := m.tuner().Apply(t.Context(), r, here, Options{Strict: true})
		var strict *StrictError
		if !errors.As(err, &strict) || !strings.Contains(err.Error(), r.Steps[1].Knob) {
			t.Errorf("%v: %v", r.Steps, err)
		}
		if !maps.Equal(m.values, newMachine().values) || len(m.files) > 0 {
			t.Errorf("%v: %v stands, files %v", r.Steps, m.values, m.texts())
		}
	}
}

// A recipe that is interrupted is put back.
func TestInterrupted(t *testing.T) {
	m := newMachine()
	ctx, stop := context.WithCancel(t.Context())
	tn := m.tuner()
	tn.find = func(name string) (Spec, error) {
		s := m.knob(name)
		write := s.Write
		s.Write = func(c context.Context, at Site, v string) error {
			if name == "b" {
				stop()
			}
			return write(c, at, v)
		}
		return s, nil
	}
	if _, _, err := tn.Apply(ctx, steps("a", "b", "c"), here, Options{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if !maps.Equal(m.values, newMachine().values) || len(m.files) > 0 {
		t.Errorf("%v, files %v", m.values, m.texts())
	}
}

// A line in the middle that cannot be read is said; what the others say is put back.
func TestDamagedJournal(t *testing.T) {
	m := newMachine()
	m.live(func() { _, _, _ = m.tuner().Apply(t.Context(), steps("a", "b"), here, Options{}) })
	for name, f := range m.files {
		lines := strings.SplitAfter(string(f.data), "\n")
		lines[2] = "{garbage\n" // what a then read
		f.data = []byte(strings.Join(lines, ""))
		m.pid = 101
		_, err := m.tuner().Recover(t.Context(), nil)
		if err == nil || !strings.Contains(err.Error(), name+":3 cannot be read") {
			t.Error(err)
		}
	}
	if !maps.Equal(m.values, newMachine().values) || len(m.files) != 1 {
		t.Errorf("%v, %d files", m.values, len(m.files))
	}
	if _, _, err := m.tuner().Held(t.Context(), Revert{Keep: true}); err == nil || len(m.files) != 0 {
		t.Errorf("%v, %d files", err, len(m.files))
	}
}
