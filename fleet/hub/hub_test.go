// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"boxdyno/fleet"
	"boxdyno/link"
)

// A world is a hub, its boards, and what was noted.
type world struct {
	*Hub
	folder  string
	o       Options
	fleet   *Fleet
	ran     atomic.Int64 // commands that boards carried out
	waiting atomic.Int64 // of them, those that wait

	mu    sync.Mutex
	notes []string
}

func (w *world) note(s string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, s)
}

// noted waits for a note that holds part.
func (w *world) noted(t *testing.T, part string) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(5 * time.Millisecond) {
		w.mu.Lock()
		found := slices.ContainsFunc(w.notes, func(n string) bool { return strings.Contains(n, part) })
		w.mu.Unlock()
		if found {
			return
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.Errorf("nobody said %q: %q", part, w.notes)
}

// eachServer is the two ways to have a NATS server: in the hub's process, and one of one's own
// that has the hub's rules in its configuration.
func eachServer(t *testing.T, f func(t *testing.T, w *world)) {
	for _, external := range []bool{false, true} {
		t.Run(map[bool]string{false: "embedded", true: "external"}[external], func(t *testing.T) {
			w := &world{folder: filepath.Join(t.TempDir(), "hub")}
			w.o = Options{Folder: w.folder, Listen: "127.0.0.1:0", Note: w.note}
			if external {
				w.o.URL, w.o.CA, w.o.Listen = externalServer(t, w.folder)
			}
			w.start(t)
			t.Cleanup(func() { w.Close() })
			var err error
			if w.fleet, err = Open(w.folder); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { w.fleet.Close() })
			f(t, w)
		})
	}
}

// externalServer is a NATS server with the hub's rules, as an operator sets one up.
func externalServer(t *testing.T, folder string) (url, ca, listen string) {
	urls, ca, _ := externalServers(t, folder, "")
	return urls[0], ca, ""
}

// externalServers are those: one, or as many as addresses of a cluster are given.
func externalServers(t *testing.T, folder string, cluster ...string) (urls []string, ca string, kill []func()) {
	rules, err := Rules(folder, nil)
	if err != nil {
		t.Fatal(err)
	}
	theirs := keys{folder: t.TempDir()}
	if _, err := theirs.certificate(); err != nil {
		t.Fatal(err)
	}
	ca = filepath.Join(theirs.folder, certFile)
	config := filepath.Join(theirs.folder, "nats.conf")
	var all []*server.Server
	for i, at := range cluster {
		text := fmt.Sprintf("%slisten: 127.0.0.1:-1\ntls { cert_file: %q, key_file: %q }\n", rules, ca, filepath.Join(theirs.folder, certKeyFile))
		if at != "" {
			text += fmt.Sprintf("server_name: n%d\ncluster { name: fleet, pool_size: -1, listen: %q, routes: [ \"nats://%s\" ] }\n", i+1, at, strings.Join(cluster, "\", \"nats://"))
		}
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		o, err := server.ProcessConfigFile(config)
		if err != nil {
			t.Fatal(err)
		}
		o.NoLog, o.NoSigs = true, true
		srv, err := server.NewServer(o)
		if err != nil {
			t.Fatal(err)
		}
		srv.Start()
		end := sync.OnceFunc(func() { srv.Shutdown(); srv.WaitForShutdown() })
		t.Cleanup(end)
		if !srv.ReadyForConnections(time.Minute) {
			t.Fatal("the server does not start")
		}
		urls, kill, all = append(urls, "tls://"+srv.Addr().String()), append(kill, end), append(all, srv)
	}
	for begin := time.Now(); slices.ContainsFunc(all, func(s *server.Server) bool { return s.NumRoutes() < len(all)-1 }); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatal("the servers do not find each other")
		}
	}
	return urls, ca, kill
}

func (w *world) start(t *testing.T) {
	t.Helper()
	h, err := Start(context.Background(), w.o)
	if err != nil {
		t.Fatal(err)
	}
	w.Hub = h
	w.o.Listen = strings.TrimPrefix(h.URL, "tls://") // once more at the same place
}

func (w *world) token(t *testing.T, a TokenArgs) string {
	t.Helper()
	if a.Lasts == 0 {
		a.Lasts = time.Minute
	}
	_, tokens, err := w.fleet.Token(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return tokens[0]
}

// board joins and runs a board, in folder.
func (w *world) board(t *testing.T, name, folder string, allow ...string) (b *fleet.Board, stop func()) {
	t.Helper()
	if _, err := fleet.Join(t.Context(), folder, w.URL, w.token(t, TokenArgs{Groups: []string{"rack1"}}), name, allow); err != nil {
		t.Fatal(err)
	}
	return w.run(t, folder)
}

func (w *world) run(t *testing.T, folder string) (b *fleet.Board, stop func()) {
	t.Helper()
	id, err := fleet.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	b = &fleet.Board{Identity: id, Version: "v1", Note: w.note, Open: w.open}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return b, stop
}

// open answers "identify", which counts, and "busy", which waits.
func (w *world) open(context.Context) (func(string) link.Handler, func() error) {
	return func(method string) link.Handler {
		return func(ctx context.Context, r *link.Request) (any, error) {
			w.ran.Add(1)
			if method == "busy" {
				w.waiting.Add(1)
				defer w.waiting.Add(-1)
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return method, nil
		}
	}, func() error { return nil }
}

// entry waits until the board of a name is in one of states.
func (w *world) entry(t *testing.T, name string, states ...string) (e Entry) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(5 * time.Millisecond) {
		all, _, err := w.fleet.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, e = range all {
			if e.Name == name && slices.Contains(states, e.State) {
				return e
			}
		}
	}
	t.Fatalf("board %s is not %v: %+v", name, states, e)
	return e
}

func (w *world) dial(t *testing.T, name string) *link.Conn {
	t.Helper()
	c, err := w.fleet.Dial(t.Context(), w.entry(t, name, "ready", "busy"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// A board joins once by a token, is reached, is known again after both ends were started
// anew, and is revoked in the midst of what it does.
func TestFleet(t *testing.T) {
	eachServer(t, func(t *testing.T, w *world) {
		folder := t.TempDir()
		b, stop := w.board(t, "Pi.lan", folder)
		e := w.entry(t, "pi.lan", "ready")
		if e.Version != "v1" || e.Key != b.Key() || !slices.Equal(e.Groups, []string{"rack1"}) {
			t.Errorf("%+v", e)
		}
		c := w.dial(t, "pi.lan")
		var said string
		if err := c.Call(t.Context(), "identify", nil, &said); err != nil || said != "identify" {
			t.Fatalf("%q, %v", said, err)
		}
		if clock, err := c.Clock(t.Context(), 4); err != nil || clock.Offset.Abs() > clock.Error+time.Millisecond || clock.Error > time.Second {
			t.Errorf("%+v, %v", clock, err)
		}
		if err := c.Call(t.Context(), "tune.apply", nil, nil); err == nil || !strings.Contains(err.Error(), "does not allow tune.apply") {
			t.Errorf("%v", err)
		}
		w.noted(t, "does not allow tune.apply")

		// The agent's end, and its next start.
		stop()
		w.run(t, folder)
		<-c.Ended()
		if err := c.Err(); err == nil {
			t.Error("a session outlives its agent")
		}
		// The hub's end, and its next start: it knows the board.
		w.Close()
		w.start(t)
		c = w.dial(t, "pi.lan")
		if err := c.Call(t.Context(), "identify", nil, &said); err != nil {
			t.Fatal(err)
		}
		other, err := fleet.Join(t.Context(), t.TempDir(), w.URL, w.token(t, TokenArgs{}), "PI.lan", nil)
		if err != nil {
			t.Fatal(err)
		}
		w.entry(t, "pi.lan-2", "new")
		if other.Key() == b.Key() {
			t.Error("two boards have one key")
		}

		ended := make(chan error, 1)
		go func() { ended <- c.Call(t.Context(), "busy", nil, nil) }()
		for w.waiting.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		if err := w.fleet.Revoke(t.Context(), "pi.lan"); err != nil {
			t.Fatal(err)
		}
		// At once, on a busy machine too: what else ends a session takes Silence or longer.
		select {
		case err := <-ended:
			if err == nil || !strings.Contains(err.Error(), "revoked") {
				t.Errorf("%v", err)
			}
		case <-time.After(fleet.Silence):
			t.Errorf("work goes on %v after its board was revoked", fleet.Silence)
		}
		w.entry(t, "pi.lan", "revoked")
		w.noted(t, "was refused: it was revoked")
		soon, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if _, err := w.fleet.Dial(soon, e); err == nil {
			t.Error("a revoked board answers")
		}
		all, _, _ := w.fleet.List(t.Context())
		if _, err := Select(all, []string{"pi.lan"}); err == nil {
			t.Error("a revoked board is selected")
		}
		if got, err := Select(all, []string{"pi.lan-2", "all"}); err != nil || len(got) != 1 {
			t.Errorf("%v, %v", got, err)
		}
		armed := []Entry{{Board: Board{Name: "a", Key: "1", Groups: []string{"arm"}}}, {Board: Board{Name: "b", Key: "2"}}}
		if got, err := Select(armed, []string{"tag=arm"}); err != nil || len(got) != 1 || got[0].Name != "a" {
			t.Errorf("%v, %v", got, err)
		}
	})
}
