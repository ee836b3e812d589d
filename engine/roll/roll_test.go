// SPDX-License-Identifier: Apache-2.0

package roll

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"boxdyno/engine/internal/bpf"
	"boxdyno/frame"
	"boxdyno/internal/testutil"
)

func init() { bpf.ProgramFlags = unix.BPF_F_STRICT_ALIGNMENT }

// mixture is frames of conversations, some of them behind tags, cut off, of IPv6, with
// options, fragments or of other protocols.
func mixture(t *testing.T, rng *rand.Rand, n int) (all [][]byte) {
	t.Helper()
	s, err := frame.NewAppMix(frame.AppMix{Seed: rng.Uint64(), Rate: 50e6, Duration: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	w := frame.Window{Blob: make([]byte, 4<<20), Entries: make([]frame.Entry, n)}
	if err := s.Fill(&w); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	for i := range w.Len() {
		b := slices.Clone(w.Frame(i))
		switch rng.IntN(12) {
		case 0:
			b = slices.Concat(b[:12], []byte{0x81, 0, 0, 5}, b[12:])
		case 1:
			b = slices.Concat(b[:12], []byte{0x88, 0xa8, 0, 5, 0x81, 0, 0, 6}, b[12:])
		case 2:
			b = b[:14+rng.IntN(len(b)-13)]
		case 3:
			b[14] = byte(0x40 + rng.IntN(16))
		case 4:
			b[23] = []byte{1, 6, 17, 47, 58}[rng.IntN(5)]
			b[34] = byte(rng.IntN(16))
		case 5:
			binary.BigEndian.PutUint16(b[20:], uint16(rng.Uint32()))
		case 6: // IPv6 over what was IPv4
			b[12], b[13], b[14] = 0x86, 0xdd, 0x60
			if len(b) > 54 {
				b[20] = []byte{6, 17, 58, 44}[rng.IntN(4)]
				b[54] = byte(128 + rng.IntN(3))
				binary.BigEndian.PutUint16(b[18:], uint16(len(b)-54-rng.IntN(3)))
			}
		case 7:
			binary.BigEndian.PutUint16(b[12:], uint16(rng.Uint32()))
		case 8:
			b = append(b, make([]byte, rng.IntN(9))...)
		}
		all = append(all, b)
	}
	return all
}

// The program makes the marks that frame.MarkOf makes, and counts each frame once.
func TestRollProgram(t *testing.T) {
	testutil.Privileged(t)
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	all := mixture(t, rng, 600)
	for _, same := range []frame.Sameness{frame.SameTranslated, frame.SameRouted, frame.SameBridged, frame.SameLink} {
		on := &frameList{all: all[:len(all)/2]}
		roll, err := frame.NewRoll(t.Context(), same, on)
		if err != nil {
			t.Fatal(err)
		}
		m := &Meter{roll: roll}
		if err := m.load(); err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		for range 2 { // armed anew, it has forgotten all
			if err := m.Arm(t.Context(), false); err != nil {
				t.Fatal(err)
			}
			want := frame.Arrivals{Seen: make([]uint64, len(roll.Marks)), Strange: map[frame.Mark]uint64{}}
			foreign := uint64(0)
			for _, b := range all {
				if len(b) < 14 {
					continue
				}
				ret, err := m.coll.Programs[rollProgRoll].Run(&ebpf.RunOptions{Data: b, DataOut: make([]byte, len(b)+256)})
				if err != nil {
					t.Fatalf("seed %d: a frame of %d octets: %v", seed, len(b), err)
				}
				mark := frame.MarkOf(b, same)
				if i, ok := roll.Find(mark); ok {
					want.Seen[i]++
				} else if ret == 2 { // XDP_PASS: a neighbour's
					if kind := binary.BigEndian.Uint16(b[12:]); b[12] != 0x81 && b[12] != 0x88 && kind != 0x0806 && kind != 0x86dd {
						t.Errorf("seed %d: the frame % x was handed to the stack", seed, b)
					}
					continue
				} else {
					want.Strange[mark]++
					foreign++
				}
				if ret != 1 { // XDP_DROP
					t.Errorf("seed %d: the frame % x of the roll was not kept", seed, b)
				}
			}
			got, err := m.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.Roll.Seen, want.Seen) || got.Foreign != foreign || got.Roll.More != 0 {
				t.Errorf("seed %d, sameness %d: %d foreign, want %d; known frames differ: %v", seed, same, got.Foreign, foreign, !slices.Equal(got.Roll.Seen, want.Seen))
			}
			wrong := 0
			for mark, n := range want.Strange {
				if got.Roll.Strange[mark] != n {
					wrong++
				}
			}
			if wrong > 0 || len(got.Roll.Strange) != len(want.Strange) {
				t.Errorf("seed %d, sameness %d: %d of %d strange marks differ", seed, same, wrong, len(want.Strange))
			}
		}
	}
}

// frameList is a source of its elements.
type frameList struct {
	all [][]byte
	at  int
}

func (f *frameList) Shape() frame.Shape {
	return frame.Shape{Frames: uint64(len(f.all)), Longest: 1600, Classes: []string{""}}
}
func (f *frameList) Notes() []string { return nil }
func (f *frameList) Close() error    { return nil }
func (f *frameList) Fill(w *frame.Window) error {
	for ; f.at < len(f.all); f.at++ {
		_, b := w.Next(len(f.all[f.at]))
		if b == nil {
			return nil
		}
		copy(b, f.all[f.at])
	}
	f.at = 0
	return io.EOF
}

// Keys lie within reach of their places, each in a slot of its own; where that cannot be,
// none is placed.
func TestPlaceKeys(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	keys := make([]uint64, 100_000)
	for i := range keys {
		keys[i] = rng.Uint64() | 1
	}
	at, size := []uint32(nil), 1<<18
	for at == nil {
		at, size = placeKeys(keys, size), size*2
	}
	size /= 2
	taken := map[uint32]bool{}
	for i, a := range at {
		if d := (a - uint32(keys[i])) & uint32(size-1); d >= rollProbes || taken[a] {
			t.Fatalf("key %d lies %d behind its place, taken: %v", i, d, taken[a])
		}
		taken[a] = true
	}
	if at := placeKeys(make([]uint64, rollProbes+1), 1024); at != nil {
		t.Errorf("%d keys of one place are placed", rollProbes+1)
	}
}
