// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"boxdyno/fleet"
	"boxdyno/host"
	"boxdyno/internal/guard"
	"boxdyno/link"
)

// A Fleet is a command's end: what it asks the hub, and its sessions with boards. Its
// methods may be called side by side.
type Fleet struct {
	k     keys
	clock steady
	nc    *nats.Conn
	stop  context.CancelFunc
	done  guard.Group

	mu   sync.Mutex
	ways map[string]*way // by session
}

// Open reaches the hub of folder. One that does not run is a *host.Missing.
func Open(folder string) (*Fleet, error) {
	k, err := loadKeys(folder, nil, false)
	if err != nil {
		return nil, err
	}
	w, err := k.where()
	if err != nil {
		return nil, err
	}
	clock, err := k.clock()
	if err != nil {
		return nil, err
	}
	f := &Fleet{k: k, clock: clock, ways: map[string]*way{}}
	if f.nc, err = w.connect(k, false); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	_, err = f.nc.Subscribe(goneSubject, func(m *nats.Msg) { f.gone(string(m.Data)) })
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("hear the hub: %w", err)
	}
	f.done.Go(func() { f.beat(ctx) })
	return f, nil
}

// Close ends all sessions.
func (f *Fleet) Close() {
	f.mu.Lock()
	ways := make([]*way, 0, len(f.ways))
	for _, w := range f.ways {
		ways = append(ways, w)
	}
	f.mu.Unlock()
	for _, w := range ways {
		w.Close()
	}
	f.stop()
	f.done.Wait()
	_ = f.nc.FlushTimeout(time.Second) // the hub may be gone
	f.nc.Close()
}

// ask asks the hub.
func (f *Fleet) ask(ctx context.Context, what string, args any) (out listed, err error) {
	data, err := json.Marshal(args)
	if err != nil {
		return out, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var m *nats.Msg
	for begin := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		m, err = f.nc.RequestWithContext(ctx, askPrefix+what, data)
		// In a cluster a server may not have heard yet that the hub is at another one.
		if !errors.Is(err, nats.ErrNoResponders) || time.Since(begin) > 2*time.Second {
			break
		}
	}
	switch {
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, context.DeadlineExceeded):
		return out, &host.Missing{What: "a hub that answers", Hint: "start it with boxdyno fleet hub"}
	case err != nil:
		return out, fmt.Errorf("ask the hub: %w", err)
	}
	if err := json.Unmarshal(m.Data, &out); err != nil {
		return out, fmt.Errorf("the hub answers what cannot be read: %w", err)
	}
	if out.Failure != "" {
		return out, errors.New(out.Failure)
	}
	return out, nil
}

// List is all boards, and who was refused besides.
func (f *Fleet) List(ctx context.Context) (all []Entry, strange []Stranger, err error) {
	for {
		out, err := f.ask(ctx, "list", len(all))
		if err != nil {
			return nil, nil, err
		}
		all, strange = append(all, out.Boards...), out.Strange
		if len(all) >= out.All || len(out.Boards) == 0 {
			return all, strange, nil
		}
	}
}

// Token makes tokens, and returns the URL that goes with them.
func (f *Fleet) Token(ctx context.Context, a TokenArgs) (url string, tokens []string, err error) {
	out, err := f.ask(ctx, "token", a)
	return out.URL, out.Tokens, err
}

// Revoke takes from a board what it may do, at once.
func (f *Fleet) Revoke(ctx context.Context, name string) error {
	_, err := f.ask(ctx, "revoke", name)
	return err
}

// Select is the boards that words name: a board's name, or group=NAME; "all" is every one.
// What none is named is an error.
func Select(all []Entry, words []string) (out []Entry, err error) {
	for _, w := range words {
		group, isGroup := strings.CutPrefix(w, "group=")
		if !isGroup {
			group, isGroup = strings.CutPrefix(w, "tag=")
		}
		found := false
		for _, e := range all {
			if e.State == "revoked" || !(w == "all" || e.Name == w && !isGroup || isGroup && slices.Contains(e.Groups, group)) {
				continue
			}
			found = true
			if !slices.ContainsFunc(out, func(o Entry) bool { return o.Key == e.Key }) {
				out = append(out, e)
			}
		}
		switch {
		case !found && isGroup:
			return nil, fmt.Errorf("no board is in group %q: see boxdyno fleet ls", group)
		case !found:
			return nil, fmt.Errorf("there is no board %q: see boxdyno fleet ls", w)
		}
	}
	return out, nil
}

// A way is a session with a board.
type way struct {
	f                   *Fleet
	key, epoch, session string
	conn                *link.Conn
	subs                []*nats.Subscription
	sent, received      atomic.Uint64
	messages            atomic.Uint64 // that were heard
	calls               fleet.Outbox[call]

	mu      sync.Mutex // one order after the other
	counter uint64
	heard   time.Time
	seen    bool // the board's state had the session
	state   fleet.State
}

// A call is an order of a session that the board obeys in turn.
type call struct {
	subject, reply string
	data           []byte
}

// Dial begins a session with a board. One that is not there is a *host.Missing.
func (f *Fleet) Dial(ctx context.Context, e Entry) (*link.Conn, error) {
	c, err := f.dial(ctx, e, fleet.Silence/2)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil { // the board may just connect anew
		c, err = f.dial(ctx, e, fleet.Silence)
	}
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = &host.Missing{What: fmt.Sprintf("board %s (it does not answer)", e.Name), Hint: "see boxdyno fleet ls"}
	}
	return c, err
}

func (f *Fleet) dial(ctx context.Context, e Entry, patience time.Duration) (*link.Conn, error) {
	if e.State != "ready" && e.State != "busy" {
		why := "it is " + e.State
		if e.Why != "" {
			why += ": " + e.Why
		}
		return nil, &host.Missing{What: fmt.Sprintf("board %s (%s)", e.Name, why), Hint: "see boxdyno fleet ls"}
	}
	w := &way{f: f, key: e.Key, epoch: e.Epoch, session: rand.Text(), heard: time.Now()}
	w.conn = link.Over(e.Name, link.Hello{Agent: link.Name, Protocol: link.Protocol, Version: e.Version}, w, func() error { return nil })
	for what, take := range map[string]func(*nats.Msg){
		w.session + ".>": func(m *nats.Msg) {
			w.received.Add(uint64(len(m.Data)))
			_, rest, _ := strings.Cut(m.Subject, ".up."+w.session+".")
			index, subject, _ := strings.Cut(rest, ".")
			if n, err := strconv.ParseUint(index, 10, 64); err != nil || n != w.messages.Load()+1 {
				return // it is said again, or will be
			}
			w.messages.Add(1)
			w.conn.Deliver(subject, m.Data)
		},
		"state": func(m *nats.Msg) { w.said(m.Data) },
	} {
		sub, err := f.nc.Subscribe(fleet.Up(e.Key, what), func(m *nats.Msg) { _ = guard.Call(func() error { take(m); return nil }) })
		if err != nil {
			return nil, fmt.Errorf("reach board %s: %w", e.Name, err)
		}
		w.subs = append(w.subs, sub)
	}
	f.mu.Lock()
	f.ways[w.session] = w
	f.mu.Unlock()
	err := w.order(fleet.OpenOrder, "", nil, 0)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, patience)
		_, err = w.conn.Clock(ctx, 1)
		cancel()
	}
	if err != nil {
		return nil, errors.Join(err, w.conn.Close())
	}
	return w.conn, nil
}

// Publish implements link.Way: it signs an order, once more where the board does not hear it.
func (w *way) Publish(subject, reply string, data []byte) error {
	return w.calls.Say(call{subject, reply, data}, w.say)
}

func (w *way) say(index uint64, c call) error { return w.order(c.subject, c.reply, c.data, index) }

// order signs an order; index is 0 where it is no call.
func (w *way) order(subject, reply string, data []byte, index uint64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.f.clock.now()
	w.counter = fleet.Counter(w.counter, now)
	m, err := fleet.Sign(fleet.Order{
		Board: w.key, Session: w.session, Epoch: w.epoch, Counter: w.counter, Expires: now + int64(fleet.OrderLasts),
		Subject: subject, Reply: reply, Data: data, Index: index, Heard: w.messages.Load(),
	}, w.f.k.issuer)
	if err != nil {
		return err
	}
	w.sent.Add(uint64(len(m)))
	return w.f.nc.Publish(fleet.Down(w.key), m)
}

// Octets implements link.Way.
func (w *way) Octets() (sent, received uint64) { return w.sent.Load(), w.received.Load() }

// Close implements link.Way.
func (w *way) Close() {
	w.f.mu.Lock()
	_, there := w.f.ways[w.session]
	delete(w.f.ways, w.session)
	w.f.mu.Unlock()
	if !there {
		return
	}
	_ = w.order(fleet.CloseOrder, "", nil, 0) // or the board ends it by itself
	for _, s := range w.subs {
		_ = s.Unsubscribe()
	}
}

// said takes a board's state.
func (w *way) said(data []byte) {
	var s fleet.State
	if json.Unmarshal(data, &s) != nil {
		return
	}
	w.mu.Lock()
	w.heard, w.state = time.Now(), s
	i := slices.Index(s.Sessions, w.session)
	ended := w.seen && i < 0
	w.seen = w.seen || i >= 0
	w.mu.Unlock()
	if i >= 0 && i < len(s.Orders) {
		w.calls.Heard(s.Orders[i])
		w.calls.Again(w.say)
	}
	switch {
	case s.Epoch != w.epoch:
		w.conn.Fail(fmt.Errorf("the agent on %s was started anew", w.conn.Name))
	case ended:
		w.conn.Fail(fmt.Errorf("%s has ended the session: it heard nothing for %v", w.conn.Name, fleet.Silence))
	}
}

// beat tells boards that their sessions' owner is there, and ends those of boards that say
// nothing.
func (f *Fleet) beat(ctx context.Context) {
	guard.Every(ctx, link.Heartbeat, func() {
		f.mu.Lock()
		ways := make([]*way, 0, len(f.ways))
		for _, w := range f.ways {
			ways = append(ways, w)
		}
		f.mu.Unlock()
		for _, w := range ways {
			w.mu.Lock()
			silent := time.Since(w.heard)
			w.mu.Unlock()
			if silent > fleet.Silence {
				w.conn.Fail(fmt.Errorf("nothing was heard from %s for %v", w.conn.Name, silent.Round(time.Second)))
				continue
			}
			_ = w.order(fleet.AliveOrder, "", nil, 0) // the next one says it again
		}
	})
}

// gone ends the sessions of a board that was revoked.
func (f *Fleet) gone(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.ways {
		if w.key == key {
			w.conn.Fail(fmt.Errorf("board %s was revoked", w.conn.Name))
		}
	}
}

// Heat is what a board of a session said last of its temperature (0: it has no sensor) and
// of how often it was throttled (-1: it is now).
func (f *Fleet) Heat(c *link.Conn) (celsius float64, throttles int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.ways {
		if w.conn == c {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.state.Temperature, w.state.Throttles
		}
	}
	return 0, 0
}

func publicBytes(key nkeys.KeyPair) []byte {
	b, _ := nkeys.Decode(nkeys.PrefixByteAccount, []byte(public(key))) // it was encoded just now
	return b
}
