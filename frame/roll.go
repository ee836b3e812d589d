// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// A Roll is the frames of a pass over a source by their marks: what a receiver is to see.
// Frames with equal marks are one entry that is due more than once.
type Roll struct {
	Same  Sameness
	Marks []Mark // distinct

	orders [][]uint32 // the entry of each frame of the pass, by part
	index  map[uint64]uint32
}

// MostRoll is the most distinct frames of a roll. A receiver needs 32 octets or more for
// each.
const MostRoll = 1 << 21

// NewRoll reads one pass of a source, or of each part of one (Shard), which it leaves at the
// beginning of the next. Frames must not vary (Shape.Fields, signatures).
func NewRoll(ctx context.Context, same Sameness, parts ...Source) (*Roll, error) {
	r := &Roll{Same: same, index: map[uint64]uint32{}, orders: make([][]uint32, len(parts))}
	for i, source := range parts {
		if err := r.read(ctx, i, source); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// read adds a pass of part.
func (r *Roll) read(ctx context.Context, part int, source Source) error {
	w := Window{Blob: make([]byte, max(1<<20, source.Shape().Longest)), Entries: make([]Entry, 1<<13)}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		w.Reset()
		end := source.Fill(&w)
		for i := range w.Len() {
			if err := r.add(part, MarkOf(w.Frame(i), r.Same)); err != nil {
				return err
			}
		}
		switch {
		case end == io.EOF && len(r.orders[part]) == 0:
			return errors.New("the source has no frames")
		case end == io.EOF:
			return nil
		case end != nil:
			return end
		}
	}
}

func (r *Roll) add(part int, m Mark) error {
	i, ok := r.index[m.Key()]
	if !ok {
		if len(r.Marks) == MostRoll {
			return fmt.Errorf("the source has more than %d different frames, which is the most that a receiver tells apart: replay a part of it", MostRoll)
		}
		i = uint32(len(r.Marks))
		r.index[m.Key()] = i
		r.Marks = append(r.Marks, m)
	}
	r.orders[part] = append(r.orders[part], i)
	return nil
}

// Frames is how many a pass has.
func (r *Roll) Frames() (n int) {
	for _, order := range r.orders {
		n += len(order)
	}
	return n
}

// Find returns which entry a frame with mark m is.
func (r *Roll) Find(m Mark) (i uint32, ok bool) {
	i, ok = r.index[m.Key()]
	return i, ok
}

// Arrivals are what a receiver saw of a roll.
type Arrivals struct {
	Seen    []uint64        // of each entry
	Strange map[Mark]uint64 // frames of no entry, at most MostStrange marks
	More    uint64          // further frames of no entry, whose marks were not kept
}

// MostStrange is how many marks of frames that are on no roll a receiver keeps.
const MostStrange = 1 << 16

// A Called roll is what became of the frames that were sent, and what else arrived:
//
//	sent = received + altered + missing
type Called struct {
	Sent       uint64
	Received   uint64 // as they were sent, each once
	Altered    uint64 // of the missing ones those in whose place a frame came that shares one part of the mark
	Missing    uint64 // lost
	Duplicated uint64 // that came more often than they were sent
	Foreign    uint64 // that are of nobody who was sent
	Unsure     uint64 // frames of Foreign that may be missing ones, altered: their marks were not kept
}

// Call compares what arrived with the first frames of passes without end, of each part so
// many as were sent. A frame that came twice stands for no other that did not come.
func (r *Roll) Call(a Arrivals, sent ...uint64) Called {
	c, dues := Called{}, make([]uint64, len(r.Marks))
	for part, n := range sent {
		c.Sent += n
		order := r.orders[part]
		passes := n / uint64(len(order))
		for at, i := range order {
			dues[i] += passes
			if uint64(at) < n%uint64(len(order)) {
				dues[i]++
			}
		}
	}
	missing := map[uint32]uint64{}
	for i, due := range dues {
		came := uint64(0)
		if i < len(a.Seen) {
			came = a.Seen[i]
		}
		c.Received += min(due, came)
		if came > due {
			c.Duplicated += came - due
		} else if came < due {
			missing[uint32(i)] = due - came
			c.Missing += due - came
		}
	}
	altered, strange := r.altered(missing, a.Strange)
	c.Altered, c.Missing = altered, c.Missing-altered
	c.Foreign = strange - altered + a.More
	if c.Missing > 0 {
		c.Unsure = a.More
	}
	return c
}

// altered pairs strange frames with missing ones, first by their heads, then by their
// bodies. It also returns how many strange ones there are.
func (r *Roll) altered(missing map[uint32]uint64, strange map[Mark]uint64) (altered, all uint64) {
	marks := make([]Mark, 0, len(strange))
	for m, n := range strange {
		marks = append(marks, m)
		all += n
	}
	if len(missing) == 0 || all == 0 {
		return 0, all
	}
	slices.SortFunc(marks, func(a, b Mark) int { return cmp.Or(cmp.Compare(a.Head, b.Head), cmp.Compare(a.Body, b.Body)) })
	left := make([]uint64, len(marks))
	for i, m := range marks {
		left[i] = strange[m]
	}
	for _, part := range []func(Mark) uint64{func(m Mark) uint64 { return m.Head }, func(m Mark) uint64 { return m.Body }} {
		by := map[uint64][]uint32{}
		for _, i := range slices.Sorted(maps.Keys(missing)) {
			by[part(r.Marks[i])] = append(by[part(r.Marks[i])], i)
		}
		for i, m := range marks {
			key := part(m)
			for len(by[key]) > 0 && left[i] > 0 {
				last := len(by[key]) - 1
				entry := by[key][last]
				n := min(left[i], missing[entry])
				left[i], missing[entry], altered = left[i]-n, missing[entry]-n, altered+n
				if missing[entry] == 0 {
					delete(missing, entry)
					by[key] = by[key][:last]
				}
			}
		}
	}
	return altered, all
}
