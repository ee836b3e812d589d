// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	mrand "math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"boxdyno/host"
	"boxdyno/internal/guard"
	"boxdyno/link"
	"boxdyno/unit"
)

// A Board is a machine of a fleet, and what answers its hub.
type Board struct {
	Identity
	Version string
	// Open begins what one session may ask for, as agent.Open does.
	Open func(ctx context.Context) (find func(method string) link.Handler, end func() error)
	// Note is told what a person should know, in sentences.
	Note func(string)
	// Now is the board's clock; nil: unit.Now.
	Now func() unit.Instant
	// Sense reads the highest temperature and how often the board was throttled; nil: Sense.
	Sense func() (celsius float64, throttles int64)
	// Trial says that this program is tried: it answers no call.
	Trial bool
	// Why is what became of an update; "": there was none.
	Why string
	// Greeted is called once the hub has welcomed the board; nil: nothing is.
	Greeted func()

	nc    *nats.Conn
	gate  gate
	hello Hello

	mu       sync.Mutex // of what follows, and of gate
	sessions map[string]*session
	state    State
	noted    time.Time // when Note was told of a refusal
	ending   guard.Group
}

// A session is what one owner at the hub has asked for.
type session struct {
	server *link.Server
	cancel context.CancelFunc
	ctx    context.Context
	end    func() error
	heard  time.Time
	orders uint64 // Order.Index of the last one that was obeyed
	said   Outbox[message]
}

// A message is of a session.
type message struct {
	subject string
	data    []byte
}

// Sense is the highest temperature of this machine's sensors, and how often it was
// throttled since boot.
func Sense() (celsius float64, throttles int64) {
	local := &host.Local{}
	for _, t := range local.Temperatures() {
		celsius = max(celsius, t.Celsius)
	}
	return celsius, local.Throttles()
}

// Run answers the hub until ctx ends. It connects again for as long as it takes. What a
// session changed is put back when its owner ends it, or is not heard for Silence.
func (b *Board) Run(ctx context.Context) error {
	hub, err := nkeys.FromPublicKey(b.Hub)
	if err != nil {
		return fmt.Errorf("the hub's key: %w", err)
	}
	if b.Now == nil {
		b.Now = unit.Now
	}
	if b.Sense == nil {
		b.Sense = Sense
	}
	if b.Note == nil {
		b.Note = func(string) {}
	}
	b.hello = Hello{Protocol: Protocol, Version: b.Version, Arch: runtime.GOARCH, Epoch: rand.Text(), Boot: (&host.Local{}).Identify().BootID, Trial: b.Trial, Why: link.Cut(b.Why, 400)}
	b.gate = gate{board: b.Key(), epoch: b.hello.Epoch, hub: hub, now: b.Now, counters: map[string]uint64{}}
	b.sessions = map[string]*session{}
	b.state.Epoch = b.hello.Epoch
	ctx, cancel := context.WithCancelCause(ctx)
	defer b.ending.Wait()
	defer b.endAll()
	defer cancel(nil)
	last := "" // that the server said, so that the same is noted once
	say := func(err error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if err == nil || err.Error() == last {
			return
		}
		last = err.Error()
		b.Note(fmt.Sprintf("the hub at %s is not reached: %v; it is tried again", b.URL, refused(err)))
	}
	greet := func(*nats.Conn) {
		b.mu.Lock()
		defer b.mu.Unlock()
		last = ""
		b.greet()
	}
	nc, err := b.connect(
		nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.IgnoreAuthErrorAbort(),
		nats.CustomReconnectDelay(func(tries int) time.Duration {
			return time.Duration((0.5 + mrand.Float64()) * float64(time.Second/4<<min(tries, 5)))
		}),
		nats.ConnectHandler(greet), nats.ReconnectHandler(greet),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { say(err) }),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { say(err) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { say(err) }),
		nats.ClosedHandler(func(nc *nats.Conn) { cancel(fmt.Errorf("the connection to the hub was closed: %v", nc.LastError())) }))
	if err != nil {
		return fmt.Errorf("reach the hub at %s: %w", b.URL, err)
	}
	defer nc.Close()
	b.mu.Lock()
	b.nc = nc
	b.mu.Unlock()
	sub, err := nc.Subscribe(Down(b.Key()), func(m *nats.Msg) { _ = guard.Call(func() error { b.take(ctx, m.Data); return nil }) })
	if err == nil {
		err = sub.SetPendingLimits(4096, 16*MaxMessage)
	}
	if err != nil {
		return fmt.Errorf("hear the hub: %w", err)
	}
	b.mu.Lock()
	b.greet()
	b.mu.Unlock()
	late := time.NewTimer(time.Duration(mrand.Float64() * float64(StateEvery)))
	defer late.Stop()
	for {
		select {
		case <-ctx.Done():
			if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
				return cause
			}
			return nil
		case <-late.C:
			late.Reset(StateEvery)
			b.tick()
		}
	}
}

// say publishes what as JSON, unless the hub is not there.
func (b *Board) say(what string, v any) {
	data, err := json.Marshal(v)
	if err == nil && b.nc != nil && b.nc.IsConnected() { // Connect may not have returned yet
		_ = b.nc.Publish(Up(b.Key(), what), data) // the next one says it again
	}
}

// greet says hello once more: a hub that was not there begins anew. b.mu is held.
func (b *Board) greet() {
	if b.nc == nil || b.gate.nonce != "" && b.Now()-b.gate.asked < unit.Instant(time.Second) {
		return // said just now, or Connect has not returned yet
	}
	b.hello.Nonce = rand.Text()
	b.gate.nonce, b.gate.asked = b.hello.Nonce, b.Now()
	b.say("hello", b.hello)
}

// tick says how the board is, and ends sessions whose owner is gone.
func (b *Board) tick() {
	celsius, throttles := b.Sense()
	b.mu.Lock()
	for id, s := range b.sessions {
		if time.Since(s.heard) > Silence {
			b.gate.leave(id)
			b.close(id)
			b.Note(fmt.Sprintf("a session ended: the hub was not heard for %v; what it changed is put back", Silence))
		}
	}
	b.state.Seq++
	b.state.Now, b.state.Wall = b.Now(), time.Now().UnixNano()
	b.state.Welcome = b.gate.welcomed != 0
	b.state.Temperature, b.state.Throttles = celsius, throttles
	b.state.Sessions = slices.Sorted(maps.Keys(b.sessions))
	b.state.Orders = nil
	for _, id := range b.state.Sessions {
		b.state.Orders = append(b.state.Orders, b.sessions[id].orders)
	}
	state := b.state
	if asked := b.gate.now() - b.gate.asked; b.gate.welcomed == 0 && asked > unit.Instant(2*time.Second) || asked > unit.Instant(helloEvery) {
		b.greet()
	}
	b.mu.Unlock()
	b.say("state", state)
}

// take obeys an order, or refuses it.
func (b *Board) take(ctx context.Context, message []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o, err := b.gate.pass(message)
	if errors.Is(err, errStale) || errors.Is(err, errLeft) { // a hub that was away has yet to hear of it
		return
	}
	if errors.Is(err, errExpired) && b.Now()-b.gate.asked > unit.Instant(time.Second) {
		b.greet() // its time may not be the hub's any more
	}
	if err != nil {
		b.refuse(fmt.Sprintf("an order was refused: %v", err))
		return
	}
	switch o.Subject {
	case WelcomeOrder:
		b.hello.Why = ""
		if b.Greeted != nil {
			b.Greeted()
		}
	case AgainOrder:
		b.greet()
	case PingOrder:
		b.say("pong", Pong{Data: o.Data, Now: b.Now(), Wall: time.Now().UnixNano()})
	case OpenOrder:
		b.begin(ctx, o.Session)
	case AliveOrder:
		if s := b.alive(o.Session); s != nil {
			s.said.Heard(o.Heard)
			s.said.Again(b.sayer(o.Session))
		}
	case CloseOrder:
		b.close(o.Session)
	default:
		if s := b.alive(o.Session); s != nil && o.Index == s.orders+1 { // or it was said again, or one before it was lost
			s.orders = o.Index
			s.said.Heard(o.Heard)
			s.server.Take(s.ctx, o.Subject, o.Reply, o.Data)
		}
	}
}

// refuse counts what was not obeyed; a person is told of it once a second at most.
func (b *Board) refuse(why string) {
	b.state.Refused++
	b.state.Why = link.Cut(why, 200)
	if time.Since(b.noted) >= time.Second {
		b.noted = time.Now()
		b.Note(why)
	}
}

// sayer publishes messages of a session.
func (b *Board) sayer(id string) func(index uint64, m message) error {
	return func(index uint64, m message) error {
		return b.nc.Publish(Up(b.Key(), fmt.Sprintf("%s.%d.%s", id, index, m.subject)), m.data)
	}
}

func (b *Board) alive(id string) *session {
	s := b.sessions[id]
	if s != nil {
		s.heard = time.Now()
	}
	return s
}

func (b *Board) begin(ctx context.Context, id string) {
	if len(b.sessions) >= mostSessions || len(id) > 40 || id == "" || strings.ContainsAny(id, ".*> \t\r\n") {
		b.refuse(fmt.Sprintf("a session was refused: %d are open already, or its name is none", len(b.sessions)))
		delete(b.gate.counters, id)
		return
	}
	s := &session{heard: time.Now()}
	s.ctx, s.cancel = context.WithCancel(ctx)
	find, end := b.Open(s.ctx)
	s.end = end
	s.server = link.NewServer(func(method string) link.Handler {
		if !b.Allows(method) {
			return func(context.Context, *link.Request) (any, error) {
				why := fmt.Sprintf("the enrolment of this board does not allow %s", link.Cut(method, 40))
				b.mu.Lock()
				defer b.mu.Unlock()
				b.refuse(why)
				return nil, &host.Missing{What: why, Hint: "join the fleet anew with --allow " + strings.Join(Kinds, ",") + ", or less"}
			}
		}
		return find(method)
	}, func(subject string, data []byte) error {
		if len(data) > MaxMessage {
			return fmt.Errorf("the answer has %d octets, at most %d are sent", len(data), MaxMessage)
		}
		return s.said.Say(message{subject, data}, b.sayer(id))
	})
	s.server.Now = b.Now
	b.sessions[id] = s
}

// close ends a session; what it changed is put back beside.
func (b *Board) close(id string) {
	s := b.sessions[id]
	if s == nil {
		return
	}
	delete(b.sessions, id)
	delete(b.gate.counters, id)
	s.cancel()
	b.ending.Go(func() {
		s.server.Wait()
		if err := s.end(); err != nil {
			b.Note(err.Error())
		}
	})
}

func (b *Board) endAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range b.sessions {
		b.close(id)
	}
}
