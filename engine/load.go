// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"math"
	"time"

	"boxdyno/unit"
)

const (
	maxBurst    = 1 << 16
	MaxDuration = 366 * 24 * time.Hour
)

// Check says what is wrong with a load, and with streams for it, in a sentence.
func (l Load) Check(streams ...Stream) error {
	if err := l.alone(); err != nil {
		return err
	}
	for _, s := range streams {
		if err := l.fits(s); err != nil {
			return fmt.Errorf("load: stream %d: %w", s.ID, err)
		}
	}
	return nil
}

// alone checks what needs no stream.
func (l Load) alone() error {
	paces := 0
	for _, given := range []bool{l.Rate != 0, l.Bits != 0, l.Speed != 0} {
		if given {
			paces++
		}
	}
	switch {
	case l.Rate != 0 && !(l.Rate >= 1e-3 && l.Rate <= 1e9):
		return errors.New("load: the rate must be 0 (flat out), or 0.001 to 1e9 frame/s")
	case l.Bits != 0 && !(l.Bits >= 1 && l.Bits <= 1e12):
		return errors.New("load: the bit rate must be 0 (none), or 1 to 1e12 bit/s")
	case l.Speed != 0 && !(l.Speed >= 1e-3 && l.Speed <= 1e6):
		return errors.New("load: the speed must be 0 (none), or 0.001 to 1e6 times the source's own")
	case paces > 1:
		return fmt.Errorf("load: rate %v, bit rate %v and speed %v contradict each other: give one of them", l.Rate, l.Bits, l.Speed)
	case l.Pattern > Bursts:
		return fmt.Errorf("load: there is no pattern %d", l.Pattern)
	case l.Pattern != Constant && l.Rate == 0:
		return errors.New("load: Poisson and bursts spread frames about a frame rate, and none is given")
	case l.Pattern == Bursts && (l.Burst < 1 || l.Burst > maxBurst):
		return fmt.Errorf("load: bursts of %d frames: want 1 to %d", l.Burst, maxBurst)
	case l.Pattern != Bursts && l.Burst != 0:
		return fmt.Errorf("load: a burst of %d frames is given, and the pattern is not bursts", l.Burst)
	case l.Then != 0 && !(l.Then >= 1e-3 && l.Then <= 1e9):
		return errors.New("load: the rate that follows must be 0 (none), or 0.001 to 1e9 frame/s")
	case l.Then != 0 && (l.Rate == 0 || l.Pattern != Constant || l.Count != 0 || l.After <= 0 || l.After >= l.Duration):
		return errors.New("load: another rate follows a constant one, after a time within the duration, and without a count")
	case l.Then == 0 && l.After != 0:
		return errors.New("load: a time is given after which another rate follows, and no rate")
	case l.Late > Shift:
		return fmt.Errorf("load: there is no late policy %d", l.Late)
	case l.Duration < 0:
		return errors.New("load: the duration is negative")
	case l.Duration > MaxDuration:
		return fmt.Errorf("load: the duration %v is longer than a year", l.Duration)
	case l.Duration == 0 && l.Count == 0 && l.Passes == 0:
		return errors.New("load: neither a duration nor a count of frames or passes is given")
	}
	return nil
}

// fits checks what l asks of a stream.
func (l Load) fits(s Stream) error {
	if len(s.Parts) > 0 {
		for _, p := range s.Parts {
			if err := l.fits(Stream{Source: p.Source}); err != nil {
				return err
			}
		}
		return nil
	}
	if s.Source == nil {
		switch {
		case l.Speed != 0:
			return errors.New("a speed is a source's, and this stream has none: give a rate")
		case l.Passes != 0:
			return errors.New("passes are over a source, and this stream has none: give a count or a duration")
		case l.Unique:
			return errors.New("addresses of each pass's own are a source's, and this stream has none: vary its flows")
		}
		return nil
	}
	shape := s.Source.Shape()
	if l.Speed != 0 && !shape.Timed {
		return errors.New("a speed is given, and its source does not say when its frames were captured: give a rate")
	}
	return shape.Check()
}

// Paced says whether frames have times to leave at.
func (l Load) Paced() bool { return l.Rate != 0 || l.Bits != 0 || l.Speed != 0 }

// Mean is each stream's rate over the duration; 0 where no frame rate is given.
func (l Load) Mean() unit.FrameRate {
	if l.Then == 0 {
		return l.Rate
	}
	share := unit.FrameRate(l.After.Seconds() / l.Duration.Seconds())
	return l.Rate*share + l.Then*(1-share)
}

// Intended is each stream's frames as far as rate, duration and count say: 0
// where they do not.
func (l Load) Intended() uint64 {
	if l.Rate == 0 || l.Duration == 0 {
		return l.Count
	}
	n := uint64(math.Round(float64(l.Mean()) * l.Duration.Seconds()))
	if l.Count != 0 {
		n = min(n, l.Count)
	}
	return n
}

// Frames is Intended with the passes over s's source.
func (l Load) Frames(s Stream) uint64 {
	n := l.Intended()
	if l.Passes == 0 || s.Source == nil {
		return n
	}
	frames := s.Source.Shape().Frames
	if frames == 0 || l.Passes > math.MaxUint64/frames {
		return n
	}
	if all := frames * l.Passes; n == 0 || all < n {
		return all
	}
	return n
}
