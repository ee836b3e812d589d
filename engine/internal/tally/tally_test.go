// SPDX-License-Identifier: Apache-2.0

package tally

import (
	"testing"

	"boxdyno/engine"
	"boxdyno/engine/internal/enginetest"
	"boxdyno/unit"
)

func TestArmable(t *testing.T) {
	most := make([]uint16, engine.MaxStreams)
	for i := range most {
		most[i] = uint16(i)
	}
	for _, c := range []struct {
		streams []uint16
		ok      bool
	}{{nil, true}, {most, true}, {append(most[:engine.MaxStreams:engine.MaxStreams], 99), false}, {[]uint16{3, 4, 3}, false}} {
		if err := Armable(c.streams); (err == nil) != c.ok {
			t.Errorf("%v: %v", c.streams, err)
		}
	}
}

func TestTallyHashesEveryFrame(t *testing.T) {
	tl, want := New(false, []uint16{1}), engine.NewDigest()
	tl.Hash = engine.NewDigest()
	for i, f := range [][]byte{enginetest.Frame(t, enginetest.Spec(), 1, 0), make([]byte, 60), enginetest.Frame(t, enginetest.Spec(), 2, 1)} {
		want.Add(f)
		tl.Arrive(f, unit.Instant(10+i))
	}
	r := tl.Report(0, "by hand")
	if r.Hash != want.Sum() || r.Foreign != 2 || r.ForeignOctets != 128 || r.First != 10 || r.Last != 12 || r.Stamps != "by hand" {
		t.Errorf("%+v", r)
	}
}
