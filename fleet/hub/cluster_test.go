// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"boxdyno/internal/testutil"
	"boxdyno/link"
	"boxdyno/result"
)

// clustered is a hub with three NATS servers of one's own, which are one cluster.
func clustered(t *testing.T) (w *world, kill []func()) {
	t.Helper()
	var at []string
	for range 3 { // routes are known before servers begin
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		at = append(at, l.Addr().String())
		_ = l.Close() // the server's from now on
	}
	w = &world{folder: filepath.Join(t.TempDir(), "hub")}
	w.o = Options{Folder: w.folder, Note: w.note}
	var urls []string
	urls, w.o.CA, kill = externalServers(t, w.folder, at...)
	w.o.URL = strings.Join(urls, ",")
	w.start(t)
	t.Cleanup(func() { w.Close() })
	var err error
	if w.fleet, err = Open(w.folder); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.fleet.Close() })
	return w, kill
}

// A NATS server of three is killed in a trial: boards, hub and run go on by the others, and
// every trial counts once.
func TestNodeKilled(t *testing.T) {
	testutil.Long(t)
	testutil.Alone(t)
	w, kill := clustered(t)
	s := &fleetShelf{w: w, conns: map[string]*link.Conn{}}
	for i := range 6 {
		s.names = append(s.names, fmt.Sprintf("b%d", i+1))
		w.sim(t, s.names[i], w.URL, t.TempDir(), time.Duration(i)*time.Hour)
	}
	for _, n := range s.names {
		w.entry(t, n, "ready")
	}
	w.mu.Lock()
	at := map[string]bool{}
	for _, p := range w.live {
		at[p.at.server] = true
	}
	w.mu.Unlock()
	t.Logf("boards are at %d servers", len(at))
	o, recs := s.run(t, func(trial int) {
		if trial == 2 {
			time.AfterFunc(300*time.Millisecond, kill[0])
		}
	})
	if o.Status != result.Passed || len(recs) != 4 {
		t.Fatalf("%s %s, %d trials", o.Status, o.Reason, len(recs))
	}
	for i, r := range recs {
		if len(r.Boards) != len(s.names) || r.Status != result.Passed {
			t.Errorf("trial %d: %s, %d boards", i+1, r.Status, len(r.Boards))
		}
	}
	for _, n := range s.names {
		w.entry(t, n, "ready", "busy")
	}
	// A board is revoked, wherever it is connected.
	if err := w.fleet.Revoke(t.Context(), "b1"); err != nil {
		t.Fatal(err)
	}
	w.entry(t, "b1", "revoked")
	w.noted(t, "was refused: it was revoked")
}

// A call that the board's connection loses, and an answer that its owner's does, are said
// again: each is heard once.
func TestLost(t *testing.T) {
	testutil.Long(t)
	w := &world{folder: filepath.Join(t.TempDir(), "hub")}
	w.o = Options{Folder: w.folder, Listen: "127.0.0.1:0", Note: w.note}
	w.start(t)
	t.Cleanup(func() { w.Close() })
	var err error
	if w.fleet, err = Open(w.folder); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.fleet.Close() })
	w.board(t, "pi", t.TempDir())
	c := w.dial(t, "pi")
	for _, what := range []struct {
		name string
		lose func()
	}{
		{"a call", func() {
			w.Hub.mu.Lock()
			var at connection
			for _, p := range w.live {
				at = p.at
			}
			w.Hub.mu.Unlock()
			if err := kick(w.sys, at); err != nil {
				t.Error(err)
			}
		}},
		{"an answer", func() {
			if err := w.fleet.nc.ForceReconnect(); err != nil {
				t.Error(err)
			}
		}},
	} {
		before := w.ran.Load()
		begin := time.Now()
		what.lose()
		for range 5 {
			if err := c.Call(t.Context(), "identify", nil, nil); err != nil {
				t.Fatalf("%s was lost: %v", what.name, err)
			}
		}
		if n := w.ran.Load() - before; n != 5 {
			t.Errorf("%s was lost: %d of 5 calls were carried out", what.name, n)
		}
		t.Logf("%s was lost: %v", what.name, time.Since(begin))
	}
}
