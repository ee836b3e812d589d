// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"boxdyno/internal/files"
	"boxdyno/internal/guard"
	"boxdyno/link"
	"boxdyno/result"
	"boxdyno/subject"
	"boxdyno/subject/capture"
	"boxdyno/subject/detector"
	"boxdyno/subject/ids"
	"boxdyno/unit"
)

// A Machine is the box at the other end of a Conn, on which its agent runs subjects by
// the same code as Here. Instants that subjects tell are of this machine's clock.
type Machine struct{ Conn *link.Conn }

// clockReadings are taken at each start, and every clockEvery from then on: clocks drift
// apart, by some microseconds a second.
const clockReadings = 8

var clockEvery = 2 * time.Second

// Options are the parameters of s as SubjectArgs have them; files are those whose values name
// files, which are sent.
func Options(s subject.Named) (options, files []result.Pair) {
	fs := flag.NewFlagSet(s.Name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	s.Flags(fs)
	var reads []string
	if r, ok := s.Subject.(subject.Reader); ok {
		reads = r.Files()
	}
	fs.VisitAll(func(f *flag.Flag) {
		switch p := (result.Pair{Key: f.Name, Value: f.Value.String()}); {
		case !slices.Contains(reads, f.Name):
			options = append(options, p)
		case p.Value != "":
			files = append(files, p)
		}
	})
	return options, files
}

// describe is s as the agent takes it; files that its parameters name are sent.
func (m Machine) describe(ctx context.Context, s subject.Named) (a SubjectArgs, err error) {
	options, named := Options(s)
	a.Name, a.Options = s.Name, options
	for _, f := range named {
		sum, err := m.send(ctx, f.Value)
		if err != nil {
			return a, err
		}
		a.Files = append(a.Files, result.Pair{Key: f.Key, Value: sum})
	}
	return a, nil
}

// send brings a file to the box and returns its digest.
func (m Machine) send(ctx context.Context, name string) (sum string, err error) {
	f, err := files.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	path, err := Put(ctx, m.Conn, f)
	return filepath.Base(path), m.lost(err)
}

// lost is err, with subject.ErrLost in its chain if the connection has ended.
func (m Machine) lost(err error) error {
	if err != nil && m.Conn.Err() != nil {
		return fmt.Errorf("%w: %w", subject.ErrLost, err)
	}
	return err
}

// Check implements subject.Machine.
func (m Machine) Check(ctx context.Context, s subject.Named) error {
	a, err := m.describe(ctx, s)
	if err == nil {
		_, err = SubjectCheck.Call(ctx, m.Conn, a)
	}
	return m.lost(err)
}

// Start implements subject.Machine.
func (m Machine) Start(ctx context.Context, s subject.Named, e subject.Env) (subject.Running, error) {
	a, err := m.describe(ctx, s)
	if err != nil {
		return nil, m.lost(err)
	}
	clock, err := m.Conn.Clock(ctx, clockReadings)
	if err != nil {
		return nil, m.lost(err)
	}
	a.Port, a.CPUs, a.Rate, a.Foreign = e.Port.Name, e.CPUs, e.Rate, e.Foreign
	started, err := SubjectStart.Call(ctx, m.Conn, a)
	if err != nil {
		return nil, m.lost(err)
	}
	r := &far{on: m, SubjectStarted: started, clock: clock, followed: make(chan struct{})}
	follow, enough := context.WithCancel(context.WithoutCancel(ctx))
	r.enough = enough
	guard.Go(func() { r.follow(follow) })
	guard.Go(func() { r.compare(follow) })
	switch s.Subject.(type) {
	case *ids.IDS:
		return &farIDS{r}, nil
	case *detector.Detector:
		if e.Port.Name == "" {
			return &farEvaluating{r}, nil
		}
		return &farDetector{r}, nil
	}
	return r, nil
}

// A far is a subject that runs on a box. Its own figures are known once it was stopped.
type far struct {
	on Machine
	SubjectStarted
	enough   func() // ends follow and compare
	followed chan struct{}

	mu    sync.Mutex
	clock link.ClockOffset // as it was compared last
	state SubjectState
	told  *SubjectTotals // nil: it was not stopped
	wrong error          // why its state is not known any more
}

func (r *far) follow(ctx context.Context) {
	defer close(r.followed)
	err := r.on.Conn.Stream(ctx, string(SubjectFollow), r.ID, nil, func(item json.RawMessage) error {
		var now SubjectState
		if err := json.Unmarshal(item, &now); err != nil {
			return err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.state = now
		return nil
	})
	if err != nil && ctx.Err() == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.wrong = r.on.lost(err)
	}
}

// compare compares the clocks again and again until ctx ends.
func (r *far) compare(ctx context.Context) {
	t := time.NewTicker(clockEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.on.Conn.Ended():
			return
		case <-t.C:
		}
		if clock, err := r.on.Conn.Clock(ctx, clockReadings); err == nil {
			r.mu.Lock()
			r.clock = clock
			r.mu.Unlock()
		}
	}
}

// Ready implements subject.Running.
func (r *far) Ready(ctx context.Context) error {
	_, err := SubjectReady.Call(ctx, r.on.Conn, r.ID)
	return r.on.lost(err)
}

// Usage implements subject.Running.
func (r *far) Usage() (result.Usage, error) {
	r.mu.Lock()
	told := r.told
	r.mu.Unlock()
	if told != nil {
		return told.Usage, said(told.UsageError)
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerPatience)
	defer cancel()
	u, err := SubjectUsage.Call(ctx, r.on.Conn, r.ID)
	return u, r.on.lost(err)
}

// answerPatience is above link.Silence, after which the connection is taken for dead.
const answerPatience = link.Silence + 2*time.Second

// Stop implements subject.Running.
func (r *far) Stop(ctx context.Context) error {
	r.mu.Lock()
	done := r.told != nil
	r.mu.Unlock()
	if done {
		return nil
	}
	told, err := SubjectStop.Call(ctx, r.on.Conn, r.ID)
	r.enough()
	<-r.followed
	if err != nil {
		return r.on.lost(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told, r.state = &told, told.State
	return nil
}

// Ended implements subject.Ender.
func (r *far) Ended() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wrong != nil {
		return r.wrong
	}
	return said(r.state.Ended)
}

// Progress implements subject.Progresser.
func (r *far) Progress() (counted int64, at unit.Instant, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.At == 0 {
		return 0, 0, false
	}
	return r.state.Counted, r.here(r.state.At), true
}

// ClockError implements subject.Distant.
func (r *far) ClockError() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clock.Error
}

// here is the earliest that an instant of the box may be on this machine: what was said
// before the last frame left is not taken for later. r.mu is held.
func (r *far) here(at unit.Instant) unit.Instant {
	return r.clock.Here(at) - unit.Instant(r.clock.Error)
}

// Dropped is capture.Capturing's, as far as it has said so.
func (r *far) Dropped() (n int64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.Dropped, r.state.At != 0
}

// WorkedOff says whether it has nothing left of what its sockets had taken at an instant.
func (r *far) WorkedOff(at unit.Instant) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.WorkedOff != 0 && r.here(r.state.WorkedOff) >= at
}

// Main is what its main process used since its start.
func (r *far) Main() (cpu time.Duration, peak uint64, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), answerPatience)
	defer cancel()
	u, err := SubjectMain.Call(ctx, r.on.Conn, r.ID)
	return u.CPU, u.Peak, u.Known && err == nil
}

// PortError is why the box's port was not put back when the subject was stopped; nil: it
// was. The subject's figures hold all the same.
func (r *far) PortError() error {
	if err := said(r.figures().PortError); err != nil {
		return fmt.Errorf("the port of %s was not put back after the subject: %w", r.on.Conn.Name, err)
	}
	return nil
}

// These are capture.Capturing's.

func (r *far) Behind() bool        { return r.SubjectStarted.Behind }
func (r *far) Prompt() bool        { return r.SubjectStarted.Prompt }
func (r *far) Redirected() bool    { return r.SubjectStarted.Redirected }
func (r *far) Ends() bool          { return r.SubjectStarted.Ends }
func (r *far) Untold() bool        { return r.SubjectStarted.Untold }
func (r *far) Rare() time.Duration { return r.SubjectStarted.Rare }

// ReadSockets is capture.Capturing.ReadSockets there.
func (r *far) ReadSockets() error {
	ctx, cancel := context.WithTimeout(context.Background(), answerPatience)
	defer cancel()
	_, err := SubjectSockets.Call(ctx, r.on.Conn, r.ID)
	return r.on.lost(err)
}

// figures are its own; zero before it was stopped.
func (r *far) figures() SubjectTotals {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.told == nil {
		return SubjectTotals{}
	}
	return *r.told
}

// Totals are capture.Capturing's.
func (r *far) Totals() capture.Totals {
	if t := r.figures().Totals; t != nil {
		return *t
	}
	return capture.Totals{Captured: -1, Kernel: -1, Own: -1, Port: -1}
}

// Startup is capture.Capturing's.
func (r *far) Startup() (s capture.Startup) {
	if t := r.figures().Startup; t != nil {
		s = *t
	}
	return s
}

// Count implements subject.Counter.
func (r *far) Count(context.Context) ([]result.Term, error) {
	t := r.figures()
	return t.Terms, said(t.TermsError)
}

// said is what went wrong there; nil for "".
func said(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(link.Cut(text, 1000))
}

// A farIDS is an IDS on a box.
type farIDS struct{ *far }

// IDS is ids.Sensing's.
func (r *farIDS) IDS() (t ids.Totals) {
	if told := r.figures().IDS; told != nil {
		t = *told
	}
	return t
}

// Alerts implements ids.Alerter.
func (r *farIDS) Alerts(context.Context) (map[int]int64, error) {
	t := r.figures()
	return t.Alerts, said(t.AlertError)
}

// A farDetector is a detector on a box.
type farDetector struct{ *far }

// Detections is detector.Detecting's.
func (r *farDetector) Detections() (d detector.Detections) {
	if told := r.figures().Detections; told != nil {
		d = *told
	}
	return d
}

// A farEvaluating is a detector without a port on a box.
type farEvaluating struct{ *far }

// Begin is detector.Evaluating's.
func (r *farEvaluating) Begin() error {
	ctx, cancel := context.WithTimeout(context.Background(), answerPatience)
	defer cancel()
	_, err := SubjectBegin.Call(ctx, r.on.Conn, r.ID)
	return r.on.lost(err)
}

// Wait is detector.Evaluating's.
func (r *farEvaluating) Wait(ctx context.Context) (detector.Evaluation, error) {
	for {
		end, err := SubjectWait.Call(ctx, r.on.Conn, r.ID)
		if err != nil {
			return detector.Evaluation{}, r.on.lost(err)
		}
		if end.Evaluation != nil {
			return *end.Evaluation, nil
		}
	}
}
