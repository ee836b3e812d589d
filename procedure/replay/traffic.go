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
	bed            *lab.Testbed // that it was read for
}

func (f *facts) mean() float64 { return float64(f.octets) / float64(f.frames) }

// name is the capture's, for people.
func (p *Replay) name() string { return filepath.Base(p.file) }

// from and to are the ports that frames leave and arrive at.
func (p *Replay) ends() (from, to int) {
	if p.direction.Value == trial.WanToLAN {
		return 1, 0
	}
	return 0, 1
}

// open opens the capture as it goes from one port to another, through what leaves of it
// what same says.
func (p *Replay) open(ctx context.Context, from, to lab.Port, same frame.Sameness) (frame.Source, error) {
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
	source, err := p.open(ctx, bed.Ports[from], bed.Ports[to], p.sameness(bed))
	if err != nil {
		return nil, err
	}
	defer source.Close()
	f := &facts{bed: bed, timed: source.Shape().Timed}
	w := frame.Window{Blob: make([]byte, 1<<20), Entries: make([]frame.Entry, 1<<13)}
	for end := error(nil); end == nil; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		w.Reset()
		if end = source.Fill(&w); end != nil && end != io.EOF {
			return nil, end
		}
		for i, e := range w.Entries[:w.Len()] {
			if e.Sig != 0 || len(w.Frame(i)) == 0 {
				return nil, fmt.Errorf("replay %s: its frames are signed anew when they leave, so that no receiver could know them", p.name())
			}
			f.frames++
			f.octets += uint64(max(int(e.Len), 60)) + unit.FCS
			f.span = max(f.span, time.Duration(e.At))
		}
	}
	if f.frames == 0 {
		return nil, fmt.Errorf("replay %s: it has no frames", p.name())
	}
	if p.rate.speed > 0 && !f.timed {
		return nil, fmt.Errorf("rate %s: the packets of %s have no times: give a rate or flat-out", p.rate.text, p.name())
	}
	f.notes = source.Notes()
	p.read = f
	return f, nil
}
