// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"boxdyno/frame"
	"boxdyno/internal/testutil"
)

// A fakeSource counts: frame k of a pass has the pass's and its own number in it.
type fakeSource struct {
	frames int  // of a pass
	each   int  // most frames that a call fills; 0: as many as there is room for
	apart  bool // the end of a pass comes by itself
	timed  bool
	known  bool // the shape says how many
	draws  []frame.Draw
	fails  int           // the call that fails; 0: none
	slow   time.Duration // of each call

	k, calls int
}

var errFake = errors.New("broken off")

func (s *fakeSource) Shape() frame.Shape {
	shape := frame.Shape{Longest: 60, Timed: s.timed, Draws: s.draws, Frames: uint64(s.frames)}
	if s.known {
		shape.Octets = uint64(s.frames) * 64
	}
	return shape
}

func (s *fakeSource) Fill(w *frame.Window) error {
	time.Sleep(s.slow)
	if s.calls++; s.calls == s.fails {
		return errFake
	}
	for n := 0; s.k < s.frames; n++ {
		if s.each > 0 && n == s.each {
			return nil
		}
		e, b := w.Next(60)
		if e == nil {
			return nil
		}
		clear(b)
		copy(b, []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5})
		binary.BigEndian.PutUint32(b[14:], uint32(s.k))
		e.At = uint64(s.k) * 1000
		if s.k++; s.k == s.frames && s.apart {
			return nil
		}
	}
	s.k = 0
	return io.EOF
}

func (*fakeSource) Notes() []string { return nil }
func (*fakeSource) Close() error    { return nil }

// However a source cuts its passes into windows, its frames come in order, pass
// after pass, and no more passes than asked for.
func TestFeed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := &fakeSource{
			frames: rapid.IntRange(1, 40).Draw(t, "frames"), each: rapid.IntRange(0, 20).Draw(t, "each"),
			apart: rapid.Bool().Draw(t, "apart"), known: rapid.Bool().Draw(t, "known"),
		}
		src.k = rapid.IntRange(0, src.frames-1).Draw(t, "begins at")
		begin, passes := src.k, rapid.IntRange(1, 6).Draw(t, "passes")
		f := newFeed(Stream{Source: src}, Load{Passes: uint64(passes)}, nil)
		defer f.close()
		var got, wraps []int
		for {
			turned, wrapped, err := f.turn(nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			if wrapped {
				wraps = append(wraps, len(got))
			}
			if turned == feedOver {
				break
			}
			for f.have() {
				at := f.entry().At
				k := int(binary.BigEndian.Uint32(f.take(nil, 0)[14:]))
				if at != uint64(k)*1000 {
					t.Fatalf("frame %d is of %d ns", k, at)
				}
				got = append(got, k)
			}
		}
		var want, wantWraps []int
		for pass := range passes {
			for k := 0; k < src.frames; k++ {
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
	src := &fakeSource{frames: 1000, known: true}
	f := newFeed(Stream{Source: src}, Load{Count: 1}, nil)
	for range 10 {
		if turned, _, err := f.turn(nil, 0); turned != feedMore || err != nil {
			t.Fatal(turned, err)
		}
		for f.have() {
			f.take(nil, 0)
		}
	}
	f.close()
	if src.calls != 1 || f.pass != 9 || f.starved != 0 {
		t.Errorf("filled %d times in %d passes, starved %d times", src.calls, f.pass, f.starved)
	}
}

func TestFeedFails(t *testing.T) {
	testutil.NoLeaks(t)
	for _, c := range []struct {
		src    *fakeSource
		frames int
		want   error
	}{
		{&fakeSource{frames: 100, each: 10, fails: 4}, 30, errFake},
		{&fakeSource{frames: 100, fails: 1}, 0, errFake},
		{&fakeSource{frames: 0}, 0, nil},
	} {
		f := newFeed(Stream{Source: c.src}, Load{Count: 1e6}, nil)
		n := 0
		var err error
		for err == nil {
			if _, _, err = f.turn(nil, 0); err == nil {
				for ; f.have(); n++ {
					f.take(nil, 0)
				}
			}
		}
		f.close()
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
		f := newFeed(Stream{Source: &fakeSource{frames: 100, slow: 100 * time.Millisecond}}, Load{Count: 1e6}, nil)
		if turned, _, err := f.turn(c.stop, c.most); turned != feedStopped || err != nil {
			t.Errorf("turned %d, %v", turned, err)
		}
		f.close()
	}
	f := newFeed(Stream{Source: &fakeSource{frames: 100, each: 1, slow: 10 * time.Millisecond}}, Load{Count: 1e6}, nil)
	for range 5 {
		if turned, _, err := f.turn(nil, 0); turned != feedMore || err != nil {
			t.Fatal(turned, err)
		}
		f.take(nil, 0)
	}
	f.close()
	if f.starved == 0 {
		t.Error("it waited, and was not starved")
	}
}
