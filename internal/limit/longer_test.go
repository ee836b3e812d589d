// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"math"
	"testing"
	"time"

	"boxdyno/search"
	"boxdyno/unit"
)

// A load that loses gives way to a lower one; one whose trial was invalid is tried again.
func TestLonger(t *testing.T) {
	for _, c := range []struct {
		came         []Came
		rate         float64
		spent, valid int
		more         bool
	}{
		{[]Came{Carried}, 1000, 0, 1, false},
		{[]Came{Lost}, 800, 1, 1, true},
		{[]Came{Invalid, Carried}, 1000, 2, 1, false},
		{[]Came{Lost, Lost, Carried}, 700, 2, 3, false}, // what goes on without end lies between
		{[]Came{Invalid, Invalid}, 1000, 4, 0, true},
		{[]Came{Invalid, Invalid, Lost}, 800, 5, 1, false},
	} {
		l := Longer{Sustained: search.Sustained{Rate: 700}, Least: time.Second, Budget: 5, OfInvalid: 2}
		l.Begin(1000)
		more := true
		for _, came := range c.came {
			if !more {
				t.Errorf("%v: over too early", c.came)
			}
			more = l.Next(came, 0)
		}
		if more != c.more || float64(l.Rate) != c.rate || l.Spent != c.spent || l.Valid != c.valid || l.Trials != len(c.came) {
			t.Errorf("%v: more %v, %+v", c.came, more, l)
		}
	}
}

// After a loss the next load is the one that the box has room for; between what is carried and
// what is not, a nearer one follows.
func TestLongerNarrows(t *testing.T) {
	const carries = 130
	for _, room := range []float64{0, 0.01, 0.2, 5} {
		l := Longer{Least: time.Second, Budget: 40, Narrow: OneStep}
		l.Begin(1000)
		var rates []float64
		for more := true; more; {
			rates = append(rates, float64(l.Rate))
			came := Carried
			if l.Rate > carries {
				came = Lost
			}
			more = l.Next(came, room)
		}
		if l.Bears > carries || l.Lossy < carries || l.Lossy > l.Bears*OneStep || l.Valid != len(rates) {
			t.Errorf("room %v: %v: %+v", room, rates, l)
		}
		if second, want := rates[1], map[float64]float64{0: 800, 0.01: 125, 0.2: 200, 5: 800}[room]; second != want {
			t.Errorf("room %v: after 1000 came %v, want %v", room, second, want)
		}
	}
}

// A load that was carried elsewhere is tried before a lower one, until it lost as well.
func TestLongerTriesAHint(t *testing.T) {
	l := Longer{Least: time.Second, Budget: 40, Hint: 500}
	l.Begin(1000)
	for _, want := range []float64{501, 100.2} {
		if more := l.Next(Lost, 0.2); !more || math.Abs(float64(l.Rate)/want-1) > 1e-9 {
			t.Errorf("more %v, at %v, want %v", more, float64(l.Rate), want)
		}
	}
	if l.Hint != 0 || l.Lossy != 501 {
		t.Errorf("%+v", l)
	}
}

// A load that memory may be why is doubted: nothing was lost there, so it is no load that lost,
// and while no longer trial is valid, nothing else is known.
func TestLongerDoubts(t *testing.T) {
	sustained := search.Sustained{Rate: 600, Memory: 1e5, Longest: time.Minute}
	for name, c := range map[string]struct {
		s             search.Sustained
		found, above  unit.FrameRate
		came          []Came
		doubted, most unit.FrameRate
		below         unit.FrameRate
	}{
		"memory, invalid":       {sustained, 800, 900, []Came{Invalid}, 800, 800, 800},
		"memory, carried":       {sustained, 800, 900, []Came{Carried}, 800, 0, 800},
		"memory, lost":          {sustained, 800, 900, []Came{Lost}, 800, 600, 600},
		"memory, lost, carried": {sustained, 800, 900, []Came{Lost, Carried}, 800, 0, 600},
		"no memory, invalid":    {search.Sustained{}, 800, 900, []Came{Invalid}, 0, 0, 900},
		"no memory, lost":       {search.Sustained{}, 800, 0, []Came{Lost}, 0, 800, 800},
	} {
		l := Longer{Sustained: c.s, Least: time.Second, Budget: 40, Above: c.above, Narrow: OneStep}
		l.Begin(c.found)
		for _, came := range c.came {
			l.Next(came, 0)
		}
		if l.Doubted != c.doubted || l.AtMost() != c.most || l.Below() != c.below {
			t.Errorf("%s: doubted %v, at most %v, below %v: %+v", name, float64(l.Doubted), float64(l.AtMost()), float64(l.Below()), l)
		}
	}
}

// The last trials that there is time for go to a load that the ring outlasts every stall at, so
// that one is known in the end, and those before narrow it.
func TestLongerReserves(t *testing.T) {
	const carries = 20
	for n := 2; n <= 8; n++ {
		for _, found := range []unit.FrameRate{1000, 30} {
			left := n
			l := Longer{Least: time.Second, Budget: 40, Narrow: OneStep, Left: func(time.Duration) int { return left }}
			l.Overflowed(2000, 0.009)
			l.Begin(found)
			var rates []unit.FrameRate
			for more := true; more && left > 0; {
				rates = append(rates, l.Rate)
				came := Carried
				if l.Rate > carries {
					came = Lost
				}
				left--
				more = l.Next(came, 0)
			}
			if l.Bears == 0 || l.Bears > carries || n > 2 && rates[0] != found {
				t.Errorf("%d trials from %v: carried %v: %v", n, float64(found), float64(l.Bears), rates)
			}
		}
	}
	l := Longer{Least: time.Second, Budget: 40, Left: func(time.Duration) int { return 1 }}
	if l.Begin(1000); l.Rate != 1000 {
		t.Errorf("nothing is known, and %v is offered", float64(l.Rate))
	}
	if l.Next(Lost, 0); l.Rate != 500 {
		t.Errorf("1000 lost, and %v is offered", float64(l.Rate))
	}
}

// A trial at another load than the next one moves both bounds, and the next one goes between
// them. One below what is carried, or an invalid one, moves nothing.
func TestLongerNotes(t *testing.T) {
	for name, c := range map[string]struct {
		load         unit.FrameRate
		came         Came
		more         bool
		bears, below unit.FrameRate
		rate         float64
		valid        int
	}{
		"carried":              {800, Carried, true, 800, 1600, 1131.4, 3},
		"carried, not lossy":   {1590, Carried, false, 1590, 1600, 800, 3},
		"lost":                 {800, Lost, true, 400, 800, 565.7, 3},
		"lost just above":      {420, Lost, false, 400, 420, 800, 3},
		"lost above":           {1800, Lost, true, 400, 1600, 800, 3},
		"lost below":           {300, Lost, true, 400, 1600, 800, 3},
		"carried below":        {300, Carried, true, 400, 1600, 800, 3},
		"it decided nothing":   {800, Invalid, true, 400, 1600, 800, 2},
		"carried what is lost": {1700, Carried, false, 1700, 0, 800, 3},
	} {
		l := Longer{Least: time.Second, Budget: 40, Narrow: OneStep}
		l.Begin(1600)
		l.Next(Lost, 0.25)
		more := l.Next(Carried, 0)
		if !more || l.Bears != 400 || l.Rate != 800 {
			t.Fatalf("%+v", l)
		}
		more = l.Note(c.load, c.came, more)
		if more != c.more || l.Bears != c.bears || l.Below() != c.below || math.Abs(float64(l.Rate)-c.rate) > 0.1 || l.Valid != c.valid || l.Trials != 3 {
			t.Errorf("%s: more %v, below %v, %+v", name, more, float64(l.Below()), l)
		}
	}
}

// What another point lost at bounds the load from above, unless more than that is carried.
func TestLongerOfAnotherPoint(t *testing.T) {
	for _, c := range []struct {
		came        []Came
		most, below unit.FrameRate
	}{{nil, 300, 300}, {[]Came{Lost}, 300, 300}, {[]Came{Carried}, 0, 1200}, {[]Came{Lost, Carried}, 0, 300}} {
		l := Longer{Least: time.Second, Budget: 40, Above: 1200, Other: 300}
		l.Begin(1000)
		for _, came := range c.came {
			l.Next(came, 0)
		}
		if l.AtMost() != c.most || l.Below() != c.below {
			t.Errorf("%v: at most %v, below %v", c.came, float64(l.AtMost()), float64(l.Below()))
		}
	}
}
