// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"slices"
	"testing"
	"time"

	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/unit"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A sourceKind is one kind of source that every backend carries.
type sourceKind struct {
	name string
	load Load // all but its pace
	open func() (frame.Source, error)
}

// sourceKinds are all of them, small.
func sourceKinds() []sourceKind {
	synthetic := func(src, dst string, p frame.Protocol, sizes []unit.FrameSize, tags ...frame.VLAN) frame.Synthetic {
		return frame.Synthetic{
			Src: netip.MustParseAddr(src), Dst: netip.MustParseAddr(dst), SrcPort: frame.FirstPort, DstPort: frame.Port,
			SrcMAC: [6]byte{2, 0, 0, 0, 0, 1}, DstMAC: [6]byte{2, 0, 0, 0, 0, 2},
			Protocol: p, Flows: 50, VLANs: tags, Mix: frame.Mix{Name: "test", Sizes: sizes},
		}
	}
	make := func(s frame.Synthetic) func() (frame.Source, error) {
		return func() (frame.Source, error) { return frame.NewSynthetic(s) }
	}
	appMix := func() (frame.Source, error) { return frame.NewAppMix(frame.AppMix{Seed: 5, Flows: 30}) }
	flood := func(kind string) func() (frame.Source, error) {
		return func() (frame.Source, error) {
			return frame.NewFlood(frame.Flood{Name: kind, Target: netip.MustParsePrefix("198.19.0.2/32"), Seed: 9})
		}
	}
	zipf := synthetic("198.18.0.2", "198.19.0.2", frame.UDP, frame.IMIX.Sizes)
	zipf.Popularity.Zipf = 1.1
	one := synthetic("198.18.0.2", "198.19.0.2", frame.UDP, []unit.FrameSize{64})
	one.Flows = 1 // nothing varies but the signature
	kinds := []sourceKind{
		{"udp one flow", Load{Count: 400}, make(one)},
		{"capture", Load{Passes: 20, Unique: true}, func() (frame.Source, error) {
			return frame.OpenCaptureReader(bytes.NewReader(smallCapture()), "test.pcap", frame.CaptureOptions{})
		}},
		{"udp zipf imix", Load{Count: 400, Seed: 3}, make(zipf)},
		{"vlan tcp", Load{Count: 400}, make(synthetic("198.18.0.2", "198.19.0.2", frame.TCP, []unit.FrameSize{128}, frame.VLAN{ID: 7, Priority: 3}))},
		{"qinq icmp", Load{Count: 400}, make(synthetic("198.18.0.2", "198.19.0.2", frame.ICMP, []unit.FrameSize{100, 1500}, frame.VLAN{ID: 9}, frame.VLAN{ID: 7}))},
		{"ipv6 tcp", Load{Count: 400, Unique: true}, make(synthetic("2001:2::2", "2001:2:0:1::2", frame.TCP, []unit.FrameSize{128, 1518}))},
		{"application mix", Load{Count: 600, Unique: true}, appMix},
		{"shard", Load{Count: 200}, func() (frame.Source, error) {
			s, err := appMix()
			if err != nil {
				return nil, err
			}
			return frame.Shard(s, 1, 2)
		}},
		{"blend", Load{Count: 400, Seed: 1}, func() (frame.Source, error) {
			base, err := appMix()
			if err != nil {
				return nil, err
			}
			f, err := flood("syn")()
			if err != nil {
				return nil, err
			}
			return frame.Blend(base, f, 0.3, 2)
		}},
	}
	for _, f := range frame.Floods {
		kinds = append(kinds, sourceKind{"flood " + f.Name, Load{Count: 300, Seed: 4}, flood(f.Name)})
	}
	return kinds
}

// smallCapture is a pcap file with frames of several lengths.
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

// eavesdrop hears whole frames, VLAN tags included, that arrive at a port.
func eavesdrop(t testing.TB, p host.Port) (next func(flags int) []byte) {
	t.Helper()
	const all = uint16(unix.ETH_P_ALL)>>8 | uint16(unix.ETH_P_ALL&0xff)<<8
	fd := -1
	if err := netns.Do(p.Netns, func() (err error) {
		l, err := netlink.LinkByName(p.Name)
		if err != nil {
			return err
		}
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		return errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1),
			unix.SetsockoptInt(fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20),
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}),
			unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: l.Attrs().Index}),
		)
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return func(flags int) []byte {
		buf, control := make([]byte, 4096), make([]byte, 128)
		n, nc, _, _, err := unix.Recvmsg(fd, buf, control, flags)
		if err != nil {
			return nil // nothing more
		}
		buf = buf[:n]
		messages, err := unix.ParseSocketControlMessage(control[:nc])
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			const validTag = 1 << 4 // TP_STATUS_VLAN_VALID
			if m.Header.Type == unix.PACKET_AUXDATA && binary.NativeEndian.Uint32(m.Data)&validTag != 0 {
				tag := binary.BigEndian.AppendUint16(nil, binary.NativeEndian.Uint16(m.Data[18:]))
				tag = binary.BigEndian.AppendUint16(tag, binary.NativeEndian.Uint16(m.Data[16:]))
				buf = slices.Insert(buf, 12, tag...)
			}
		}
		return buf
	}
}

// Every kind of source arrives octet for octet, at any pace.
func TestPacketSources(t *testing.T) {
	a, b := quiet(t)
	tx, _ := openPacket(t, []host.Port{a})
	for i, k := range sourceKinds() {
		t.Run(k.name, func(t *testing.T) {
			hear := eavesdrop(t, b)
			twin := newTwinFeed(t, k, 6)
			src, err := k.open()
			if err != nil {
				t.Fatal(err)
			}
			defer src.Close()
			l := k.load
			switch i % 3 {
			case 0:
				l.Rate = 50e3
			case 1:
				l.Bits = 100e6
			}
			reps, err := tx.Transmit(context.Background(), l, Stream{ID: 6, Source: src})
			if err != nil {
				t.Fatal(err)
			}
			s := reps[0]
			octets, n := uint64(0), uint64(0)
			for n < s.Accepted {
				got := hear(0)
				if got == nil {
					break
				}
				want, e := twin.next(t)
				if e.Sig != 0 {
					at := binary.BigEndian.Uint64(got[e.Sig+10:])
					if at < uint64(s.First) || at > uint64(s.Last) {
						t.Fatalf("frame %d has time %d, sent from %d to %d", n, at, s.First, s.Last)
					}
					frame.Stamp(want, e, unit.Instant(at))
				}
				if !bytes.Equal(got, want) {
					t.Fatalf("frame %d is\n% x, want\n% x", n, got, want)
				}
				octets += uint64(len(got) + unit.FCS)
				n++
			}
			intended := l.Count
			if l.Passes > 0 {
				intended = l.Passes * 30
			}
			if n != intended || hear(unix.MSG_DONTWAIT) != nil || s.Accepted != n || s.Intended != n || s.Octets != octets || s.Passes != l.Passes && l.Passes > 0 || s.Refused+s.NotSent != 0 {
				t.Errorf("%d frames of %d octets arrived; %+v", n, octets, s)
			}
		})
	}
}

// The memory backend carries every kind, too.
func TestMemSources(t *testing.T) {
	for _, k := range sourceKinds() {
		t.Run(k.name, func(t *testing.T) {
			r := newMemRig(t, MemConfig{})
			ctx := context.Background()
			src, err := k.open()
			if err != nil {
				t.Fatal(err)
			}
			defer src.Close()
			r.wan.(Hasher).Hash(true)
			if err := r.wan.Arm(ctx, false, 6); err != nil {
				t.Fatal(err)
			}
			l := k.load
			l.Rate = 100e3
			reps, err := r.tx.Transmit(ctx, l, Stream{ID: 6, Source: src})
			if err != nil {
				t.Fatal(err)
			}
			got, err := r.wan.Read(ctx)
			if err != nil {
				t.Fatal(err)
			}
			twin, digest, signed := newTwinFeed(t, k, 6), NewDigest(), uint64(0)
			for n := range reps[0].Accepted {
				buf, e := twin.next(t)
				if e.Sig != 0 {
					frame.Stamp(buf, e, reps[0].First+unit.Instant(n*10_000))
					signed++
				}
				digest.Add(buf)
			}
			if got.Hash != digest.Sum() || got.Streams[0].Frames != signed || got.Streams[0].Frames+got.Foreign != reps[0].Intended {
				t.Errorf("%+v of %+v; %d signed", got, reps[0], signed)
			}
		})
	}
}

// A capture leaves at its own times, and its passes follow each other evenly.
func TestPacketReplaysTimes(t *testing.T) {
	a, b := quiet(t)
	tx, m := openPacket(t, []host.Port{a}, b)
	arm(t, m[0], true)
	kinds := sourceKinds()
	src, err := kinds[slices.IndexFunc(kinds, func(k sourceKind) bool { return k.name == "capture" })].open()
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
	tx, m := openPacket(t, []host.Port{a}, b)
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
	tx, m := openPacket(t, []host.Port{a}, b)
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
	mem, err := Mem(MemConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []Backend{newXDP(), newAFXDP(), newPacket(), mem} {
		if b == Backend(mem) {
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
