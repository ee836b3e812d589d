// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"boxdyno/fleet"
)

// as connects as a board does, by any key.
func (w *world) as(t *testing.T, key nkeys.KeyPair, more ...nats.Option) (*nats.Conn, chan error, error) {
	t.Helper()
	said := make(chan error, 100)
	nc, err := nats.Connect(w.URL, append([]nats.Option{
		nats.Nkey(public(key), key.Sign), nats.Secure(fleet.TLS(w.w.pin())), nats.NoReconnect(),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			select {
			case said <- err:
			default:
			}
		}),
	}, more...)...)
	if err == nil {
		t.Cleanup(nc.Close)
	}
	return nc, said, err
}

// seed is the key of a board that has joined in folder.
func seed(t *testing.T, folder string) nkeys.KeyPair {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(folder, "fleet.seed"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := nkeys.FromSeed(data)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// Strangers do not connect; a board neither hears nor speaks for another, and not to the
// hub's commands. No board carries anything out for them, and each is said in a sentence.
func TestNobodyElse(t *testing.T) {
	was := mostMessages
	defer func() { mostMessages = was }()
	mostMessages = 200
	eachServer(t, func(t *testing.T, w *world) {
		victim := t.TempDir()
		w.board(t, "victim", victim)
		e := w.entry(t, "victim", "ready")

		stranger, _ := nkeys.CreateUser()
		if _, _, err := w.as(t, stranger); !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("a stranger: %v", err)
		}
		w.noted(t, "its key is not known")
		token := w.token(t, TokenArgs{})
		good, _ := fleet.ParseToken(token)
		short, _ := fleet.ParseToken(w.token(t, TokenArgs{Lasts: time.Millisecond}))
		time.Sleep(5 * time.Millisecond)
		for _, c := range []struct{ secret, want string }{
			{"x", "its token is none of this hub"},
			{good.Password(), ""},
			{good.Password(), "its token was used before"}, // by another board
			{short.Password(), "its token has expired"},
		} {
			key, _ := nkeys.CreateUser()
			if _, _, err := w.as(t, key, nats.Token(c.secret)); (err == nil) != (c.want == "") {
				t.Errorf("%q: %v", c.want, err)
			}
			if c.want != "" {
				w.noted(t, c.want)
			}
		}

		// A board that does not do as boards do.
		folder := t.TempDir()
		if _, err := fleet.Join(t.Context(), folder, w.URL, w.token(t, TokenArgs{}), "thief", nil); err != nil {
			t.Fatal(err)
		}
		thief := seed(t, folder)
		nc, said, err := w.as(t, thief)
		if err != nil {
			t.Fatal(err)
		}
		order, err := fleet.Sign(fleet.Order{Board: e.Key, Session: "x", Epoch: e.Epoch, Counter: 1 << 62, Expires: 1 << 62, Subject: fleet.OpenOrder}, thief)
		if err != nil {
			t.Fatal(err)
		}
		for what, try := range map[string]func() error{
			"orders another board":    func() error { return nc.Publish(fleet.Down(e.Key), order) },
			"speaks for another":      func() error { return nc.Publish(fleet.Up(e.Key, "state"), []byte("{}")) },
			"asks the hub to revoke":  func() error { return nc.PublishRequest(askPrefix+"revoke", "x", []byte(`"victim"`)) },
			"says a board is gone":    func() error { return nc.Publish(goneSubject, []byte(e.Key)) },
			"hears another's orders":  func() error { _, err := nc.Subscribe(fleet.Down(e.Key), func(*nats.Msg) {}); return err },
			"hears what others say":   func() error { _, err := nc.Subscribe("fleet.*.up.>", func(*nats.Msg) {}); return err },
			"hears everything":        func() error { _, err := nc.Subscribe(">", func(*nats.Msg) {}); return err },
			"answers who may connect": func() error { _, err := nc.Subscribe("$SYS.REQ.USER.AUTH", func(*nats.Msg) {}); return err },
		} {
			for len(said) > 0 {
				<-said
			}
			if err := try(); err != nil {
				t.Fatal(what, err)
			}
			if err := nc.Flush(); err != nil {
				t.Fatal(what, err)
			}
			select {
			case err := <-said:
				if !strings.Contains(strings.ToLower(err.Error()), "permissions violation") {
					t.Errorf("%s: %v", what, err)
				}
			case <-time.After(time.Minute):
				t.Errorf("%s: the server lets it", what)
			}
		}
		if err := nc.Publish(fleet.Up(public(thief), "state"), make([]byte, fleet.MaxMessage+1)); !errors.Is(err, nats.ErrMaxPayload) {
			t.Errorf("an oversized message: %v", err)
		}

		// The server itself orders: the board refuses what the hub has not signed.
		if err := w.nc.Publish(fleet.Down(e.Key), order); err != nil {
			t.Fatal(err)
		}
		w.noted(t, "an order was refused: its signature is not the hub's")
		for begin := time.Now(); w.entry(t, "victim", "ready").Refused == 0 && time.Since(begin) < time.Minute; {
			time.Sleep(10 * time.Millisecond)
		}
		if e := w.entry(t, "victim", "ready"); e.Refused == 0 || !strings.Contains(e.Why, "signature") {
			t.Errorf("%+v", e)
		}
		if n := w.ran.Load(); n != 0 {
			t.Errorf("%d commands were carried out", n)
		}

		// A flood ends with the board's connection, for a while.
		for range 100 * mostMessages {
			if nc.Publish(fleet.Up(public(thief), "x"), []byte("x")) != nil {
				break
			}
		}
		w.noted(t, "board thief is cut off for 1m0s: it sent")
		for begin := time.Now(); !nc.IsClosed() && time.Since(begin) < time.Minute; {
			time.Sleep(time.Millisecond)
		}
		if _, _, err := w.as(t, thief); err == nil {
			t.Error("a board that was cut off connects")
		}
		w.entry(t, "thief", "cut off")
		all, strange, err := w.fleet.List(t.Context())
		if err != nil || len(all) != 3 || len(strange) < 4 {
			t.Errorf("%d boards, strangers %+v, %v", len(all), strange, err)
		}
	})
}

// A board knows its hub by the pin of its certificate, and by its key behind that.
func TestAnotherHub(t *testing.T) {
	w := &world{folder: filepath.Join(t.TempDir(), "a")}
	w.o = Options{Folder: w.folder, Listen: "127.0.0.1:0", Note: w.note}
	w.start(t)
	var err error
	if w.fleet, err = Open(w.folder); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if _, err := fleet.Join(t.Context(), folder, w.URL, w.token(t, TokenArgs{}), "x", nil); err != nil {
		t.Fatal(err)
	}
	token := w.token(t, TokenArgs{})
	w.fleet.Close()
	w.Close()

	// Another hub at the same place, with another certificate.
	other := &world{folder: filepath.Join(t.TempDir(), "b"), o: w.o}
	other.o.Folder, other.o.Listen, other.o.Note = other.folder, w.o.Listen, other.note
	other.start(t)
	defer func() { other.Close() }()
	if _, err := fleet.Join(t.Context(), t.TempDir(), other.URL, token, "y", nil); err == nil || !strings.Contains(err.Error(), "another certificate than the hub's") {
		t.Errorf("%v", err)
	}
	// The same certificate, stolen, and another key: it knows the board, whose key is public.
	id, err := fleet.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	pin := other.w.pin()
	id.Pin = hex.EncodeToString(pin[:])
	data, _ := json.Marshal(id)
	if err := os.WriteFile(filepath.Join(folder, fleet.IdentityFile), data, 0o600); err != nil {
		t.Fatal(err)
	}
	other.Hub.mu.Lock()
	other.reg.boards[id.Key()] = &Board{Name: "x", Key: id.Key()}
	other.Hub.mu.Unlock()
	_, stop := other.run(t, folder)
	other.noted(t, "an order was refused: its signature is not the hub's")
	stop()
	if n := other.ran.Load(); n != 0 {
		t.Errorf("%d commands were carried out", n)
	}
}
