// SPDX-License-Identifier: Apache-2.0

package many

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"boxdyno/host"
	"boxdyno/procedure"
	"boxdyno/result"
)

// Each round hands to all what each has given; one that is gone ends the wait of the others,
// but not of a round that all have given to.
func TestGathering(t *testing.T) {
	g := newGathering(3)
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() {
			for round := range 20 {
				got, here, err := g.give(t.Context(), i, fmt.Append(nil, i, round))
				if want := fmt.Sprint(i, round); err != nil || here != i || string(got[i]) != want || string(got[(i+1)%3]) != fmt.Sprint((i+1)%3, round) {
					t.Errorf("board %d, round %d: %q, %d, %v", i, round, got, here, err)
					return
				}
			}
		})
	}
	all.Wait()
	all.Go(func() {
		if _, _, err := g.give(t.Context(), 0, nil); err == nil || !strings.Contains(err.Error(), "board b2 takes part no more") {
			t.Error(err)
		}
	})
	g.leave("b2")
	all.Wait()
	if !g.refused(0) || g.refused(1) {
		t.Error("who was refused because of another one is not known")
	}
	flooded := newGathering(9)
	for range 2 {
		if _, _, err := flooded.give(t.Context(), 0, make([]byte, mostGiven+1)); err == nil || !strings.Contains(err.Error(), "65537 octets") {
			t.Error(err)
		}
	}
	if said := flooded.refusal(0); !strings.HasSuffix(said, "65536 are the most; 2 of its answers were refused") || flooded.refusal(1) != "" || flooded.octets != 0 {
		t.Errorf("%q, %q, %d octets are counted of what was refused", said, flooded.refusal(1), flooded.octets)
	}
	twice := newGathering(2)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := twice.give(ended, 0, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, _, err := twice.give(ended, 0, nil); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Error(err)
	}
}

// One work of all boards has the figures of the first; where a board's part fails, or a
// board is gone, its name says why, and the others end.
func TestJoint(t *testing.T) {
	for name, c := range map[string]struct {
		spoil  func(b *bench)
		status result.Status
		want   string
	}{
		"well": {func(*bench) {}, result.Passed, ""},
		"fails": {func(b *bench) {
			b.boards["b2"].Spoil = func(_ int, o *procedure.Outcome) { o.Status, o.Reason = result.Failed, "a wrong sum" }
		}, result.Failed, "board b2: a wrong sum"},
		"gives too much": {func(b *bench) { b.boards["b2"].Gives = make([]byte, mostGiven+1) }, result.Invalid, "board b2: it gives the others 65537 octets at once, and 65536 are the most"},
		"lacks a program": {func(b *bench) {
			b.boards["b2"].Gathers = func(int) error { return &host.Missing{What: "hpcc"} }
		}, result.Invalid, "board b2: missing on b2: hpcc"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, 3)
			for _, x := range b.boards {
				x.Joint = true
			}
			c.spoil(b)
			o, recs, err := b.run(t.Context(), 3, nil)
			if err != nil || o.Status != c.status || !strings.Contains(o.Reason, c.want) || strings.Contains(o.Reason, "b1") || strings.Contains(o.Reason, "b3") {
				t.Fatalf("%s %q, %v, %v", o.Status, o.Reason, o.Values, err)
			}
			if c.status == result.Passed && (len(recs) != 2 || value(o.Values, "naps_rate") == 0) {
				t.Errorf("%d trials, %v", len(recs), o.Values)
			}
		})
	}
}
