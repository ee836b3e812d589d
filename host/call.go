// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"boxdyno/internal/guard"
	"boxdyno/unit"
)

// Another machine is reached by running this program there and talking to it over
// its standard streams, whoever carries them (ssh, or a program that enters a
// namespace):
//
//	here: Remote.Call  -- {"id":7,"method":"ledger.read","args":{...}} -->  there: Serve
//	                  <-- {"id":7,"reply":{...}} or {"id":7,"error":{...}} --
//
// One question a line, one answer a line, in turn. It ends when its standard input
// does, so that nothing is left running there.

// CallProtocol is the version of these lines; both ends must have the same.
const CallProtocol = 1

type question struct {
	ID     uint64          `json:"id"`
	Method string          `json:"method"`
	Args   json.RawMessage `json:"args,omitempty"`
}

type answer struct {
	ID    uint64          `json:"id"`
	Reply json.RawMessage `json:"reply,omitempty"`
	Error *callError      `json:"error,omitempty"`
}

// A callError is an error with what its exit code depends on.
type callError struct {
	Kind   string     `json:"kind"` // missing, unsupported, other
	Text   string     `json:"text"`
	What   string     `json:"what,omitempty"`
	Remedy [][]string `json:"remedy,omitempty"`
	Hint   string     `json:"hint,omitempty"`
}

func toCall(err error) *callError {
	var missing *Missing
	switch {
	case errors.As(err, &missing):
		return &callError{Kind: "missing", Text: err.Error(), What: missing.What, Remedy: missing.Remedy, Hint: missing.Hint}
	case errors.Is(err, ErrNotSupported):
		return &callError{Kind: "unsupported", Text: err.Error()}
	}
	return &callError{Kind: "other", Text: err.Error()}
}

// remoteError reads as it did there, and is a *Missing or ErrNotSupported if it was.
type remoteError struct {
	text string
	is   error
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.is }

func (e *callError) err(where string) error {
	for _, s := range []*string{&e.Text, &e.What, &e.Hint} {
		*s = cut(*s, 1000)
	}
	switch e.Kind {
	case "missing":
		return &Missing{What: "on " + where + ": " + e.What, Remedy: e.Remedy, Hint: e.Hint}
	case "unsupported":
		return &remoteError{where + ": " + e.Text, ErrNotSupported}
	}
	return &remoteError{text: where + ": " + e.Text}
}

// A Hello is what both ends say first.
type Hello struct {
	Protocol int    `json:"protocol"`
	Version  string `json:"version"` // of the program
}

const (
	callHello = "hello"
	callClock = "clock"
	mostLine  = 8 << 20 // octets
	// callPatience is how long one answer may take: a ledger waits for none, and a
	// link that is gone says nothing.
	callPatience = 20 * time.Second
)

// A Method answers a question; args is its JSON, nil where none was given. ctx ends
// when nobody waits for the answer any more.
type Method func(ctx context.Context, args json.RawMessage) (reply any, err error)

// Serve answers questions from in, one after the other, until it ends; then it
// returns nil. Methods hello and clock are its own.
func Serve(ctx context.Context, in io.Reader, out io.Writer, version string, methods map[string]Method) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	questions, failed := make(chan question), make(chan error, 1)
	guard.Go(func() {
		defer cancel() // nobody waits any more
		defer close(questions)
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, mostLine)
		for lines.Scan() {
			var q question
			if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
				failed <- fmt.Errorf("read a question: %w", err)
				return
			}
			select {
			case questions <- q:
			case <-ctx.Done():
				return
			}
		}
		if err := lines.Err(); err != nil {
			failed <- fmt.Errorf("read a question: %w", err)
		}
	})
	enc := json.NewEncoder(out)
	for {
		var q question
		var ok bool
		select {
		case <-ctx.Done():
		case q, ok = <-questions:
		}
		if !ok {
			select {
			case err := <-failed:
				return err
			default:
				return nil
			}
		}
		a := answer{ID: q.ID}
		reply, err := serveOne(ctx, q, version, methods)
		if err == nil {
			a.Reply, err = json.Marshal(reply)
		}
		if err != nil {
			a.Reply, a.Error = nil, toCall(err)
		}
		if err := enc.Encode(a); err != nil {
			return fmt.Errorf("answer a question: %w", err)
		}
	}
}

func serveOne(ctx context.Context, q question, version string, methods map[string]Method) (any, error) {
	switch q.Method {
	case callHello:
		return Hello{CallProtocol, version}, nil
	case callClock:
		return unit.Now(), nil
	}
	m := methods[q.Method]
	if m == nil {
		return nil, fmt.Errorf("there is no method %q: %w", q.Method, ErrNotSupported)
	}
	return m(ctx, q.Args)
}

// A Remote is this program on another machine. Its methods may be called from
// several goroutines; questions go one after the other.
type Remote struct {
	Name  string // for errors: "user@box"
	Hello Hello  // what it said first

	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout io.ReadCloser
	stderr *lastLine
	lines  chan []byte // closed when its output ends
	ended  chan struct{}
	exit   error // once ended

	mu   sync.Mutex
	next uint64
	gone error // set once the stream cannot be trusted any more
}

// Dial runs argv, which must run "boxdyno call" somewhere, and greets it. name is
// what errors call that place. ctx is for the greeting alone. Another protocol
// than ours, and a program that does not answer, are a *Missing.
func Dial(ctx context.Context, name string, argv ...string) (*Remote, error) {
	path, err := Program(argv[0])
	if err != nil {
		return nil, err
	}
	r := &Remote{Name: name, cmd: exec.Command(path, argv[1:]...), stderr: &lastLine{}, lines: make(chan []byte), ended: make(chan struct{})}
	r.cmd.Stderr = r.stderr
	r.cmd.WaitDelay = time.Second
	if r.stdin, err = r.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("reach %s: %w", name, err)
	}
	if r.stdout, err = r.cmd.StdoutPipe(); err == nil {
		err = r.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("reach %s: %w", name, err)
	}
	guard.Go(r.read)
	if err := r.Call(ctx, callHello, nil, &r.Hello); err != nil {
		cerr := r.Close()
		if ctx.Err() != nil {
			return nil, errors.Join(ctx.Err(), cerr)
		}
		return nil, &Missing{What: fmt.Sprintf("boxdyno on %s (%v)", name, err),
			Hint: "see that " + strings.Join(argv, " ") + " runs by itself and waits for input; program= says what it is called there"}
	}
	if r.Hello.Protocol != CallProtocol {
		err := &Missing{What: fmt.Sprintf("the same boxdyno on %s: it speaks protocol %d (version %s), and this one %d",
			name, r.Hello.Protocol, r.Hello.Version, CallProtocol), Hint: "install this version there"}
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// lastLine keeps the last line that was written to it.
type lastLine struct {
	mu   sync.Mutex
	text string
}

func (l *lastLine) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text += string(b)
	if trimmed := strings.TrimRight(l.text, "\r\n"); strings.ContainsAny(trimmed, "\r\n") {
		l.text = l.text[strings.LastIndexAny(trimmed, "\r\n")+1:]
	}
	if len(l.text) > 1000 {
		l.text = l.text[len(l.text)-1000:]
	}
	return len(b), nil
}

func (l *lastLine) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(l.text)
}

func (r *Remote) read() {
	defer close(r.ended)
	defer func() { r.exit = r.cmd.Wait() }()
	defer close(r.lines)
	lines := bufio.NewScanner(r.stdout)
	lines.Buffer(nil, mostLine)
	for lines.Scan() {
		r.lines <- []byte(lines.Text())
	}
}

// Call asks for method with args (nil: none) and decodes the answer into reply
// (nil: it is dropped). Errors of the method are as they were there, *Missing and
// ErrNotSupported among them. Once the connection has ended every call says so.
func (r *Remote) Call(ctx context.Context, method string, args, reply any) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone != nil {
		return r.gone
	}
	r.next++
	q := question{ID: r.next, Method: method}
	if args != nil {
		b, err := json.Marshal(args)
		if err != nil {
			return fmt.Errorf("ask %s for %s: %w", r.Name, method, err)
		}
		q.Args = b
	}
	line, err := json.Marshal(q)
	if err != nil {
		return fmt.Errorf("ask %s for %s: %w", r.Name, method, err)
	}
	if _, err := r.stdin.Write(append(line, '\n')); err != nil {
		return r.broke()
	}
	late := time.NewTimer(callPatience)
	defer late.Stop()
	select {
	case b, ok := <-r.lines:
		if !ok {
			return r.broke()
		}
		var a answer
		if err := json.Unmarshal(b, &a); err != nil || a.ID != q.ID {
			r.gone = fmt.Errorf("%s answered with something else than boxdyno does: %q", r.Name, cut(string(b), 80))
			return r.gone
		}
		switch {
		case a.Error != nil:
			return a.Error.err(r.Name)
		case reply == nil:
			return nil
		}
		if err := json.Unmarshal(a.Reply, reply); err != nil {
			return fmt.Errorf("%s answered %s with what cannot be read: %w", r.Name, method, err)
		}
		return nil
	case <-ctx.Done():
		r.gone = fmt.Errorf("the connection to %s was given up in the middle of a question: %w", r.Name, ctx.Err())
		return ctx.Err()
	case <-late.C:
		r.gone = fmt.Errorf("%s does not answer any more: no word for %v", r.Name, callPatience)
		return r.gone
	}
}

// broke is why there will be no answer.
func (r *Remote) broke() error {
	select {
	case <-r.ended:
	case <-time.After(time.Second):
	}
	why := "its end was closed"
	select {
	case <-r.ended:
		if r.exit != nil {
			why = r.exit.Error()
		}
	default:
	}
	if said := r.stderr.String(); said != "" {
		why = said + " (" + why + ")"
	}
	r.gone = fmt.Errorf("the connection to %s ended: %s", r.Name, why)
	return r.gone
}

func cut(s string, n int) string {
	if len(s) > n {
		return s[:n] + "..."
	}
	return s
}

// Close ends the connection; what runs there ends by itself, and the program that
// carried it is ended after 2 s. It may be called more than once.
func (r *Remote) Close() error {
	_ = r.stdin.Close() // it may have ended by itself
	stop := guard.After(2*time.Second, func() {
		_ = r.cmd.Process.Kill() // it may have ended meanwhile
		_ = r.stdout.Close()     // a child of it may hold the other end
	})
	defer stop.Stop()
	for range r.lines { // an answer that nobody waited for
	}
	<-r.ended
	return nil
}

// A ClockOffset is how far another machine's CLOCK_MONOTONIC is ahead of this one's.
type ClockOffset struct {
	Offset time.Duration
	Error  time.Duration // at most so far off: half of the shortest round trip
}

// Clock asks n times for the other clock and takes the quickest answer: the other
// clock was read somewhere between question and answer.
func (r *Remote) Clock(ctx context.Context, n int) (ClockOffset, error) {
	var best ClockOffset
	for i := range n {
		var there unit.Instant
		before := unit.Now()
		if err := r.Call(ctx, callClock, nil, &there); err != nil {
			return best, fmt.Errorf("compare clocks with %s: %w", r.Name, err)
		}
		trip := unit.Now() - before
		if half := time.Duration(trip+1) / 2; i == 0 || half < best.Error {
			best = ClockOffset{time.Duration(there - before - trip/2), half}
		}
	}
	return best, nil
}
