// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"bytes"
	"errors"
	"io"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"boxdyno/unit"
)

func episode() Episode {
	return Episode{
		Benign: Spec{
			Sizes: []unit.FrameSize{64, 594, 64}, Flows: 7, SrcMAC: [6]byte{2, 1}, DstMAC: [6]byte{2, 2},
			Src: netip.MustParseAddr("198.18.0.2"), Dst: netip.MustParseAddr("198.19.0.2"), SrcPort: FirstPort, DstPort: Port,
		},
		BenignRate: 3000, Flood: flood("syn", false), FloodRate: 70_000,
		Before: 10 * time.Millisecond, During: 20 * time.Millisecond, After: 10 * time.Millisecond,
	}
}

// TestEpisode takes a whole pass apart, as windows of two sizes hold it.
func TestEpisode(t *testing.T) {
	for _, name := range []string{"syn", "udp", "fragments", "ntp"} {
		e := episode()
		e.Flood.Name = name
		s, err := NewEpisode(e)
		if err != nil {
			t.Fatal(err)
		}
		want := [EpisodeClasses]uint64{30, 60, 30, 1400}
		if got := s.Counts(s.Shape().Frames); got != want || s.Shape().Frames != 1520 {
			t.Fatalf("%s: %v of %d frames, and %v are asked", name, got, s.Shape().Frames, want)
		}
		whole := &Window{Blob: make([]byte, s.Shape().Octets), Entries: make([]Entry, 1521)}
		if err := s.Fill(whole); !errors.Is(err, io.EOF) || whole.Len() != 1520 {
			t.Fatalf("%s: %d frames: %v", name, whole.Len(), err)
		}
		wr, twin := NewWriter(s.Shape(), 40, 3, false), NewWriter(s.Shape(), 40, 3, false)
		part := &Window{Blob: make([]byte, 100_000), Entries: make([]Entry, 111)}
		buf, other := make([]byte, 1600), make([]byte, 1600)
		at, last, counts := 0, uint64(0), [EpisodeClasses]uint64{}
		for i, end := 0, false; i < whole.Len(); i++ {
			if at == part.Len() {
				if end {
					t.Fatalf("%s: small windows end after %d frames", name, i)
				}
				at = 0
				part.Reset()
				err := s.Fill(part)
				if end = errors.Is(err, io.EOF); err != nil && !end {
					t.Fatal(name, err)
				}
			}
			n := wr.Write(whole, i, 0, buf)
			if m := twin.Write(part, at, 0, other); !bytes.Equal(buf[:n], other[:m]) || part.Entries[at].At != whole.Entries[i].At {
				t.Fatalf("%s: frame %d depends on the windows", name, i)
			}
			at++
			entry := whole.Entries[i]
			if entry.At < last {
				t.Fatalf("%s: frame %d is due %d ns before the one before it", name, i, last-entry.At)
			}
			last = entry.At
			k := counts[entry.Class]
			counts[entry.Class]++
			if counts != s.Counts(uint64(i)+1) {
				t.Fatalf("%s: of %d frames there are %v, not %v", name, i+1, counts, s.Counts(uint64(i)+1))
			}
			sig, class := Parse(buf[:n])
			decoded(t, buf[:n])
			if entry.Class == FloodFrames {
				if due := 10e6 + (float64(k)+0.5)/70e3*1e9; class != Foreign || math.Abs(float64(entry.At)-due) > 1 {
					t.Fatalf("%s: frame %d of the flood is %v, due at %d ns, not %.0f", name, k, class, entry.At, due)
				}
				continue
			}
			number := k + []uint64{0, 30, 90}[entry.Class] // among all benign frames
			if class != Whole || sig.Stream != 40+uint16(entry.Class) || uint64(sig.Sequence) != k {
				t.Fatalf("%s: benign frame %d is %v: %+v", name, number, class, sig)
			}
			if due := float64(number) / 3000 * 1e9; math.Abs(float64(entry.At)-due) > 1 {
				t.Fatalf("%s: benign frame %d is due at %d ns, not %.0f", name, number, entry.At, due)
			}
			size := []int{60, 590, 60}[number%3]
			if port := int(buf[34])<<8 | int(buf[35]); n != size || port != FirstPort+int(number%7) {
				t.Fatalf("%s: benign frame %d has %d octets and port %d", name, number, n, port)
			}
		}
	}
}

// Fast floods come in bursts, the last of which may be short, and end when they should.
func TestEpisodeBursts(t *testing.T) {
	for rate, want := range map[unit.FrameRate]int{100e3: 2, 149e3: 2, 500e3: 10, 1.2e6: 24, 1e7: 32} {
		e := episode()
		e.FloodRate, e.During = rate, 1003*time.Microsecond
		s, err := NewEpisode(e)
		if err != nil {
			t.Fatal(err)
		}
		w := &Window{Blob: make([]byte, s.Shape().Octets), Entries: make([]Entry, s.Shape().Frames+1)}
		if err := s.Fill(w); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		n, bursts, longest, last, before := 0, map[uint64]int{}, 0, uint64(0), uint64(0)
		benign := 0
		for i, f := range w.Entries[:w.Len()] {
			if f.At < before {
				t.Fatalf("%v: frame %d is due %d ns before the one before it", rate, i, before-f.At)
			}
			before = f.At
			if f.Class == FloodFrames {
				n++
				bursts[f.At]++
				longest, last = max(longest, bursts[f.At]), f.At
				continue
			}
			if late := float64(f.At) - float64(benign)/3000*1e9; late < -1 || late > 20_000 {
				t.Errorf("%v: benign frame %d leaves %.0f ns late", rate, benign, late)
			}
			benign++
		}
		if longest != want || len(bursts) != (n+want-1)/want {
			t.Errorf("%v: %d bursts of up to %d frames of %d, and %d are one", rate, len(bursts), longest, n, want)
		}
		if each := 1e9 / float64(rate); math.Abs(float64(n)*each-1.003e6) > each || last > 10e6+1.003e6 || float64(last) < 10e6+1.003e6-2*each {
			t.Errorf("%v: %d frames, the last at %d ns", rate, n, last)
		}
	}
}

func TestEpisodeErrors(t *testing.T) {
	for want, change := range map[string]func(*Episode){
		"flows 1001":           func(e *Episode) { e.Benign.Flows = 1001 },
		"networks 2":           func(e *Episode) { e.Benign.Networks = 2 },
		"want both above 0":    func(e *Episode) { e.FloodRate = 0 },
		"at least one in each": func(e *Episode) { e.BenignRate = 10 },
		"want 1 to":            func(e *Episode) { e.FloodRate = 1 },
		"want one of syn":      func(e *Episode) { e.Flood.Name = "rain" },
	} {
		e := episode()
		change(&e)
		if _, err := NewEpisode(e); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
