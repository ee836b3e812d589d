// SPDX-License-Identifier: Apache-2.0

package infer

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// plainVector is Vector as its page defines it, over packets that are all there.
func plainVector(ps []Packet) (x [Features]float64) {
	n := float64(len(ps))
	var sizes, gaps []float64
	sets := [4]map[uint64]bool{{}, {}, {}, {}}
	shares := [2]map[uint64]float64{{}, {}}
	for i, p := range ps {
		sizes = append(sizes, float64(p.Size))
		if i > 0 {
			gaps = append(gaps, p.At-ps[i-1].At)
		}
		x[1] += float64(p.Size)
		isTCP := p.Protocol == 6
		for f, is := range map[int]bool{
			13: isTCP, 14: p.Protocol == 17, 15: p.Protocol == 1 || p.Protocol == 58,
			16: isTCP && p.Flags&0x12 == 2, 17: isTCP && p.Flags&5 != 0,
		} {
			if is {
				x[f] += 1 / n
			}
		}
		sport, dport := mix(uint64(p.Sport)+1), mix(uint64(p.Dport)+1)
		for k, v := range []uint64{p.Src, p.Dst, sport, dport} {
			sets[k][v%1024] = true
		}
		shares[0][p.Src>>32%64] += 1 / n
		shares[1][dport>>32%64] += 1 / n
	}
	x[0], x[2] = n, ps[len(ps)-1].At-ps[0].At
	if x[2] >= 1e-9 {
		x[3], x[4] = (n-1)/x[2], x[1]/x[2]
	}
	moments := func(at int, vs []float64) {
		if len(vs) == 0 {
			return
		}
		for _, v := range vs {
			x[at] += v / float64(len(vs))
		}
		for _, v := range vs {
			x[at+1] += (v - x[at]) * (v - x[at]) / float64(len(vs))
		}
		x[at+1] = math.Sqrt(x[at+1])
		x[at+2], x[at+3] = slices.Min(vs), slices.Max(vs)
	}
	moments(5, gaps)
	moments(9, sizes)
	for k, s := range sets {
		x[18+k] = min(n, -1024*math.Log(1-float64(len(s))/1024))
	}
	for k, s := range shares {
		for _, p := range s {
			x[22+k] -= p * math.Log2(p)
		}
	}
	return x
}

func TestWindowIsThePlainOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hosts := rapid.Uint64Range(1, 600).Draw(t, "hosts")
		at := float64(rapid.IntRange(0, 86400_000_000).Draw(t, "start")) / 1e6
		var ps []Packet
		var w Window
		for range rapid.IntRange(1, 300).Draw(t, "packets") {
			p := Packet{
				At: at, Size: rapid.IntRange(64, 9018).Draw(t, "size"), Protocol: rapid.SampledFrom([]uint8{0, 1, 6, 17, 58, 47}).Draw(t, "protocol"),
				Flags: rapid.Uint8().Draw(t, "flags"), Src: digest(rapid.Uint64Range(1, hosts).Draw(t, "src"), 0), Dst: digest(rapid.Uint64Range(1, hosts).Draw(t, "dst"), 0),
				Sport: rapid.Uint16().Draw(t, "sport"), Dport: rapid.Uint16().Draw(t, "dport"),
			}
			at += float64(rapid.IntRange(0, 100_000_000).Draw(t, "gap")) / 1e9
			ps = append(ps, p)
			w.Add(&p)
		}
		got, want := w.Vector(), plainVector(ps)
		for f := range want {
			if math.Abs(float64(got[f])-want[f]) > 1e-5*math.Abs(want[f])+1e-6 {
				t.Fatalf("%s is %v, want %v", Names[f], got[f], want[f])
			}
		}
	})
}

func TestEmptyWindow(t *testing.T) {
	if x := (&Window{}).Vector(); x != (Vector{}) {
		t.Errorf("%v", x)
	}
	var w Window
	w.Add(&Packet{At: 5, Size: 64})
	w.Add(&Packet{At: 4, Size: 64}) // a clock that was set back
	if x := w.Vector(); x[2] != 0 || x[3] != 0 || x[7] != 0 || x[0] != 2 {
		t.Errorf("%v", x)
	}
}

// Linear counting is within a tenth up to as many values as a sketch has bits.
func TestSketch(t *testing.T) {
	for _, n := range []int{1, 10, 100, 500, 1000} {
		var s sketch
		for i := range n {
			s.add(digest(uint64(i), 7))
		}
		if got := s.distinct(n * 3); math.Abs(got-float64(n)) > float64(n)/10+0.5 {
			t.Errorf("%v of %d values", got, n)
		}
	}
	full := sketch{}
	for i := range full {
		full[i] = math.MaxUint64
	}
	if full.distinct(5000) != 5000 {
		t.Error("a full sketch knows no number")
	}
}

func TestCutter(t *testing.T) {
	if _, err := NewCutter("1m"); err == nil {
		t.Error("1m is no window")
	}
	tens, _ := NewCutter(PerTen)
	seconds, _ := NewCutter(PerSecond)
	var of10, of1s []Vector
	for i := range 95 {
		p := Packet{At: 100 + 0.04*float64(i), Size: 64, Protocol: protoUDP}
		if x, done := tens.Add(&p); done {
			of10 = append(of10, x)
		}
		if x, done := seconds.Add(&p); done {
			of1s = append(of1s, x)
		}
	}
	if len(of10) != 9 || len(of1s) != 3 {
		t.Fatalf("%d and %d windows", len(of10), len(of1s))
	}
	if of10[3][0] != 10 || of1s[0][0] != 25 || math.Abs(float64(of1s[1][2])-0.96) > 1e-6 {
		t.Errorf("%v packets, %v packets in %v s", of10[3][0], of1s[0][0], of1s[1][2])
	}
}

func TestDecode(t *testing.T) {
	var f Frame
	f.Size = 60
	f.fill(protoTCP, flagSYN, 1, 2, 3, 4)
	tagged := append(append(append([]byte{}, f.Head[:12]...), 0x81, 0, 0, 5), f.Head[12:]...)
	later := slices.Clone(f.Head[:])
	binary.BigEndian.PutUint16(later[20:], 100)
	six := make([]byte, 14+40+8)
	six[12], six[13], six[14], six[20] = 0x86, 0xdd, 0x60, 17
	six[37], six[53] = 1, 2
	binary.BigEndian.PutUint16(six[54:], 53)
	for name, c := range map[string]struct {
		b    []byte
		want Packet
	}{
		"tcp":      {f.Head[:], Packet{Size: 64, Protocol: 6, Flags: 2, Sport: 1027, Dport: 5, Src: digest(0xc6120001, 0), Dst: digest(0xc6130002, 0)}},
		"tagged":   {tagged, Packet{Size: 64, Protocol: 6, Flags: 2, Sport: 1027, Dport: 5, Src: digest(0xc6120001, 0), Dst: digest(0xc6130002, 0)}},
		"fragment": {later, Packet{Size: 64, Protocol: 6, Src: digest(0xc6120001, 0), Dst: digest(0xc6130002, 0)}},
		"ipv6":     {six, Packet{Size: 64, Protocol: 17, Sport: 53, Src: digest(0, 1), Dst: digest(0, 2)}},
		"cut":      {f.Head[:20], Packet{Size: 64}},
		"short":    {f.Head[:3], Packet{Size: 64}},
	} {
		if got := Decode(c.b, 60, 0); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) { Decode(rapid.SliceOf(rapid.Byte()).Draw(t, "frame"), 60, 0) })
}
