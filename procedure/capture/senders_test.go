// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"fmt"
	"io"
	"maps"
	"math"
	"strconv"
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/frame"
	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/result"
)

// A load of two senders into the empty box is not that of one.
func TestOnceOfSenders(t *testing.T) {
	keys := map[string]bool{}
	for _, n := range []string{"1", "2"} {
		p := newCapture().(*Capture)
		roomtest.Assign(t, p.Flags, map[string]string{"rate": "1000", "senders": n})
		key, _, _ := p.Once()
		keys[key] = true
	}
	if len(keys) != 2 || keys[""] {
		t.Error(keys)
	}
}

// The parts of several senders are together the traffic of one: its frames, octets and planted
// attacks, each in one part.
func TestIDSTrafficOfSenders(t *testing.T) {
	none := 0.0
	mix, err := frame.NewAppMix(frame.AppMix{Seed: 3, Rate: 20e6, Duration: 500 * time.Millisecond, AlertShare: &none})
	if err != nil {
		t.Fatal(err)
	}
	captured := writeCapture(t, mix)
	for _, set := range []map[string]string{nil, {"flood": "syn", "flood_share": "0.5"}, {"traffic": captured}} {
		p := newIDS().(*IDS)
		roomtest.Assign(t, p.Flags, set)
		made := map[int]*idsTraffic{}
		for _, n := range []int{1, 3} {
			traffic, err := p.make(t.Context(), idsLoad{20e6, 400 * time.Millisecond, 2, n})
			if err != nil {
				t.Fatal(err)
			}
			defer traffic.close()
			made[n] = traffic
			var stream engine.Stream
			if traffic.stream(&stream); (stream.Source != nil) != (n == 1) || n > 1 && len(stream.Parts) != n {
				t.Errorf("%v: %d senders: %+v", set, n, stream)
			}
		}
		one, three := made[1], made[3]
		if d := int64(one.frames) - int64(three.frames); d != 0 && set["flood"] == "" || 20*max(d, -d) > int64(one.frames) { // where floods are in a blend is drawn
			t.Errorf("%v: %d frames, in parts %d", set, one.frames, three.frames)
		}
		if set["flood"] == "" && one.octets != three.octets || one.passes != three.passes || !maps.Equal(one.planted, three.planted) {
			t.Errorf("%v: %+v, in parts %+v", set, one, three)
		}
		for i, part := range three.parts {
			frames, w := uint64(0), newWindow()
			for end := error(nil); end == nil; w.Reset() {
				if end = part.Source.Fill(w); end != nil && end != io.EOF {
					t.Fatal(end)
				}
				if frames == 0 && w.Len() > 0 && time.Duration(w.Entries[0].At) != part.First {
					t.Errorf("%v: part %d begins at %v, and is said to at %v", set, i, time.Duration(w.Entries[0].At), part.First)
				}
				frames += uint64(w.Len())
			}
			if frames != part.Frames || frames < one.frames/one.passes/10 {
				t.Errorf("%v: part %d has %d frames, and is said to have %d of %d", set, i, frames, part.Frames, one.frames/one.passes)
			}
		}
	}
}

// Senders with unequal parts of an IDS's traffic together reach no more than what has the one
// with the most frames at its own ceiling.
func TestIDSCeilingOfSenders(t *testing.T) {
	for _, n := range []int{1, 3} {
		p := newIDS().(*IDS)
		roomtest.Assign(t, p.Flags, map[string]string{"senders": strconv.Itoa(n)})
		bed := &lab.Testbed{Facts: lab.Facts{TesterCPU: 2, Senders: []int{1, 0}}}
		m := &idsPoint{IDS: p, ceiling: 1e6, listen: &capturePoint{Capture: p.listener(""), env: &procedure.Env{Bed: bed}}}
		end, err := m.prepare(t.Context(), 20e6, 400*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		defer end()
		var all, most uint64
		for _, part := range m.traffic.parts {
			all, most = all+part.Frames, max(most, part.Frames)
		}
		want := 1e6 * float64(all) / float64(n) / float64(most)
		if got := float64(m.listen.ceiling); len(m.traffic.parts) != n || math.Abs(got-want) > 1 || (n == 1) != (want == 1e6) {
			t.Errorf("%d senders reach %v, want %v", n, got, want)
		}
	}
}

// Two senders offer an IDS one load: each frame once, and every attack is seen.
func TestIDSOfSenders(t *testing.T) {
	testutil.Privileged(t)
	testutil.Alone(t)
	cpus := testutil.TwoCPUs(t)
	bed := roomtest.Build(t, "sandbox", map[string]string{"placement": "shared"})
	if bed.Senders = cpus[:1]; cpus[0] == bed.TesterCPU {
		bed.Senders = cpus[1:]
	}
	s := fakeSensor{}
	s.buffer = 256 << 20
	_, recs := idsBench(t, bed, &s, map[string]string{"rate": "10Mbps", "idle": "10Mbps", "senders": "2"})
	trials := map[string]int{}
	for _, r := range recs {
		a := r.Account
		if a == nil || r.Value("frames_offered") == nil {
			continue
		}
		// A busy machine makes a trial invalid, for its rate: the counts are right all the same.
		if trials[r.Procedure]++; fmt.Sprint(a.Accepted) != result.Get(r.Config, "frames") || a.Received != a.Accepted || a.Unexplained != 0 || r.Status == result.Failed {
			t.Errorf("%s %v: %s %s: %+v", r.Procedure, r.Config, r.Status, r.Reason, a)
		}
		if planted, seen := r.Value("attacks_planted"), r.Value("attacks_detected"); planted == nil || seen == nil || planted.Value < 3 || seen.Value != planted.Value {
			t.Errorf("%s: planted %+v, seen %+v", r.Procedure, planted, seen)
		}
	}
	if trials["ids"] < 1 || trials["ids-idle"] != 1 {
		t.Errorf("%v trials", trials)
	}
}
