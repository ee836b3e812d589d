// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"strings"
	"testing"
	"time"

	"boxdyno/subject"
)

// distant is a subject on a machine whose clock is known to within an error.
type distant struct {
	subject.Running
	error time.Duration
}

func (d distant) ClockError() time.Duration { return d.error }

// A time across two clocks is told only from ten times their error on.
func TestUnclear(t *testing.T) {
	for _, c := range []struct {
		run     subject.Running
		seconds float64
		unclear bool
	}{
		{nil, 1e-6, false}, // here
		{distant{error: time.Millisecond}, 0, false},
		{distant{error: time.Millisecond}, 0.0099, true},
		{distant{error: time.Millisecond}, 0.0101, false},
		{distant{error: 30 * time.Millisecond}, 0.2, true},
		{distant{}, 1e-9, false},
	} {
		why := unclear(c.run, c.seconds)
		if (why != "") != c.unclear || c.unclear && !strings.Contains(why, "clocks") {
			t.Errorf("%v s, %+v: %q", c.seconds, c.run, why)
		}
	}
}
