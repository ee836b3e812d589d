// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"path/filepath"
	"sync"
	"time"

	"boxdyno/engine"
	"boxdyno/frame"
	"boxdyno/lab"
	"boxdyno/procedure/internal/trial"
	"boxdyno/unit"
)

// facts are what one pass over the capture is, as the box is sent it.
type facts struct {
	frames, octets uint64        // with FCS
	span           time.Duration // from the first frame to the last
	timed          bool
	notes          []string
	parts          []engine.Part // of the senders, without their sources
	bed            *lab.Testbed  // that it was read for
}

func (f *facts) mean() float64 { return float64(f.octets) / float64(f.frames) }

// name is the capture's, for people.
func (p *Replay) name() string { return filepath.Base(p.file) }

// from and to are the ports that frames leave and arrive at.
func (p *Replay) ends() (from, to int) {
	if p.toBox() {
		return 0, 0
	}
	if p.direction.Value == trial.WanToLAN {
		return 1, 0
	}
	return 0, 1
}

// open opens the capture as it goes from one port to another, through what leaves of it
// what same says.
func (p *Replay) open(ctx context.Context, from, to lab.Port, same frame.Sameness) (frame.Source, error) {
	source, err := p.untagged(ctx, from, to, same)
	if err != nil || p.vlan.Value == 0 {
		return source, err
	}
	tagged, err := frame.Tagged(source, uint16(p.vlan.Value))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("replay %s: %w", p.name(), err), source.Close())
	}
	return tagged, nil
}

// divided opens the capture as open does, once for each of n senders that share it.
func (p *Replay) divided(ctx context.Context, from, to lab.Port, same frame.Sameness, n int) (all []frame.Source, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll(all))
		}
	}()
	for i := range n {
		whole, err := p.open(ctx, from, to, same)
		if err != nil {
			return all, err
		}
		all = append(all, whole)
		part, err := frame.Shard(whole, i, n)
		if err != nil {
			return all, fmt.Errorf("senders %d: replay %s: %w", n, p.name(), err)
		}
		all[i] = part
	}
	return all, nil
}

func closeAll(sources []frame.Source) (err error) {
	for _, s := range sources {
		err = errors.Join(err, s.Close())
	}
	return err
}

// streamOf is what senders send of sources, one of each.
func streamOf(lane int, sources []frame.Source, parts []engine.Part) engine.Stream {
	s := engine.Stream{ID: stream, Lane: lane}
	if len(sources) == 1 {
		s.Source = sources[0]
		return s
	}
	for i, source := range sources {
		part := engine.Part{}
		if parts != nil {
			part = parts[i]
		}
		part.Source = source
		s.Parts = append(s.Parts, part)
	}
	return s
}

func (p *Replay) untagged(ctx context.Context, from, to lab.Port, same frame.Sameness) (frame.Source, error) {
	o := frame.CaptureOptions{Longest: 14 + frameMTU(from, to), Limit: uint64(p.limit.Value), Context: ctx}
	o.Rewrite.SrcMAC, o.Rewrite.DstMAC, o.Rewrite.FixSums = from.MAC, from.GatewayMAC, p.sums.Value == fixed
	if p.addresses.Value == mapped && same != frame.SameBridged {
		o.Rewrite.Src, o.Rewrite.Dst = behind(from), behind(to)
	}
	source, err := p.capture(o)
	if err != nil || same == frame.SameBridged {
		return source, err
	}
	sifted, err := frame.Routable(source)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("replay %s: %w", p.name(), err), source.Close())
	}
	return sifted, nil
}

func (p *Replay) capture(o frame.CaptureOptions) (frame.Source, error) {
	if p.file != generated {
		return frame.OpenCapture(p.file, o)
	}
	file, err := made()
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", generated, err)
	}
	return frame.OpenCaptureReader(bytes.NewReader(file), generated, o)
}

// made is the generated capture, made once.
var made = sync.OnceValues(makeCapture)

// makeCapture returns conversations of 2 s at 100 Mbit/s as a capture file (pcap, ns).
func makeCapture() (file []byte, err error) {
	none := 0.0
	mix, err := frame.NewAppMix(frame.AppMix{Seed: 1, Rate: 100e6, Duration: 2 * time.Second, AlertShare: &none})
	if err != nil {
		return nil, err
	}
	defer mix.Close()
	word := binary.LittleEndian.AppendUint32
	file = word(word(word(word(word(word(nil, 0xa1b23c4d), 4<<16|2), 0), 0), 65535), 1)
	w := frame.Window{Blob: make([]byte, 1<<20), Entries: make([]frame.Entry, 1<<13)}
	for err == nil {
		w.Reset()
		err = mix.Fill(&w)
		for i, e := range w.Entries[:w.Len()] {
			n := uint32(e.Len)
			file = word(word(word(word(file, uint32(e.At/1e9)), uint32(e.At%1e9)), n), n)
			file = append(file, w.Frame(i)...)
		}
	}
	if err != io.EOF {
		return nil, err
	}
	return file, nil
}

// frameMTU is what both ports carry.
func frameMTU(from, to lab.Port) int {
	mtu := 1500
	for _, p := range []lab.Port{from, to} {
		if p.MTU > 0 {
			mtu = min(mtu, p.MTU)
		}
	}
	return mtu
}

// behind maps every address to hosts that the box reaches by port p: 16,384 of IPv4, a
// network of IPv6. They are none of the port's own.
func behind(p lab.Port) (maps []frame.AddressMap) {
	if p.Addr4.IsValid() {
		raw := p.Addr4.As4()
		raw[2], raw[3] = 64, 0
		maps = append(maps, frame.AddressMap{From: netip.MustParsePrefix("0.0.0.0/0"), To: netip.PrefixFrom(netip.AddrFrom4(raw), 18)})
	}
	if p.Addr6.IsValid() {
		maps = append(maps, frame.AddressMap{From: netip.MustParsePrefix("::/0"), To: frame.Network(p.Addr6, 1).Masked()})
	}
	return maps
}

// facts reads the capture once, as these parameters have it sent in bed.
func (p *Replay) facts(ctx context.Context, bed *lab.Testbed) (*facts, error) {
	if p.read != nil && p.read.bed == bed {
		return p.read, nil
	}
	from, to := p.ends()
	sources, err := p.divided(ctx, bed.Ports[from], bed.Ports[to], p.sameness(bed), len(bed.SenderCPUs(max(p.senders.Value, 1))))
	if err != nil {
		return nil, err
	}
	defer closeAll(sources)
	f := &facts{bed: bed, timed: sources[0].Shape().Timed}
	for _, source := range sources {
		if err := p.count(ctx, f, source); err != nil {
			return nil, err
		}
	}
	if f.frames == 0 {
		return nil, fmt.Errorf("replay %s: it has no frames", p.name())
	}
	for i, part := range f.parts {
		if part.Frames == 0 {
			return nil, fmt.Errorf("senders %d: replay %s: part %d has no frames, because its flows are too few: use fewer senders", p.senders.Value, p.name(), i+1)
		}
	}
	if p.rate.speed > 0 && !f.timed {
		return nil, fmt.Errorf("rate %s: the packets of %s have no times: give a rate or flat-out", p.rate.text, p.name())
	}
	f.notes = sources[0].Notes()
	p.read = f
	return f, nil
}

// count adds a pass over a part to f.
func (p *Replay) count(ctx context.Context, f *facts, source frame.Source) error {
	part := engine.Part{}
	w := frame.Window{Blob: make([]byte, 1<<20), Entries: make([]frame.Entry, 1<<13)}
	for end := error(nil); end == nil; {
		if err := ctx.Err(); err != nil {
			return err
		}
		w.Reset()
		if end = source.Fill(&w); end != nil && end != io.EOF {
			return end
		}
		for i, e := range w.Entries[:w.Len()] {
			if e.Sig != 0 || len(w.Frame(i)) == 0 {
				return fmt.Errorf("replay %s: its frames are signed anew when they leave, so that no receiver could know them", p.name())
			}
			if part.Frames == 0 {
				part.First = time.Duration(e.At)
			}
			part.Frames++
			part.Octets += uint64(max(int(e.Len), 60)) + unit.FCS
			f.span = max(f.span, time.Duration(e.At))
		}
	}
	f.frames, f.octets, f.parts = f.frames+part.Frames, f.octets+part.Octets, append(f.parts, part)
	return nil
}
