// SPDX-License-Identifier: Apache-2.0

package far

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"boxdyno/agent"
	"boxdyno/internal/guard"
	"boxdyno/lab"
	"boxdyno/link"
	"boxdyno/procedure"
)

// A procedure of two boards runs on the one that sends, in topology pair (lab.BuildBoards, and
// lab.BuildArm where the other one sends frames back). What it asks of the
// other one passes the tester, which asks for it in its own name, as far as that is of the
// procedure:
//
//	board A: procedure, sender        tester                     board B: its agent
//	lab.BuildBoards, link.Over
//	  --- call: subject.start ------> Pair.through, link.Pass -- subject.start -->
//	  <-- network.passed ------------                        <-- reply -----------
//
// So a board obeys its hub alone, and no board reaches another one's agent.

const (
	pairMethod   agent.Ask[pairArgs, agent.None] = "network.pair" // a stream of item
	passedMethod agent.Ask[call, agent.None]     = "network.passed"
)

// OnceKey is in the configuration of what a procedure measures once for all points that want
// the same: its value tells those apart.
const OnceKey = "once"

// pairArgs are a procedure's, and the board that it sends to.
type pairArgs struct {
	procedureArgs
	Cable   lab.BoardCable `json:"cable"`
	Other   string         `json:"other"` // its name
	Version string         `json:"version"`
}

// A call is a message between the agents of two boards, as package link has it.
type call struct {
	Subject string `json:"subject"`
	Reply   string `json:"reply,omitempty"`
	Data    []byte `json:"data,omitempty"`
}

// A Pair is the board that another one sends to. It serves one procedure.
type Pair struct {
	Conn     *link.Conn
	Cable    lab.BoardCable
	Software agent.SubjectArgs // that the procedure may start there: its name and options
	Routes   bool              // it is set up to send frames back
	Service  lab.Service       // that it does to them

	mu       sync.Mutex
	begun    map[begun]bool  // there, and not ended
	starting map[string]bool // by the method that ends it
	witness  witness
}

// A begun is what a board has begun on another one: a subject, a ledger.
type begun struct {
	end string // the method that ends it
	id  int
}

// ends are the methods that end what others begin.
var ends = map[string]string{string(agent.SubjectStart): string(agent.SubjectStop), string(agent.LedgerOpen): string(agent.LedgerClose), string(agent.ServiceManage): string(agent.ServiceClose)}

// managing is the number of ports that are set up for services: there is one set of them.
const managing = 0

// id is the number that method has answered with.
func id(method string, reply json.RawMessage) (n int, err error) {
	if method == string(agent.ServiceManage) {
		return managing, nil
	}
	if method != string(agent.SubjectStart) {
		err = json.Unmarshal(reply, &n)
		return n, err
	}
	var started agent.SubjectStarted
	err = json.Unmarshal(reply, &started)
	return started.ID, err
}

func (p *Pair) args(a procedureArgs) pairArgs {
	return pairArgs{procedureArgs: a, Cable: p.Cable, Other: p.Conn.Name, Version: p.Conn.Hello.Version}
}

// passing asks the board of p for what is called by the one that publish reaches.
func (p *Pair) passing(publish func(subject string, data []byte) error) *link.Server {
	return link.Pass(p.Conn, p.through, publish)
}

// through passes on what is allowed, and notes what is begun.
func (p *Pair) through(ctx context.Context, method string, args json.RawMessage, ask func(context.Context) (json.RawMessage, error)) (json.RawMessage, error) {
	if err := p.allows(method, args); err != nil {
		return nil, err
	}
	if method == string(agent.Hold) {
		return nil, nil // the tester does already
	}
	end := ends[method]
	if end == "" {
		reply, err := ask(ctx)
		if err == nil && method == string(agent.LedgerRead) {
			p.Hear(reply)
		}
		n := managing
		if err == nil && (method == string(agent.ServiceClose) || json.Unmarshal(args, &n) == nil) {
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.begun, begun{method, n})
		}
		return reply, err
	}
	if err := p.only(end); err != nil {
		return nil, err
	}
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.starting, end)
	}()
	// Its number is waited for even if who asks is gone meanwhile, or nobody could end it.
	asking, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer guard.AfterDone(ctx, func() { guard.After(beginning, stop) })()
	reply, err := ask(asking)
	if err != nil {
		return nil, err
	}
	n, err := id(method, reply)
	if err != nil {
		return nil, fmt.Errorf("%s answered %s with what cannot be read: %w", p.Conn.Name, method, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begun == nil {
		p.begun = map[begun]bool{}
	}
	p.begun[begun{end, n}] = true
	return reply, nil
}

// beginning is how long the answer of what begins is waited for once nobody wants it.
const beginning = 10 * time.Second

// end ends what was begun and not ended. Nothing is passed on any more.
func (p *Pair) end(ctx context.Context) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), procedure.StopPatience)
	defer stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for b := range p.begun {
		args := any(b.id)
		if b.end == string(agent.ServiceClose) {
			args = agent.None{}
		}
		_ = p.Conn.Call(ctx, b.end, args, nil) // it ends with the tester's session, too
	}
	p.begun = nil
}

// only begins the start of what end ends: of a subject or a ledger beside which there is no
// other one.
func (p *Pair) only(end string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	runs := p.starting[end]
	for b := range p.begun {
		runs = runs || b.end == end
	}
	if runs {
		what, _, _ := strings.Cut(end, ".")
		return refuse("a second " + what + " at once")
	}
	if p.starting == nil {
		p.starting = map[string]bool{}
	}
	p.starting[end] = true
	return nil
}

func refuse(what string) error {
	return fmt.Errorf("a board may not ask another one for %s", link.Cut(what, 80))
}

// ofBegun are the methods whose argument is the number of what was begun, and how that ends.
var ofBegun = map[string]string{
	string(agent.SubjectReady): string(agent.SubjectStop), string(agent.SubjectFollow): string(agent.SubjectStop), string(agent.SubjectUsage): string(agent.SubjectStop),
	string(agent.SubjectMain): string(agent.SubjectStop), string(agent.SubjectSockets): string(agent.SubjectStop), string(agent.SubjectStop): string(agent.SubjectStop),
	string(agent.LedgerRead): string(agent.LedgerClose), string(agent.LedgerClose): string(agent.LedgerClose),
}

// allows refuses what is no part of the procedure: other programs, parameters, ports, numbers
// and methods.
func (p *Pair) allows(method string, args json.RawMessage) error {
	var ports []string
	switch method {
	case "clock", string(agent.Hold):
	case string(agent.SubjectCheck), string(agent.SubjectStart):
		var a agent.SubjectArgs
		if err := json.Unmarshal(args, &a); err != nil {
			return err
		}
		if a.Name != p.Software.Name || len(a.Files) > 0 {
			return refuse("subject " + a.Name)
		}
		if !slices.Equal(a.Options, p.Software.Options) || a.Foreign || len(a.CPUs) > 0 {
			return refuse("subject " + a.Name + " with other parameters than the run's")
		}
		if method == string(agent.SubjectStart) || a.Port != "" {
			ports = []string{a.Port}
		}
	case string(agent.LedgerOpen):
		var a agent.LedgerArgs
		if err := json.Unmarshal(args, &a); err != nil {
			return err
		}
		if len(a.Paths) != 1 || !p.goes(a.Paths[0].Hops) {
			return refuse("a ledger of another path than from its port to the other one's")
		}
		if !a.Bare {
			return refuse("a ledger with a tracepoint")
		}
		for _, h := range a.Paths[0].Hops {
			if h.Mine {
				ports = append(ports, h.Port)
			}
		}
	case string(agent.ServiceManage):
		var a agent.ManageArgs
		if err := json.Unmarshal(args, &a); err != nil {
			return err
		}
		if !p.Routes {
			return refuse(method)
		}
		if !reflect.DeepEqual(a.Ports, p.Cable.Ports()) {
			return refuse("other ports, networks or hops than those of the run")
		}
	case string(agent.ServiceSet), string(agent.ServiceClose):
		var s lab.Service
		if err := json.Unmarshal(args, &s); err != nil {
			return err
		}
		if method == string(agent.ServiceSet) && s != p.Service {
			return refuse("service " + s.Kind + " with other parameters than the run's")
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.begun[begun{string(agent.ServiceClose), managing}] {
			return refuse(method + ": it has set nothing up")
		}
	case string(agent.NetworkAnnounce):
		var a agent.AnnounceArgs
		if err := json.Unmarshal(args, &a); err != nil {
			return err
		}
		if a.Station != p.Cable.Other {
			return refuse("a station at " + a.Station.String())
		}
		ports = []string{a.Port}
	case string(agent.Identify):
		var a agent.IdentifyArgs
		if err := json.Unmarshal(args, &a); err != nil {
			return err
		}
		ports = a.Ports
	case string(agent.ReceiveRead):
		if err := json.Unmarshal(args, &ports); err != nil {
			return err
		}
	default:
		end := ofBegun[method]
		if end == "" {
			return refuse(method)
		}
		var n int
		if err := json.Unmarshal(args, &n); err != nil {
			return err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.begun[begun{end, n}] {
			return refuse(fmt.Sprintf("%s of %d: it has begun nothing of that number", method, n))
		}
	}
	for _, port := range ports {
		if port != p.Cable.To {
			return refuse("port " + port)
		}
	}
	return nil
}

// goes says whether hops are the procedure's way: to the other board's port, and back where it routes.
func (p *Pair) goes(hops []agent.Hop) bool {
	way := []bool{false, true} // whether a hop is the other board's
	if p.Routes {
		way = []bool{false, true, true, false}
	}
	return slices.EqualFunc(hops, way, func(h agent.Hop, mine bool) bool { return h.Mine == mine })
}

// A pairing is the agent's end of procedures that send to another board.
type pairing struct {
	*box

	mu   sync.Mutex
	conn *link.Conn // the other board; nil: no procedure is carried out
}

func (p *pairing) run(ctx context.Context, req *link.Request, a pairArgs) (none agent.None, err error) {
	var one sync.Mutex // calls come from several goroutines
	send := func(i item) error {
		one.Lock()
		defer one.Unlock()
		return req.Send(ctx, i)
	}
	conn, end := other(ctx, a, send)
	defer end()
	defer func() {
		p.mu.Lock()
		if p.conn == conn {
			p.conn = nil
		}
		p.mu.Unlock()
		err = errors.Join(err, conn.Close())
	}()
	build := lab.BuildBoards
	if slices.ContainsFunc(p.specs, func(s procedure.Spec) bool { return s.Name == a.Name && Arms(s) }) {
		build = lab.BuildArm
	}
	return none, p.carry(ctx, a.procedureArgs, func(ctx context.Context) (*lab.Testbed, error) {
		p.mu.Lock()
		p.conn = conn
		p.mu.Unlock()
		return build(ctx, a.Cable, conn)
	}, send)
}

// other is the other board, up to end. Once ctx has ended the tester passes nothing on: calls
// that clean up fail at once.
func other(ctx context.Context, a pairArgs, send func(item) error) (conn *link.Conn, end func() bool) {
	conn = link.Over(link.Cut(a.Other, 63), link.Hello{Agent: link.Name, Protocol: link.Protocol, Version: a.Version}, &passage{send: send}, func() error { return nil })
	return conn, guard.AfterDone(ctx, func() { conn.Fail(fmt.Errorf("the tester passes nothing on to %s any more", conn.Name)) })
}

func (p *pairing) passed(_ context.Context, _ *link.Request, m call) (none agent.None, err error) {
	p.mu.Lock()
	conn := p.conn
	p.mu.Unlock()
	if conn == nil {
		return none, errors.New("no procedure waits for another board")
	}
	conn.Deliver(m.Subject, m.Data)
	return none, nil
}

// A passage is a link.Way by the tester.
type passage struct {
	send   func(item) error
	octets atomic.Uint64
}

// Publish implements link.Way.
func (w *passage) Publish(subject, reply string, data []byte) error {
	w.octets.Add(uint64(len(data)))
	return w.send(item{Kind: callItem, Call: &call{subject, reply, data}})
}

// Octets implements link.Way.
func (w *passage) Octets() (sent, received uint64) { return w.octets.Load(), 0 }

// Close implements link.Way.
func (w *passage) Close() {}
