// SPDX-License-Identifier: Apache-2.0

// Package link is how a tester and the agent on a box talk: calls with a typed answer,
// streams, cancellation and files, over NATS. Both are clients of a server in the
// tester's process (package link/hub); the box's client runs over the agent's standard
// streams, so nothing listens anywhere:
//
//	tester                                                      box
//	Conn.Call, Conn.Stream -- box.call.METHOD {args} --------> Serve: Handler
//	                       -- box.ack, box.cancel -----------> (window, context)
//	                       <-- reply.N {item} {item} ... -----
//	                       <-- reply.N {reply} or {error} ----
//
// Before NATS begins, the agent says one line, its Hello.
package link

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"boxdyno/host"
)

// Protocol is the version of what is said; both ends must have the same.
const Protocol = 2

// Bounds of what a peer may say.
const (
	MaxMessage = 8 << 20 // octets of one message
	MaxHello   = 64 << 10
	// Silence is how long a connection may say nothing before it is taken for dead.
	// Each end sends a heartbeat every Heartbeat.
	Silence   = 8 * time.Second
	Heartbeat = 2 * time.Second

	window     = 64  // items of a stream that may be on their way
	mostAtOnce = 256 // calls that one box answers side by side

	mostRemedies = 8 // commands of one error
)

// Subjects. The box may publish replyTo alone, and hear toBox alone.
const (
	ToBox   = "box.>"
	ReplyTo = "reply.*"

	callPrefix  = "box.call."
	ackSubject  = "box.ack"
	stopSubject = "box.cancel"
	replyPrefix = "reply."
)

// A Hello is the agent's first line.
type Hello struct {
	Agent    string `json:"agent"`    // always Name
	Protocol int    `json:"protocol"` // Protocol
	Version  string `json:"version"`  // of the program
}

// Name is what an agent calls itself.
const Name = "boxdyno-agent"

// envelope is a message of the box.
type envelope struct {
	Item  json.RawMessage `json:"item,omitempty"`
	Reply json.RawMessage `json:"reply,omitempty"`
	Error *wireError      `json:"error,omitempty"`
	Done  bool            `json:"done,omitempty"` // it is the last message of this call
}

type ack struct {
	Reply string `json:"reply"`
	N     int    `json:"n"` // items that were taken
}

// A wireError is an error with what its exit code depends on.
type wireError struct {
	Kind   string     `json:"kind"` // missing, unsupported, other
	Text   string     `json:"text"`
	What   string     `json:"what,omitempty"`
	Remedy [][]string `json:"remedy,omitempty"`
	Hint   string     `json:"hint,omitempty"`
}

func toWire(err error) *wireError {
	var missing *host.Missing
	switch {
	case errors.As(err, &missing):
		return &wireError{Kind: "missing", Text: err.Error(), What: missing.What, Remedy: missing.Remedy, Hint: missing.Hint}
	case errors.Is(err, host.ErrNotSupported):
		return &wireError{Kind: "unsupported", Text: err.Error()}
	}
	return &wireError{Kind: "other", Text: err.Error()}
}

// remoteError reads as it did there, and is ErrNotSupported if it was.
type remoteError struct {
	text string
	is   error
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.is }

func (e *wireError) err(where string) error {
	for _, s := range []*string{&e.Text, &e.What, &e.Hint} {
		*s = Cut(*s, 1000)
	}
	e.Remedy = e.Remedy[:min(len(e.Remedy), mostRemedies)]
	for i, words := range e.Remedy {
		e.Remedy[i] = strings.Fields(Cut(strings.Join(words, " "), 1000))
	}
	switch e.Kind {
	case "missing":
		return &host.Missing{What: "on " + where + ": " + e.What, Remedy: e.Remedy, Hint: e.Hint}
	case "unsupported":
		return &remoteError{where + ": " + e.Text, host.ErrNotSupported}
	}
	return &remoteError{text: where + ": " + e.Text}
}

// Cut shortens what a peer said to n octets.
func Cut(s string, n int) string {
	if len(s) > n {
		return s[:n] + "..."
	}
	return s
}

// wired makes a NATS connection over one that stands. lost is called once it has ended.
func wired(conn net.Conn, user, password string, lost func(error)) (*nats.Conn, error) {
	nc, err := nats.Connect("nats://127.0.0.1:4222", // no address is dialled
		nats.SetCustomDialer(standing{conn}), nats.UserInfo(user, password),
		nats.NoReconnect(), nats.Timeout(Silence), nats.PingInterval(Heartbeat), nats.MaxPingsOutstanding(3),
		nats.ClosedHandler(func(nc *nats.Conn) { lost(nc.LastError()) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { lost(err); conn.Close() }))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("begin to talk: %w", err), conn.Close())
	}
	return nc, nil
}

// standing dials a connection that is there already.
type standing struct{ conn net.Conn }

func (s standing) Dial(string, string) (net.Conn, error) { return s.conn, nil }
