// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/procedure/many"
	"boxdyno/result"
)

// second gives each board of the rack a cable to another switch, beside that to its hub.
func (r *rack) second(t *testing.T, boards int) {
	t.Helper()
	r.ip(t, "-n", r.space("sw"), "link", "add", "br1", "type", "bridge")
	r.ip(t, "-n", r.space("sw"), "link", "set", "br1", "up")
	for i := range boards {
		name, at := fmt.Sprintf("b%d", i+1), fmt.Sprintf("second%d", i+1)
		r.ip(t, "-n", r.space(name), "link", "add", "eth1", "type", "veth", "peer", "name", at, "netns", r.space("sw"))
		r.ip(t, "-n", r.space("sw"), "link", "set", at, "master", "br1", "up")
		r.ip(t, "-n", r.space(name), "addr", "add", fmt.Sprintf("10.213.78.%d/24", 11+i), "dev", "eth1")
		r.ip(t, "-n", r.space(name), "link", "set", "eth1", "up")
	}
}

// lossy has a board's second cable carry less than is sent to it: 0.24 of 0.48 Mbit/s.
func (r *rack) lossy(t *testing.T, board string) {
	t.Helper()
	if out, err := exec.Command("ip", "netns", "exec", r.space("sw"), "tc", "qdisc", "add", "dev", "second"+board[1:], "root", "tbf", "rate", "240kbit", "burst", "1600", "latency", "5ms").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func (r *rack) ip(t *testing.T, words ...string) {
	t.Helper()
	if out, err := exec.Command("ip", words...).CombinedOutput(); err != nil {
		t.Fatalf("ip %q: %v: %s", words, err, out)
	}
}

// unwrapped is a report as one line.
func unwrapped(text string) string { return strings.Join(strings.Fields(text), " ") }

const pairAllows = "subjects,services,network"

// Two pairs of boards send and capture at one instant, over another switch than their hub's.
// The cable that loses frames is named, and the books of each pair close. What a board lacks
// for it is a sentence.
func TestFleetPairs(t *testing.T) {
	testutil.Long(t)
	testutil.Alone(t)
	if err := host.Has("tc"); err != nil {
		t.Skip(err)
	}
	r := newRack(t, pairAllows, pairAllows, pairAllows, pairAllows)
	code, said, _ := r.run(t, "capture", "--boxes", "b1,b2", "--nodes", "2", "--set", "pairs=disjoint", "--set", "subject=af_packet")
	if code != exitInvalid || !strings.Contains(unwrapped(said), "has no private IPv4 network but that of its hub: test frames need another cable") {
		t.Errorf("exit code %d: %s", code, said)
	}
	r.second(t, 4)
	order := many.Subset([]string{"b1", "b2", "b3", "b4"}, 4, 1, 1) // the first one sends to the second, the third to the fourth
	r.lossy(t, order[1])
	code, said, recs := r.run(t, "capture", "--nodes", "4", "--seed", "1", "--set", "pairs=disjoint", "--set", "subject=af_packet", "--set", "rate=1k", "--set", "packets=1000", "--set", "most_skew=1")
	t.Log(said)
	// Beside other work a sender may be too slow, and its pair invalid: its cable is named all the same.
	said = unwrapped(said)
	for _, want := range []string{"from " + order[0] + " to " + order[1] + ": ", "lost between the boards", "the worst pair is " + order[0] + " to " + order[1] + ": "} {
		if code != exitFailed || !strings.Contains(said, want) || strings.Contains(said, ", 0 B") {
			t.Errorf("exit code %d: not %q: %s", code, want, said)
		}
	}
	pairs := 0
	for _, rec := range recs {
		if rec.Parent == "" || rec.Procedure != "fleet-capture" {
			continue
		}
		pairs++
		from, to := result.Get(rec.Config, "from"), result.Get(rec.Config, "to")
		bad := from == order[0] && to == order[1]
		a := rec.Account
		if !bad && (from != order[2] || to != order[3]) || a == nil || a.Accepted != 1000 || len(rec.Boards) != 2 || len(rec.Phases) == 0 {
			t.Fatalf("from %s to %s: %+v", from, to, rec)
		}
		if a.Accepted != a.Received+a.Dropped()+a.InFlight+a.Unexplained || bad != (a.DroppedAt(result.Link) > 300) || !bad && a.Received != a.Accepted {
			t.Errorf("from %s to %s: %+v", from, to, a)
		}
	}
	if pairs != 2 {
		t.Errorf("%d pairs: %s", pairs, said)
	}
}
