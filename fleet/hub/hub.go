// SPDX-License-Identifier: Apache-2.0

// Package hub is the hub of a fleet: the NATS server in this process, or another one by
// its URL; who may connect to it; which boards there are and how they are. Commands of the
// same machine sign their own orders, and ask the hub for the rest:
//
//	board ===TLS=== NATS server ---- auth callout ----> Hub (admits, knows, cuts off)
//	                    |   \------- state, hello ----> Hub (welcomes, pings, remembers)
//	                    |
//	                  Fleet, of a command: List, Dial; link.Conn of each board
//
// Fleet and Hub share a folder with the hub's keys, which nobody else may read.
package hub

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"boxdyno/fleet"
	"boxdyno/host"
	"boxdyno/internal/files"
	"boxdyno/internal/guard"
	"boxdyno/link"
	"boxdyno/unit"
)

// Options are what a hub is started with.
type Options struct {
	Folder string       // of its keys and boards
	Listen string       // HOST:PORT of the server in this process; "" with URL
	URL    string       // of another NATS server, or of several with commas between them
	CA     string       // file of the certificate that URL's servers show, or of their authority; "": the system's authorities
	Boards string       // the URL that boards are given; "": URL, or this machine's name with Listen's port
	Owner  *files.Owner // of the files that are made; nil: this user
	Note   func(string) // is told what a person should know, in sentences; nil: nobody

	wall func() time.Time // nil: time.Now; of tests
	boot string           // "": this machine's boot_id
}

// Bounds of what a board may say within a second, and for how long one that says more is
// cut off.
const (
	mostOctets  = 32 << 20
	cutOff      = time.Minute
	pingEvery   = 5 * time.Second
	mostStrange = 20
	mostSaid    = 4 << 10 // octets of what a board says of itself
)

// mostMessages is how many messages a board may send within a second. Tests lower it.
var mostMessages = 5000

// A Hub runs until Close.
type Hub struct {
	URL string // that commands of this machine use

	k       keys
	clock   steady
	w       where
	o       Options
	srv     *server.Server
	nc, sys *nats.Conn
	pin     [32]byte
	stop    context.CancelFunc
	done    guard.Group

	mu      sync.Mutex
	reg     *registry
	live    map[string]*presence // by key
	strange []Stranger
	counter uint64
}

// A presence is how a board is.
type presence struct {
	at         connection
	hello      fleet.Hello
	state      fleet.State
	heard      time.Time
	clock      time.Duration // its wall clock is ahead by so much
	clockError time.Duration // 0: not known
	best       time.Time     // when that was found
	states     uint64        // that were heard
	lost       uint64        // that were not
	why        string        // the last sentence on it
	messages   int           // in this second
	octets     int
	second     int64
	until      time.Time // it is cut off
}

// A Stranger was refused, and is no board.
type Stranger struct {
	Key   string    `json:"key,omitempty"`
	From  string    `json:"from"`
	Why   string    `json:"why"`
	Last  time.Time `json:"last"`
	Times int       `json:"times"`
}

// Start begins a hub. One that runs in the same folder already is a *host.Missing.
func Start(ctx context.Context, o Options) (_ *Hub, err error) {
	if o.Note == nil {
		o.Note = func(string) {}
	}
	h := &Hub{o: o, live: map[string]*presence{}}
	ctx, h.stop = context.WithCancel(ctx)
	defer func(h *Hub) { // the result is nil then
		if err != nil {
			h.Close()
		}
	}(h)
	if h.k, err = loadKeys(o.Folder, o.Owner, true); err != nil {
		return nil, err
	}
	if h.reg, err = openRegistry(h.k); err != nil {
		return nil, err
	}
	if o.wall == nil {
		o.wall = time.Now
	}
	if h.clock, err = h.k.startClock(o.wall(), cmp.Or(o.boot, (&host.Local{}).Identify().BootID)); err != nil {
		return nil, err
	}
	if err := h.reach(); err != nil {
		return nil, err
	}
	if h.nc, err = h.w.connect(h.k, false); err != nil {
		return nil, err
	}
	if h.sys, err = h.w.connect(h.k, true); err != nil {
		return nil, err
	}
	for subject, take := range map[string]func(*nats.Msg){
		"$SYS.REQ.USER.AUTH": h.callout,
		"fleet.*.up.>":       h.hear,
		askPrefix + ">":      func(m *nats.Msg) { h.answer(m) },
	} {
		sub, err := h.nc.Subscribe(subject, func(m *nats.Msg) { _ = guard.Call(func() error { take(m); return nil }) })
		if err == nil {
			err = sub.SetPendingLimits(1<<18, 256<<20)
		}
		if err != nil {
			return nil, fmt.Errorf("hear the fleet: %w", err)
		}
	}
	if err := h.nc.Flush(); err != nil {
		return nil, fmt.Errorf("hear the fleet: %w", err)
	}
	h.done.Go(func() { h.ping(ctx) })
	h.done.Go(func() { h.keepClock(ctx) })
	return h, nil
}

// reach finds or starts the server, and keeps where it is for commands.
func (h *Hub) reach() (err error) {
	switch {
	case h.o.URL != "":
		h.w = where{URL: h.o.URL, Boards: cmp.Or(h.o.Boards, h.o.URL)}
		if h.o.CA != "" {
			data, err := files.Read(h.o.CA, 1<<20)
			if err == nil {
				h.pin, err = pinOf(data)
			}
			if err != nil {
				return fmt.Errorf("read the authority %s: %w", h.o.CA, err)
			}
			h.w.Pin = h.pin[:]
		}
	default:
		if h.srv, h.w.URL, err = h.k.serve(h.o.Listen); err != nil {
			return err
		}
		if h.pin, err = h.k.certificate(); err != nil {
			return err
		}
		h.w.Pin = h.pin[:]
		h.w.Boards = h.o.Boards
		if h.w.Boards == "" {
			h.w.Boards = strings.Replace(h.w.URL, "127.0.0.1", (&host.Local{}).Identify().Name, 1)
		}
	}
	h.URL = h.w.URL
	data, err := json.Marshal(h.w)
	if err != nil {
		return err
	}
	return h.k.keep(whereFile, data)
}

// Close ends the hub, and the server if it is ours. Boards and commands wait for the next.
func (h *Hub) Close() {
	h.stop()
	h.done.Wait()
	for _, nc := range []*nats.Conn{h.nc, h.sys} {
		if nc != nil {
			nc.Close()
		}
	}
	if h.srv != nil {
		h.srv.Shutdown()
		h.srv.WaitForShutdown()
	}
	if h.reg != nil {
		h.reg.close()
	}
}

// callout answers whether a client may connect.
func (h *Hub) callout(m *nats.Msg) {
	req, err := jwt.DecodeAuthorizationRequestClaims(string(m.Data))
	if err != nil {
		h.o.Note(fmt.Sprintf("the NATS server asks what cannot be read: %v", err))
		return
	}
	answer := jwt.NewAuthorizationResponseClaims(req.UserNkey)
	answer.Audience = req.Server.ID
	b, err := h.judge(req)
	if err == nil {
		answer.Jwt, err = h.permit(b, req.UserNkey)
	}
	if err != nil {
		h.refuse(req, err)
		answer.Error = err.Error()
	}
	text, err := answer.Encode(h.k.issuer)
	if err == nil {
		err = m.Respond([]byte(text))
	}
	if err != nil {
		h.o.Note(fmt.Sprintf("the NATS server is not answered: %v", err))
	}
}

// judge finds the board that a client is, or says why it is none.
func (h *Hub) judge(req *jwt.AuthorizationRequestClaims) (*Board, error) {
	c := req.ConnectOptions
	if !nkeys.IsValidPublicUserKey(c.Nkey) {
		return nil, errors.New("it shows no key")
	}
	signature, err := base64.RawURLEncoding.DecodeString(c.SignedNonce)
	if err == nil {
		var key nkeys.KeyPair
		if key, err = nkeys.FromPublicKey(c.Nkey); err == nil {
			err = key.Verify([]byte(req.ClientInformation.Nonce), signature)
		}
	}
	if err != nil {
		return nil, errors.New("it does not hold the key that it shows")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	b, p, now := h.reg.boards[c.Nkey], h.live[c.Nkey], time.Now()
	switch {
	case b == nil && (c.Token == "" || c.Token == fleet.Known):
		return nil, errors.New("its key is not known")
	case c.Token != "" && c.Token != fleet.Known:
		if b, err = h.reg.admit(c.Nkey, c.Token, c.Name, now); err != nil {
			return nil, err
		}
		h.o.Note(fmt.Sprintf("board %s joined from %s", b.Name, req.ClientInformation.Host))
	case !b.Revoked.IsZero():
		return nil, errors.New("it was revoked")
	case p != nil && now.Before(p.until):
		return nil, fmt.Errorf("it is cut off until %s: %s", p.until.Format(time.TimeOnly), p.why)
	}
	if p == nil {
		p = &presence{}
		h.live[c.Nkey] = p
	}
	if old := p.at; old.server != "" && c.Token == "" {
		guard.Go(func() { _ = kick(h.sys, old) }) // half open, or a copy of the key
	}
	if c.Token == "" {
		p.at = connection{req.Server.ID, req.ClientInformation.ID}
	}
	return b, nil
}

// permit is what the server lets a board do: hear its own down, say its own up.
func (h *Hub) permit(b *Board, user string) (string, error) {
	uc := jwt.NewUserClaims(user)
	uc.Name, uc.Audience = b.Key, account
	uc.Pub.Allow.Add(fleet.Up(b.Key, ">"))
	uc.Sub.Allow.Add(fleet.Down(b.Key))
	uc.Limits.Subs = 1
	uc.Limits.Payload = fleet.MaxMessage
	return uc.Encode(h.k.issuer)
}

// refuse keeps why a client was refused: of a board with it, of others among strangers.
func (h *Hub) refuse(req *jwt.AuthorizationRequestClaims, why error) {
	key, from := req.ConnectOptions.Nkey, req.ClientInformation.Host
	h.mu.Lock()
	name := ""
	if b := h.reg.boards[key]; b != nil {
		name = b.Name
		if p := h.live[key]; p != nil {
			p.why = "refused: " + why.Error()
		}
	}
	i := slices.IndexFunc(h.strange, func(s Stranger) bool { return s.Key == key && s.From == from && s.Why == why.Error() })
	if i < 0 {
		if len(h.strange) >= mostStrange {
			h.strange = slices.Delete(h.strange, 0, 1)
		}
		i = len(h.strange)
		h.strange = append(h.strange, Stranger{Key: link.Cut(key, 60), From: from, Why: why.Error()})
	}
	s := &h.strange[i]
	s.Times, s.Last = s.Times+1, time.Now()
	first := s.Times == 1
	h.mu.Unlock()
	if first {
		h.o.Note(fmt.Sprintf("a client from %s was refused: %v (%s)", from, why, cmp.Or(name, link.Cut(key, 60))))
	}
}

// hear takes what boards say.
func (h *Hub) hear(m *nats.Msg) {
	key, what, _ := strings.Cut(strings.TrimPrefix(m.Subject, "fleet."), ".up.")
	h.mu.Lock()
	defer h.mu.Unlock()
	b, p := h.reg.boards[key], h.live[key]
	if b == nil || !b.Revoked.IsZero() {
		return
	}
	now := time.Now()
	if p == nil { // it was connected to another server before we came
		p = &presence{}
		h.live[key] = p
	}
	if p.second != now.Unix() {
		p.second, p.messages, p.octets = now.Unix(), 0, 0
	}
	p.messages, p.octets = p.messages+1, p.octets+len(m.Data)
	if (p.messages > mostMessages || p.octets > mostOctets) && now.After(p.until) {
		p.until = now.Add(cutOff)
		p.why = fmt.Sprintf("it sent %d messages and %d MiB within a second", p.messages, p.octets>>20)
		h.o.Note(fmt.Sprintf("board %s is cut off for %v: %s", b.Name, cutOff, p.why))
		at := p.at
		guard.Go(func() { h.kick(b, at) })
	}
	if now.Before(p.until) {
		return
	}
	p.heard = now
	if slices.Contains([]string{"hello", "state", "pong"}, what) && len(m.Data) > mostSaid {
		p.why = fmt.Sprintf("it says of itself %d octets, and %d are heard", len(m.Data), mostSaid)
		return
	}
	switch what {
	case "hello":
		var hello fleet.Hello
		if json.Unmarshal(m.Data, &hello) != nil || len(hello.Epoch) > 64 || len(hello.Nonce) > 64 {
			return
		}
		if p.hello.Epoch != "" && p.hello.Epoch != hello.Epoch {
			p.clockError, p.state = 0, fleet.State{}
		}
		hello.Version, hello.Arch = link.Cut(hello.Version, 128), link.Cut(hello.Arch, 16)
		p.hello = hello
		if hello.Why != "" {
			p.why = link.Cut(hello.Why, 400)
			h.o.Note(fmt.Sprintf("board %s: %s", b.Name, p.why))
		}
		h.welcome(b, p)
	case "state":
		var s fleet.State
		if json.Unmarshal(m.Data, &s) != nil || len(s.Epoch) > 64 {
			return
		}
		if s.Epoch != p.hello.Epoch { // the hub was started anew
			_ = h.order(b.Key, s.Epoch, fleet.AgainOrder, nil) // the next state asks again
			return
		}
		if p.state.Seq > 0 && s.Seq > p.state.Seq+1 {
			p.lost += s.Seq - p.state.Seq - 1
		}
		p.states++
		if s.Refused > p.state.Refused {
			p.why = link.Cut(s.Why, 200)
			h.o.Note(fmt.Sprintf("board %s: %s", b.Name, p.why))
		}
		p.state = s
	case "pong":
		var pong fleet.Pong
		if json.Unmarshal(m.Data, &pong) != nil {
			return
		}
		sent, ok := pong.At()
		trip := unit.Now() - sent
		if !ok || trip < 0 || trip > unit.Instant(time.Minute) {
			return
		}
		if half := time.Duration(trip+1) / 2; p.clockError == 0 || half < p.clockError || now.Sub(p.best) > time.Minute {
			p.clock, p.clockError, p.best = time.Duration(pong.Wall-now.UnixNano())+half, half, now
		}
	}
}

// order signs and sends an order that is of no session.
func (h *Hub) order(key, epoch, subject string, data []byte) error {
	now := h.clock.now()
	h.counter = fleet.Counter(h.counter, now)
	m, err := fleet.Sign(fleet.Order{Board: key, Epoch: epoch, Counter: h.counter, Expires: now + int64(fleet.Silence), Subject: subject, Data: data}, h.k.issuer)
	if err != nil {
		return err
	}
	return h.nc.Publish(fleet.Down(key), m)
}

func (h *Hub) welcome(b *Board, p *presence) {
	data, err := json.Marshal(fleet.Welcome{Name: b.Name, Nonce: p.hello.Nonce, Now: h.clock.now()})
	if err == nil {
		err = h.order(b.Key, p.hello.Epoch, fleet.WelcomeOrder, data)
	}
	if err != nil {
		h.o.Note(fmt.Sprintf("board %s is not welcomed: %v", b.Name, err))
	}
}

// keepClock writes how far the hub's clock may run, before it has come so far.
func (h *Hub) keepClock(ctx context.Context) {
	guard.Every(ctx, reserve/2, func() {
		if _, err := h.k.reserve(h.clock); err != nil {
			h.o.Note(err.Error())
		}
	})
}

// ping compares clocks with each board every pingEvery, one after the other.
func (h *Hub) ping(ctx context.Context) {
	n := -1
	guard.Every(ctx, pingEvery/50, func() {
		n = (n + 1) % 50
		h.mu.Lock()
		for key, p := range h.live {
			if int(key[len(key)-1]+key[len(key)-2]*7)%50 == n && p.state.Welcome && time.Since(p.heard) < fleet.Silence {
				_ = h.order(key, p.hello.Epoch, fleet.PingOrder, fleet.PingAt(unit.Now())) // the next one is soon
			}
		}
		h.mu.Unlock()
	})
}

// kick ends every connection of a board: the last one that it began, and what the servers
// know beside.
func (h *Hub) kick(b *Board, at connection) {
	all, err := connections(h.sys, b.Key)
	if at.server != "" && !slices.Contains(all, at) {
		all = append(all, at)
	}
	for _, c := range all {
		err = errors.Join(err, kick(h.sys, c))
	}
	if err != nil {
		h.o.Note(fmt.Sprintf("a connection of board %s may still be there: %v", b.Name, err))
	}
}
