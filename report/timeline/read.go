// SPDX-License-Identifier: Apache-2.0

// Package timeline reads what telemetry sampled into the lines of a Timeline.
package timeline

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"boxdyno/report"
	"boxdyno/report/internal/phrase"
	"boxdyno/result"
	"boxdyno/unit"
)

const (
	mostSteps  = 1000
	mostGaps   = 40
	gapAfter   = 3   // intervals between samples: one that comes too late by more than two, as the sampler counts
	window     = 256 // cells that may still grow: a counter that stands still is told of every 2 s
	pauseSteps = 10  // intervals that are left of a pause
	mostGap    = 1e5 // intervals: a longer gap is a pause, also within a part
	mostCells  = 1 << 25

	slack = 3 * time.Second // that SIGKILL may take of telemetry, and some
)

// Read reads a run's telemetry. Where the file is damaged, or ends before the
// run does, there is an error beside what could be read; nil if that is nothing.
func Read(in *result.TelemetryReader, run result.Run, recs []result.Record) (*report.Timeline, error) {
	t := &timeline{tracks: newTracks(), readAll: trialBegins(recs), most: mostSteps}
	t.tracks.ended = ended(recs)
	var err error
	for err == nil {
		var b result.Batch
		if b, err = in.Next(); err == nil {
			t.head(in.Head)
			t.batch(b)
			if t.last > mostCells {
				err = errors.New("the run's telemetry is of a longer time than can be drawn")
			}
		}
	}
	if err == io.EOF {
		err = nil
	}
	if !t.begun {
		if err == nil && in.Cut {
			err = errors.New("nothing of the run's telemetry can be read: the file is damaged")
		}
		return nil, err
	}
	if end := watchedUntil(run, recs); err == nil && in.Cut && end > t.seen+unit.Instant(slack) {
		err = fmt.Errorf("the run's telemetry ends %s after its begin, and the run went on until %s: the file is cut short or damaged", phrase.Seconds(new(float64(t.seen)/1e9)), phrase.Seconds(new(float64(end)/1e9)))
	}
	return t.finish(run, recs), err
}

// ended says whether frames that a counter of a place counts are no loss. Programs that capture
// have had a copy of what ends behind their socket. What ends at the box's port was counted by
// the program that tells a replay's frames apart. nil: every frame that such a counter counts is
// lost, or the run's trials differ in this.
func ended(recs []result.Record) func(result.Series) bool {
	captures, replays := false, false
	for _, r := range recs {
		switch {
		case report.IntoCapture(r):
			captures = true
		case report.IntoBox(r):
			replays = true
		case r.Procedure != report.SelfTestProcedure:
			return nil
		}
	}
	switch {
	case captures && !replays:
		return func(s result.Series) bool {
			return slices.Index(result.Places, s.Place) > slices.Index(result.Places, result.Softnet)
		}
	case replays && !captures:
		return func(s result.Series) bool {
			virtio := strings.HasPrefix(s.Name, "node_ethtool_received") && strings.HasSuffix(s.Name, "_drops") // it has no counter for XDP alone
			return s.Place == result.XDP || s.Place == result.DUTNIC && virtio
		}
	}
	return nil
}

// trialBegins are the instants right before which all collectors were read: what
// grew afterwards did not grow before. In order.
func trialBegins(recs []result.Record) (at []unit.Instant) {
	for _, r := range recs {
		if r.Parent == "" || r.Status == result.Running {
			continue
		}
		at = append(at, r.Begin)
		if len(r.Phases) > 0 && r.Phases[0].Name == "traffic" {
			at = append(at, r.Phases[0].Begin)
		}
	}
	slices.Sort(at)
	return at
}

// watchedUntil is when the last sample was taken, or a trial ended.
func watchedUntil(run result.Run, recs []result.Record) (last unit.Instant) {
	for _, r := range recs {
		last = max(last, r.End)
	}
	for _, part := range run.Telemetry {
		last = max(last, part.To)
	}
	return last
}

// A timeline is being read.
type timeline struct {
	*tracks
	begun    bool
	rate     float64
	interval unit.Instant
	from     unit.Instant
	seen     unit.Instant // last sample
	cut      unit.Instant // of pauses so far
	series   *result.Series
	anew     bool // a part of the run begins
	gaps     []report.Gap
	readAll  []unit.Instant

	// Cells are intervals of the axis: the last window of them, and what is older in
	// steps of several.
	last    int // the latest cell
	flushed int // cells before it are in steps
	factor  int // cells a step
	most    int // steps
	time    [window]float64
}

// head takes a head that has come before the next batch.
func (t *timeline) head(h result.TelemetryHead) {
	if len(h.Series) == 0 || t.series == &h.Series[0] {
		return
	}
	if t.series == nil {
		t.rate = h.Rate
		if !(t.rate > 0) {
			t.rate = 10
		}
		t.interval, t.factor = unit.Instant(1e9/t.rate), 1
	}
	t.anew = t.series != nil
	t.series = &h.Series[0]
	t.know(h.Series)
}

func (t *timeline) batch(b result.Batch) {
	if t.series == nil {
		return // no series, no values
	}
	if !t.begun {
		t.begun, t.from, t.seen = true, b.At, b.At
	}
	b.At = max(b.At, t.from+t.cut) // before it there is no axis
	if t.anew || b.At-t.seen > mostGap*t.interval {
		t.anew = false
		t.end() // what the part before had is true until its last sample
		if b.At-t.seen > gapAfter*t.interval {
			g := report.Gap{From: t.seen, To: b.At}
			if pause := pauseSteps * t.interval; b.At-t.seen > pause {
				g.Cut = int64(b.At - t.seen - pause)
			}
			t.gaps = append(t.gaps, g)
			t.cut += unit.Instant(g.Cut)
			t.seen = b.At
		}
		for _, s := range t.sources {
			s.value = math.NaN()
		}
	}
	if b.At > t.seen {
		if b.At-t.seen > gapAfter*t.interval {
			t.gaps = append(t.gaps, report.Gap{From: t.seen, To: b.At})
		} else {
			t.reach(b.At)
			t.each(t.seen, b.At, func(cell int, ns float64) {
				if cell >= t.flushed {
					t.time[cell%window] += ns
				}
			}, nil)
		}
		t.seen = b.At
	}
	t.reach(b.At)
	for i, v := range b.Values {
		for _, s := range t.of[b.First+i] {
			t.take(s, v, b.At)
		}
	}
}

// cell is the axis' at an instant.
func (t *timeline) cell(at unit.Instant) int { return int((at - t.from - t.cut) / t.interval) }

// reach makes room for cells up to that of at.
func (t *timeline) reach(at unit.Instant) {
	c := t.cell(at)
	if c <= t.last {
		return
	}
	t.last = c
	if c >= t.flushed+window {
		t.flush(c - window/2)
	}
}

// flush puts the cells before end into steps.
func (t *timeline) flush(end int) {
	for ; t.flushed < end; t.flushed++ {
		for t.flushed/t.factor >= t.most {
			t.factor *= 2
			for _, k := range t.list {
				k.double()
			}
		}
		i := t.flushed % window
		for _, k := range t.list {
			k.fold(t.flushed, t.factor, t.time[i], float64(t.interval))
		}
		t.time[i] = 0
	}
}

// each calls in for the share of each cell in the time between two instants, in ns,
// and gap for that of each gap.
func (t *timeline) each(from, to unit.Instant, in func(cell int, ns float64), gap func(i int, ns float64)) {
	first := len(t.gaps)
	for first > 0 && t.gaps[first-1].To > from {
		first--
	}
	for i := first; i < len(t.gaps); i++ {
		g := t.gaps[i]
		if g.From >= to {
			break
		}
		t.cells(from, g.From, in)
		if ns := min(to, g.To) - max(from, g.From); gap != nil && ns > 0 {
			gap(i, float64(ns))
		}
		from = max(from, g.To)
	}
	t.cells(from, to, in)
}

func (t *timeline) cells(from, to unit.Instant, in func(cell int, ns float64)) {
	for from < to {
		c := t.cell(from)
		end := min(to, t.from+t.cut+unit.Instant(c+1)*t.interval)
		in(c, float64(end-from))
		from = end
	}
}

// take takes what was read of a series. What was not written meanwhile did not
// change.
func (t *timeline) take(s *source, v float64, at unit.Instant) {
	before, since := s.value, s.at
	s.value, s.at = v, at
	k := s.track
	if !k.counter {
		if !math.IsNaN(before) && at > since {
			t.each(since, at, func(c int, ns float64) { k.hold(t.factor, t.flushed, c, before, ns) }, nil)
		}
		if !math.IsNaN(v) {
			k.hold(t.factor, t.flushed, t.cell(at), v, 0)
		}
		return
	}
	if math.IsNaN(v) { // of what it grows by until it is back nobody knows when
		return
	}
	if math.IsNaN(before) || at <= since {
		return
	}
	t.each(since, at, func(c int, _ float64) { k.grow(t.factor, t.flushed, c, 0) }, func(i int, _ float64) { k.growInGap(i, 0) })
	growth := result.Grown(before, v) * s.scale
	if growth == 0 {
		return
	}
	if i, _ := slices.BinarySearch(t.readAll, at); i > 0 && t.readAll[i-1] > since {
		since = t.readAll[i-1]
	}
	whole := float64(at - since)
	t.each(since, at,
		func(c int, ns float64) { k.grow(t.factor, t.flushed, c, growth*ns/whole) },
		func(i int, ns float64) { k.growInGap(i, growth*ns/whole) })
}

// end lets all that was read last be true until the last sample.
func (t *timeline) end() {
	for _, s := range t.sources {
		t.take(s, s.value, t.seen)
	}
}

func (t *timeline) finish(run result.Run, recs []result.Record) *report.Timeline {
	t.end()
	t.flush(t.last + 1)
	d := &report.Timeline{From: t.from, Step: int64(t.interval) * int64(t.factor), Steps: (t.flushed + t.factor - 1) / t.factor, Rate: t.rate}
	kept := longest(t.gaps, mostGaps)
	for _, i := range kept {
		d.Gaps = append(d.Gaps, t.gaps[i])
	}
	d.Shorter = len(t.gaps) - len(d.Gaps)
	for _, k := range t.list {
		k.line(d.Steps, t.gaps, kept)
	}
	d.Panels, d.Remarks = t.panels(run, recs)
	return d
}

// longest are the indexes of the n longest gaps, in order. A pause is long whatever
// the axis leaves of it.
func longest(gaps []report.Gap, n int) (at []int) {
	for i := range gaps {
		at = append(at, i)
	}
	slices.SortStableFunc(at, func(i, j int) int {
		return int(min(max((gaps[j].To-gaps[j].From)-(gaps[i].To-gaps[i].From), -1), 1))
	})
	at = at[:min(n, len(at))]
	slices.Sort(at)
	return at
}
