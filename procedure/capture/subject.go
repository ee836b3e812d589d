// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"errors"
	"time"

	"boxdyno/engine"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/guard"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/subject"
	"boxdyno/unit"
)

// A capturing is a subject that runs, and what was seen of its count.
type capturing struct {
	run      subject.Running
	live     subject.Progresser // nil: it tells its count only at its end
	started  time.Time
	ready    time.Duration // from started
	first    time.Duration // until it counted; 0: it was not seen to
	probes   int64         // frames that it was sent before the traffic
	probed   int64         // of them, counted
	dropped  int64         // frames that it said before the traffic that it had dropped itself
	startup  result.Usage
	readings []tally // since the traffic began, oldest first, one a change
}

// A tally is what a subject that tells its count at 10 Hz had counted.
type tally struct {
	at unit.Instant
	n  int64
}

// begin starts the subject and waits until it counts.
func (m *capturePoint) begin(ctx context.Context, l engine.Load) (_ *capturing, err error) {
	s, err := m.software()
	if err != nil {
		return nil, err
	}
	bed := m.env.Bed
	c := &capturing{started: time.Now()}
	c.run, err = bed.Machine().Start(ctx, s, subject.Env{Port: m.dut, CPUs: bed.DUTCPUs, Rate: max(l.Rate, m.intended)})
	var missing *host.Missing
	switch {
	case errors.As(err, &missing):
		return nil, err
	case err != nil:
		return nil, fault("it did not start: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.end(ctx, c))
		}
	}()
	wait, stop := context.WithTimeout(ctx, m.readiness)
	defer stop()
	if err := c.run.Ready(wait); err != nil {
		if wait.Err() != nil && ctx.Err() == nil {
			return nil, fault("it was not ready within %v", m.readiness)
		}
		return nil, fault("%w", err)
	}
	c.ready = time.Since(c.started)
	c.live, _ = c.run.(subject.Progresser)
	if c.live != nil {
		err = m.probe(ctx, c)
	}
	if d, ok := c.run.(interface{ Dropped() (int64, bool) }); ok && err == nil {
		if n, told := d.Dropped(); told {
			c.dropped = n
		}
	}
	if err == nil {
		c.startup, err = c.run.Usage()
	}
	return c, err
}

// end stops the subject, however ctx stands.
func (m *capturePoint) end(ctx context.Context, c *capturing) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), procedure.StopPatience)
	defer stop()
	return c.run.Stop(ctx)
}

// left says what of the subject stays on a box whose agent could not put its port back, for
// a trial whose figures hold all the same.
func (c *capturing) left() []string {
	p, ok := c.run.(interface{ PortError() error })
	if !ok {
		return nil
	}
	if err := p.PortError(); err != nil {
		return []string{err.Error()}
	}
	return nil
}

// probe sends single frames until the subject counts, and until it is known how many of
// them are in its count: those that it tells of late would be taken for frames of the
// traffic.
func (m *capturePoint) probe(ctx context.Context, c *capturing) error {
	s := m.stream
	s.ID, s.Source, s.Parts, s.Frames.Sizes = probeStream, nil, nil, []unit.FrameSize{frame.SmallestIn(s.Frames.VLAN, false)}
	send := func() error {
		sent, err := m.tx.Transmit(ctx, engine.Load{Rate: 1000, Count: 1}, s)
		if err == nil {
			c.probes += int64(sent[0].Accepted)
		}
		return err
	}
	// told waits until the count has reached n, at most for d since it last moved.
	told := func(n int64, d time.Duration) error {
		for since := time.Now(); c.probed < n && time.Since(since) < d; {
			if err := c.pause(ctx); err != nil {
				return err
			}
			if now, _, _ := c.live.Progress(); now != c.probed {
				c.probed, since = now, time.Now()
			}
		}
		return nil
	}
	pause := probePause
	for begin := time.Now(); c.probed == 0; pause *= 2 { // fewer and fewer: libpcap hands over what it has once a second
		if time.Since(begin) > m.patience {
			return fault("it is ready and does not count: %v later it had counted none of %d probe frames", m.patience, c.probes)
		}
		if err := send(); err != nil {
			return err
		}
		if err := told(1, pause); err != nil {
			return err
		}
	}
	c.first = time.Since(c.started)
	if err := told(c.probes, m.still(c)); err != nil || c.probed == c.probes {
		return err
	}
	// dumpcap tells of a frame when the next one comes: of all but the last.
	if err := send(); err != nil {
		return err
	}
	if err := told(c.probes, m.still(c)); err != nil {
		return err
	}
	if b, ok := c.run.(interface{ Behind() bool }); ok && b.Behind() && c.probed == c.probes-1 {
		c.probed = c.probes
	}
	return nil
}

// rare is how long the subject may not tell a new count though it counts; 0: it tells ten
// times a second, or whenever libpcap hands over a block.
func (c *capturing) rare() time.Duration {
	if r, ok := c.run.(interface{ Rare() time.Duration }); ok {
		return r.Rare()
	}
	return 0
}

// still is for how long a count must not have moved to have come to rest.
func (m *capturePoint) still(c *capturing) time.Duration {
	if p, ok := c.run.(interface{ Prompt() bool }); ok && p.Prompt() {
		return min(m.standing, promptStanding)
	}
	return max(m.standing, c.rare())
}

// promptStanding is Capture.standing of subjects that hold no frames back.
const promptStanding = 500 * time.Millisecond

// drainLimit is how long a count that has not come to rest is waited for.
func (m *capturePoint) drainLimit(c *capturing, l engine.Load) time.Duration {
	if m.over != nil {
		return max(overloadDrain, 2*m.still(c))
	}
	return max(drainMost, m.watched()-lasts(l))
}

// pause waits for a moment; the subject's end is an error.
func (c *capturing) pause(ctx context.Context) error {
	if err := host.Pause(ctx, readingPause); err != nil {
		return err
	}
	return c.gone()
}

// gone says why the subject is, nil where it runs.
func (c *capturing) gone() error {
	if e, ok := c.run.(subject.Ender); ok {
		if err := e.Ended(); err != nil {
			return fault("%w", err)
		}
	}
	return nil
}

// note keeps a reading, and says whether the count moved.
func (c *capturing) note() bool {
	n, at, ok := c.live.Progress()
	if !ok || len(c.readings) > 0 && c.readings[len(c.readings)-1].at >= at {
		return false
	}
	n -= c.probed
	moved := len(c.readings) == 0 || c.readings[len(c.readings)-1].n != n
	c.readings = append(c.readings, tally{at, n})
	return moved
}

// A drained is how the subject worked off what it had not counted when the last frame
// left.
type drained struct {
	end     unit.Instant // of the traffic
	over    result.Usage // then
	rest    result.Usage // when the count last moved
	n       int64        // that count
	resting unit.Instant // that instant; end, where it did not move after its first word
	said    unit.Instant // when it last spoke
	still   bool
	most    time.Duration // that was waited for it to be
}

// drain waits until the count stands still, or all accepted frames are counted, but no
// longer than most.
func (c *capturing) drain(ctx context.Context, end unit.Instant, accepted int64, standing, most time.Duration) (d drained, err error) {
	d.most = most
	if d.over, err = c.run.Usage(); err != nil {
		return d, err
	}
	d.end, d.rest, d.resting = end, d.over, end
	begin := time.Now()
	told := false // it has spoken since the last frame left
	for moved := begin; ; {
		if err := c.pause(ctx); err != nil {
			return d, err
		}
		done := c.workedOff(end) // what it tells below is all
		if c.live != nil && c.note() {
			moved = time.Now()
		}
		if n := len(c.readings); n > 0 && c.readings[n-1].at >= end {
			last := c.readings[n-1]
			if late := told && last.at > d.said && last.n != c.readings[max(n-2, 0)].n; late || !told {
				if late {
					d.resting = last.at
				}
				if d.rest, err = c.run.Usage(); err != nil {
					return d, err
				}
				d.n = last.n
			}
			told, d.said = true, last.at
			if done || last.n >= accepted {
				d.still = true
				return d, nil
			}
		}
		switch {
		case time.Since(moved) >= standing:
			d.still = true
			return d, nil
		case time.Since(begin) >= most:
			return d, nil
		}
	}
}

// workedOff says whether the subject knows that it has nothing left of traffic that ended
// then.
func (c *capturing) workedOff(end unit.Instant) bool {
	w, ok := c.run.(interface{ WorkedOff(unit.Instant) bool })
	return ok && w.WorkedOff(end+unit.Instant(arrival))
}

// arrival is above what the last frame takes from the sender to the subject's socket.
const arrival = 100 * time.Millisecond

// atEnd is what had been counted by the first word after the last frame.
func (c *capturing) atEnd(end unit.Instant) (n int64, ok bool) {
	for _, r := range c.readings {
		if n, ok = r.n, r.at >= end; ok {
			return n, true
		}
	}
	return n, len(c.readings) > 0
}

// pace is what it counted a second by its own words from first to last; false: they
// span less than half of that.
func (c *capturing) pace(first, last unit.Instant) (fps float64, ok bool) {
	var a, b *tally
	for i := range c.readings {
		if r := &c.readings[i]; r.at >= first && r.at <= last {
			if a == nil {
				a = r
			}
			b = r
		}
	}
	if a == nil || b.at-a.at < (last-first)/2 {
		return 0, false
	}
	return float64(b.n-a.n) / (float64(b.at-a.at) / 1e9), true
}

// follow reads the count while frames are sent; what it returns ends that, and may be
// called again.
func (c *capturing) follow(ctx context.Context) (end func()) {
	if c.live == nil {
		return func() {}
	}
	return guard.Beside(ctx, readingPause, func() { c.note() })
}
