// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"boxdyno/host"
)

type crash struct{ step int }

type machine struct {
	values map[string]string
	files  map[string]*simFile // what a process sees
	step   int
	at     int          // crash there; 0: never
	torn   int          // of that write, this many octets come through; -1: all
	writes map[int]bool // steps that write to the disk
	pid    int
	dead   map[int]bool
	boot   string
}

type simFile struct {
	data   []byte
	synced int
	entry  bool // its name is on the disk
}

func newMachine() *machine {
	return &machine{
		values: map[string]string{"a": "1", "b": "2", "c": "3", "even": "4", "fixed": "5", "odd": "7", "queues": "1", "mask": "9", "pair": "8"},
		files:  map[string]*simFile{}, writes: map[int]bool{}, pid: 100, dead: map[int]bool{}, boot: "first",
	}
}

// tick is a point at which the process may die.
func (m *machine) tick() {
	m.step++
	if m.step == m.at {
		panic(crash{m.step})
	}
}

func (m *machine) tuner() *Tuner {
	o := owner{Boot: m.boot, PID: m.pid, Started: uint64(m.pid)}
	return &Tuner{
		dirs: []string{"/state"}, disk: m,
		find: func(name string) (Spec, error) { return m.knob(name), nil },
		world: world{
			self:     func() (owner, error) { return o, nil },
			alive:    func(o owner) bool { return !m.dead[o.PID] },
			identity: func(string) (string, error) { return "cookie:1", nil },
			locate:   func(string, string) (string, error) { return "", nil },
			index:    func(Site) (int, error) { return 1, nil },
			now:      func() time.Time { return time.Unix(0, int64(m.pid)) },
		},
	}
}

func (m *machine) knob(name string) Spec {
	s := Spec{
		Name: name, Scope: PerMachine, Check: func(string) error { return nil },
		Read: func(context.Context, Site) (string, error) {
			v, ok := m.values[name]
			if !ok {
				return "", fmt.Errorf("%w here", host.ErrNotSupported)
			}
			return v, nil
		},
		Write: func(_ context.Context, _ Site, v string) error {
			m.tick()
			defer m.tick()
			switch name {
			case "even":
				n, err := strconv.Atoi(v)
				if err != nil {
					return err
				}
				v = strconv.Itoa(n &^ 1)
			case "fixed":
				return errors.New("the driver refuses it")
			case "odd":
				if v != "7" {
					m.values[name] = "half of " + v
					return errors.New("the driver gave up half-way")
				}
			case "queues":
				m.values["mask"] = "0"
				m.tick()
			case "pair":
				first, _ := eachOf(v, "x-0")
				second, _ := eachOf(m.values[name], "x-1")
				m.values[name] = uniform([]string{"x-0=" + first, "x-1=" + second})
				m.tick()
			}
			m.values[name] = v
			return nil
		},
	}
	if name == "queues" {
		s.Disturbs = func(context.Context, Site) ([]Ref, error) { return []Ref{{Knob: "mask"}, {Knob: "absent"}}, nil }
	}
	return s
}

func (m *machine) List(dir string) (names []string, err error) {
	for n := range m.files {
		names = append(names, n)
	}
	slices.Sort(names)
	return names, nil
}

func (m *machine) Read(name string) ([]byte, error) {
	f, ok := m.files[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return slices.Clone(f.data), nil
}

func (m *machine) Create(name string) (file, error) {
	m.tick()
	f := &simFile{}
	m.files[name] = f
	m.tick()
	f.entry = true
	return &simHandle{m, f}, nil
}

func (m *machine) Append(name string, size int) (file, error) {
	m.tick()
	f := m.files[name]
	f.data = f.data[:size]
	f.synced = min(f.synced, size)
	return &simHandle{m, f}, nil
}

func (m *machine) Remove(name string) error {
	m.tick()
	delete(m.files, name)
	m.tick()
	return nil
}

type simHandle struct {
	m *machine
	f *simFile
}

func (h *simHandle) Write(p []byte) (int, error) {
	h.m.step++
	h.m.writes[h.m.step] = true
	if h.m.step == h.m.at { // dies amid the write
		n := h.m.torn
		if n < 0 || n > len(p) {
			n = len(p)
		}
		h.f.data = append(h.f.data, p[:n]...)
		panic(crash{h.m.step})
	}
	h.f.data = append(h.f.data, p...)
	return len(p), nil
}

func (h *simHandle) Sync() error {
	h.m.tick()
	h.f.synced = len(h.f.data)
	h.m.tick()
	return nil
}

func (h *simHandle) Close() error { return nil }

// lose forgets what was not synced, but for keep octets of it.
func (m *machine) lose(keep int) {
	for name, f := range m.files {
		if !f.entry {
			delete(m.files, name)
			continue
		}
		f.data = f.data[:min(f.synced+keep, len(f.data))]
	}
}

// live runs f until it ends or the process dies, which it reports.
func (m *machine) live(f func()) (died bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(crash); !ok {
				panic(r)
			}
			died = true
			m.dead[m.pid] = true
		}
	}()
	f()
	m.dead[m.pid] = true
	return false
}

func steps(knobs ...string) (r Recipe) {
	r.Name = "test"
	for i, k := range knobs {
		r.Steps = append(r.Steps, Step{Knob: k, Target: ForHost, Value: strconv.Itoa(21 + 2*i)})
	}
	return r
}

var here = On{Host: &host.Local{}}

// all is a life: apply, revert, and the same again.
func (m *machine) all(r Recipe, o Options) {
	t := m.tuner()
	for range 2 {
		a, _, err := t.Apply(context.Background(), r, here, o)
		if err != nil {
			return
		}
		if o.Hold {
			_, _, _ = t.Held(context.Background(), Revert{})
		} else {
			_, _ = a.Revert(context.Background(), Revert{})
		}
	}
}

var simulated = steps("a", "even", "queues", "absent", "fixed", "odd", "b", "c")

// recover is what the next privileged command does; what a held recipe left whole is
// then taken back by hand.
func (m *machine) recover(t *testing.T, o Options) {
	t.Helper()
	tn := m.tuner()
	if _, err := tn.Recover(context.Background(), nil); err != nil {
		t.Errorf("recover: %v", err)
	}
	if o.Hold {
		if _, _, err := tn.Held(context.Background(), Revert{}); err != nil {
			t.Errorf("revert: %v", err)
		}
	}
}

func (m *machine) copy() *machine {
	c := *m
	c.values, c.dead, c.files, c.writes = maps.Clone(m.values), maps.Clone(m.dead), map[string]*simFile{}, map[int]bool{}
	for n, f := range m.files {
		g := *f
		g.data = slices.Clone(f.data)
		c.files[n] = &g
	}
	return &c
}

func (m *machine) texts() (out []string) {
	for n, f := range m.files {
		out = append(out, n+":\n"+string(f.data))
	}
	return out
}
