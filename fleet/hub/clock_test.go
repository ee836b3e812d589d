// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"path/filepath"
	"testing"
	"time"

	"boxdyno/fleet"
)

// The hub's wall clock steps back, and its machine is started anew with a clock that is
// wrong: its orders expire by another clock, and boards that stayed obey them.
func TestClockSteps(t *testing.T) {
	w := &world{folder: filepath.Join(t.TempDir(), "hub")}
	w.o = Options{Folder: w.folder, Note: w.note}
	w.o.URL, w.o.CA, _ = externalServer(t, w.folder)
	now := time.Now()
	var last int64
	for i, c := range []struct {
		wall time.Duration
		boot string
	}{{100 * time.Hour, "first"}, {0, "first"}, {-1e5 * time.Hour, "second"}} {
		w.o.wall, w.o.boot = func() time.Time { return now.Add(c.wall) }, c.boot
		w.start(t)
		var err error
		if w.fleet, err = Open(w.folder); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			w.board(t, "pi", t.TempDir())
		}
		if said := w.fleet.clock.now(); said <= last || w.fleet.clock.Ahead != w.Hub.clock.Ahead {
			t.Errorf("%+v: the clock says %d after %d", c, said, last)
		}
		w.entry(t, "pi", "ready", "busy")
		begin := time.Now()
		w.dial(t, "pi").Close()
		took := time.Since(begin) // a board that obeys no order is dialled again, and given up after Silence
		if e := w.entry(t, "pi", "ready", "busy"); e.Refused != 0 || took > fleet.Silence {
			t.Errorf("%+v: %d orders were refused, and a session began after %v: %s", c, e.Refused, took, e.Why)
		}
		last = w.fleet.clock.now()
		w.fleet.Close()
		w.Close()
	}
}
