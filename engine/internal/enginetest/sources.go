// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"boxdyno/engine"
	"boxdyno/frame"
)

// A SourceKind is one kind of load's source.
type SourceKind struct {
	name string
	load engine.Load                  // all but its pace, unless that is the source's
	Spec *frame.Spec                  // in place of open
	open func() (frame.Source, error) // the same frames each time
	Long int                          // octets of its second frame, of three, which is too long for a port with an MTU of 1500
}

// SourceKinds are all of them, small.
func SourceKinds(t testing.TB) (kinds []SourceKind) {
	add := func(name string, l engine.Load, open func() (frame.Source, error)) {
		kinds = append(kinds, SourceKind{name: name, load: l, open: open})
	}
	v4, v6 := [2]string{"198.18.0.2", "198.19.0.2"}, [2]string{"2001:2::2", "2001:2:0:1::2"}
	synthetic := func(ends [2]string, p frame.Protocol, mix string, change func(*frame.Synthetic)) func() (frame.Source, error) {
		sizes, err := frame.ParseMix(mix)
		if err != nil {
			t.Fatal(err)
		}
		s := frame.Synthetic{
			Src: netip.MustParseAddr(ends[0]), Dst: netip.MustParseAddr(ends[1]), SrcPort: frame.FirstPort, DstPort: frame.Port,
			SrcMAC: [6]byte{2, 0, 0, 0, 0, 1}, DstMAC: [6]byte{2, 0, 0, 0, 0, 2},
			Protocol: p, Flows: 50, Mix: sizes,
		}
		if change != nil {
			change(&s)
		}
		return func() (frame.Source, error) { return frame.NewSynthetic(s) }
	}
	tags := func(tags ...frame.VLAN) func(*frame.Synthetic) {
		return func(s *frame.Synthetic) { s.VLANs = tags }
	}
	fields := func(texts ...string) func(*frame.Synthetic) {
		return func(s *frame.Synthetic) {
			s.Flows = 1
			for _, text := range texts {
				f, err := frame.ParseField(text)
				if err != nil {
					t.Fatal(err)
				}
				s.Fields = append(s.Fields, f)
			}
		}
	}

	for _, s := range []struct {
		name string
		spec frame.Spec
	}{
		{"spec fixed", Spec4(1, 64)}, {"spec flows", Spec4(300, 128)}, {"spec IMIX", Spec4(10, frame.IMIX.Sizes...)},
		{"spec IPv6", Spec6(20, 84, 1518)}, {"spec networks", Networks(Spec4(1, 64))}, {"spec networks, flows", Networks(Spec4(300, 64, 594))},
		{"spec networks, IPv6", Networks(Spec6(20, 84))},
	} {
		kinds = append(kinds, SourceKind{name: s.name, load: engine.Load{Count: 300}, Spec: &s.spec})
	}
	few := engine.Load{Count: 300, Seed: 3}
	add("fixed, one flow", few, synthetic(v4, frame.UDP, "64", func(s *frame.Synthetic) { s.Flows = 1 }))
	add("sweep", few, synthetic(v4, frame.UDP, "sweep:64-1518:64", nil))
	add("random sizes", few, synthetic(v4, frame.UDP, "random:64-1518", nil))
	add("IMIX by popularity", few, synthetic(v4, frame.UDP, "imix", func(s *frame.Synthetic) { s.Popularity.Zipf = 1.1 }))
	add("mix of one's own", few, synthetic(v4, frame.UDP, "64:3,1000:1,1518:2", nil))
	add("answers", few, synthetic(v4, frame.UDP, "64", func(s *frame.Synthetic) { s.Answer = true }))
	add("unsigned", few, synthetic(v4, frame.UDP, "64", func(s *frame.Synthetic) { s.Unsigned = true }))
	add("VLAN TCP", few, synthetic(v4, frame.TCP, "128", tags(frame.VLAN{ID: 7, Priority: 3})))
	add("QinQ ICMP", few, synthetic(v4, frame.ICMP, "100:1,1500:1", tags(frame.VLAN{ID: 9}, frame.VLAN{ID: 7})))
	add("IPv6 UDP", few, synthetic(v6, frame.UDP, "84:1,1518:1", nil))
	add("IPv6 TCP, unique", engine.Load{Count: 300, Unique: true}, synthetic(v6, frame.TCP, "128:1,1518:1", nil))
	add("IPv6 ICMP", few, synthetic(v6, frame.ICMP, "100", nil))
	add("fields", few, synthetic(v4, frame.UDP, "64:1,200:1", fields("ttl=9", "sport=random:1024-65535", "dst=counter:198.19.0.1-198.19.0.99", "dport=list:80,443")))

	capture := func(opts frame.CaptureOptions) func() (frame.Source, error) {
		return func() (frame.Source, error) {
			return frame.OpenCaptureReader(bytes.NewReader(SmallCapture()), "test.pcap", opts)
		}
	}
	maps, err := frame.ParseAddressMaps("198.18.0.0/16:203.0.113.0/24")
	if err != nil {
		t.Fatal(err)
	}
	rewritten := frame.CaptureOptions{Longest: 600, LongFrames: frame.Cut, Rewrite: frame.Rewriter{DstMAC: [6]byte{2, 5}, Both: maps, FixSums: true}}
	add("capture", engine.Load{Passes: 10}, capture(frame.CaptureOptions{}))
	add("capture, unique passes", engine.Load{Passes: 10, Unique: true}, capture(frame.CaptureOptions{}))
	add("capture, own times", engine.Load{Passes: 10, Speed: 0.5}, capture(frame.CaptureOptions{}))
	add("capture, cut and rewritten", engine.Load{Passes: 10, Unique: true}, capture(rewritten))

	half := 0.5
	appMix := func() (frame.Source, error) { return frame.NewAppMix(frame.AppMix{Seed: 5, Flows: 30}) }
	alerting := func() (frame.Source, error) {
		return frame.NewAppMix(frame.AppMix{Seed: 6, Flows: 20, AlertShare: &half})
	}
	flood := func(kind string) func() (frame.Source, error) {
		return func() (frame.Source, error) {
			return frame.NewFlood(frame.Flood{Name: kind, Target: netip.MustParsePrefix("198.19.0.2/32"), Seed: 9})
		}
	}
	add("application mix", engine.Load{Count: 400, Unique: true}, appMix)
	add("application mix with alerts", engine.Load{Count: 400}, alerting)
	add("shard", engine.Load{Count: 200}, func() (frame.Source, error) {
		s, err := appMix()
		if err != nil {
			return nil, err
		}
		return frame.Shard(s, 1, 2)
	})
	add("blend", engine.Load{Count: 400, Seed: 1}, func() (frame.Source, error) {
		base, err := appMix()
		if err != nil {
			return nil, err
		}
		f, err := flood("syn")()
		if err != nil {
			return nil, err
		}
		return frame.Blend(base, f, 0.3, 2)
	})
	folder := templateFolder(t)
	add("templates", engine.Load{Count: 300, Unique: true}, func() (frame.Source, error) { return frame.OpenTemplates(folder, frame.TemplateOptions{Seed: 2}) })
	for _, f := range frame.Floods {
		add("flood "+f.Name, engine.Load{Count: 300, Seed: 4}, flood(f.Name))
	}
	for _, n := range []int{1600, 5000} {
		kinds = append(kinds, SourceKind{name: fmt.Sprintf("%d octets", n), load: engine.Load{Count: 3}, Long: n, open: func() (frame.Source, error) {
			return PlainSource(3, 0, 60, n), nil
		}})
	}
	return kinds
}

// SmallCapture is a pcap file with frames of several lengths, 50 us apart.
func SmallCapture() []byte {
	le := binary.LittleEndian
	file := append(le.AppendUint32(nil, 0xa1b2c3d4), 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0)
	b, err := frame.NewBuilder(Spec4(10, 64, 594, 1518), 77)
	if err != nil {
		panic(err)
	}
	for k := range uint64(30) {
		clear := [frame.MaxSize]byte{}
		buf := clear[:b.Build(k, clear[:])]
		buf[b.Layout.Signature] = 0 // no magic: a capture's frames are not ours
		file = le.AppendUint32(file, 0)
		file = le.AppendUint32(file, uint32(k*50))
		file = le.AppendUint32(file, uint32(len(buf)))
		file = le.AppendUint32(file, uint32(len(buf)))
		file = append(file, buf...)
	}
	return file
}

// templateFolder has a conversation and its rate.
func templateFolder(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	const rates = `- duration: 1
  generator:
    distribution: "seq"
    clients_start: "16.0.0.1"
    clients_end: "16.0.0.20"
    servers_start: "48.0.0.1"
    servers_end: "48.0.0.5"
  cap_info:
   - {name: talk.pcap, cps: 30}
`
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "rates.yaml"), []byte(rates), 0o600),
		os.WriteFile(filepath.Join(dir, "talk.pcap"), SmallCapture()[:24+2*(16+60)+16+590], 0o600)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A TwinFeed yields what a source is to send, frame by frame, with times of 0.
type TwinFeed struct {
	source frame.Source
	writer *frame.Writer
	w      frame.Window
	i      int
	pass   uint64
	last   bool
}

// NewTwinFeed draws a kind's frames for the stream id.
func NewTwinFeed(t testing.TB, k SourceKind, id uint16) *TwinFeed {
	t.Helper()
	s, err := k.open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	f := &TwinFeed{source: s, writer: frame.NewWriter(s.Shape(), id, k.load.Seed, k.load.Unique)}
	f.w.Blob, f.w.Entries = make([]byte, 1<<18), make([]frame.Entry, 100)
	return f
}

// Next is the next frame, and its entry.
func (f *TwinFeed) Next(t testing.TB) ([]byte, frame.Entry) {
	t.Helper()
	for f.i == f.w.Len() {
		if f.last {
			f.pass++
		}
		f.w.Reset()
		f.i = 0
		err := f.source.Fill(&f.w)
		if f.last = errors.Is(err, io.EOF); err != nil && !f.last {
			t.Fatal(err)
		}
	}
	buf := make([]byte, f.source.Shape().Longest)
	n := f.writer.Write(&f.w, f.i, f.pass, buf)
	f.i++
	return buf[:n], f.w.Entries[f.i-1]
}
