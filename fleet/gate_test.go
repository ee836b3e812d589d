// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"boxdyno/unit"
)

// A gated is a gate with its hub's key and a clock that stands.
type gated struct {
	gate
	t   *testing.T
	key nkeys.KeyPair
	at  unit.Instant
	n   uint64
}

func newGated(t *testing.T) *gated {
	t.Helper()
	key, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	pub, _ := key.PublicKey()
	hub, err := nkeys.FromPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	g := &gated{t: t, key: key, at: 1000}
	g.gate = gate{board: "UB", epoch: "E", hub: hub, now: func() unit.Instant { return g.at }, nonce: "N", counters: map[string]uint64{}}
	return g
}

// order is a good one of session S, changed.
func (g *gated) order(change func(*Order)) []byte {
	g.t.Helper()
	g.n++
	o := Order{Board: "UB", Session: "S", Epoch: "E", Counter: g.n, Expires: hubTime + int64(time.Second), Subject: "box.call.identify", Reply: "reply.1", Data: []byte("null")}
	change(&o)
	m, err := Sign(o, g.key)
	if err != nil {
		g.t.Fatal(err)
	}
	return m
}

const hubTime = 1_800_000_000_000_000_000

func (g *gated) welcome() []byte {
	data, _ := json.Marshal(Welcome{Nonce: "N", Now: hubTime})
	return g.order(func(o *Order) { o.Subject, o.Data = WelcomeOrder, data })
}

// Nothing passes but what the hub has signed for this board, this start and this session,
// once and in time.
func TestGate(t *testing.T) {
	same := func(*Order) {}
	open := func(o *Order) { o.Subject = OpenOrder }
	g := newGated(t)
	if _, err := g.pass(g.order(same)); !errors.Is(err, errEarly) {
		t.Errorf("before the welcome: %v", err)
	}
	if _, err := g.pass(g.welcome()); err != nil {
		t.Fatal(err)
	}
	if _, err := g.pass(g.order(same)); !errors.Is(err, errSession) {
		t.Errorf("before its session: %v", err)
	}
	opened := g.order(open)
	if _, err := g.pass(opened); err != nil {
		t.Fatal(err)
	}
	good := g.order(same)
	if o, err := g.pass(good); err != nil || o.Subject != "box.call.identify" {
		t.Fatalf("%+v, %v", o, err)
	}
	other, _ := nkeys.CreateAccount()
	forged, _ := Sign(Order{Board: "UB", Session: "S", Epoch: "E", Counter: 99, Expires: hubTime + int64(time.Second), Subject: "box.call.identify"}, other)
	altered := slices.Clone(g.order(same))
	altered[len(altered)-3] ^= 1
	for what, c := range map[string]struct {
		message []byte
		want    error
	}{
		"heard before":          {good, errReplay},
		"session heard before":  {opened, errReplay},
		"a hub with other keys": {forged, errAltered},
		"altered":               {altered, errAltered},
		"another board's":       {g.order(func(o *Order) { o.Board = "UC" }), errBoard},
		"of an earlier start":   {g.order(func(o *Order) { o.Epoch = "D" }), errEpoch},
		"expired":               {g.order(func(o *Order) { o.Expires = hubTime - 1 }), errExpired},
		"of no session":         {g.order(func(o *Order) { o.Session = "" }), errSession},
		"of another session":    {g.order(func(o *Order) { o.Session = "T" }), errSession},
		"a welcome again":       {g.welcome(), errStale},
		"empty":                 {nil, errAltered},
		"short":                 {good[:64], errAltered},
		"oversized":             {make([]byte, MaxMessage+1), errAltered},
	} {
		if o, err := g.pass(c.message); !errors.Is(err, c.want) {
			t.Errorf("%s: %+v, %v", what, o, err)
		}
	}
	delete(g.counters, "S") // as Board.close does
	g.leave("S")
	if _, err := g.pass(g.order(same)); !errors.Is(err, errLeft) {
		t.Errorf("of a session that the board left: %v", err)
	}
	for n := range mostLeft {
		g.leave(fmt.Sprint("other", n))
	}
	if _, err := g.pass(g.order(same)); !errors.Is(err, errSession) || len(g.left) != mostLeft {
		t.Errorf("of a session that was left long ago: %v, %d are kept", err, len(g.left))
	}
	if _, err := g.pass(g.order(func(o *Order) { o.Subject, o.Session = OpenOrder, "S2" })); err != nil {
		t.Fatal(err)
	}
	late := g.order(func(o *Order) { o.Session = "S2" })
	g.at += unit.Instant(2 * time.Second)
	if _, err := g.pass(late); !errors.Is(err, errExpired) {
		t.Errorf("held back for 2 s: %v", err)
	}
}

// A welcome that was held back would make the board's time late: it does not count.
func TestLateWelcome(t *testing.T) {
	g := newGated(t)
	w := g.welcome()
	g.at += unit.Instant(OrderLasts + time.Second)
	if _, err := g.pass(w); !errors.Is(err, errExpired) {
		t.Errorf("%v", err)
	}
	if g.welcomed != 0 {
		t.Error("its time was taken")
	}
}

// A token is read as it was made; one that was cut or changed is refused.
func TestToken(t *testing.T) {
	var want Token
	for i := range want.Hub {
		want.Pin[i], want.Hub[i], want.Secret[i/2] = byte(i), byte(i+100), byte(i)
	}
	text := want.String()
	if got, err := ParseToken(" " + text + "\n"); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "bdfleet1-", text[:len(text)-1], text + "A", strings.Replace(text, "A", "B", 1), strings.Repeat("x", 1<<20), tokenMark + strings.Repeat("A", 1<<20)} {
		if _, err := ParseToken(bad); err == nil {
			t.Errorf("%.80q is read", bad)
		}
	}
}

// What a board did not allow when it joined is not allowed.
func TestAllows(t *testing.T) {
	for _, c := range []struct {
		allow  []string
		method string
		want   bool
	}{
		{nil, "identify", true}, {nil, "procedure.run", true}, {nil, "subject.start", false}, {nil, "telemetry.open", false},
		{nil, "tune.apply", false}, {nil, "file.put", false}, {nil, "procedure.run.x", false}, {nil, "", false},
		{[]string{"subjects"}, "subject.start", true}, {[]string{"subjects"}, "tune.apply", false}, {[]string{"tune"}, "tune.apply", true},
		{nil, "server.close", false}, {[]string{"network"}, "web.serve", false}, {[]string{"network"}, "service.set", false},
		// What streams between boards ask for.
		{[]string{"network"}, "network.nets", true}, {[]string{"network"}, "iperf.check", true}, {[]string{"network"}, "iperf.serve", true}, {[]string{"network"}, "iperf.send", true},
		{[]string{"network"}, "server.usage", true}, {[]string{"network"}, "server.close", true}, {[]string{"network"}, "cpu.time", true},
	} {
		if got := (Identity{Allow: c.allow}).Allows(c.method); got != c.want {
			t.Errorf("%v: %s: %v", c.allow, c.method, got)
		}
	}
}

// Whatever comes is refused, or is an order; nothing panics.
func FuzzGate(f *testing.F) {
	f.Add([]byte("x"))
	f.Fuzz(func(t *testing.T, body []byte) {
		g := newGated(t)
		signature, err := g.key.Sign(body)
		if err != nil {
			t.Fatal(err)
		}
		if o, err := g.pass(append(signature, body...)); err == nil && o.Subject != WelcomeOrder {
			t.Errorf("before the welcome: %+v", o)
		}
	})
}
