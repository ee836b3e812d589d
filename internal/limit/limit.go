// SPDX-License-Identifier: Apache-2.0

// Package limit finds the highest load that a box carries. Package search says which load
// is next; a Hunt offers it, judges what was seen by what the box does without end, and
// rests after trials in which the tester was held up. A hunt depends on what its trials
// told and on nothing else, so that a resumed run goes the same way.
package limit

import (
	"context"
	"time"

	"boxdyno/search"
)

// An Offer carries out trial n, or takes it from the records of the run: step is its load
// and how long that lasts. The search's own step need not be filled in. lag is as
// search.Sustained.Judge has it.
type Offer func(ctx context.Context, n int, step search.Step) (seen search.Seen, lag time.Duration, err error)

// A Hunt is a search and how far it has come.
type Hunt struct {
	search.Search
	Offer Offer
	// Sustained is what is known now of what the box does without end. It decides how long
	// trials are, and judges them, earlier ones too. nil: trials are as long as the search
	// says, and are taken as they are.
	Sustained func() search.Sustained
	// Spent says that no time is left, and Seek returns; nil: it never is.
	Spent func() bool
	// Ended: the search was over when Seek returned.
	Ended bool

	raw    []search.Seen // as the trials were
	lasted []time.Duration
	lag    []time.Duration
	rests  Rests
	by     search.Sustained // what judged the trials when the search ended
}

// Before has the search begin with trials that were carried out before it.
func (h *Hunt) Before(seen ...search.Seen) {
	for _, t := range seen {
		h.raw, h.lasted, h.lag = append(h.raw, t), append(h.lasted, t.Duration), append(h.lag, 0)
	}
}

// Find takes h to its end and returns what it found of the first goal.
func Find(ctx context.Context, h *Hunt) (search.Limit, error) {
	_, err := h.Seek(ctx, -1)
	return h.Limit(), err
}

// Seek takes the search on by at most steps trials; below 0: to its end. more says that
// the search is not over.
func (h *Hunt) Seek(ctx context.Context, steps int) (more bool, err error) {
	for ; ; steps-- {
		by := h.knows()
		step, more := h.Search.Next(h.judged(by))
		if h.Ended = !more; h.Ended || steps == 0 || h.Spent != nil && h.Spent() {
			h.by = by
			return more, nil
		}
		if err := h.offer(ctx, step); err != nil {
			return true, err
		}
	}
}

func (h *Hunt) offer(ctx context.Context, step search.Step) error {
	asked, begin := step, time.Now()
	if h.Sustained != nil {
		asked.Duration = h.Sustained().Length(step)
	}
	seen, lag, err := h.Offer(ctx, len(h.raw), asked)
	if err != nil {
		return err
	}
	seen.Step = step
	h.raw, h.lasted, h.lag = append(h.raw, seen), append(h.lasted, asked.Duration), append(h.lag, lag)
	if !seen.Valid && time.Since(begin) >= asked.Duration { // not replayed, nor in memory
		return h.rests.Rest(ctx)
	}
	return nil
}

// Of one search.
const (
	restFirst = 50 * time.Millisecond
	restMost  = 3 * time.Second
)

// A Rests is how long a search has rested.
type Rests time.Duration

// Rest waits after an invalid trial, longer after each, for what disturbs a machine
// often lasts.
func (r *Rests) Rest(ctx context.Context) error {
	d := min(max(time.Duration(*r), restFirst), restMost-time.Duration(*r))
	if d <= 0 {
		return nil
	}
	*r += Rests(d)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// Seen are the trials so far, judged by what is known of the box now.
func (h *Hunt) Seen() []search.Seen { return h.judged(h.knows()) }

// knows is what is known of the box. Hardly another rate turns no trial once the search has
// ended: none that follows could settle it.
func (h *Hunt) knows() (s search.Sustained) {
	if h.Sustained == nil {
		return s
	}
	if s = h.Sustained(); h.Ended && s.Near(h.by) {
		return h.by
	}
	return s
}

func (h *Hunt) judged(by search.Sustained) []search.Seen {
	if h.Sustained == nil {
		return h.raw
	}
	judged := make([]search.Seen, len(h.raw))
	for i, t := range h.raw {
		judged[i] = by.Judge(t, h.lasted[i], h.lag[i])
	}
	return by.Told(judged, h.raw)
}

// Limit is what the trials so far say of the first goal.
func (h *Hunt) Limit() search.Limit { return h.Search.Limit(h.Seen()) }

// Limits is the same of every goal.
func (h *Hunt) Limits() []search.Limit { return h.Search.Limits(h.Seen()) }

// Interim is Limit, with bounds of one trial unless h has ended.
func (h *Hunt) Interim() search.Limit {
	if h.Ended {
		return h.Limit()
	}
	return h.Search.Interim(h.Seen())
}

// Open says whether the load that the search is asked about is undecided.
func (h *Hunt) Open() bool { return h.Search.Open(h.Seen()) }

// Clean is how long the longest trial was that lost nothing; 0: none.
func (h *Hunt) Clean() (longest time.Duration) {
	for i, t := range h.raw {
		if t.Valid && t.Offered > 0 && t.Loss == 0 {
			longest = max(longest, h.lasted[i])
		}
	}
	return longest
}
