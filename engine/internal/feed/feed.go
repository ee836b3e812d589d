// SPDX-License-Identifier: Apache-2.0

// Package feed hands the frames of sources to senders in Go.
package feed

import (
	"errors"
	"fmt"
	"io"
	"time"

	"boxdyno/engine"
	"boxdyno/frame"
	"boxdyno/internal/guard"
	"boxdyno/unit"
)

// A Feed hands the frames of a stream's source to a sender in Go:
//
//	filler (goroutine)   Source.Fill into one window while the other is sent from
//	sender's thread      entry -> its octets in the window, or as the writer varies them
//
// A pass that fits into a window is filled once and sent from again and again.
// Its methods are the sender's; the source is the filler's until Close.
type Feed struct {
	source frame.Source
	shape  frame.Shape
	writer *frame.Writer
	vary   bool // fields or passes change frames

	w       *window // being sent from; nil: none yet
	i       int     // its next entry
	pass    uint64  // of the frame at hand
	Passes  uint64  // complete
	Starved uint64
	limit   uint64 // passes; 0: no limit

	full, empty chan *window
	done        chan struct{}
	made        int // windows, by the filler
	check       func(*frame.Window) error
}

// A window is one of a feed's two.
type window struct {
	frame.Window
	last  bool  // the pass ends with it
	whole bool  // it holds a pass
	plain bool  // its frames leave as they are
	err   error // the source's end, after these frames
}

const (
	windows       = 2
	windowOctets  = 4 << 20
	windowEntries = 1 << 16
	// residentOctets is the longest pass that is kept in memory as a whole.
	residentOctets = 64 << 20
)

// New starts the filler. The load has been checked. check, unless it is nil,
// refuses windows.
func New(s engine.Stream, l engine.Load, check func(*frame.Window) error) *Feed {
	f := &Feed{
		source: s.Source, shape: s.Source.Shape(), limit: l.Passes, check: check,
		full: make(chan *window, windows), empty: make(chan *window, windows), done: make(chan struct{}),
	}
	f.writer = frame.NewWriter(f.shape, s.ID, l.Seed, l.Unique)
	f.vary = len(f.shape.Fields) > 0 || l.Unique
	guard.Go(f.fill)
	return f
}

func (f *Feed) newWindow() *window {
	octets, entries := uint64(max(windowOctets, 4*f.shape.Longest)), uint64(windowEntries)
	if s := f.shape; s.Frames > 0 && s.Octets > 0 && s.Octets <= residentOctets && s.Frames <= residentOctets/8 {
		// One frame more than the pass has, so that the source finds its end.
		octets, entries = s.Octets+s.Octets/16+2*uint64(s.Longest)+64, s.Frames+1
	}
	w := new(window)
	w.Blob, w.Entries = make([]byte, octets), make([]frame.Entry, entries)
	return w
}

// blank is a window to fill; nil: the feed is closed.
func (f *Feed) blank() *window {
	select {
	case w := <-f.empty:
		return w
	default:
	}
	if f.made < cap(f.full) {
		f.made++
		return f.newWindow()
	}
	return <-f.empty
}

// fill is the filler.
func (f *Feed) fill() {
	defer close(f.done)
	begins := false // the window to come begins a pass, for certain
	for {
		w := f.blank()
		if w == nil {
			return
		}
		w.Reset()
		err := f.source.Fill(&w.Window)
		w.last = errors.Is(err, io.EOF)
		if w.err = err; w.last {
			w.err = nil
		} else if err == nil && w.Len() == 0 {
			w.err = errors.New("it put no frame into an empty window")
		}
		if f.check != nil {
			if err := f.check(&w.Window); err != nil {
				w.Reset()
				w.err = err
			}
		}
		w.whole = w.last && w.Len() > 0 && (begins || uint64(w.Len()) == f.shape.Frames)
		begins = w.last
		w.plain = !f.vary && !w.signed()
		f.full <- w
		if w.err != nil || w.whole {
			return
		}
	}
}

func (w *window) signed() bool {
	for i := range w.Entries[:w.Len()] {
		if w.Entries[i].Sig != 0 {
			return true
		}
	}
	return false
}

// Close ends the filler, and waits for it: then the source is the caller's again.
func (f *Feed) Close() {
	close(f.empty)
	<-f.done
}

// Have says whether a frame is at hand; if not, Turn gets more.
func (f *Feed) Have() bool { return f.w != nil && f.i < f.w.Len() }

// Entry is the frame at hand.
func (f *Feed) Entry() *frame.Entry { return &f.w.Entries[f.i] }

// Take makes the frame at hand, in buf where it varies, and goes on to the next.
// The octets stand until Turn.
func (f *Feed) Take(buf []byte, stamp unit.Instant) []byte {
	e, i := &f.w.Entries[f.i], f.i
	if f.i++; f.w.last && f.i == f.w.Len() {
		f.Passes++
	}
	if f.w.plain {
		return f.w.Frame(i)
	}
	out := buf[:f.writer.Write(&f.w.Window, i, f.pass, buf)]
	frame.Stamp(out, *e, stamp)
	return out
}

// What turn came to.
type turned int

const (
	More    turned = iota // a frame is at hand
	Over                  // the passes are done
	Stopped               // by the channel, or the time
)

// Turn goes on to the next window once all frames of the last one have left, and
// waits for it at most for a time (0: for ever). wraps says that a pass begins.
func (f *Feed) Turn(stop <-chan struct{}, most time.Duration) (t turned, wraps bool, err error) {
	for empty := 0; empty < 2; empty++ {
		if f.w != nil && f.w.last {
			f.pass++
			f.Passes = f.pass // also where the last window was empty
			wraps = true
			if f.limit > 0 && f.pass == f.limit {
				return Over, wraps, nil
			}
		}
		if f.w != nil && f.w.whole {
			f.i = 0
			return More, wraps, nil
		}
		if t, err := f.swap(stop, most); t != More || err != nil {
			return t, wraps, err
		}
		if f.Have() {
			return More, wraps, nil
		}
	}
	return Stopped, wraps, errors.New("its source: it has no frames")
}

// swap hands the empty window to the filler and takes the full one.
func (f *Feed) swap(stop <-chan struct{}, most time.Duration) (turned, error) {
	first := f.w == nil
	if !first {
		if f.w.err != nil {
			return Stopped, fmt.Errorf("its source: %w", f.w.err)
		}
		f.empty <- f.w
	}
	select {
	case f.w = <-f.full:
	default:
		if !first {
			f.Starved++
		}
		var late <-chan time.Time
		if most > 0 {
			timer := time.NewTimer(most)
			defer timer.Stop()
			late = timer.C
		}
		f.w = nil
		select {
		case f.w = <-f.full:
		case <-stop:
			return Stopped, nil
		case <-late:
			return Stopped, nil
		}
	}
	f.i = 0
	if f.w.Len() == 0 && f.w.err != nil {
		return Stopped, fmt.Errorf("its source: %w", f.w.err)
	}
	return More, nil
}
