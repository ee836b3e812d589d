// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"boxdyno/frame"
	"boxdyno/unit"
)

// A load is the same frames for every sender: as a stream's description, and as a
// file.
type load struct {
	name    string
	mean    float64     // octets with FCS
	spec    *frame.Spec // nil for a capture
	capture string
	frames  [][]byte // the first ones
}

const (
	inFile  = 1_200   // frames of a capture made of a spec: a hundred cycles of IMIX, few enough for every sender's cache
	inMix   = 400_000 // most frames of a capture made of conversations
	inCycle = 12      // frames that a generator of templates is given
)

func makeLoads(b *bed, dir, capture string) ([]*load, error) {
	var loads []*load
	for _, mix := range []frame.Mix{{Name: "64 octets", Sizes: []unit.FrameSize{64}}, {Name: "IMIX", Sizes: frame.IMIX.Sizes}, {Name: "1518 octets", Sizes: []unit.FrameSize{1518}}} {
		spec := frame.Spec{
			Sizes: mix.Sizes, Flows: 1, SrcMAC: b.txMAC, DstMAC: b.gateway,
			Src: b.src, Dst: b.dst, SrcPort: frame.FirstPort, DstPort: frame.Port,
		}
		l := &load{name: mix.Name, mean: mix.Mean(), spec: &spec, capture: filepath.Join(dir, fmt.Sprintf("made-%d.pcap", len(loads)))}
		builder, err := frame.NewBuilder(spec, 1)
		if err != nil {
			return nil, err
		}
		n := 0
		buf := make([]byte, frame.MaxSize)
		err = l.write(func() (uint64, []byte, error) {
			if n == inFile {
				return 0, nil, io.EOF
			}
			n++
			return uint64(n) * 1000, buf[:builder.Build(uint64(n-1), buf)], nil
		})
		if err != nil {
			return nil, err
		}
		loads = append(loads, l)
	}
	for _, of := range []func(*bed, string, string) (*load, error){captured, conversations} {
		l, err := of(b, dir, capture)
		if err != nil {
			return nil, err
		}
		if l != nil {
			loads = append(loads, l)
		}
	}
	return loads, nil
}

// write makes the load's file of what next yields, and notes its mean size.
func (l *load) write(next func() (at uint64, f []byte, err error)) error {
	f, err := os.Create(l.capture)
	if err != nil {
		return err
	}
	defer f.Close()
	w := pcapgo.NewWriterNanos(f)
	if err := w.WriteFileHeader(1<<16, layers.LinkTypeEthernet); err != nil {
		return err
	}
	n, octets := 0, 0
	for {
		at, buf, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if len(l.frames) < inCycle {
			l.frames = append(l.frames, append([]byte(nil), buf...))
		}
		ci := gopacket.CaptureInfo{Timestamp: time.Unix(1_700_000_000, int64(at)), CaptureLength: len(buf), Length: len(buf)}
		if err := w.WritePacket(ci, buf); err != nil {
			return err
		}
		n++
		octets += len(buf) + unit.FCS
	}
	l.mean = float64(octets) / float64(n)
	return f.Close()
}

// templates is a folder of captured conversations, where it exists.
const templates = "../shared/pcaps/trex-avl"

// captured is a capture as it was taken, but for its MAC addresses: the file that
// was given, or the largest template; nil where there is none, or where frames
// reach the receiver by their IP addresses only.
func captured(b *bed, dir, given string) (*load, error) {
	if given == "" {
		given = largest(templates)
	}
	if given == "" || !b.separate {
		return nil, nil
	}
	src, err := frame.OpenCapture(given, frame.CaptureOptions{Longest: 1514, LongFrames: frame.Cut})
	if err != nil {
		return nil, err
	}
	l := &load{name: "capture " + filepath.Base(given), capture: filepath.Join(dir, "captured.pcap")}
	return l, l.writeSource(b, src)
}

// largest is the capture in dir of most octets; "" where there is none.
func largest(dir string) (name string) {
	files, _ := filepath.Glob(filepath.Join(dir, "*.pcap"))
	most := int64(0)
	for _, f := range files {
		if info, err := os.Stat(f); err == nil && info.Size() > most {
			name, most = f, info.Size()
		}
	}
	return name
}

// conversations are some 230 MB from captured templates, or generated ones.
func conversations(b *bed, dir, _ string) (*load, error) {
	l := &load{capture: filepath.Join(dir, "conversations.pcap")}
	// A DUT forwards what is for the port behind it, and answers would come back.
	clients, servers, side := netip.MustParsePrefix("198.18.128.0/17"), netip.PrefixFrom(b.dst, 32), frame.BothSides
	if !b.separate {
		side = frame.ClientSide
	}
	var src frame.Source
	var err error
	if _, missing := os.Stat(templates); missing == nil {
		l.name = "conversations of templates"
		src, err = frame.OpenTemplates(templates, frame.TemplateOptions{
			Rate: 1e9, Duration: 2 * time.Second, Clients: clients, Servers: servers, Side: side,
		})
	} else {
		l.name = "conversations generated"
		src, err = frame.NewAppMix(frame.AppMix{Rate: 1e9, Duration: 2 * time.Second, Clients: clients, Servers: servers, Side: side})
	}
	if err != nil {
		return nil, err
	}
	return l, l.writeSource(b, src)
}

// writeSource makes the load's file of a pass over src, which it closes.
func (l *load) writeSource(b *bed, src frame.Source) error {
	defer src.Close()
	n := 0
	return l.write(frames(src, func(_ frame.Entry, f []byte) bool {
		// Every frame goes to the receiver, or through the DUT to it.
		copy(f[0:], b.gateway[:])
		copy(f[6:], b.txMAC[:])
		n++
		return len(f) <= unit.FrameSize(1518).Buffer() && n < inMix // the MTU
	}))
}

// frames yields those frames of a pass over src that use takes.
func frames(src frame.Source, use func(frame.Entry, []byte) bool) func() (uint64, []byte, error) {
	w := &frame.Window{Blob: make([]byte, 4<<20), Entries: make([]frame.Entry, 1<<14)}
	i, over := 0, false
	return func() (uint64, []byte, error) {
		for {
			for i == w.Len() {
				if over {
					return 0, nil, io.EOF
				}
				w.Reset()
				i = 0
				err := src.Fill(w)
				over = errors.Is(err, io.EOF)
				if err != nil && !over {
					return 0, nil, err
				}
			}
			e, f := w.Entries[i], w.Frame(i)
			i++
			if use(e, f) {
				return e.At, f, nil
			}
		}
	}
}
