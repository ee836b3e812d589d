// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"boxdyno/unit"
)

// A ticker prints while traffic runs: interval lines on standard output, and on
// a terminal one live line on standard error. With --json and --stats there is
// one object a line, with --json alone one document at the end.
type ticker struct {
	liveLine // on standard error
	out      io.Writer
	asJSON   bool
	every    time.Duration // 0: no lines
	loss     string        // what the last column counts

	begun    time.Time
	printed  bool       // the table's head
	last     portCounts // at the end of the last line
	seen     portCounts // that were read last
	lastTime time.Duration
}

// live is how often the live line is drawn.
const live = 200 * time.Millisecond

func newTicker(a *app, f *portFlags, every time.Duration) *ticker {
	t := &ticker{liveLine: liveLine{w: a.live}, out: a.out, asJSON: f.json, every: every, loss: "dropped"}
	if !a.quiet {
		t.width = terminalWidth(a.live)
	}
	return t
}

// begin prints the header, if there is one, and starts the clock.
func (t *ticker) begin(header string) error {
	t.begun = time.Now()
	if t.asJSON || header == "" {
		return nil
	}
	_, err := fmt.Fprintln(t.out, header)
	return err
}

// An interval is one line of --stats: what the port's counters gained in it.
type interval struct {
	Type    string  `json:"type"` // "interval"
	From    float64 `json:"from_s"`
	To      float64 `json:"to_s"`
	Frames  uint64  `json:"frames"`
	FPS     float64 `json:"fps"`
	L2      float64 `json:"l2_bps"` // FCS included
	L1      float64 `json:"l1_bps"` // with preamble and gap
	Dropped *uint64 `json:"dropped,omitempty"`
	Missing *int64  `json:"missing,omitempty"` // of a meter: less sequence numbers than frames may come late, hence the sign
	Foreign *uint64 `json:"foreign,omitempty"` // of a meter: of frames, those of no stream that it counts
}

// step is how often the counters are read: a whole part of an interval, and now
// and then where nothing is printed, because the port may go.
func (t *ticker) step() time.Duration {
	switch {
	case t.width == 0 && t.every == 0:
		return time.Second
	case t.width == 0:
		return t.every
	case t.every == 0:
		return live
	}
	return t.every / ((t.every + live - 1) / live)
}

// watch prints until done is closed. read gives cumulative counts; done is a
// share of the whole (0: not known).
func (t *ticker) watch(done <-chan struct{}, before portCounts, read func() (portCounts, error), share func(uint64, time.Duration) float64) error {
	t.last, t.seen = before, before
	step := t.step()
	clock := time.NewTicker(step)
	defer clock.Stop()
	next, shown := t.every, before
	shownTime := time.Duration(0)
	for {
		over := false
		select {
		case <-done:
			over = true
		case <-clock.C:
		}
		now, err := read()
		if err != nil {
			return err
		}
		t.seen = now
		at := time.Since(t.begun)
		if over {
			if t.every > 0 && now != t.last { // the rest of the last interval
				return t.line(now, at)
			}
			return nil
		}
		if t.every > 0 && at >= next-step/2 {
			if err := t.line(now, at); err != nil {
				return err
			}
			next += t.every
		}
		t.draw(now.since(shown), at-shownTime, share(now.since(before).frames, at), at)
		shown, shownTime = now, at
	}
}

// line prints one interval, up to now.
func (t *ticker) line(now portCounts, at time.Duration) error {
	d, secs := now.since(t.last), (at - t.lastTime).Seconds()
	i := interval{Type: "interval", From: t.lastTime.Seconds(), To: at.Seconds(), Frames: d.frames}
	i.FPS, i.L2, i.L1 = float64(d.frames)/secs, float64(8*d.octets)/secs, float64(8*(d.octets+d.frames*unit.Overhead))/secs
	if t.loss == "dropped" {
		i.Dropped = &d.dropped
	} else {
		missing := int64(d.dropped)
		i.Missing, i.Foreign = &missing, &d.foreign
	}
	t.last, t.lastTime = now, at
	if t.asJSON {
		return json.NewEncoder(t.out).Encode(i)
	}
	t.clear()
	if !t.printed {
		t.printed = true
		if _, err := fmt.Fprintf(t.out, "%17s  %11s  %9s  %9s  %9s  %10s\n", "s", "frames", "frame/s", "L2 bit/s", "L1 bit/s", t.loss); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(t.out, "%8.2f–%-8.2f  %11d  %9s  %9s  %9s  %10d\n",
		i.From, i.To, i.Frames, si(i.FPS), si(i.L2), si(i.L1), int64(d.dropped))
	return err
}

func si(v float64) string { return strings.TrimSpace(unit.SI(v)) }

// draw draws the live line: what a narrow terminal must still show comes first.
func (t *ticker) draw(d portCounts, over time.Duration, share float64, at time.Duration) {
	if t.width == 0 {
		return
	}
	s := fmt.Sprintf("%.0f s", at.Seconds())
	if share > 0 {
		s = barOf(share)
		if share < 1 {
			s += ", " + about(time.Duration(float64(at)*(1-share)/share)) + " left"
		}
	}
	s += fmt.Sprintf(", %v, %v, %d %s", unit.FrameRate(float64(d.frames)/over.Seconds()), unit.BitRate(float64(8*d.octets)/over.Seconds()), int64(d.dropped), t.loss)
	t.put(s)
}

// print prints an account: text, one document, or the last of the lines.
func (t *ticker) print(acc interface{ text(io.Writer) error }) error {
	switch {
	case !t.asJSON:
		return acc.text(t.out)
	case t.every > 0:
		return json.NewEncoder(t.out).Encode(acc)
	}
	return encode(t.out, acc)
}
