// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"boxdyno/fleet"
	"boxdyno/internal/fleetsim"
	"boxdyno/internal/testutil"
	"boxdyno/link"
	"boxdyno/procedure"
	"boxdyno/procedure/many"
	"boxdyno/result"
)

// A fleetShelf is boards of a fleet by name, dialled anew where a session has ended.
type fleetShelf struct {
	w     *world
	names []string
	mu    sync.Mutex
	conns map[string]*link.Conn
}

func (s *fleetShelf) Names() []string                    { return s.names }
func (s *fleetShelf) Heat(c *link.Conn) (float64, int64) { return 0, 0 }
func (s *fleetShelf) Dial(ctx context.Context, name string) (*link.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.conns[name]; c != nil && c.Err() == nil {
		return c, nil
	}
	all, _, err := s.w.fleet.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		if e.Name == name {
			c, err := s.w.fleet.Dial(ctx, e)
			s.conns[name] = c
			return c, err
		}
	}
	return nil, fmt.Errorf("no board %s", name)
}

// run carries out a point of all boards: naps of a second each. at is called before each
// trial, from 1.
func (s *fleetShelf) run(t *testing.T, at func(trial int)) (o procedure.Outcome, recs []result.Record) {
	t.Helper()
	p := many.Spec((&fleetsim.Board{}).Spec(), s).New()
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	p.Flags(fs)
	for key, v := range map[string]string{"nodes": fmt.Sprint(len(s.names)), "rounds": "4", "lasts": "1s", "most_skew": "1", "hot": "0"} {
		if err := fs.Set(key, v); err != nil {
			t.Fatal(err)
		}
	}
	env := &procedure.Env{Seed: 1, Repeat: 1}
	env.Trial = func(ctx context.Context, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		at(len(recs) + 1)
		o, err := f(ctx)
		rec := result.Record{Config: cfg, Status: o.Status, Reason: o.Reason, Values: o.Values, Boards: o.Boards}
		recs = append(recs, rec)
		return rec, err
	}
	o, err := p.Run(t.Context(), env)
	if err != nil {
		t.Fatal(err)
	}
	return o, recs
}

// sim runs a board that naps. It joins unless it did before in folder.
func (w *world) sim(t *testing.T, name, url, folder string, clock time.Duration) (stop func()) {
	t.Helper()
	id, err := fleet.Load(folder)
	if err != nil {
		id, err = fleet.Join(t.Context(), folder, url, w.token(t, TokenArgs{}), name, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	sim := &fleetsim.Board{Speed: 1, Clock: clock}
	b := &fleet.Board{Identity: id, Version: "v1", Note: w.note, Now: sim.Now}
	b.Open = func(ctx context.Context) (func(string) link.Handler, func() error) {
		return sim.Open(ctx, folder, "v1")
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(stop)
	return stop
}

// The hub dies amid a run and comes back: the run goes on, and no trial is lost or counted
// twice. A board behind a cable that is cut makes the point invalid by its name; healed, it
// serves again. One that begins anew with another clock does, too.
func TestFaults(t *testing.T) {
	testutil.Long(t)
	testutil.Alone(t)
	w := &world{folder: filepath.Join(t.TempDir(), "hub")}
	w.o = Options{Folder: w.folder, Listen: "127.0.0.1:0", Note: w.note}
	w.start(t)
	t.Cleanup(func() { w.Close() })
	var err error
	if w.fleet, err = Open(w.folder); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.fleet.Close() })
	s := &fleetShelf{w: w, conns: map[string]*link.Conn{}}
	way, err := fleetsim.NewCable(strings.TrimPrefix(w.URL, "tls://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(way.Close)
	var stopLast func()
	folder := t.TempDir()
	for i := range 4 {
		name, url, own := fmt.Sprintf("b%d", i+1), w.URL, t.TempDir()
		if i == 2 {
			url = "tls://" + way.Addr()
		}
		if i == 3 {
			own = folder
		}
		stopLast = w.sim(t, name, url, own, time.Duration(i)*time.Hour)
		s.names = append(s.names, name)
	}
	ready := func() {
		t.Helper()
		for _, n := range s.names {
			w.entry(t, n, "ready", "busy")
		}
	}
	ready()

	o, recs := s.run(t, func(trial int) {
		if trial == 2 {
			go func() {
				time.Sleep(300 * time.Millisecond)
				w.Close()
				time.Sleep(time.Second)
				w.start(t)
			}()
		}
	})
	if o.Status != result.Passed || len(recs) != 4 {
		t.Fatalf("the hub was killed: %s %s, %d trials", o.Status, o.Reason, len(recs))
	}
	ready()
	begun := time.Now()
	o, recs = s.run(t, func(trial int) {
		if trial == 2 {
			way.Cut(true, true)
		}
	})
	if o.Status != result.Invalid || !strings.Contains(o.Reason, "b3") || strings.Contains(o.Reason, "b1") || len(recs) != 2 || recs[0].Status != result.Passed {
		t.Errorf("a cable was cut: %s %s, %d trials", o.Status, o.Reason, len(recs))
	}
	time.Sleep(time.Until(begun.Add(10 * time.Second)))
	w.entry(t, "b3", "silent")
	way.Cut(false, false)
	ready()
	if o, _ = s.run(t, func(int) {}); o.Status != result.Passed {
		t.Errorf("the cable is whole again: %s %s", o.Status, o.Reason)
	}
	o, _ = s.run(t, func(trial int) {
		if trial == 3 {
			stopLast()
			w.sim(t, "b4", w.URL, folder, 99*time.Hour)
		}
	})
	if o.Status != result.Invalid || !strings.Contains(o.Reason, "board b4") {
		t.Errorf("a board was started anew: %s %s", o.Status, o.Reason)
	}
	ready()
	if o, _ = s.run(t, func(int) {}); o.Status != result.Passed {
		t.Errorf("it has another clock: %s %s", o.Status, o.Reason)
	}
}
