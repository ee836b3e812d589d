// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/internal/enginetest"
	"boxdyno/frame"
	"boxdyno/unit"
)

func TestLoadIntends(t *testing.T) {
	src := engine.Stream{Source: &enginetest.FakeSource{Frames: 10}}
	for _, c := range []struct {
		l    engine.Load
		want uint64
	}{
		{engine.Load{Rate: 3, Duration: time.Second}, 3},
		{engine.Load{Rate: 1e6, Duration: 100 * time.Millisecond}, 100_000},
		{engine.Load{Rate: 1e6, Duration: time.Second, Count: 7}, 7},
		{engine.Load{Rate: 10, Duration: time.Second, Count: 70}, 10},
		{engine.Load{Rate: 10, Count: 70}, 70},
		{engine.Load{Count: 70}, 70},
		{engine.Load{Duration: time.Second}, 0},
		{engine.Load{Passes: 5}, 50},
		{engine.Load{Passes: 5, Count: 20}, 20},
		{engine.Load{Passes: 5, Rate: 10, Duration: time.Second}, 10},
		{engine.Load{Bits: 1e6, Passes: 5, Duration: time.Second}, 50},
		{engine.Load{Passes: math.MaxUint64, Count: 3}, 3},
	} {
		if got := c.l.Frames(src); got != c.want || c.l.Check(src) != nil {
			t.Errorf("%+v intends %d frames (%v), want %d", c.l, got, c.l.Check(src), c.want)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	plain, untimed, timed := engine.Stream{Frames: enginetest.Spec()}, engine.Stream{Source: &enginetest.FakeSource{Frames: 1}}, engine.Stream{Source: &enginetest.FakeSource{Frames: 1, Timed: true}}
	bad := engine.Stream{Source: &enginetest.FakeSource{Frames: 1, Draws: make([]frame.Draw, frame.MaxDraws+1)}}
	for _, c := range []struct {
		l    engine.Load
		s    engine.Stream
		want string
	}{
		{engine.Load{}, plain, "neither a duration nor"},
		{engine.Load{Rate: 1}, plain, "neither a duration nor"},
		{engine.Load{Rate: -1, Count: 1}, plain, "rate"},
		{engine.Load{Rate: 2e9, Count: 1}, plain, "rate"},
		{engine.Load{Rate: unit.FrameRate(math.NaN()), Count: 1}, plain, "rate"},
		{engine.Load{Bits: -1, Count: 1}, plain, "bit rate"},
		{engine.Load{Bits: 2e12, Count: 1}, plain, "bit rate"},
		{engine.Load{Speed: math.Inf(1), Count: 1}, timed, "speed"},
		{engine.Load{Speed: -1, Count: 1}, timed, "speed"},
		{engine.Load{Rate: 1, Bits: 1, Count: 1}, plain, "contradict"},
		{engine.Load{Rate: 1, Speed: 1, Count: 1}, timed, "contradict"},
		{engine.Load{Bits: 1, Speed: 1, Count: 1}, timed, "contradict"},
		{engine.Load{Duration: -1, Count: 1}, plain, "negative"},
		{engine.Load{Duration: 10_000 * time.Hour}, plain, "year"},
		{engine.Load{Pattern: 3, Count: 1}, plain, "pattern 3"},
		{engine.Load{Late: 2, Count: 1}, plain, "policy 2"},
		{engine.Load{Pattern: engine.Poisson, Count: 1}, plain, "frame rate"},
		{engine.Load{Pattern: engine.Bursts, Burst: 2, Bits: 1e6, Count: 1}, plain, "frame rate"},
		{engine.Load{Pattern: engine.Bursts, Rate: 1e6, Count: 1}, plain, "bursts of 0"},
		{engine.Load{Pattern: engine.Bursts, Burst: 1 << 20, Rate: 1e6, Count: 1}, plain, "bursts of 1048576"},
		{engine.Load{Burst: 2, Rate: 1e6, Count: 1}, plain, "not bursts"},
		{engine.Load{Speed: 1, Count: 1}, untimed, "captured"},
		{engine.Load{Speed: 1, Count: 1}, plain, "has none"},
		{engine.Load{Passes: 1}, plain, "passes"},
		{engine.Load{Unique: true, Count: 1}, plain, "addresses"},
		{engine.Load{Count: 1}, bad, "draws"},
	} {
		if err := c.l.Check(c.s); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v; want %q", c.l, err, c.want)
		}
	}
	for _, l := range []engine.Load{{Speed: 1, Passes: 1}, {Speed: 1e6, Count: 1, Unique: true}, {Rate: 1, Pattern: engine.Poisson, Passes: 1}, {Rate: 1e9, Pattern: engine.Bursts, Burst: 64, Count: 1}} {
		if err := l.Check(timed); err != nil {
			t.Errorf("%+v: %v", l, err)
		}
	}
}
