// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"testing"
	"time"

	"boxdyno/search"
)

// A load that loses gives way to a lower one; one whose trial was spoilt is tried again.
func TestLonger(t *testing.T) {
	for _, c := range []struct {
		came                 []Came
		rate                 float64
		spent, valid, spoilt int
		more                 bool
	}{
		{[]Came{Carried}, 1000, 0, 1, 0, false},
		{[]Came{Lost}, 800, 1, 1, 0, true},
		{[]Came{Invalid, Carried}, 1000, 2, 1, 0, false},
		{[]Came{Disturbed, Disturbed}, 1000, 0, 0, 2, true},
		{[]Came{Disturbed, Disturbed, Disturbed}, 800, 1, 1, 0, true},
		{[]Came{Lost, Lost, Carried}, 700, 2, 3, 0, false}, // what goes on without end lies between
		{[]Came{Invalid, Invalid}, 1000, 4, 0, 0, true},
		{[]Came{Invalid, Invalid, Lost}, 800, 5, 1, 0, false},
	} {
		l := Longer{Sustained: search.Sustained{Rate: 700}, Least: time.Second, Attempts: 3, Budget: 5, OfInvalid: 2}
		l.Begin(1000)
		more := true
		for _, came := range c.came {
			if !more {
				t.Errorf("%v: over too early", c.came)
			}
			more = l.Next(came)
		}
		if more != c.more || float64(l.Rate) != c.rate || l.Spent != c.spent || l.Valid != c.valid || l.Spoilt != c.spoilt || l.Trials != len(c.came) {
			t.Errorf("%v: more %v, %+v", c.came, more, l)
		}
	}
}
