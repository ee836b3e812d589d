// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"maps"
	"strings"
	"testing"

	"boxdyno/internal/testutil"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/result"
)

// Several senders share a capture by its flows: each frame is sent once a pass, at the times
// of the capture, at a rate or flat out, and what became of it is found.
func TestSenders(t *testing.T) {
	testutil.Computed(t)
	for _, senders := range []string{"2", "3"} {
		// Of equal frames, as of two passes, one that comes twice stands for one that does not come.
		for _, c := range []struct{ rate, loops, fault string }{{"x2", "1", "lose_every"}, {"20k", "2", "duplicate_every"}, {"50Mbps", "2", "lose_every"}, {"flat-out", "3", "lose_every"}} {
			t.Run(senders+" "+c.rate, func(t *testing.T) {
				b := roomtest.NewBench(t, "mem", map[string]string{"capacity": "0", c.fault: "7"})
				o := b.Run(Spec, map[string]string{"senders": senders, "loops": c.loops, "packets_of_file": "10000", "rate": c.rate, "vlan": "12"})
				roomtest.Declared(t, o, Spec.Metrics)
				all := 10_000 * int(c.loops[0]-'0')
				want := counts{all, all - all/7, all / 7, 0, 0, 0}
				if c.fault != "lose_every" {
					want = counts{all, all, 0, 0, all / 7, 0}
				}
				if got := countsOf(t, o); got != want || o.Status != result.Passed {
					t.Errorf("%+v, want %+v: %s %s", got, want, o.Status, o.Reason)
				}
				if a := o.Account; a.Unexplained != 0 || a.Lost() != int64(want.missing) {
					t.Errorf("%+v", a)
				}
				sent := b.Sent[len(b.Sent)-1].Reports
				if len(sent) != 1 || len(sent[0].Shares) != int(senders[0]-'0') || sent[0].Passes != uint64(c.loops[0]-'0') {
					t.Fatalf("%+v", sent)
				}
				sum := uint64(0)
				for _, n := range sent[0].Shares {
					if sum += n; n == 0 {
						t.Error("a sender has sent nothing")
					}
				}
				if sum != sent[0].Accepted {
					t.Errorf("%+v", sent[0])
				}
			})
		}
	}
}

// Two senders of one ceiling each replay at the capture's own times what one does, in that
// time; together they are faster flat out.
func TestSendersKeepTheTimes(t *testing.T) {
	offered := func(more map[string]string) float64 {
		set := map[string]string{"packets_of_file": "10000"}
		maps.Copy(set, more)
		o := roomtest.NewBench(t, "mem", map[string]string{"capacity": "0", "ceiling": "100k"}).Run(Spec, set)
		return roomtest.Figure(t, o, "replay_offered_fps").Value
	}
	one, two := offered(map[string]string{"rate": "capture"}), offered(map[string]string{"rate": "capture", "senders": "2"})
	if two < 0.999*one || two > 1.001*one {
		t.Errorf("two senders offer %v frame/s, one %v", two, one)
	}
	if n := offered(map[string]string{"rate": "flat-out", "senders": "2"}); n < 101e3 || n > 200e3 {
		t.Errorf("two senders offer %v frame/s, each can send 100k", n)
	}
}

// What several senders cannot do is refused in a sentence.
func TestSendersRefuse(t *testing.T) {
	b := roomtest.NewBench(t, "mem", nil)
	for _, c := range []struct {
		set  map[string]string
		want string
	}{
		{map[string]string{"loops": "2"}, "they would drift apart"},
		{map[string]string{"packets_of_file": "1"}, "flows are too few"},
		{map[string]string{"target": "box", "service": "nat"}, "nothing is forwarded"},
	} {
		p := newReplay().(*Replay)
		set := map[string]string{"senders": "2"}
		maps.Copy(set, c.set)
		roomtest.Assign(t, p.Flags, set)
		if err := p.Check(b.Bed); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v does not say %q", c.set, err, c.want)
		}
	}
}
