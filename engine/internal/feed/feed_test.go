// SPDX-License-Identifier: Apache-2.0

package feed

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/internal/enginetest"
	"boxdyno/internal/testutil"

	"pgregory.net/rapid"
)

// However a source cuts its passes into windows, its frames come in order, pass
// after pass, and no more passes than asked for.
func TestFeed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := &enginetest.FakeSource{
			Frames: rapid.IntRange(1, 40).Draw(t, "frames"), Each: rapid.IntRange(0, 20).Draw(t, "each"),
			Apart: rapid.Bool().Draw(t, "apart"), Known: rapid.Bool().Draw(t, "known"),
		}
		src.K = rapid.IntRange(0, src.Frames-1).Draw(t, "begins at")
		begin, passes := src.K, rapid.IntRange(1, 6).Draw(t, "passes")
		f := New(engine.Stream{Source: src}, engine.Load{Passes: uint64(passes)}, nil)
		defer f.Close()
		var got, wraps []int
		for {
			turned, wrapped, err := f.Turn(nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			if wrapped {
				wraps = append(wraps, len(got))
			}
			if turned == Over {
				break
			}
			for f.Have() {
				at := f.Entry().At
				k := int(binary.BigEndian.Uint32(f.Take(nil, 0)[14:]))
				if at != uint64(k)*1000 {
					t.Fatalf("frame %d is of %d ns", k, at)
				}
				got = append(got, k)
			}
		}
		var want, wantWraps []int
		for pass := range passes {
			for k := 0; k < src.Frames; k++ {
				if pass > 0 || k >= begin {
					want = append(want, k)
				}
			}
			wantWraps = append(wantWraps, len(want))
		}
		if !slices.Equal(got, want) || !slices.Equal(wraps, wantWraps) || f.pass != uint64(passes) {
			t.Fatalf("%+v from %d: %d, wraps at %d, want %d, %d", src, begin, got, wraps, want, wantWraps)
		}
	})
}

// A pass that fits into a window is read once.
func TestFeedKeepsPass(t *testing.T) {
	testutil.NoLeaks(t)
	src := &enginetest.FakeSource{Frames: 1000, Known: true}
	f := New(engine.Stream{Source: src}, engine.Load{Count: 1}, nil)
	for range 10 {
		if turned, _, err := f.Turn(nil, 0); turned != More || err != nil {
			t.Fatal(turned, err)
		}
		for f.Have() {
			f.Take(nil, 0)
		}
	}
	f.Close()
	if src.Calls != 1 || f.pass != 9 || f.Starved != 0 {
		t.Errorf("filled %d times in %d passes, starved %d times", src.Calls, f.pass, f.Starved)
	}
}

func TestFeedFails(t *testing.T) {
	testutil.NoLeaks(t)
	for _, c := range []struct {
		src    *enginetest.FakeSource
		frames int
		want   error
	}{
		{&enginetest.FakeSource{Frames: 100, Each: 10, Fails: 4}, 30, enginetest.ErrFake},
		{&enginetest.FakeSource{Frames: 100, Fails: 1}, 0, enginetest.ErrFake},
		{&enginetest.FakeSource{Frames: 0}, 0, nil},
	} {
		f := New(engine.Stream{Source: c.src}, engine.Load{Count: 1e6}, nil)
		n := 0
		var err error
		for err == nil {
			if _, _, err = f.Turn(nil, 0); err == nil {
				for ; f.Have(); n++ {
					f.Take(nil, 0)
				}
			}
		}
		f.Close()
		if n != c.frames || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%+v: %d frames and %v; want %d and %v", c.src, n, err, c.frames, c.want)
		}
	}
}

// A sender that waits for a slow source stops by its time and its context.
func TestFeedStops(t *testing.T) {
	testutil.NoLeaks(t)
	stop := make(chan struct{})
	close(stop)
	for _, c := range []struct {
		stop <-chan struct{}
		most time.Duration
	}{{stop, 0}, {nil, time.Nanosecond}} {
		f := New(engine.Stream{Source: &enginetest.FakeSource{Frames: 100, Slow: 100 * time.Millisecond}}, engine.Load{Count: 1e6}, nil)
		if turned, _, err := f.Turn(c.stop, c.most); turned != Stopped || err != nil {
			t.Errorf("turned %d, %v", turned, err)
		}
		f.Close()
	}
	f := New(engine.Stream{Source: &enginetest.FakeSource{Frames: 100, Each: 1, Slow: 10 * time.Millisecond}}, engine.Load{Count: 1e6}, nil)
	for range 5 {
		if turned, _, err := f.Turn(nil, 0); turned != More || err != nil {
			t.Fatal(turned, err)
		}
		f.Take(nil, 0)
	}
	f.Close()
	if f.Starved == 0 {
		t.Error("it waited, and was not starved")
	}
}
