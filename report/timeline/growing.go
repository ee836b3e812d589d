// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"maps"
	"math"
	"slices"

	"boxdyno/report"
	"boxdyno/result"
)

// A Growing is the timeline of a run that still goes on. It is not safe for
// concurrent use.
type Growing struct{ t *timeline }

// NewGrowing returns one of at most so many steps; 0: as many as a page's
// timeline. recs are the run's records so far.
func NewGrowing(steps int, recs []result.Record) *Growing {
	if steps <= 0 {
		steps = mostSteps
	}
	t := &timeline{tracks: newTracks(), most: steps}
	t.tracks.ended = ended(recs)
	return &Growing{t}
}

// Trials takes the records so far. It is called before the batches that were read
// after them, and needs no call where no trial began.
func (g *Growing) Trials(recs []result.Record) { g.t.readAll = trialBegins(recs) }

// Add takes a batch and the head before it. What is longer than can be drawn is left out.
func (g *Growing) Add(h result.TelemetryHead, b result.Batch) {
	g.t.head(h)
	if g.t.last <= mostCells {
		g.t.batch(b)
	}
}

// Timeline returns what was added so far, as Read would; nil: nothing. More may
// be added afterwards.
func (g *Growing) Timeline(run result.Run, recs []result.Record) *report.Timeline {
	if !g.t.begun {
		return nil
	}
	return g.t.copied().finish(run, recs)
}

// copied returns a timeline that can be finished while t goes on.
func (t *timeline) copied() *timeline {
	c := *t
	c.tracks = &tracks{known: t.known, ended: t.ended}
	c.gaps = slices.Clone(t.gaps)
	now := map[*track]*track{}
	for _, k := range t.list {
		n := *k
		n.steps, n.gaps = slices.Clone(k.steps), maps.Clone(k.gaps)
		c.list = append(c.list, &n)
		now[k] = &n
	}
	for _, s := range t.sources {
		n := *s
		n.track = now[s.track]
		c.sources = append(c.sources, &n)
	}
	return &c
}

// From returns the timeline from one of its steps on; its values begin there.
func From(t *report.Timeline, first int) *report.Timeline {
	return cut(t, max(min(first, t.Steps), 0), t.Steps, 1)
}

// Window returns the part of the timeline between two instants of its axis, in ns since
// its first sample, in at most so many steps. A step of several has the mean of them,
// and the least and the greatest.
func Window(t *report.Timeline, from, to int64, steps int) *report.Timeline {
	first := max(min(from/t.Step, int64(t.Steps)), 0)
	end := max(min((to+t.Step-1)/t.Step, int64(t.Steps)), first)
	of := 1
	for int(end-first)/of > max(steps, 1) {
		of *= 2
	}
	first -= first % int64(of)
	return cut(t, int(first), int(end), of)
}

func cut(t *report.Timeline, first, end, of int) *report.Timeline {
	w := *t
	w.First, w.Step, w.Steps = first/of, t.Step*int64(of), (end-first+of-1)/of
	w.Panels = slices.Clone(t.Panels)
	for i, p := range t.Panels {
		w.Panels[i].Lines = make([]report.Line, len(p.Lines))
		for j, l := range p.Lines {
			w.Panels[i].Lines[j] = cutLine(l, first, end, of)
		}
	}
	return &w
}

func cutLine(l report.Line, first, end, of int) report.Line {
	if l.Mean == nil {
		return l
	}
	mean := l.Mean[first:min(end, len(l.Mean))]
	lo, hi := mean, mean
	if l.Lo != nil {
		lo, hi = l.Lo[first:first+len(mean)], l.Hi[first:first+len(mean)]
	}
	if of == 1 {
		if l.Mean = mean; l.Lo != nil {
			l.Lo, l.Hi = lo, hi
		}
		return l
	}
	n := (len(mean) + of - 1) / of
	l.Mean, l.Lo, l.Hi = make(report.Points, n), make(report.Points, n), make(report.Points, n)
	for i := range n {
		sum, known := 0.0, 0.0
		least, most := math.NaN(), math.NaN()
		for j := i * of; j < min((i+1)*of, len(mean)); j++ {
			if math.IsNaN(mean[j]) {
				continue
			}
			sum, known = sum+mean[j], known+1
			if !(least <= lo[j]) {
				least = lo[j]
			}
			if !(most >= hi[j]) {
				most = hi[j]
			}
		}
		l.Mean[i], l.Lo[i], l.Hi[i] = sum/known, least, most // 0/0 is absent
	}
	return l
}
