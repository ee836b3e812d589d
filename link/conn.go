// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"boxdyno/internal/guard"
	"boxdyno/unit"
)

// A Conn is the tester's end. Its methods may be called from several goroutines, side
// by side.
type Conn struct {
	Name  string // of the box, for errors: "user@box"
	Hello Hello  // what the agent said first

	way   Way
	close func() error
	ended chan struct{}
	ready chan envelope // the agent's first message

	mu    sync.Mutex
	next  uint64
	calls map[uint64]chan envelope
	gone  error // set before ended is closed
}

// An Agent is where a box's agent is, and how it is reached.
type Agent struct {
	Name    string   // what errors call that place: "user@box"
	Argv    []string // the command whose standard streams are those of "boxdyno-agent serve"
	Version string   // that it must have; "": any
	Remedy  []string // the command that installs this version there; nil: none is known
}

// A Dial greets the agent of a. ctx is for that alone. Another version than a's is a
// *host.Missing. hub.Dial is one.
type Dial func(ctx context.Context, a Agent) (*Conn, error)

// Talk makes a Conn of a connection to the server. user and password are those of the
// server's tester. stop ends what carries the box's connection; Close calls it.
func Talk(name string, hello Hello, conn net.Conn, user, password string, stop func() error) (*Conn, error) {
	c := newConn(name, hello)
	nc, err := wired(conn, user, password, func(err error) {
		c.Fail(fmt.Errorf("the connection to %s ended: %v", name, err))
	})
	if err != nil {
		return nil, err
	}
	c.by(direct{nc}, stop)
	sub, err := nc.Subscribe(ReplyTo, func(m *nats.Msg) { _ = guard.Call(func() error { c.take(m); return nil }) })
	if err == nil {
		err = sub.SetPendingLimits(-1, 8*MaxMessage)
	}
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("begin to talk: %w", err)
	}
	return c, nil
}

// A Way carries a tester's messages to one box, in order.
type Way interface {
	Publish(subject, reply string, data []byte) error
	Octets() (sent, received uint64) // of all messages so far
	Close()
}

// Over makes a Conn of a way that stands, whose agent hears calls already. What the box
// answers goes to Deliver. Close calls stop.
func Over(name string, hello Hello, way Way, stop func() error) *Conn {
	c := newConn(name, hello)
	c.by(way, stop)
	return c
}

func newConn(name string, hello Hello) *Conn {
	c := &Conn{Name: name, Hello: hello, ended: make(chan struct{}), ready: make(chan envelope, 1), calls: map[uint64]chan envelope{}}
	c.calls[0] = c.ready
	return c
}

func (c *Conn) by(way Way, stop func() error) {
	c.way = way
	c.close = sync.OnceValue(func() error {
		c.Fail(fmt.Errorf("the connection to %s was closed", c.Name))
		c.way.Close()
		return stop()
	})
}

// direct is a connection to the server of one box alone.
type direct struct{ nc *nats.Conn }

func (d direct) Publish(subject, reply string, data []byte) error {
	if reply == "" {
		return d.nc.Publish(subject, data)
	}
	return d.nc.PublishRequest(subject, reply, data)
}

func (d direct) Octets() (sent, received uint64) {
	s := d.nc.Stats()
	return s.OutBytes, s.InBytes
}

func (d direct) Close() { d.nc.Close() }

// Ready returns once the agent hears calls.
func (c *Conn) Ready(ctx context.Context) error {
	late := time.NewTimer(Silence)
	defer late.Stop()
	select {
	case <-c.ready:
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.calls, 0)
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.ended:
		return c.Err()
	case <-late.C:
		return fmt.Errorf("the agent on %s greets and then hears no call for %v", c.Name, Silence)
	}
}

// Fail ends every call with err, those to come too. The first one counts.
func (c *Conn) Fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone == nil {
		c.gone = err
		close(c.ended)
	}
}

// Ended is closed once the connection has ended; Err says why.
func (c *Conn) Ended() <-chan struct{} { return c.ended }

// Err is why the connection ended; nil: it has not.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}

// Octets are those of all messages so far, without what ssh adds.
func (c *Conn) Octets() (sent, received uint64) {
	return c.way.Octets()
}

// Close ends the connection, and with it what runs there for it. It may be called more
// than once.
func (c *Conn) Close() error { return c.close() }

func (c *Conn) take(m *nats.Msg) {
	if m.Header.Get("Status") == "503" { // the server's own word
		c.sort(m.Subject, envelope{Done: true, Error: &wireError{Text: "the agent hears no calls"}})
		return
	}
	c.Deliver(m.Subject, m.Data)
}

// Deliver sorts a message of the box to its call. The box decides what is in it.
func (c *Conn) Deliver(subject string, data []byte) {
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		e = envelope{Done: true, Error: &wireError{Text: fmt.Sprintf("it answered with something else than an agent does: %q", Cut(string(data), 80))}}
	}
	c.sort(subject, e)
}

func (c *Conn) sort(subject string, e envelope) {
	id, err := strconv.ParseUint(strings.TrimPrefix(subject, replyPrefix), 10, 64)
	if err != nil {
		return
	}
	c.mu.Lock()
	to := c.calls[id]
	c.mu.Unlock()
	if to == nil {
		return // nobody waits for it any more
	}
	select {
	case to <- e:
	default: // more than the window that it was given
		c.Fail(fmt.Errorf("%s sends more than it was asked for", c.Name))
	}
}

// Call asks for method with args (nil: none) and decodes the answer into reply (nil: it
// is dropped). Errors of the method are as they were there, *host.Missing and
// host.ErrNotSupported among them. When ctx ends, so does the method's context there.
// Once the connection has ended every call says so.
func (c *Conn) Call(ctx context.Context, method string, args, reply any) error {
	return c.Stream(ctx, method, args, reply, nil)
}

// Stream is Call for a method that sends items before its answer. item is called with
// each, in order, in this goroutine; the box waits while many of them are on their way.
// An error of item ends the call.
func (c *Conn) Stream(ctx context.Context, method string, args, reply any, item func(json.RawMessage) error) (err error) {
	if err := c.Err(); err != nil {
		return err
	}
	data := []byte("null")
	if args != nil {
		if data, err = json.Marshal(args); err != nil {
			return fmt.Errorf("ask %s for %s: %w", c.Name, method, err)
		}
	}
	if len(data) > MaxMessage {
		return fmt.Errorf("ask %s for %s: the question has %d octets, at most %d are sent", c.Name, method, len(data), MaxMessage)
	}
	from := make(chan envelope, window+2)
	c.mu.Lock()
	c.next++
	id := c.next
	c.calls[id] = from
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.calls, id)
	}()
	answer := replyPrefix + strconv.FormatUint(id, 10)
	if err := c.way.Publish(callPrefix+method, answer, data); err != nil {
		return c.broke(err)
	}
	finished := false
	defer func() {
		if !finished {
			_ = c.way.Publish(stopSubject, "", []byte(answer)) // it ends with the connection, too
		}
	}()
	taken := 0
	for {
		var e envelope
		select {
		case e = <-from:
		case <-ctx.Done():
			return ctx.Err()
		case <-c.ended:
			return c.Err()
		}
		switch {
		case e.Error != nil:
			finished = e.Done
			return e.Error.err(c.Name)
		case e.Done:
			finished = true
			if reply == nil {
				return nil
			}
			if err := json.Unmarshal(e.Reply, reply); err != nil {
				return fmt.Errorf("%s answered %s with what cannot be read: %w", c.Name, method, err)
			}
			return nil
		case item == nil:
			return fmt.Errorf("%s answered %s with a stream where one answer was asked for", c.Name, method)
		}
		if err := item(e.Item); err != nil {
			return err
		}
		if taken++; taken == window/4 {
			b, err := json.Marshal(ack{answer, taken})
			if err == nil {
				err = c.way.Publish(ackSubject, "", b)
			}
			if err != nil {
				return c.broke(err)
			}
			taken = 0
		}
	}
}

// broke is why nothing can be said any more; what ended the connection says it better
// than what then failed.
func (c *Conn) broke(err error) error {
	select {
	case <-c.ended:
		return c.Err()
	case <-time.After(time.Second):
	}
	if errors.Is(err, nats.ErrConnectionClosed) {
		return fmt.Errorf("the connection to %s ended", c.Name)
	}
	return fmt.Errorf("ask %s: %w", c.Name, err)
}

// A ClockOffset is how far another machine's CLOCK_MONOTONIC is ahead of this one's.
type ClockOffset struct {
	Offset time.Duration
	Error  time.Duration // at most so far off: half of the shortest round trip
}

// Here is the instant on this machine of one on the other.
func (o ClockOffset) Here(there unit.Instant) unit.Instant { return there - unit.Instant(o.Offset) }

// clockMethod is answered by Serve itself.
const clockMethod = "clock"

// Clock asks n times for the other clock and takes the quickest answer: the other
// clock was read somewhere between question and answer.
func (c *Conn) Clock(ctx context.Context, n int) (ClockOffset, error) {
	var best ClockOffset
	for i := range n {
		var there unit.Instant
		before := unit.Now()
		if err := c.Call(ctx, clockMethod, nil, &there); err != nil {
			return best, fmt.Errorf("compare clocks with %s: %w", c.Name, err)
		}
		trip := unit.Now() - before
		if half := time.Duration(trip+1) / 2; i == 0 || half < best.Error {
			best = ClockOffset{time.Duration(there - before - trip/2), half}
		}
	}
	return best, nil
}
