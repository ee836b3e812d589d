// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"boxdyno/host"
	"boxdyno/link"
	"boxdyno/result"
	"boxdyno/subject"
	"boxdyno/subject/capture"
	"boxdyno/subject/detector"
	"boxdyno/subject/ids"
	"boxdyno/unit"
)

// The methods of subjects.
const (
	SubjectCheck   Ask[SubjectArgs, None]           = "subject.check"
	SubjectStart   Ask[SubjectArgs, SubjectStarted] = "subject.start"
	SubjectReady   Ask[int, None]                   = "subject.ready"
	SubjectFollow  Ask[int, None]                   = "subject.follow" // a stream of SubjectState
	SubjectUsage   Ask[int, result.Usage]           = "subject.usage"
	SubjectBegin   Ask[int, None]                   = "subject.begin"
	SubjectWait    Ask[int, SubjectEnd]             = "subject.wait"
	SubjectMain    Ask[int, MainUse]                = "subject.main"
	SubjectSockets Ask[int, None]                   = "subject.sockets"
	SubjectStop    Ask[int, SubjectTotals]          = "subject.stop"
)

func subjectMethods() []Method {
	return []Method{
		method(SubjectCheck, "whether a subject can run here", (*Session).checkSubject),
		method(SubjectStart, "starts a subject, which ends with the connection", (*Session).startSubject),
		method(SubjectReady, "waits until a subject does its work", (*Session).readySubject),
		streaming(SubjectFollow, "sends what a subject has counted, until it was stopped", (*Session).followSubject),
		method(SubjectUsage, "what a subject's process tree used", (*Session).useOfSubject),
		method(SubjectBegin, "has a detector that is ready evaluate", (*Session).beginSubject),
		method(SubjectWait, "waits for the figures of a detector that evaluates, at most 10 s", (*Session).waitForSubject),
		method(SubjectMain, "what a subject's main process used", (*Session).mainOfSubject),
		method(SubjectSockets, "reads the drops of a subject's packet sockets", (*Session).readSockets),
		method(SubjectStop, "stops a subject and returns its own figures", (*Session).stopSubject),
	}
}

// SubjectArgs describe a subject and where it runs.
type SubjectArgs struct {
	Name    string         `json:"name"` // of its row
	Options []result.Pair  `json:"options,omitempty"`
	Files   []result.Pair  `json:"files,omitempty"` // options whose values are files: the SHA-256 of each, which file.put has brought
	Port    string         `json:"port,omitempty"`
	CPUs    []int          `json:"cpus,omitempty"` // nil: all
	Rate    unit.FrameRate `json:"rate,omitempty"`
	Foreign bool           `json:"foreign,omitempty"` // subject.Env.Foreign
}

// A SubjectStarted is a subject that runs, and what does not change of it: see the
// methods of these names of capture.Capturing.
type SubjectStarted struct {
	ID         int           `json:"id"`
	Behind     bool          `json:"behind,omitempty"`
	Prompt     bool          `json:"prompt,omitempty"`
	Redirected bool          `json:"redirected,omitempty"`
	Ends       bool          `json:"ends,omitempty"`
	Untold     bool          `json:"untold,omitempty"`
	Rare       time.Duration `json:"rare_ns,omitempty"`
}

// A SubjectState is what a subject had done at an instant. Instants are of this machine.
type SubjectState struct {
	Counted   int64        `json:"counted"`
	At        unit.Instant `json:"at"` // when it said so; 0: it has not
	WorkedOff unit.Instant `json:"worked_off,omitempty"`
	Dropped   int64        `json:"dropped,omitempty"` // by itself; 0: none, or it has not said
	Ended     string       `json:"ended,omitempty"`   // what went wrong with it
}

// SubjectTotals are a subject's own figures once it was stopped.
type SubjectTotals struct {
	State      SubjectState         `json:"state"`
	Usage      result.Usage         `json:"usage"`
	UsageError string               `json:"usage_error,omitempty"`
	Totals     *capture.Totals      `json:"totals,omitempty"`
	Startup    *capture.Startup     `json:"startup,omitempty"`
	Terms      []result.Term        `json:"terms,omitempty"`
	TermsError string               `json:"terms_error,omitempty"`
	IDS        *ids.Totals          `json:"ids,omitempty"`
	Alerts     map[int]int64        `json:"alerts,omitempty"`
	AlertError string               `json:"alerts_error,omitempty"`
	Detections *detector.Detections `json:"detections,omitempty"`
	PortError  string               `json:"port_error,omitempty"` // why its port was not put back
}

// A SubjectEnd is what a detector without a port has found; nil: it evaluates still.
type SubjectEnd struct {
	Evaluation *detector.Evaluation `json:"evaluation,omitempty"`
}

// waiting is how long one call waits.
const waiting = 10 * time.Second

var errNotEvaluating = errors.New("this subject evaluates nothing by itself")

func (s *Session) beginSubject(_ context.Context, id int) (None, error) {
	r, err := s.subject(id)
	if err != nil {
		return None{}, err
	}
	e, ok := r.Running.(*detector.Evaluating)
	if !ok {
		return None{}, errNotEvaluating
	}
	return None{}, e.Begin()
}

func (s *Session) waitForSubject(ctx context.Context, id int) (end SubjectEnd, err error) {
	r, err := s.subject(id)
	if err != nil {
		return end, err
	}
	e, ok := r.Running.(*detector.Evaluating)
	if !ok {
		return end, errNotEvaluating
	}
	some, cancel := context.WithTimeout(ctx, waiting)
	defer cancel()
	found, err := e.Wait(some)
	switch {
	case err == nil:
		end.Evaluation = &found
	case some.Err() != nil && ctx.Err() == nil:
		err = nil
	}
	return end, err
}

// A MainUse is what a subject's main process used.
type MainUse struct {
	CPU   time.Duration `json:"cpu_ns"`
	Peak  uint64        `json:"peak_bytes"`
	Known bool          `json:"known"`
}

const (
	mostSubjects = 16
	// followPause is between two looks at a subject, which tells its count at 10 Hz.
	followPause = 20 * time.Millisecond
)

// A running is a subject that a tester has started. over is closed once it was stopped;
// release puts its port back.
type running struct {
	subject.Running
	over    chan struct{}
	release func() error
	forget  func() // that it ends with the connection
}

// chosen is the subject of a, with its parameters.
func (s *Session) chosen(a SubjectArgs) (subject.Subject, error) {
	spec, err := s.specs.Find(a.Name)
	if err != nil {
		return nil, err
	}
	if a.Name == capture.Own {
		return nil, &host.Missing{What: "a way to run subject " + capture.Own, Hint: "an agent runs no commands of a file: run it on the machine itself"}
	}
	sub := spec.New()
	fs := flag.NewFlagSet(a.Name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	sub.Flags(fs)
	var reads []string
	if r, ok := sub.(subject.Reader); ok {
		reads = r.Files()
	}
	set := func(name, value string) {
		switch f := fs.Lookup(name); {
		case f == nil:
			err = errors.Join(err, fmt.Errorf("subject %s has no parameter %q", a.Name, name))
		case f.Value.String() != value: // a default may say that a value is missing
			err = errors.Join(err, f.Value.Set(value))
		}
	}
	for _, o := range a.Options {
		if slices.Contains(reads, o.Key) {
			return nil, fmt.Errorf("subject %s: %s is a file: it must be sent", a.Name, o.Key)
		}
		set(o.Key, o.Value)
	}
	for _, f := range a.Files {
		path, ferr := s.sent(f.Value)
		if ferr != nil || !slices.Contains(reads, f.Key) {
			return nil, errors.Join(ferr, fmt.Errorf("subject %s: %s is no file that was sent", a.Name, f.Key))
		}
		set(f.Key, path)
	}
	return sub, err
}

func (s *Session) checkSubject(ctx context.Context, a SubjectArgs) (None, error) {
	sub, err := s.chosen(a)
	if err == nil {
		err = s.ownFolder()
	}
	if err == nil {
		err = sub.Check(ctx, &host.Local{Label: Label})
	}
	return None{}, err
}

func (s *Session) startSubject(ctx context.Context, a SubjectArgs) (started SubjectStarted, err error) {
	sub, err := s.chosen(a)
	if err != nil {
		return started, err
	}
	s.mu.Lock()
	full := len(s.subjects) >= mostSubjects
	s.last++
	id := s.last
	if !full {
		s.subjects[id] = nil // its place
	}
	s.mu.Unlock()
	if full {
		return started, errors.New("too many subjects run")
	}
	defer func() {
		if err != nil {
			s.mu.Lock()
			delete(s.subjects, id)
			s.mu.Unlock()
		}
	}()
	if err := s.ownFolder(); err != nil {
		return started, err
	}
	release := func() error { return nil }
	if a.Port != "" {
		if release, err = listenOn(ctx, &host.Local{Label: Label}, a.Port, apartFor(sub)); err != nil {
			return started, err
		}
	}
	run, err := sub.Start(ctx, subject.Env{
		Host: &host.Local{Label: Label}, Port: host.Port{Host: Label, Name: a.Port}, CPUs: a.CPUs, Dir: s.Folder, Rate: a.Rate, Foreign: a.Foreign,
	})
	if err != nil {
		return started, errors.Join(err, release())
	}
	r := &running{Running: run, over: make(chan struct{}), release: sync.OnceValue(release)}
	started.ID = id
	r.forget = s.atEnd(func() error { return s.abandon(id) })
	s.mu.Lock()
	s.subjects[id] = r
	s.mu.Unlock()
	if err := ctx.Err(); err != nil { // nobody hears its number
		r.forget()
		return started, errors.Join(err, s.abandon(id))
	}
	if c, ok := run.(interface {
		Behind() bool
		Prompt() bool
		Redirected() bool
		Ends() bool
		Untold() bool
		Rare() time.Duration
	}); ok {
		started.Behind, started.Prompt, started.Redirected, started.Ends, started.Untold, started.Rare = c.Behind(), c.Prompt(), c.Redirected(), c.Ends(), c.Untold(), c.Rare()
	}
	return started, nil
}

// abandon ends a subject whose tester is gone, at once.
func (s *Session) abandon(id int) error {
	s.mu.Lock()
	r := s.subjects[id]
	delete(s.subjects, id)
	s.mu.Unlock()
	if r == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return errors.Join(r.Stop(ctx), r.release())
}

func (s *Session) subject(id int) (*running, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.subjects[id]; r != nil {
		return r, nil
	}
	return nil, errors.New("there is no such subject")
}

func (s *Session) readySubject(ctx context.Context, id int) (None, error) {
	r, err := s.subject(id)
	if err == nil {
		err = r.Ready(ctx)
	}
	return None{}, err
}

func (s *Session) useOfSubject(_ context.Context, id int) (result.Usage, error) {
	r, err := s.subject(id)
	if err != nil {
		return result.Usage{}, err
	}
	return r.Usage()
}

func (s *Session) mainOfSubject(_ context.Context, id int) (u MainUse, err error) {
	r, err := s.subject(id)
	if err != nil {
		return u, err
	}
	if m, ok := r.Running.(interface {
		Main() (time.Duration, uint64, bool)
	}); ok {
		u.CPU, u.Peak, u.Known = m.Main()
	}
	return u, nil
}

func (s *Session) readSockets(_ context.Context, id int) (None, error) {
	r, err := s.subject(id)
	if err != nil {
		return None{}, err
	}
	if c, ok := r.Running.(interface{ ReadSockets() error }); ok {
		err = c.ReadSockets()
	}
	return None{}, err
}

// state is what a subject has done by now.
func (r *running) state() (st SubjectState) {
	if p, ok := r.Running.(subject.Progresser); ok {
		if n, at, told := p.Progress(); told {
			st.Counted, st.At = n, at
		}
	}
	if w, ok := r.Running.(interface{ WorkedOffAt() unit.Instant }); ok {
		st.WorkedOff = w.WorkedOffAt()
	}
	if d, ok := r.Running.(interface{ Dropped() (int64, bool) }); ok {
		if n, told := d.Dropped(); told {
			st.Dropped = n
		}
	}
	if e, ok := r.Running.(subject.Ender); ok {
		if err := e.Ended(); err != nil {
			st.Ended = err.Error()
		}
	}
	return st
}

// followSubject sends a subject's state whenever it has changed, until it was stopped.
func (s *Session) followSubject(ctx context.Context, req *link.Request, id int) (None, error) {
	r, err := s.subject(id)
	if err != nil {
		return None{}, err
	}
	t := time.NewTicker(followPause)
	defer t.Stop()
	for last := (SubjectState{}); ; {
		if now := r.state(); now != last {
			if err := req.Send(ctx, now); err != nil {
				return None{}, err
			}
			last = now
		}
		select {
		case <-ctx.Done():
			return None{}, ctx.Err()
		case <-r.over:
			return None{}, nil
		case <-t.C:
		}
	}
}

// stopSubject ends a subject in order and returns its own figures, whether its port could be
// put back or not.
func (s *Session) stopSubject(ctx context.Context, id int) (t SubjectTotals, err error) {
	r, err := s.subject(id)
	if err != nil {
		return t, err
	}
	if err := r.Stop(ctx); err != nil {
		return t, err
	}
	s.mu.Lock()
	first := s.subjects[id] != nil
	delete(s.subjects, id)
	s.mu.Unlock()
	if first {
		r.forget()
		close(r.over)
	}
	if err := r.release(); err != nil {
		t.PortError = err.Error()
	}
	t.State = r.state()
	if t.Usage, err = r.Usage(); err != nil {
		t.UsageError = err.Error()
	}
	if c, ok := r.Running.(interface{ Totals() capture.Totals }); ok {
		totals := c.Totals()
		t.Totals = &totals
	}
	if c, ok := r.Running.(interface{ Startup() capture.Startup }); ok {
		startup := c.Startup()
		t.Startup = &startup
	}
	if c, ok := r.Running.(subject.Counter); ok {
		if t.Terms, err = c.Count(ctx); err != nil {
			t.TermsError = err.Error()
		}
	}
	if i, ok := r.Running.(interface{ IDS() ids.Totals }); ok {
		totals := i.IDS()
		t.IDS = &totals
	}
	if a, ok := r.Running.(ids.Alerter); ok {
		if t.Alerts, err = a.Alerts(ctx); err != nil {
			t.AlertError = err.Error()
		}
	}
	if d, ok := r.Running.(interface{ Detections() detector.Detections }); ok {
		told := d.Detections()
		t.Detections = &told
	}
	return t, nil
}

// sent is the path of a file that has come whole.
func (s *Session) sent(sum string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.whole[sum] {
		return "", errors.New("a file was not sent")
	}
	return filepath.Join(s.filesDir(), sum), nil
}
