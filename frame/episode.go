// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"boxdyno/unit"
)

// An Episode is benign traffic at equal gaps, in the course of which a flood begins and ends,
// paced by itself; it is plain data. A flood of more than 100 kframe/s comes in bursts of
// what falls due within 20 us, 32 frames of it at most, with the benign frames that fall
// between them: single frames would wake the receiver's CPU one by one, which a sender pays
// for, and benign ones between bursts would find a queue that has had time to drain.
type Episode struct {
	Benign     Spec           // UDP, signed; at most MaxEpisodeFlows, and one network
	BenignRate unit.FrameRate // above 0
	Flood      Flood
	FloodRate  unit.FrameRate // above 0
	Before     time.Duration  // each above 0, and long enough for a benign frame
	During     time.Duration
	After      time.Duration

	// Of several senders that share the flood, Sender is this one's number, below Senders; 0
	// Senders are 1. The first one's source alone has the benign frames.
	Sender, Senders int
}

// MaxEpisodeFlows is the most flows of an Episode's benign traffic.
const MaxEpisodeFlows = 1000

// The classes of an Episode's frames. Those of benign frames number from 0 each, so
// that a meter armed for stream number + class tells what became of each phase.
const (
	BenignBefore = iota
	BenignDuring
	BenignAfter
	FloodFrames // not signed
	EpisodeClasses
)

// An EpisodeSource yields an Episode, which is one pass, timed. Its frames of one
// kind share their octets in a window: a frame takes 16 octets of memory, however
// long it is.
type EpisodeSource struct {
	shape   Shape
	all     []draft // benign ones by class, flow and size, then the flood's
	sizes   []int   // index among the distinct sizes, in the mix's order
	kinds   int     // distinct sizes
	flows   int
	flood   int      // where the flood's drafts begin in all
	order   []uint16 // of the flood's drafts
	ends    [3]uint64
	floods  uint64
	gap     float64 // ns between benign frames
	each    float64 // ns between the flood's
	lead    float64 // of that, before the first one
	begins  float64 // ns, the flood
	burst   uint64  // of its frames
	benigns uint64  // next of the pass
	flooded uint64
	seen    []int // by index of all: 1 + its entry in the window being filled
}

// mostEpisode is the most frames of an episode: what they take of memory is 16 GiB.
const mostEpisode = 1 << 30

const (
	episodeBurst     = 20 * time.Microsecond
	mostEpisodeBurst = 32
)

// NewEpisode makes the source.
func NewEpisode(e Episode) (*EpisodeSource, error) {
	if err := e.Benign.Check(); err != nil {
		return nil, fmt.Errorf("benign frames: %w", err)
	}
	switch {
	case e.Benign.Flows > MaxEpisodeFlows:
		return nil, fmt.Errorf("benign frames: flows %d: want 1 to %d", e.Benign.Flows, MaxEpisodeFlows)
	case e.Benign.Networks > 1:
		return nil, fmt.Errorf("benign frames: networks %d: want 1", e.Benign.Networks)
	case !(e.BenignRate > 0) || !(e.FloodRate > 0):
		return nil, fmt.Errorf("benign rate %v and flood rate %v: want both above 0", e.BenignRate, e.FloodRate)
	case e.Senders < 0 || e.Sender < 0 || e.Sender > 0 && e.Sender >= e.Senders:
		return nil, fmt.Errorf("sender %d of %d", e.Sender, e.Senders)
	}
	senders := float64(max(e.Senders, 1))
	s := &EpisodeSource{gap: 1e9 / float64(e.BenignRate), each: senders * 1e9 / float64(e.FloodRate), begins: float64(e.Before), flows: e.Benign.Flows}
	s.lead = (float64(e.Sender) + 0.5) / senders
	at := 0.0
	var last uint64
	for i, d := range []time.Duration{e.Before, e.During, e.After} {
		at += float64(d)
		n := math.Ceil(at/s.gap - 1e-9)
		if !(n <= mostEpisode) || uint64(n) <= last {
			return nil, fmt.Errorf("benign frames at %v for %v, %v and %v: want at least one in each, and at most %d in all", e.BenignRate, e.Before, e.During, e.After, mostEpisode)
		}
		s.ends[i], last = uint64(n), uint64(n)
	}
	n := math.Round(float64(e.During) * senders / s.each)
	if n < senders || !(n <= mostEpisode) {
		return nil, fmt.Errorf("flood at %v for %v: want 1 to %d frames, one a sender or more", e.FloodRate, e.During, mostEpisode)
	}
	part := func(i int) uint64 { return uint64(n) * uint64(i) / uint64(senders) }
	s.floods = part(e.Sender+1) - part(e.Sender)
	if e.Sender > 0 {
		s.ends = [3]uint64{}
	}
	s.burst = uint64(min(max(float64(e.FloodRate)/senders*episodeBurst.Seconds(), 1), mostEpisodeBurst))
	source, err := NewFlood(e.Flood)
	if err != nil {
		return nil, err
	}
	s.lay(e.Benign, source.(*drafts))
	return s, s.shape.Check()
}

// lay makes the drafts and the shape.
func (s *EpisodeSource) lay(b Spec, flood *drafts) {
	var distinct []unit.FrameSize
	for _, size := range b.Sizes {
		i := slices.Index(distinct, size)
		if i < 0 {
			i = len(distinct)
			distinct = append(distinct, size)
		}
		s.sizes = append(s.sizes, i)
	}
	s.kinds = len(distinct)
	for class := range uint8(FloodFrames) {
		for flow := range uint16(s.flows) {
			frames := Synthetic{SrcMAC: b.SrcMAC, DstMAC: b.DstMAC, Src: b.Src, Dst: b.Dst, SrcPort: b.SrcPort + flow, DstPort: b.DstPort}
			if b.Answer {
				frames.SrcPort, frames.DstPort = b.SrcPort, b.DstPort+flow
			}
			for _, size := range distinct {
				d := frames.draft(size)
				d.octets[d.entry.Sig+5] = class
				d.seal()
				d.entry.Class = class
				s.all = append(s.all, d)
			}
		}
	}
	s.flood, s.order = len(s.all), flood.order
	for _, d := range flood.all {
		d.entry.Class = FloodFrames
		s.all = append(s.all, d)
	}
	s.seen = make([]int, len(s.all))
	s.shape = Shape{
		Frames: s.ends[2] + s.floods, Timed: true,
		Classes: append([]string{"benign before", "benign during", "benign after"}, flood.shape.Classes...),
		Draws:   slices.Clone(flood.shape.Draws), Fields: slices.Clone(flood.shape.Fields),
	}
	for i := range s.shape.Draws {
		s.shape.Draws[i].Class = FloodFrames
	}
	for i := range s.shape.Fields {
		s.shape.Fields[i].Class = FloodFrames
	}
	for _, d := range s.all {
		s.shape.Octets += (uint64(len(d.octets)) + 7) &^ 7
		s.shape.Longest = max(s.shape.Longest, len(d.octets))
	}
}

// Shape is as Source says.
func (s *EpisodeSource) Shape() Shape { return s.shape }

// Notes is as Source says: there are none.
func (s *EpisodeSource) Notes() []string { return nil }

// Close is as Source says.
func (s *EpisodeSource) Close() error { return nil }

// next is when the next frame leaves, whether it is the flood's, and whether there is
// one.
func (s *EpisodeSource) next(benigns, flooded uint64) (at float64, flood, ok bool) {
	benign, attack := math.Inf(1), math.Inf(1)
	if benigns < s.ends[2] {
		benign = float64(benigns) * s.gap
	}
	if flooded < s.floods {
		attack = s.begins + (float64(flooded)+s.lead)*s.each
	}
	switch {
	case attack < benign:
		return s.together(flooded), true, true
	case s.burst > 1 && flooded < s.floods && benign < math.Inf(1) && (flooded%s.burst > 0 || benign >= s.begins+float64(flooded)*s.each):
		return max(benign, s.together(flooded)), false, true
	}
	return benign, false, !math.IsInf(benign, 1)
}

// First is when the first frame of a pass leaves.
func (s *EpisodeSource) First() time.Duration {
	at, _, _ := s.next(0, 0)
	return time.Duration(math.Round(at))
}

// together is when the burst leaves that frame n of the flood is of: with its last one.
func (s *EpisodeSource) together(n uint64) float64 {
	last := min((n/s.burst+1)*s.burst, s.floods)
	return s.begins + (float64(last)-1+s.lead)*s.each
}

// class is that of a benign frame by its number.
func (s *EpisodeSource) class(n uint64) int {
	for c, end := range s.ends {
		if n < end {
			return c
		}
	}
	return BenignAfter
}

// Counts are how many of the first n frames of a pass are of each class.
func (s *EpisodeSource) Counts(n uint64) (of [EpisodeClasses]uint64) {
	var benigns uint64
	if n >= s.shape.Frames {
		benigns, of[FloodFrames] = s.ends[2], s.floods
	} else {
		for range n {
			if _, flood, _ := s.next(benigns, of[FloodFrames]); flood {
				of[FloodFrames]++
			} else {
				benigns++
			}
		}
	}
	begin := uint64(0)
	for c, end := range s.ends {
		of[c] = min(max(benigns, begin), end) - begin
		begin = end
	}
	return of
}

// Fill is as Source says.
func (s *EpisodeSource) Fill(w *Window) error {
	clear(s.seen)
	for {
		at, flood, ok := s.next(s.benigns, s.flooded)
		if !ok {
			s.benigns, s.flooded = 0, 0
			return io.EOF
		}
		var i int
		if flood {
			i = s.flood + int(s.order[s.flooded%uint64(len(s.order))])
		} else {
			flow, size := int(s.benigns%uint64(s.flows)), s.sizes[s.benigns%uint64(len(s.sizes))]
			i = (s.class(s.benigns)*s.flows+flow)*s.kinds + size
		}
		if !s.put(w, i) {
			return full(w, len(s.all[i].octets))
		}
		w.Entries[w.Len()-1].At = uint64(math.Round(at))
		if flood {
			s.flooded++
		} else {
			s.benigns++
		}
	}
}

// put appends draft i, if there is room.
func (s *EpisodeSource) put(w *Window, i int) bool {
	if s.seen[i] > 0 {
		return w.again(s.seen[i] - 1)
	}
	from := &s.all[i]
	e, b := w.Next(len(from.octets))
	if e == nil {
		return false
	}
	copy(b, from.octets)
	off := e.Off
	*e = from.entry
	e.Off = off
	s.seen[i] = w.Len()
	return true
}
