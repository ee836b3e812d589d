// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"boxdyno/host"
	"boxdyno/internal/guard"
	"boxdyno/unit"
)

// A Handler answers a call. ctx ends when the tester waits no more, or is gone.
type Handler func(ctx context.Context, r *Request) (reply any, err error)

// A Request is a call as the box sees it.
type Request struct {
	Args json.RawMessage // "null" where none were given

	publish func(envelope) error
	room    chan struct{} // filled by what is on its way
	cancel  context.CancelFunc
}

// Send sends an item of a stream; it waits while many are on their way. Only the
// handler's goroutine may call it.
func (r *Request) Send(ctx context.Context, item any) error {
	select {
	case r.room <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	b, err := json.Marshal(item)
	if err != nil {
		return err
	}
	return r.publish(envelope{Item: b})
}

// Serve answers a tester's calls on in and out until they end, ctx ends, or nothing was
// heard for Silence; then it waits for the handlers, whose contexts have ended. The end
// of in is no error.
func Serve(ctx context.Context, in io.Reader, out io.Writer, version string, find func(method string) Handler) error {
	hello, err := json.Marshal(Hello{Name, Protocol, version})
	if err != nil {
		return err
	}
	conn := &stdio{in: in, out: out}
	if _, err := conn.Write(append(hello, '\n')); err != nil {
		return fmt.Errorf("greet the tester: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var nc *nats.Conn
	s := NewServer(find, func(subject string, data []byte) error { return nc.Publish(subject, data) })
	defer s.Wait()
	defer cancel(nil)
	if nc, err = wired(conn, "", "", func(err error) { cancel(errors.Join(errGone, err)) }); err != nil {
		if conn.atEnd() {
			return nil
		}
		return err
	}
	defer nc.Close()
	sub, err := nc.Subscribe(ToBox, func(m *nats.Msg) {
		_ = guard.Call(func() error { s.Take(ctx, m.Subject, m.Reply, m.Data); return nil })
	})
	if err == nil {
		err = sub.SetPendingLimits(-1, 8*MaxMessage)
	}
	if err == nil {
		err = nc.Publish(replyPrefix+"0", []byte("{}")) // ready for questions
	}
	if err == nil {
		err = nc.Flush()
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("begin to talk: %w", err)
	}
	<-ctx.Done()
	if conn.atEnd() || !errors.Is(context.Cause(ctx), errGone) {
		return nil
	}
	return fmt.Errorf("the connection to the tester ended: %w", context.Cause(ctx))
}

var errGone = errors.New("nothing is heard from it")

// A Server answers the calls of one tester, whatever carries them.
type Server struct {
	Now func() unit.Instant // the box's clock

	find     func(method string) Handler
	publish  func(subject string, data []byte) error
	passes   bool // find answers for the clock, too
	handlers guard.Group

	mu    sync.Mutex
	calls map[string]*Request
	ended bool // Wait was called: no handler begins any more
}

// NewServer has calls answered by what find knows. publish sends a message to the tester;
// it may be called from several goroutines, side by side.
func NewServer(find func(method string) Handler, publish func(subject string, data []byte) error) *Server {
	return &Server{Now: unit.Now, find: find, publish: publish, calls: map[string]*Request{}}
}

// Wait returns once all handlers have; calls that come later are not answered. The context
// that Take was given must have ended.
func (s *Server) Wait() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.handlers.Wait()
}

// Take sorts a message of the tester; one goroutine calls it, in their order. ctx is that
// of the handlers.
func (s *Server) Take(ctx context.Context, subject, reply string, data []byte) {
	switch {
	case subject == stopSubject:
		if r := s.call(string(data)); r != nil {
			r.cancel()
		}
	case subject == ackSubject:
		var a ack
		if err := json.Unmarshal(data, &a); err != nil {
			return
		}
		r := s.call(a.Reply)
		for range min(a.N, window) {
			if r != nil {
				select {
				case <-r.room:
				default:
				}
			}
		}
	case strings.HasPrefix(subject, callPrefix) && reply != "":
		s.begin(ctx, strings.TrimPrefix(subject, callPrefix), reply, data)
	}
}

func (s *Server) call(reply string) *Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[reply]
}

func (s *Server) begin(ctx context.Context, method, to string, args []byte) {
	r := &Request{Args: args, room: make(chan struct{}, window)}
	r.publish = func(e envelope) error {
		b, err := json.Marshal(e)
		if err != nil {
			return err
		}
		if len(b) > MaxMessage {
			return fmt.Errorf("the answer has %d octets, at most %d are sent", len(b), MaxMessage)
		}
		return s.publish(to, b)
	}
	ctx, r.cancel = context.WithCancel(ctx)
	handle := func() {
		defer func() {
			r.cancel()
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.calls, to)
		}()
		e := envelope{Done: true}
		reply, err := s.answer(ctx, method, r)
		if err == nil {
			e.Reply, err = json.Marshal(reply)
		}
		if err == nil {
			err = r.publish(e)
		}
		if err != nil { // a connection that is gone needs no answer
			_ = r.publish(envelope{Done: true, Error: toWire(err)})
		}
	}
	s.mu.Lock()
	ended := s.ended
	full := len(s.calls) >= mostAtOnce || s.calls[to] != nil
	if !full && !ended {
		s.calls[to] = r
		s.handlers.Go(handle)
	}
	s.mu.Unlock()
	switch {
	case ended:
		r.cancel()
	case full:
		r.cancel()
		_ = r.publish(envelope{Done: true, Error: toWire(fmt.Errorf("%d calls are answered already", mostAtOnce))})
	}
}

func (s *Server) answer(ctx context.Context, method string, r *Request) (any, error) {
	if method == clockMethod && !s.passes {
		return s.Now(), nil
	}
	h := s.find(method)
	if h == nil {
		return nil, fmt.Errorf("there is no method %q: %w", Cut(method, 80), host.ErrNotSupported)
	}
	return h(ctx, r)
}

// silence is Silence of the agent's streams. Tests shorten it.
var silence = func() time.Duration { return Silence }

// stdio makes a connection of two streams. Where they can, they end when nothing goes
// over them for silence.
type stdio struct {
	in  io.Reader
	out io.Writer

	mu  sync.Mutex
	end bool
}

func (c *stdio) Read(b []byte) (int, error) {
	if d, ok := c.in.(interface{ SetReadDeadline(time.Time) error }); ok {
		_ = d.SetReadDeadline(time.Now().Add(silence())) // a regular file has none
	}
	n, err := c.in.Read(b)
	if errors.Is(err, io.EOF) {
		c.mu.Lock()
		c.end = true
		c.mu.Unlock()
	}
	return n, err
}

func (c *stdio) atEnd() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.end
}

func (c *stdio) Write(b []byte) (int, error) {
	if d, ok := c.out.(interface{ SetWriteDeadline(time.Time) error }); ok {
		_ = d.SetWriteDeadline(time.Now().Add(silence()))
	}
	return c.out.Write(b)
}

func (c *stdio) Close() (err error) {
	for _, x := range []any{c.in, c.out} {
		if closer, ok := x.(io.Closer); ok {
			err = errors.Join(err, closer.Close())
		}
	}
	return err
}

type address struct{}

func (address) Network() string { return "stdio" }
func (address) String() string  { return "stdio" }

func (c *stdio) LocalAddr() net.Addr              { return address{} }
func (c *stdio) RemoteAddr() net.Addr             { return address{} }
func (c *stdio) SetDeadline(time.Time) error      { return nil }
func (c *stdio) SetReadDeadline(time.Time) error  { return nil }
func (c *stdio) SetWriteDeadline(time.Time) error { return nil }

// Streams are this process's standard streams, with deadlines where they are pipes or
// sockets: those become non-blocking for all who share them.
func Streams() (in, out *os.File) { return pollable(os.Stdin), pollable(os.Stdout) }

func pollable(f *os.File) *os.File {
	info, err := f.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return f
	}
	fd := f.Fd()
	if err := syscall.SetNonblock(int(fd), true); err != nil {
		return f
	}
	return os.NewFile(fd, f.Name())
}
