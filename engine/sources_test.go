// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"boxdyno/frame"
	"boxdyno/host"
)

// A sourceKind is one kind of load's source.
type sourceKind struct {
	name string
	load Load                         // all but its pace, unless that is the source's
	spec *frame.Spec                  // in place of open
	open func() (frame.Source, error) // the same frames each time
	long int                          // octets of its second frame, of three, which is too long for a port with an MTU of 1500
}

// sourceKinds are all of them, small.
func sourceKinds(t testing.TB) (kinds []sourceKind) {
	add := func(name string, l Load, open func() (frame.Source, error)) {
		kinds = append(kinds, sourceKind{name: name, load: l, open: open})
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
		{"spec fixed", spec4(1, 64)}, {"spec flows", spec4(300, 128)}, {"spec IMIX", spec4(10, frame.IMIX.Sizes...)},
		{"spec IPv6", spec6(20, 84, 1518)}, {"spec networks", networks(spec4(1, 64))}, {"spec networks, flows", networks(spec4(300, 64, 594))},
		{"spec networks, IPv6", networks(spec6(20, 84))},
	} {
		kinds = append(kinds, sourceKind{name: s.name, load: Load{Count: 300}, spec: &s.spec})
	}
	few := Load{Count: 300, Seed: 3}
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
	add("IPv6 TCP, unique", Load{Count: 300, Unique: true}, synthetic(v6, frame.TCP, "128:1,1518:1", nil))
	add("IPv6 ICMP", few, synthetic(v6, frame.ICMP, "100", nil))
	add("fields", few, synthetic(v4, frame.UDP, "64:1,200:1", fields("ttl=9", "sport=random:1024-65535", "dst=counter:198.19.0.1-198.19.0.99", "dport=list:80,443")))

	capture := func(opts frame.CaptureOptions) func() (frame.Source, error) {
		return func() (frame.Source, error) {
			return frame.OpenCaptureReader(bytes.NewReader(smallCapture()), "test.pcap", opts)
		}
	}
	maps, err := frame.ParseAddressMaps("198.18.0.0/16:203.0.113.0/24")
	if err != nil {
		t.Fatal(err)
	}
	rewritten := frame.CaptureOptions{Longest: 600, LongFrames: frame.Cut, Rewrite: frame.Rewriter{DstMAC: [6]byte{2, 5}, Both: maps, FixSums: true}}
	add("capture", Load{Passes: 10}, capture(frame.CaptureOptions{}))
	add("capture, unique passes", Load{Passes: 10, Unique: true}, capture(frame.CaptureOptions{}))
	add("capture, own times", Load{Passes: 10, Speed: 0.5}, capture(frame.CaptureOptions{}))
	add("capture, cut and rewritten", Load{Passes: 10, Unique: true}, capture(rewritten))

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
	add("application mix", Load{Count: 400, Unique: true}, appMix)
	add("application mix with alerts", Load{Count: 400}, alerting)
	add("shard", Load{Count: 200}, func() (frame.Source, error) {
		s, err := appMix()
		if err != nil {
			return nil, err
		}
		return frame.Shard(s, 1, 2)
	})
	add("blend", Load{Count: 400, Seed: 1}, func() (frame.Source, error) {
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
	add("templates", Load{Count: 300, Unique: true}, func() (frame.Source, error) { return frame.OpenTemplates(folder, frame.TemplateOptions{Seed: 2}) })
	for _, f := range frame.Floods {
		add("flood "+f.Name, Load{Count: 300, Seed: 4}, flood(f.Name))
	}
	for _, n := range []int{1600, 5000} {
		kinds = append(kinds, sourceKind{name: fmt.Sprintf("%d octets", n), load: Load{Count: 3}, long: n, open: func() (frame.Source, error) {
			return plainSource(3, 0, 60, n), nil
		}})
	}
	return kinds
}

// smallCapture is a pcap file with frames of several lengths, 50 us apart.
func smallCapture() []byte {
	le := binary.LittleEndian
	file := append(le.AppendUint32(nil, 0xa1b2c3d4), 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0)
	b, err := frame.NewBuilder(spec4(10, 64, 594, 1518), 77)
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
		os.WriteFile(filepath.Join(dir, "talk.pcap"), smallCapture()[:24+2*(16+60)+16+590], 0o600)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A twinFeed yields what a source is to send, frame by frame, with times of 0.
type twinFeed struct {
	source frame.Source
	writer *frame.Writer
	w      frame.Window
	i      int
	pass   uint64
	last   bool
}

func newTwinFeed(t testing.TB, k sourceKind, id uint16) *twinFeed {
	t.Helper()
	s, err := k.open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	f := &twinFeed{source: s, writer: frame.NewWriter(s.Shape(), id, k.load.Seed, k.load.Unique)}
	f.w.Blob, f.w.Entries = make([]byte, 1<<18), make([]frame.Entry, 100)
	return f
}

func (f *twinFeed) next(t testing.TB) ([]byte, frame.Entry) {
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

// A capture leaves at its own times, and its passes follow each other evenly.
func TestPacketReplaysTimes(t *testing.T) {
	a, b := quiet(t)
	tx, m := openOn(t, newPacket(), []host.Port{a}, b)
	arm(t, m[0], true)
	src, err := frame.OpenCaptureReader(bytes.NewReader(smallCapture()), "test.pcap", frame.CaptureOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	// 30 frames, 50 us apart, 10 times, at a twentieth of the speed.
	reps, err := tx.Transmit(context.Background(), Load{Speed: 0.05, Passes: 10, Gaps: true}, Stream{ID: 1, Source: src})
	if err != nil {
		t.Fatal(err)
	}
	s := reps[0]
	want := 299 * time.Millisecond
	// The first frame may be held up; the last is late where it is more than a gap behind.
	if took := time.Duration(s.Last - s.First); s.Accepted != 300 || s.Passes != 10 || took < want-s.LongestStall-time.Millisecond || s.Late == 0 && took > want+time.Millisecond {
		t.Errorf("took %v, want %v: %+v", took, want, s)
	}
	if s.Gaps.Total() != 299 || s.GapErrors.Total() != 299 || s.Gaps.Quantile(0) < 0.888e-3 { // made up without a burst
		t.Errorf("gaps %+v", s.Gaps)
	}
	if r := readMeter(t, m[0]); r.Foreign != 300 {
		t.Errorf("%+v", r)
	}
}

// Frames that the port would not take are refused before any is sent, by name.
func TestPacketRefusesLongSource(t *testing.T) {
	a, b := quiet(t)
	tx, m := openOn(t, newPacket(), []host.Port{a}, b)
	arm(t, m[0], false)
	for _, length := range []int{1519, 1516, 1515} { // the latter might have a tag, and has none
		src := plainSource(10, 0, 60, length)
		reps, err := tx.Transmit(context.Background(), Load{Passes: 1}, Stream{ID: 1, Source: src})
		if err == nil {
			t.Fatalf("%d octets were sent: %+v", length, reps)
		}
		t.Log(err)
	}
	if r := readMeter(t, m[0]); r.Foreign != 0 {
		t.Errorf("%+v", r)
	}
}

// A source that breaks off ends the load with its error, and its frames count.
func TestPacketSourceFails(t *testing.T) {
	a, b := quiet(t)
	tx, m := openOn(t, newPacket(), []host.Port{a}, b)
	arm(t, m[0], false)
	src := plainSource(100, 0, 60)
	src.silent, src.failAt = true, 60
	reps, err := tx.Transmit(context.Background(), Load{Rate: 20e3, Count: 1000}, Stream{ID: 1, Source: src})
	if !errors.Is(err, errListSource) || len(reps) != 1 || reps[0].Accepted != readMeter(t, m[0]).Foreign || reps[0].Accepted != 60 {
		t.Errorf("%v, %+v", err, reps)
	}
}

// Only signed frames use up their class's sequence numbers: a meter that sees all
// of them misses none.
func TestMixedClassHasNoHoles(t *testing.T) {
	from, to := quiet(t)
	ctx := context.Background()
	for _, b := range []Backend{newXDP(), newAFXDP(), newPacket()} {
		m, err := b.OpenMeter(ctx, to)
		if err != nil {
			t.Fatal(err)
		}
		arm(t, m, false, 5)
		tx, err := b.OpenTransmitter(ctx, []host.Port{from}, -1)
		if err != nil {
			t.Fatal(err)
		}
		s := plainSource(3, 0, 60)
		s.frames[1] = testFrame(t, testSpec(), 0, 0)
		s.entries[1] = frame.Entry{Flags: frame.IPv4 | frame.SumUDP, L3: 14, L4: 34, Sig: 42}
		if _, err := tx.Transmit(ctx, Load{Rate: 10e3, Passes: 20}, Stream{ID: 5, Source: s}); err != nil {
			t.Fatal(err)
		}
		if r := settled(t, m, 60).Streams[0]; r.Frames != 20 || r.Span != 20 {
			t.Errorf("%s: %d frames of %d sequence numbers, want 20 of 20", b.Name(), r.Frames, r.Span)
		}
		tx.Close()
		m.Close()
	}
}

// A pass is complete with its last frame, whatever comes after it.
func TestPassesComplete(t *testing.T) {
	from, _ := quiet(t)
	memory, err := Mem(MemConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []Backend{newXDP(), newAFXDP(), newPacket(), memory} {
		if b == Backend(memory) {
			from = host.Port{Name: MemLAN}
		}
		tx, err := b.OpenTransmitter(context.Background(), []host.Port{from}, -1)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			load Load
			want uint64
		}{{Load{Count: 299}, 2}, {Load{Count: 300}, 3}, {Load{Count: 301}, 3}, {Load{Passes: 3}, 3}, {Load{Rate: 1e5, Count: 300}, 3}} {
			for _, silent := range []bool{false, true} {
				s := plainSource(100, 0, 60)
				s.silent = silent
				reps, err := tx.Transmit(context.Background(), c.load, Stream{ID: 1, Source: s})
				if err != nil || reps[0].Passes != c.want {
					t.Errorf("%s, %+v: %d passes, want %d; %v", b.Name(), c.load, reps[0].Passes, c.want, err)
				}
			}
		}
		if err := tx.Close(); err != nil {
			t.Error(err)
		}
	}
}
