// SPDX-License-Identifier: Apache-2.0

package xdp

import (
	"context"
	"encoding/binary"
	"reflect"
	"testing"

	"boxdyno/engine"
	"boxdyno/engine/internal/enginetest"
	"boxdyno/engine/internal/tally"
	"boxdyno/frame"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
	"boxdyno/unit"

	"github.com/cilium/ebpf"
	"pgregory.net/rapid"
)

// An arrival is a frame and when it comes.
type arrival struct {
	frame []byte
	at    unit.Instant
}

// wild is a frame of any headers that a signature may stand behind, right in
// most cases and damaged in others.
func wild(t *rapid.T, s frame.Signature) []byte {
	seldom := func(label string) bool { return rapid.IntRange(0, 11).Draw(t, label) == 0 }
	word := func(b []byte, v int) []byte { return binary.BigEndian.AppendUint16(b, uint16(v)) }
	zeros := func(b []byte, n int) []byte { return append(b, make([]byte, n)...) }

	payload := binary.BigEndian.AppendUint32(nil, frame.Magic)
	payload = binary.BigEndian.AppendUint16(payload, s.Stream)
	payload = binary.BigEndian.AppendUint32(payload, s.Sequence)
	payload = binary.BigEndian.AppendUint64(payload, uint64(s.Time))
	payload = zeros(payload, rapid.SampledFrom([]int{0, 0, 1, 50}).Draw(t, "padding"))
	if seldom("shorter") {
		payload = payload[:rapid.IntRange(0, len(payload)).Draw(t, "payload")]
	}

	v6 := rapid.Bool().Draw(t, "IPv6")
	var l4 []byte
	protocol := rapid.SampledFrom([]int{17, 17, 17, 6, 1, 58, 47}).Draw(t, "protocol")
	switch protocol {
	case 17:
		l4 = word(word(word(word(l4, 1000), 9), 8+len(payload)), 0)
	case 6:
		words := rapid.IntRange(5, 15).Draw(t, "TCP header")
		l4 = zeros(l4, 4*words)
		l4[12] = byte(words << 4)
	default:
		l4 = zeros(l4, 8)
		l4[0] = byte(rapid.SampledFrom([]int{8, 0, 128, 129, 3}).Draw(t, "ICMP type"))
		if protocol == 58 && !v6 || protocol == 1 && v6 {
			protocol = rapid.SampledFrom([]int{1, 58}).Draw(t, "ICMP version")
		}
	}
	l4 = append(l4, payload...)

	var ip []byte
	ethertype := 0x0800
	if v6 {
		ethertype = 0x86dd
		ip = zeros(ip, 40)
		ip[0], ip[6] = 0x60, byte(protocol)
		binary.BigEndian.PutUint16(ip[4:], uint16(len(l4)))
	} else {
		words := 5
		if seldom("IP options") {
			words = rapid.IntRange(5, 15).Draw(t, "IP header")
		}
		ip = zeros(ip, 4*words)
		ip[0], ip[9] = byte(0x40|words), byte(protocol)
		binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)+len(l4)))
		if seldom("fragment") {
			binary.BigEndian.PutUint16(ip[6:], rapid.Uint16().Draw(t, "fragment offset"))
		}
	}

	f := zeros(nil, 12)
	for range rapid.SampledFrom([]int{0, 0, 0, 1, 2, 3}).Draw(t, "tags") {
		f = word(word(f, rapid.SampledFrom([]int{0x8100, 0x88a8, 0x9100}).Draw(t, "tag")), 7)
	}
	f = append(append(word(f, ethertype), ip...), l4...)
	if len(f) < 60 && rapid.Bool().Draw(t, "to the least size") {
		f = zeros(f, 60-len(f))
	}
	if seldom("damage") {
		f[rapid.IntRange(12, len(f)-1).Draw(t, "octet")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
	}
	if seldom("cut") {
		f = f[:rapid.IntRange(14, len(f)).Draw(t, "length")]
	} else if seldom("longer") {
		f = zeros(f, rapid.IntRange(1, 64).Draw(t, "trailer"))
	}
	return f
}

// The meter in the kernel counts what the tally in Go counts, to the last bucket,
// whatever comes.
func TestMeterProgramCountsAsTheTally(t *testing.T) {
	testutil.Privileged(t)
	for _, timed := range []bool{false, true} {
		p, err := loadMeterFor(timed, true)
		if err != nil {
			t.Fatal(err)
		}
		defer p.coll.Close()
		m := &Meter{plain: p, timed: p}
		rapid.Check(t, func(rt *rapid.T) {
			streams := rapid.SliceOfNDistinct(rapid.Uint16Range(0, 40), 0, engine.MaxStreams, rapid.ID).Draw(rt, "streams")
			if err := m.Arm(context.Background(), timed, streams...); err != nil {
				rt.Fatal(err)
			}
			sink := rapid.Bool().Draw(rt, "sink")
			if err := m.Sink(sink); err != nil {
				rt.Fatal(err)
			}
			// Few streams, so that many frames follow each other in one.
			ids := append([]uint16{41, 1 << 15}, streams[:min(2, len(streams))]...)
			if len(streams) > 0 {
				ids = append(ids, streams[0], streams[0], streams[len(streams)-1])
			}
			at := unit.Instant(rapid.Int64Range(1, 1<<50).Draw(rt, "start"))
			seq := rapid.Uint32().Draw(rt, "first")
			var arrivals []arrival
			for range rapid.IntRange(1, 200).Draw(rt, "frames") {
				seq += uint32(rapid.OneOf(rapid.Just(1), rapid.IntRange(-3, 5), rapid.IntRange(-9000, 9000), rapid.Just(64)).Draw(rt, "step"))
				if rapid.IntRange(0, 30).Draw(rt, "anew") == 0 {
					seq = rapid.Uint32Range(0, 1<<20+1).Draw(rt, "low")
				}
				at += unit.Instant(rapid.OneOf(rapid.Int64Range(0, 1999), rapid.Int64Range(1999, 2001), rapid.Int64Range(0, 1e10)).Draw(rt, "gap"))
				s := frame.Signature{Stream: rapid.SampledFrom(ids).Draw(rt, "stream"), Sequence: seq}
				switch rapid.IntRange(0, 9).Draw(rt, "stamp") {
				case 0: // none
				case 1:
					s.Time = unit.Instant(rapid.Int64().Draw(rt, "any stamp"))
				default:
					s.Time = at - unit.Instant(rapid.Int64Range(-10, 1e6).Draw(rt, "latency"))
				}
				arrivals = append(arrivals, arrival{wild(rt, s), at})
			}

			want := tally.New(timed, streams)
			verdicts := make([]uint32, len(arrivals))
			for i, a := range arrivals {
				before := want.Foreign
				want.Arrive(a.frame, a.at)
				verdicts[i] = 1 // XDP_DROP
				if want.Foreign > before && !sink {
					verdicts[i] = 2 // XDP_PASS
				}
			}
			// The meter judges order per CPU, so all frames come from one.
			got := make([]uint32, len(arrivals))
			thread, err := netns.Go("", []int{0}, func() error {
				for i, a := range arrivals {
					if err := p.coll.Variables[meterVarScriptNow].Set(uint64(a.at)); err != nil {
						return err
					}
					var err error
					if got[i], err = p.coll.Programs[meterProgMeter].Run(&ebpf.RunOptions{Data: a.frame, Repeat: 1}); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				rt.Fatal(err)
			}
			if err := thread.Wait(); err != nil {
				rt.Fatal(err)
			}
			for i := range got {
				if got[i] != verdicts[i] {
					rt.Fatalf("frame %d, % x: verdict %d, want %d", i, arrivals[i].frame, got[i], verdicts[i])
				}
			}
			rep, err := m.Read(context.Background())
			if err != nil {
				rt.Fatal(err)
			}
			expect := want.Report(0, "")
			for _, r := range []*engine.MeterReport{&rep, &expect} {
				for i := range r.Streams {
					r.Streams[i].Rate = 0 // rounded otherwise
					if !timed {
						r.Streams[i].Last = 0 // read seldom
						for j := range r.Streams[i].Runs {
							r.Streams[i].Runs[j].Last = 0
						}
					}
				}
				if !timed {
					r.First, r.Last = 0, 0
				}
			}
			if !reflect.DeepEqual(rep, expect) {
				rt.Fatalf("%+v\nwant %+v", rep, expect)
			}
		})
	}
}

// A stamp that lies a known time back stands in its bucket, by the kernel's clock.
func TestMeterProgramLatency(t *testing.T) {
	testutil.Privileged(t)
	p, err := loadMeterFor(true, false)
	if err != nil {
		t.Fatal(err)
	}
	defer p.coll.Close()
	m := &Meter{plain: p, timed: p}
	b, err := frame.NewBuilder(enginetest.Spec4(1, 64), 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, age := range []unit.Instant{1e6, 1e8, 5e9} {
		if err := m.Arm(context.Background(), true, 3); err != nil {
			t.Fatal(err)
		}
		f := make([]byte, 60)
		b.Build(1, f)
		b.Stamp(f, unit.Now()-age)
		if got := unit.Instant(binary.BigEndian.Uint64(f[b.Layout.Time:])); unit.Now()-got < age {
			t.Fatal("the stamp is not in the past")
		}
		before := unit.Now()
		if _, err := p.coll.Programs[meterProgMeter].Run(&ebpf.RunOptions{Data: f, Repeat: 1}); err != nil {
			t.Fatal(err)
		}
		took := unit.Now() - before
		rep, err := m.Read(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		h := rep.Streams[0].Latency
		least, most := float64(age)/1e9, float64(age+took+1e6)/1e9*17/16
		if h.Total() != 1 || h.Upper[0] < least || h.Upper[0] > most {
			t.Errorf("age %v: %+v, want one in [%v, %v]", age, h, least, most)
		}
	}
}
