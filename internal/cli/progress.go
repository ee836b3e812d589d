// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/internal/guard"
	"boxdyno/internal/printable"
	"boxdyno/result"
	"boxdyno/runner"
	"boxdyno/unit"
)

// A progress tells what a run does: on a terminal one line that is drawn anew,
// elsewhere a line for each point. It uses no colour, so NO_COLOR changes
// nothing.
type progress struct {
	liveLine
	quiet bool

	mu     sync.Mutex
	last   runner.Event
	since  time.Time // of the last event
	said   time.Time // when the last line of a point was printed
	rate   string    // what the last trial forwarded
	ticker *time.Ticker
	done   chan struct{}
}

// A liveLine is a line of a terminal that is drawn anew.
type liveLine struct {
	w     io.Writer
	width int // of the terminal; 0: none
	drawn bool
}

// put draws s, as much of it as there is room for.
func (l *liveLine) put(s string) {
	if len(s) >= l.width {
		s = s[:max(l.width-1, 0)]
	}
	fmt.Fprint(l.w, "\r\x1b[K"+s)
	l.drawn = true
}

func (l *liveLine) clear() {
	if l.drawn {
		fmt.Fprint(l.w, "\r\x1b[K")
		l.drawn = false
	}
}

// barOf draws the share that is done.
func barOf(share float64) string {
	const cells = 12
	full := int(cells * share)
	return fmt.Sprintf("[%s%s] %.0f %%", strings.Repeat("#", full), strings.Repeat(".", cells-full), 100*share)
}

// seldom is how often points that pause are told of where lines stay.
const seldom = 5 * time.Second

func newProgress(w io.Writer, quiet bool) *progress {
	p := &progress{liveLine: liveLine{w: w}, quiet: quiet}
	if !quiet {
		p.width = terminalWidth(w)
	}
	if p.width > 0 {
		p.ticker, p.done = time.NewTicker(time.Second), make(chan struct{})
		guard.Go(func() {
			for {
				select {
				case <-p.done:
					return
				case <-p.ticker.C:
					p.redraw()
				}
			}
		})
	}
	return p
}

// terminalWidth is 0 where w is no terminal that can draw a line anew.
func terminalWidth(w io.Writer) int {
	f := fileOf(w)
	if f == nil || os.Getenv("TERM") == "dumb" {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	if size.Col == 0 {
		return 80
	}
	return int(size.Col)
}

func (p *progress) redraw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draw()
}

func (p *progress) stop() {
	if p.ticker != nil {
		p.ticker.Stop()
		close(p.done)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.last.Point = ""
}

// say prints a line of its own.
func (p *progress) say(format string, args ...any) {
	p.clear()
	fmt.Fprintln(p.w, printable.Text(oneLine(fmt.Sprintf(format, args...))))
}

func (p *progress) event(e runner.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.quiet {
		return
	}
	switch e.Kind {
	case runner.Waiting:
		holder := e.Text
		if holder == "" {
			holder = "another boxdyno"
		}
		p.say("waiting for %s, which measures on this machine", holder)
		return
	case runner.Note:
		p.say("warning: %s", e.Text)
		return
	case runner.Preparing:
		p.say("%s", e.Text)
		return
	case runner.PointStarts:
		p.rate = ""
	case runner.TrialDone:
		if e.Record.Load != nil {
			p.rate = e.Record.Load.Forwarded.String()
		}
	case runner.PointPauses, runner.PointDone:
		if p.width == 0 && (e.Kind == runner.PointDone || time.Since(p.said) > seldom) {
			p.say("%s", visited(e))
			p.said = time.Now()
		}
	}
	p.last, p.since = e, time.Now()
	p.draw()
}

// visited is the line of a point that is over, or pauses.
func visited(e runner.Event) string {
	s := fmt.Sprintf("[%.0f %%] %s: ", 100*e.Share, e.Point)
	if e.Kind == runner.PointDone {
		s += done(e.Record.Status)
	} else {
		s += "so far"
	}
	if e.Record.Reason != "" {
		s += " (" + e.Record.Reason + ")"
	}
	for _, m := range found(e.Metrics) {
		if v := e.Record.Value(m.Name); v != nil && v.Value > 0 {
			text := unit.Quantity(v.Value, v.Unit)
			if m.Share {
				text = fmt.Sprintf("%.3g %%", 100*v.Value)
			}
			s += fmt.Sprintf(", %s %s%s", plainName(m.Name), bound(v.Bound), text)
		}
	}
	if e.Left > 0 {
		s += ", about " + about(e.Left) + " left"
	}
	return s
}

// found are the metrics of a procedure that the line of a point shows: those that it finds
// with an interval, and that head its page; else the first in its tables.
func found(all []result.Metric) (out []result.Metric) {
	for _, m := range all {
		if m.Heads && m.Interval != "" {
			out = append(out, m)
		}
	}
	if i := slices.IndexFunc(all, func(m result.Metric) bool { return m.Label != "" }); i >= 0 && len(out) == 0 {
		out = append(out, all[i])
	}
	return out
}

// unitOf ends a metric's name with its unit.
var unitOf = regexp.MustCompile(`_([a-z]+ps|per_s|s|frames|bytes(_per_s)?|ratio)$`)

// plainName is a metric's name in words, without its unit.
func plainName(metric string) string {
	return strings.ReplaceAll(unitOf.ReplaceAllString(metric, ""), "_", " ")
}

// done is the word for a point that is over. Nothing was asked of it, so it passes nothing.
func done(v result.Status) string {
	if v == result.Passed {
		return "measured"
	}
	return string(v)
}

func bound(b result.Bound) string {
	if b == "" {
		return ""
	}
	return string(b) + " "
}

// draw draws the live line: what a narrow terminal must still show comes first.
func (p *progress) draw() {
	e := p.last
	if p.width == 0 || e.Point == "" {
		return
	}
	s := barOf(e.Share)
	left := e.Left - time.Since(p.since)
	if left > 0 {
		s += ", " + about(left) + " left"
	}
	if p.rate != "" {
		s += ", " + p.rate
	}
	s += ", " + e.Point
	if trial, ok := strings.CutPrefix(e.Text, e.Point+"/"); ok {
		s += " " + trial
	} else if e.Text != "" {
		s += " " + e.Text
	}
	p.put(printable.Text(oneLine(s)))
}
