// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"math"
	"strings"
	"testing"
	"time"

	"boxdyno/frame"
	"boxdyno/unit"
)

func TestLoadIntends(t *testing.T) {
	src := Stream{Source: &fakeSource{frames: 10}}
	for _, c := range []struct {
		l    Load
		want uint64
	}{
		{Load{Rate: 3, Duration: time.Second}, 3},
		{Load{Rate: 1e6, Duration: 100 * time.Millisecond}, 100_000},
		{Load{Rate: 1e6, Duration: time.Second, Count: 7}, 7},
		{Load{Rate: 10, Duration: time.Second, Count: 70}, 10},
		{Load{Rate: 10, Count: 70}, 70},
		{Load{Count: 70}, 70},
		{Load{Duration: time.Second}, 0},
		{Load{Passes: 5}, 50},
		{Load{Passes: 5, Count: 20}, 20},
		{Load{Passes: 5, Rate: 10, Duration: time.Second}, 10},
		{Load{Bits: 1e6, Passes: 5, Duration: time.Second}, 50},
		{Load{Passes: math.MaxUint64, Count: 3}, 3},
	} {
		if got := c.l.of(src); got != c.want || c.l.check(src) != nil {
			t.Errorf("%+v intends %d frames (%v), want %d", c.l, got, c.l.check(src), c.want)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	plain, untimed, timed := Stream{Frames: testSpec()}, Stream{Source: &fakeSource{frames: 1}}, Stream{Source: &fakeSource{frames: 1, timed: true}}
	bad := Stream{Source: &fakeSource{frames: 1, draws: make([]frame.Draw, frame.MaxDraws+1)}}
	for _, c := range []struct {
		l    Load
		s    Stream
		want string
	}{
		{Load{}, plain, "neither a duration nor"},
		{Load{Rate: 1}, plain, "neither a duration nor"},
		{Load{Rate: -1, Count: 1}, plain, "rate"},
		{Load{Rate: 2e9, Count: 1}, plain, "rate"},
		{Load{Rate: unit.FrameRate(math.NaN()), Count: 1}, plain, "rate"},
		{Load{Bits: -1, Count: 1}, plain, "bit rate"},
		{Load{Bits: 2e12, Count: 1}, plain, "bit rate"},
		{Load{Speed: math.Inf(1), Count: 1}, timed, "speed"},
		{Load{Speed: -1, Count: 1}, timed, "speed"},
		{Load{Rate: 1, Bits: 1, Count: 1}, plain, "contradict"},
		{Load{Rate: 1, Speed: 1, Count: 1}, timed, "contradict"},
		{Load{Bits: 1, Speed: 1, Count: 1}, timed, "contradict"},
		{Load{Duration: -1, Count: 1}, plain, "negative"},
		{Load{Duration: 10_000 * time.Hour}, plain, "year"},
		{Load{Pattern: 3, Count: 1}, plain, "pattern 3"},
		{Load{Late: 2, Count: 1}, plain, "policy 2"},
		{Load{Pattern: Poisson, Count: 1}, plain, "frame rate"},
		{Load{Pattern: Bursts, Burst: 2, Bits: 1e6, Count: 1}, plain, "frame rate"},
		{Load{Pattern: Bursts, Rate: 1e6, Count: 1}, plain, "bursts of 0"},
		{Load{Pattern: Bursts, Burst: 1 << 20, Rate: 1e6, Count: 1}, plain, "bursts of 1048576"},
		{Load{Burst: 2, Rate: 1e6, Count: 1}, plain, "not bursts"},
		{Load{Speed: 1, Count: 1}, untimed, "captured"},
		{Load{Speed: 1, Count: 1}, plain, "has none"},
		{Load{Passes: 1}, plain, "passes"},
		{Load{Unique: true, Count: 1}, plain, "addresses"},
		{Load{Count: 1}, bad, "draws"},
	} {
		if err := c.l.check(c.s); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v; want %q", c.l, err, c.want)
		}
	}
	for _, l := range []Load{{Speed: 1, Passes: 1}, {Speed: 1e6, Count: 1, Unique: true}, {Rate: 1, Pattern: Poisson, Passes: 1}, {Rate: 1e9, Pattern: Bursts, Burst: 64, Count: 1}} {
		if err := l.check(timed); err != nil {
			t.Errorf("%+v: %v", l, err)
		}
	}
}

func TestOffered(t *testing.T) {
	second := unit.Instant(time.Second)
	for _, c := range []struct {
		l             Load
		r             TxReport
		offered, peak unit.FrameRate
	}{
		{Load{Rate: 100, Duration: time.Second}, TxReport{Accepted: 50, Last: second / 2}, 50, 50}, // it stood still at the end
		{Load{Rate: 100, Duration: time.Second}, TxReport{Accepted: 100, Last: 2 * second}, 50, 50},
		{Load{Rate: 100, Duration: time.Second}, TxReport{Accepted: 100, Late: 1, Last: second}, 100, 112.5},
		{Load{Rate: 100, Duration: time.Second, Late: Shift}, TxReport{Accepted: 90, Late: 1, Last: second}, 90, 90},
		{Load{Bits: 1e3, Duration: time.Second}, TxReport{Accepted: 80, Late: 1, Last: second / 2}, 80, 90},
		{Load{Bits: 1e3, Duration: time.Second, Count: 80}, TxReport{Accepted: 81, Last: second / 2}, 160, 160},
		{Load{Speed: 2, Passes: 3, Duration: time.Second}, TxReport{Accepted: 81, Passes: 3, Last: second / 2}, 160, 160},
		{Load{Speed: 2, Passes: 3, Duration: time.Second}, TxReport{Accepted: 81, Passes: 2, Last: second / 2}, 81, 81},
		{Load{Duration: time.Second}, TxReport{Accepted: 81, Late: 3, Last: second / 2}, 160, 160},
		{Load{Rate: 100, Count: 81}, TxReport{Accepted: 81, Last: second / 2}, 160, 160},
	} {
		if got := offered(c.l, c.r); got != c.offered {
			t.Errorf("%+v %+v: offered %v, want %v", c.l, c.r, float64(got), float64(c.offered))
		}
		c.r.Offered = c.offered
		if got := peak(c.l, c.r); got != c.peak {
			t.Errorf("%+v %+v: peak %v, want %v", c.l, c.r, float64(got), float64(c.peak))
		}
	}
}
