// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"context"
	"errors"
	"testing"
	"time"

	"boxdyno/search"
	"boxdyno/unit"
)

// A box carries carries frames a second; a trial is invalid where invalid says so.
func hunt(t *testing.T, carries unit.FrameRate, invalid func(n int) bool) *Hunt {
	t.Helper()
	s, err := search.New("quick", 10*carries, 0)
	if err != nil {
		t.Fatal(err)
	}
	return &Hunt{Search: s, Offer: func(_ context.Context, n int, step search.Step) (search.Seen, time.Duration, error) {
		seen := search.Seen{Offered: step.Rate, Valid: !invalid(n)}
		if step.Rate > carries {
			seen.Loss = unit.LossRatio(1 - carries/step.Rate)
		}
		return seen, 0, nil
	}}
}

// Some steps at a time find what all at once do.
func TestSeekInSteps(t *testing.T) {
	want, err := Find(t.Context(), hunt(t, 1e5, func(int) bool { return false }))
	if err != nil || want.Lower > 1e5 || want.Upper < 1e5 || !want.Sharp {
		t.Fatalf("%+v, %v", want, err)
	}
	h, parts := hunt(t, 1e5, func(int) bool { return false }), 0
	for more := true; more; parts++ {
		if h.Ended {
			t.Fatal("it has ended, and there is more")
		}
		before := len(h.Seen())
		if more, err = h.Seek(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		if n := len(h.Seen()) - before; n > 3 || n < 3 && more {
			t.Errorf("part %d had %d trials", parts, n)
		}
	}
	if got := h.Limit(); got != want || !h.Ended || parts < 3 {
		t.Errorf("in %d parts %+v, want %+v", parts, got, want)
	}
}

// What the box does without end judges earlier trials, too, and lengthens later ones.
func TestSustained(t *testing.T) {
	h := hunt(t, 1e5, func(int) bool { return false })
	var known search.Sustained
	h.Sustained = func() search.Sustained { return known }
	if _, err := h.Seek(t.Context(), 6); err != nil {
		t.Fatal(err)
	}
	clean := h.Clean()
	known = search.Sustained{Rate: 1e3, Memory: 1e6, Longest: time.Minute}
	for _, s := range h.Seen() {
		if s.Rate > 1e3 && s.Loss == 0 {
			t.Errorf("%+v: memory explains that", s)
		}
	}
	if _, err := h.Seek(t.Context(), 6); err != nil || clean == 0 {
		t.Fatal(clean, err)
	}
	asked := h.raw[len(h.raw)-1].Duration
	if lasted := h.lasted[len(h.lasted)-1]; lasted < asked {
		t.Errorf("asked for %v, offered for %v", asked, lasted)
	}
}

// A rate that is hardly another one, once the search has ended, turns no trial that was as
// near to it; a rate that is another one does.
func TestSustainedAtTheEnd(t *testing.T) {
	known := search.Sustained{Rate: 1e5, Memory: 1e6, Longest: time.Second}
	h := hunt(t, 2e5, func(int) bool { return false })
	h.Sustained, h.Guess = func() search.Sustained { return known }, 1e5
	offer := h.Offer
	h.Offer = func(ctx context.Context, n int, step search.Step) (search.Seen, time.Duration, error) {
		seen, lag, err := offer(ctx, n, step)
		seen.Offered *= 0.999 // trials have whole frames
		return seen, lag, err
	}
	found, err := Find(t.Context(), h)
	if err != nil || found.Lower <= known.Rate {
		t.Fatalf("%+v, %v", found, err)
	}
	known.Rate = 0.9997e5
	if _, err := h.Seek(t.Context(), -1); err != nil || h.Limit() != found {
		t.Errorf("%+v, %v, before %+v", h.Limit(), err, found)
	}
	known.Rate = 0.98e5
	if l := h.Limit(); l.Lower > 0.982e5 {
		t.Errorf("the box does 98 kframe/s without end, and %+v is carried", l)
	}
}

// A trial that fails ends the hunt; an invalid one that took its time is rested after.
func TestFails(t *testing.T) {
	failure := errors.New("failed")
	h := hunt(t, 1e5, func(int) bool { return false })
	h.Offer = func(context.Context, int, search.Step) (search.Seen, time.Duration, error) {
		return search.Seen{}, 0, failure
	}
	if _, err := Find(t.Context(), h); !errors.Is(err, failure) || len(h.Seen()) != 0 {
		t.Errorf("%v after %d trials", err, len(h.Seen()))
	}
	var r Rests
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		if err := r.Rest(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if time.Duration(r) != restMost {
		t.Errorf("rested %v, want %v", time.Duration(r), restMost)
	}
}
