// SPDX-License-Identifier: Apache-2.0

// Package agent is what runs on a box for a tester: it answers the methods of one table
// and nothing else. All that a tester asked for ends with its connection, and what it
// changed is put back. It runs no shell, and writes no file outside its folder.
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"boxdyno/host"
	"boxdyno/internal/cables"
	"boxdyno/link"
	"boxdyno/result"
	"boxdyno/service"
	"boxdyno/subject"
	"boxdyno/subject/iperf"
	"boxdyno/subject/tunnel"
	"boxdyno/telemetry"
	"boxdyno/tune"
)

// An Ask is a method's name, with the types of its arguments and of its answer.
type Ask[A, R any] string

// mostAnswer is more than an answer has, octets: parts of it are kept in records.
const mostAnswer = 1 << 20

// answering is how long an agent that is there may take for an answer. Subjects read
// thousands of rules meanwhile.
var answering = 10 * time.Minute

// Call asks the agent at the other end of c. Its errors are those of link.Conn.Call; an
// answer that is too long, or takes too long, is one too.
func (m Ask[A, R]) Call(ctx context.Context, c *link.Conn, args A) (reply R, err error) {
	err = ask(ctx, c, string(m), args, &reply, answering)
	return reply, err
}

// Within is Call with another limit.
func (m Ask[A, R]) Within(ctx context.Context, c *link.Conn, args A, limit time.Duration) (reply R, err error) {
	err = ask(ctx, c, string(m), args, &reply, limit)
	return reply, err
}

// ask is Call of every type, of which programs have one copy; it waits for at most limit.
func ask(ctx context.Context, c *link.Conn, method string, args, reply any, limit time.Duration) error {
	late := fmt.Errorf("%s has not answered %s for %v", c.Name, method, limit)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, late)
	defer cancel()
	var text json.RawMessage
	if err := c.Call(ctx, method, args, &text); err != nil {
		if errors.Is(err, context.DeadlineExceeded) && context.Cause(ctx) == late {
			return late
		}
		return err
	}
	if len(text) > mostAnswer {
		return fmt.Errorf("%s answered %s with %d octets, at most %d are taken", c.Name, method, len(text), mostAnswer)
	}
	if err := json.Unmarshal(text, reply); err != nil {
		return fmt.Errorf("%s answered %s with what cannot be read: %w", c.Name, method, err)
	}
	return nil
}

// The methods.
const (
	Identify       Ask[IdentifyArgs, Identity]         = "identify"
	Check          Ask[None, Checked]                  = "check"
	Hold           Ask[HoldArgs, None]                 = "hold"
	Busy           Ask[time.Duration, float64]         = "busy"
	Resources      Ask[None, host.Resources]           = "resources"
	ReceiveRead    Ask[[]string, result.DUTWork]       = "receive.read"
	LedgerOpen     Ask[LedgerArgs, int]                = "ledger.open"
	LedgerRead     Ask[int, LedgerReading]             = "ledger.read"
	LedgerClose    Ask[int, None]                      = "ledger.close"
	FilePut        Ask[FileChunk, FileState]           = "file.put"
	CablesOpen     Ask[CablesArgs, CablesState]        = "cables.open"
	CablesSend     Ask[None, None]                     = "cables.send"
	CablesSee      Ask[None, CablesState]              = "cables.see"
	CablesClose    Ask[None, None]                     = "cables.close"
	TelemetryOpen  Ask[TelemetryArgs, TelemetryOpened] = "telemetry.open"
	TelemetryRead  Ask[None, TelemetryReading]         = "telemetry.read"
	TelemetryClose Ask[None, None]                     = "telemetry.close"
	ServiceManage  Ask[ManageArgs, ManageReply]        = "service.manage"
	ServiceSet     Ask[service.Service, None]          = "service.set"
	ServiceClose   Ask[None, None]                     = "service.close"
	TuneShow       Ask[TuneArgs, []tune.Change]        = "tune.show"
	TuneApply      Ask[TuneArgs, TuneApplied]          = "tune.apply"
	TuneRevert     Ask[TuneRevertArgs, TuneReverted]   = "tune.revert"
	TuneStatus     Ask[None, TuneStanding]             = "tune.status"
)

// None is for methods that take or return nothing.
type None struct{}

// A Method is a row of Methods.
type Method struct {
	Name, Doc string
	answer    func(*Session, context.Context, *link.Request) (any, error)
}

func (m Method) bind(s *Session) link.Handler {
	return func(ctx context.Context, r *link.Request) (any, error) { return m.answer(s, ctx, r) }
}

// Methods is all that an agent does, beside what Serve is given.
func Methods() []Method {
	return append(slices.Concat(subjectMethods(), gatewayMethods(), webMethods(), rollMethods()), []Method{
		method(Identify, "the machine, its environment and ports", (*Session).identify),
		method(Check, "what the agent may do here, and what is missing", (*Session).check),
		method(Hold, "keeps other testers off until the connection ends", (*Session).hold),
		method(Busy, "the share of the CPUs that is busy for a time, at most 10 s", (*Session).busy),
		method(Resources, "temperatures, available memory and CPUs", func(*Session, context.Context, None) (host.Resources, error) { return (&host.Local{}).Resources(), nil }),
		method(ReceiveRead, "how the CPUs took frames since this was asked before, and how ports are set up for that", (*Session).readReceive),
		method(LedgerOpen, "opens the ledger of paths", (*Session).openLedger),
		method(LedgerRead, "reads every counter of a ledger", (*Session).readLedger),
		method(LedgerClose, "closes a ledger", (*Session).closeLedger),
		method(FilePut, "keeps a part of a file in the agent's folder while the connection lasts", (*Session).putFile),
		method(CablesOpen, "listens for marks on every port, and sets up free ports that are down", (*Session).openCables),
		method(CablesSend, "sends a mark from each free port", (*Session).sendCables),
		method(CablesSee, "the ports, and the marks that came in", (*Session).seeCables),
		method(CablesClose, "ends the search, and sets ports down again", (*Session).closeCables),
		method(TelemetryOpen, "opens collectors of telemetry", (*Session).openTelemetry),
		method(TelemetryRead, "reads every series of telemetry", (*Session).readTelemetry),
		method(TelemetryClose, "closes the collectors", (*Session).closeTelemetry),
		method(ServiceManage, "sets ports, addresses and forwarding up for services, until the connection ends", (*Session).manage),
		method(ServiceSet, "serves one service on these ports", (*Session).setService),
		method(ServiceClose, "puts the ports back", (*Session).unmanage),
		method(TuneShow, "what a recipe would change", (*Session).showTuning),
		method(TuneApply, "applies a recipe, until the connection ends or for good", (*Session).applyTuning),
		method(TuneRevert, "puts back what was applied", (*Session).revertTuning),
		method(TuneStatus, "what the journals have yet to put back", (*Session).tuningStatus),
	}...)
}

// More is a method that no Session has, for Serve: f answers it.
func More[A, R any](name Ask[A, R], doc string, f func(context.Context, *link.Request, A) (R, error)) Method {
	return Method{string(name), doc, func(_ *Session, ctx context.Context, r *link.Request) (any, error) {
		var args A
		if err := read(r, string(name), &args); err != nil {
			return nil, err
		}
		return f(ctx, r, args)
	}}
}

// method is a method without items. It, More and streaming are not made of each other: each of
// 70 methods would have a function more, in an agent that has to be small.
func method[A, R any](name Ask[A, R], doc string, f func(*Session, context.Context, A) (R, error)) Method {
	return Method{string(name), doc, func(s *Session, ctx context.Context, r *link.Request) (any, error) {
		var args A
		if err := read(r, string(name), &args); err != nil {
			return nil, err
		}
		return f(s, ctx, args)
	}}
}

func streaming[A, R any](name Ask[A, R], doc string, f func(*Session, context.Context, *link.Request, A) (R, error)) Method {
	return Method{string(name), doc, func(s *Session, ctx context.Context, r *link.Request) (any, error) {
		var args A
		if err := read(r, string(name), &args); err != nil {
			return nil, err
		}
		return f(s, ctx, r, args)
	}}
}

// read is the arguments of a method, of every type.
func read(r *link.Request, method string, args any) error {
	if err := json.Unmarshal(r.Args, args); err != nil {
		return fmt.Errorf("read the arguments of %s: %w", method, err)
	}
	return nil
}

// A Session is what one tester has asked for.
type Session struct {
	Folder  string // the agent's own; made when it is needed
	Version string

	// Held while one of its kind is opened or changed, so that there is one.
	holding, managing, looking sync.Mutex

	mu       sync.Mutex
	held     bool // holding's
	last     int
	books    map[int]*book
	tuned    map[int]*tune.Applied // by TuneApplied.ID
	machine  *service.Machine      // nil: no ports are set up for services
	search   *cables.Search        // nil: no cables are looked for
	files    map[string]int64      // octets by digest
	lasting  context.Context       // ends with the session
	reader   *telemetry.Reader     // nil: no telemetry is open
	warnings []string              // of its collectors
	received *host.Receiving       // when ReceiveRead was asked before; nil: never
	ends     []*ending             // last first

	gateway *service.Gateway // managing's; nil: this machine is none
	tunnels kept[tunnel.End]
	servers kept[iperf.Server]
	rolls   kept[*calling]

	whole    map[string]bool // of files, those that are whole
	specs    subject.Specs
	subjects map[int]*running
}

// An ending is what is called when the connection has ended.
type ending struct{ f func() error }

// atEnd has f called when the connection has ended, unless forget was called before.
func (s *Session) atEnd(f func() error) (forget func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := &ending{f}
	s.ends = append(s.ends, e)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ends = slices.DeleteFunc(s.ends, func(o *ending) bool { return o == e })
	}
}

// end puts back what was changed and closes what is open. No handler runs any more.
func (s *Session) end() (all error) {
	for _, e := range slices.Backward(s.ends) {
		all = errors.Join(all, e.f())
	}
	return all
}

// Folder is the agent's own: /var/lib/boxdyno-agent for root, else
// $XDG_STATE_HOME/boxdyno-agent.
func Folder() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/lib/" + link.Name, nil
	}
	if state := os.Getenv("XDG_STATE_HOME"); state != "" {
		return filepath.Join(state, link.Name), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the agent's folder: %w", err)
	}
	return filepath.Join(home, ".local", "state", link.Name), nil
}

// ownFolder makes the agent's folder. One that others may write to, or that another user
// has put there, is a *host.Missing.
func (s *Session) ownFolder() error {
	if err := os.MkdirAll(s.Folder, 0o700); err != nil {
		return host.Permit("make the agent's folder", err)
	}
	return own(s.Folder)
}

// own says whether a folder is the agent's alone.
func own(folder string) error {
	for _, look := range []func(string) (os.FileInfo, error){os.Lstat, os.Stat} { // a link, and what it leads to
		info, err := look(folder)
		if err != nil {
			return host.Permit("look at the agent's folder", err)
		}
		uid := int(info.Sys().(*syscall.Stat_t).Uid)
		if uid != 0 && uid != os.Geteuid() || info.IsDir() && info.Mode()&0o022 != 0 {
			return &host.Missing{What: "a folder of the agent's own: others may write to " + folder, Hint: "remove it, or give another --folder"}
		}
	}
	return nil
}

// Recover puts back what an agent that was killed had tuned, and removes what it left in
// folder; note is told what was. An agent calls it before it answers anybody.
func Recover(ctx context.Context, folder string, note func(string)) {
	notes, err := tune.New().Recover(ctx, nil)
	for _, n := range notes {
		note(n)
	}
	if err != nil {
		note(err.Error()) // the next start tries again
	}
	if err := host.Sweep(); err != nil {
		note(err.Error())
	}
	sweep(folder)
}

// Open begins what one tester may ask for, by Methods and more; subjects are those that it
// may run. end puts back what was changed; no handler may run any more.
func Open(ctx context.Context, folder, version string, subjects subject.Specs, more ...Method) (find func(method string) link.Handler, end func() error) {
	lasting, stop := context.WithCancel(ctx)
	s := newSession(lasting, folder, version, subjects)
	handlers := map[string]link.Handler{}
	for _, m := range append(Methods(), more...) {
		handlers[m.Name] = m.bind(s)
	}
	return func(name string) link.Handler { return handlers[name] }, func() error {
		stop()
		return s.end()
	}
}

// Serve answers one tester on in and out until they end, as Recover and Open say.
func Serve(ctx context.Context, in io.Reader, out io.Writer, folder, version string, subjects subject.Specs, note func(string), more ...Method) error {
	Recover(ctx, folder, note)
	find, end := Open(ctx, folder, version, subjects, more...)
	err := link.Serve(ctx, in, out, version, find)
	return errors.Join(err, end())
}

func newSession(ctx context.Context, folder, version string, subjects subject.Specs) *Session {
	return &Session{lasting: ctx, Folder: folder, Version: version, specs: subjects, books: map[int]*book{}, tuned: map[int]*tune.Applied{}, files: map[string]int64{}, whole: map[string]bool{}, subjects: map[int]*running{},
		tunnels: kept[tunnel.End]{}, servers: kept[iperf.Server]{}, rolls: kept[*calling]{}}
}

// HoldArgs say who wants the machine for itself.
type HoldArgs struct {
	Boot string `json:"boot"` // boot_id of the tester
}

// patience is how long another tester may take to leave.
const patience = 3 * time.Second

// hold takes the agent's lock, and the machine's unless the tester stands on this machine
// and has that itself. Another tester, and another boxdyno here, are a *host.Missing.
func (s *Session) hold(ctx context.Context, a HoldArgs) (None, error) {
	s.holding.Lock()
	defer s.holding.Unlock()
	if s.held {
		return None{}, nil
	}
	if err := s.ownFolder(); err != nil {
		return None{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	who := ""
	wait := func(holder string) { who = holder }
	unlock, err := host.LockFile(ctx, filepath.Join(s.Folder, "lock"), wait)
	if err == nil {
		whole := func() {}
		if (&host.Local{}).Identify().BootID != a.Boot {
			whole, err = host.Lock(ctx, wait)
		}
		if err == nil {
			s.atEnd(func() error { whole(); unlock(); return nil })
		} else {
			unlock() // or another try would wait for this one
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = &host.Missing{What: "a box that nobody else measures: another run holds it (" + who + " there)", Hint: "wait for that run to end"}
	}
	s.held = err == nil
	return None{}, err
}
