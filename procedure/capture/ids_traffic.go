// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"time"

	"boxdyno/engine"
	"boxdyno/frame"
	"boxdyno/unit"
)

// An idsLoad is what a trial's traffic is asked to be.
type idsLoad struct {
	rate    unit.BitRate  // in all
	lasts   time.Duration // about
	passes  uint64        // over a capture, at least
	senders int
}

// An idsTraffic is what one trial sends.
type idsTraffic struct {
	of      idsLoad
	parts   []engine.Part // of the senders, with all that is known of them
	load    engine.Load
	frames  uint64 // of all passes
	octets  uint64 // theirs, with FCS
	passes  uint64
	planted map[int]int64 // attacks by the sid of their rule; nil: none are known
	notes   []string      // what was changed or left out of a capture
}

// divide gives each of n senders a part of the traffic: open opens part i, and how many frames
// and octets a pass of it has.
func (t *idsTraffic) divide(n int, open func(i int) (engine.Part, error)) error {
	for i := range n {
		part, err := open(i)
		if part.Source != nil {
			t.parts = append(t.parts, part)
		}
		switch {
		case err != nil || part.Frames > 0:
		case n == 1:
			err = errors.New("it has no frames")
		default:
			err = fmt.Errorf("senders %d: part %d has no frames, because its flows are too few: use fewer senders", n, i+1)
		}
		if err != nil {
			return errors.Join(err, t.close())
		}
		t.frames, t.octets = t.frames+part.Frames, t.octets+part.Octets
	}
	return nil
}

// stream puts the traffic into s.
func (t *idsTraffic) stream(s *engine.Stream) {
	s.Source, s.Parts = t.parts[0].Source, nil
	if len(t.parts) > 1 {
		s.Source, s.Parts = nil, t.parts
	}
}

func (t *idsTraffic) close() (err error) {
	for _, p := range t.parts {
		err = errors.Join(err, p.Source.Close())
	}
	return err
}

// lasts is how long it takes.
func (t *idsTraffic) lasts() time.Duration {
	if t.load.Bits > 0 {
		return passTime(t.octets, t.of.rate)
	}
	return time.Duration(float64(t.of.lasts) / max(t.load.Speed, 1e-9))
}

func (t *idsTraffic) mean() float64 { return float64(t.octets) / float64(t.frames) }

// Frames come from two stations that are nobody's, so that the IDS can tell them from
// what the DUT's port itself says.
var (
	idsClient = [6]byte{0x02, 0xbd, 0, 0, 1, 1}
	idsServer = [6]byte{0x02, 0xbd, 0, 0, 1, 2}
)

// floodTarget is what a flood among the traffic is aimed at.
var floodTarget = netip.MustParsePrefix("198.19.0.2/32")

const idsFilter = "ether src 02:bd:00:00:01:01 or ether src 02:bd:00:00:01:02"

// make is traffic of that load; the caller closes it.
func (p *IDS) make(ctx context.Context, of idsLoad) (*idsTraffic, error) {
	rate, d, n := of.rate, of.lasts, of.senders
	if p.traffic != appMix {
		return p.replay(ctx, of)
	}
	base := rate
	if p.flood.Value != noFlood {
		octets, err := p.floodOctets()
		if err != nil {
			return nil, err
		}
		of := p.share.value * octets
		base = unit.BitRate(float64(rate) * (1 - p.share.value) * typical.Mean() / ((1-p.share.value)*typical.Mean() + of))
	}
	share := p.attacks.value
	open := func(i int) (*frame.AppMixSource, error) {
		mix, err := frame.NewAppMix(frame.AppMix{
			Seed: uint64(p.seed.Value), Rate: base, Duration: d, AlertShare: &share, ClientMAC: idsClient, ServerMAC: idsServer,
		})
		if err != nil || n == 1 {
			return mix, err
		}
		return mix.Shard(i, n).(*frame.AppMixSource), nil
	}
	t := &idsTraffic{of: of, passes: 1, planted: map[int]int64{}}
	err := t.divide(n, func(i int) (part engine.Part, err error) {
		mix, err := open(i)
		if err != nil {
			return part, err
		}
		truth := mix.Truth()
		if truth.Frames == 0 && n == 1 { // of several senders divide says it
			return part, fmt.Errorf("at %v the application mix has no frame within %v: give a higher rate, or a longer duration", rate, d)
		}
		for k, a := range frame.Alerts() {
			t.planted[a.SID] += int64(truth.Alerts[k])
		}
		part = engine.Part{Source: mix, Frames: truth.Frames, Octets: truth.Octets, First: truth.Begins}
		if p.flood.Value == noFlood || truth.Frames == 0 {
			return part, nil
		}
		flooded := func(mix *frame.AppMixSource, err error) (frame.Source, error) {
			if err != nil {
				return nil, err
			}
			flood, err := p.newFlood()
			if err != nil {
				return nil, err
			}
			return frame.Blend(mix, flood, math.Round(p.share.value*1000)/1000, uint64(p.seed.Value))
		}
		part, _, err = countPass(ctx, func() (frame.Source, error) { return flooded(open(i)) })
		if err == nil {
			part.Source, err = flooded(mix, nil)
		}
		return part, err
	})
	if err != nil {
		return nil, err
	}
	// A mix of some seconds is within some percent of its rate; its times are stretched
	// to be on it.
	speed := float64(rate) / (float64(t.octets) * 8 / d.Seconds())
	t.load = engine.Load{Speed: min(max(speed, 1/mostStretch), mostStretch), Passes: 1}
	if t.load.Speed != speed {
		t.notes = append(t.notes, fmt.Sprintf("the mix of %v comes to %.3g times the rate, which is more than its times are stretched by: another load was offered; give a longer duration", d, 1/speed))
	}
	return t, nil
}

const mostStretch = 100.0 // of a mix's times, either way

func (p *IDS) newFlood() (frame.Source, error) {
	return frame.NewFlood(frame.Flood{Name: p.flood.Value, SrcMAC: idsClient, DstMAC: nobody, Target: floodTarget, Seed: uint64(p.seed.Value)})
}

// floodOctets is the mean length of the flood's frames, with FCS.
func (p *IDS) floodOctets() (float64, error) {
	s, err := p.newFlood()
	if err != nil {
		return 0, err
	}
	defer s.Close()
	w := newWindow()
	if err := s.Fill(w); err != nil && err != io.EOF {
		return 0, err
	}
	return float64(octetsOf(w)) / float64(w.Len()), nil
}

// longestPass bounds a trial: passes over a capture are whole, for nobody knows which
// attacks are in a part.
const longestPass = 10 * time.Minute

func passTime(octets uint64, rate unit.BitRate) time.Duration {
	return time.Duration(float64(octets) * 8 / float64(rate) * 1e9)
}

type longPassError struct {
	name string
	rate unit.BitRate
	pass time.Duration
}

func (e *longPassError) Error() string {
	return fmt.Sprintf("%s: a pass takes %v at %v, and %v is the most: replay a part of it, or give higher loads", e.name, e.pass.Round(time.Second), e.rate, longestPass)
}

// replay is passes over a capture, as many as fill the load's time.
func (p *IDS) replay(ctx context.Context, of idsLoad) (*idsTraffic, error) {
	rate, n := of.rate, of.senders
	open := func(i int) (frame.Source, error) {
		whole, err := frame.OpenCapture(p.traffic, frame.CaptureOptions{
			Longest: longestFrame, LongFrames: frame.Cut, Context: ctx,
			Rewrite: frame.Rewriter{SrcMAC: idsClient, DstMAC: idsServer},
		})
		if err != nil {
			return nil, err
		}
		part, err := frame.Shard(whole, i, n)
		if err != nil {
			return nil, errors.Join(err, whole.Close())
		}
		return part, nil
	}
	t := &idsTraffic{of: of}
	err := t.divide(n, func(i int) (part engine.Part, err error) {
		if part, t.notes, err = countPass(ctx, func() (frame.Source, error) { return open(i) }); err == nil { // each part has all notes
			part.Source, err = open(i)
		}
		return part, err
	})
	if err != nil {
		return nil, fmt.Errorf("replay %s: %w", p.traffic, err)
	}
	if pass := passTime(t.octets, rate); pass > longestPass {
		return nil, errors.Join(&longPassError{p.traffic, rate, pass}, t.close())
	}
	t.passes = max(of.passes, uint64(math.Round(float64(rate)*of.lasts.Seconds()/8/float64(t.octets))))
	t.frames, t.octets = t.frames*t.passes, t.octets*t.passes
	t.load = engine.Load{Bits: rate, Passes: t.passes, Unique: t.passes > 1}
	return t, nil
}

const longestFrame = 1514 // without FCS

func newWindow() *frame.Window {
	return &frame.Window{Blob: make([]byte, 1<<20), Entries: make([]frame.Entry, 1<<13)}
}

func octetsOf(w *frame.Window) (n uint64) {
	for _, e := range w.Entries[:w.Len()] {
		n += uint64(max(e.Len, 60)) + unit.FCS
	}
	return n
}

// countPass runs through a pass of a source: its frames, their octets with FCS, when the first
// is due, and its notes.
func countPass(ctx context.Context, open func() (frame.Source, error)) (part engine.Part, notes []string, err error) {
	s, err := open()
	if err != nil {
		return part, nil, err
	}
	defer s.Close()
	for w := newWindow(); ; w.Reset() {
		if err := ctx.Err(); err != nil {
			return part, nil, err
		}
		end := s.Fill(w)
		if end != nil && end != io.EOF {
			return part, nil, end
		}
		if part.Frames == 0 && w.Len() > 0 {
			part.First = time.Duration(w.Entries[0].At)
		}
		part.Frames += uint64(w.Len())
		part.Octets += octetsOf(w)
		if end == io.EOF {
			break
		}
	}
	return part, s.Notes(), nil
}
