// SPDX-License-Identifier: Apache-2.0

package many

import (
	"context"
	"fmt"
	"slices"
	"time"

	"boxdyno/procedure"
	"boxdyno/procedure/far"
	"boxdyno/result"
	"boxdyno/unit"
)

// A heard is what a pair's sender has said of its trials, which its figures must not exceed.
type heard struct {
	from  string
	least time.Duration // no trial is asked to be shorter
	pair  *far.Pair
	first float64 // how many seconds the one lasted whose begin all waited for
	best  float64 // frames a second that came in one of them
	why   string  // the first that cannot be
}

// add takes a trial from begin to end.
func (h *heard) add(ctx context.Context, cfg []result.Pair, o *procedure.Outcome, begin, end unit.Instant) {
	if o.Began.At == 0 || o.Account == nil || len(o.Phases) == 0 {
		return // none that offers frames to the other board
	}
	why := ""
	if w := incredible(o, begin, end); w != "" {
		why = "board " + h.from + ": " + w
	} else if w := h.pair.Contradiction(ctx, h.from, o.Account); w != "" {
		why = "boards " + w
	}
	if h.why == "" {
		h.why = why
	}
	if why != "" {
		return
	}
	// From the first of n frames to the last one it is n-1 nths of what was asked for: hardly less than a half.
	seconds := max(o.Phases[0].Seconds(), h.least.Seconds()/2)
	if asked, err := time.ParseDuration(result.Get(cfg, "duration")); err == nil {
		seconds = max(seconds, asked.Seconds()/2)
	}
	if seconds > 0 {
		h.best = max(h.best, float64(o.Account.Received-o.Account.Duplicate)/seconds)
	}
}

// A rate of the steady part of a trial may be above the mean of all of it.
const steadier = 2

// exceeds says which figure is more than best, what came in any trial, allows; "": none is.
func exceeds(vs []result.Value, best float64) string {
	for _, v := range vs {
		if slices.Contains(addedUp, v.Metric) && v.Value > steadier*best {
			return fmt.Sprintf("it says that %s is %.3g, and in none of its trials more than %.3g frames a second came", v.Metric, v.Value, best)
		}
	}
	return ""
}
