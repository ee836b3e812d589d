// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"boxdyno/unit"
)

func TestDigest(t *testing.T) {
	d := NewDigest()
	d.Add([]byte("ab"))
	d.Add(nil)
	d.Add([]byte{7})
	want := sha256.Sum256([]byte("\x00\x00\x00\x02ab\x00\x00\x00\x00\x00\x00\x00\x01\x07"))
	if got := d.Sum(); got != hex.EncodeToString(want[:]) || d.Sum() != got {
		t.Errorf("%s, want %x", got, want)
	}
}

func TestArmable(t *testing.T) {
	most := make([]uint16, MaxStreams)
	for i := range most {
		most[i] = uint16(i)
	}
	for _, c := range []struct {
		streams []uint16
		ok      bool
	}{{nil, true}, {most, true}, {append(most[:MaxStreams:MaxStreams], 99), false}, {[]uint16{3, 4, 3}, false}} {
		if err := armable(c.streams); (err == nil) != c.ok {
			t.Errorf("%v: %v", c.streams, err)
		}
	}
}

func TestRoundUp(t *testing.T) {
	for n, want := range map[int64]int64{0: 1, 1: 1, 3: 5, 20: 20, 21: 50, 51: 100, 1001: 2000} {
		if got := roundUp(n); got != want {
			t.Errorf("roundUp(%d) = %d, want %d", n, got, want)
		}
	}
	if f := clockFloor(); f < 1 || f > 1e9 || f != clockFloor() {
		t.Errorf("clock floor %d ns", f)
	}
}

func TestTallyHashesEveryFrame(t *testing.T) {
	tl, want := newTally(false, []uint16{1}), NewDigest()
	tl.hash = NewDigest()
	for i, f := range [][]byte{testFrame(t, testSpec(), 1, 0), make([]byte, 60), testFrame(t, testSpec(), 2, 1)} {
		want.Add(f)
		tl.arrive(f, unit.Instant(10+i))
	}
	r := tl.report(0, "by hand")
	if r.Hash != want.Sum() || r.Foreign != 2 || r.ForeignOctets != 128 || r.First != 10 || r.Last != 12 || r.Stamps != "by hand" {
		t.Errorf("%+v", r)
	}
}

func TestMemMeterHash(t *testing.T) {
	r := newMemRig(t, MemConfig{})
	send := func(streams ...uint16) MeterReport {
		arm(t, r.wan, false, streams...)
		if _, err := r.tx.Transmit(context.Background(), Load{Count: 100}, Stream{ID: 1, Frames: testSpec()}); err != nil {
			t.Fatal(err)
		}
		return readMeter(t, r.wan)
	}
	if rep := send(1); rep.Hash != "" || rep.Streams[0].Frames != 100 {
		t.Errorf("not asked to hash: %+v", rep)
	}
	r.wan.(Hasher).Hash(true)
	if rep := send(); rep.Hash == "" || rep.Hash == NewDigest().Sum() || rep.Foreign != 100 || rep.First == 0 || rep.Last <= rep.First {
		t.Errorf("asked to hash: %+v", rep)
	}
}
