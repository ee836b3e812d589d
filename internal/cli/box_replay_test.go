// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
	"boxdyno/result"
)

// replayed replays a capture, by one sender and by two, which each have a queue of every port,
// and wants every frame to come as it was sent, and each account to balance.
func replayed(t *testing.T, tester *netns.Namespace, words ...string) {
	t.Helper()
	inSpace(t, tester, "ethtool -L e0 rx 2 tx 2; ! ip link show e1 || ethtool -L e1 rx 2 tx 2")
	dir := filepath.Join(t.TempDir(), "run")
	args := append([]string{"run", "replay", "--quick", "--quiet", "--out", dir, "--set", "netns=" + tester.Path(),
		"--set", "rate=4k", "--set", "packets_of_file=2000", "--set", "senders=1,2"}, words...)
	var out bytes.Buffer
	// A busy machine makes a trial invalid, for its rate: the counts are right all the same.
	if code := Main(t.Context(), args, &out, &out); code != exitOK && code != exitInvalid {
		t.Fatalf("exit code %d: %s", code, out.Bytes())
	}
	_, recs, err := result.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	trials, points := 0, 0
	for _, r := range recs {
		if a := r.Account; a != nil && (a.Unexplained != 0 || r.Procedure == "replay" && (a.Accepted < 1800 || a.Received != a.Accepted || len(a.Drops) != 0)) {
			t.Errorf("%s: %+v", r.ID, a)
		}
		switch {
		case r.Procedure != "replay":
		case r.Parent == "":
			if points++; r.Value("replay_received_frames") == nil {
				t.Errorf("%s: %s %s", r.ID, r.Status, r.Reason)
			}
			said := strings.Join(r.Warnings, "; ")
			if t.Logf("%s: %s", r.ID, said); strings.Contains(said, "senders=") {
				t.Error("two CPUs did not send")
			}
		default:
			trials++
		}
	}
	if trials != 2 || points != 2 {
		t.Errorf("%d trials of %d points: %s", trials, points, out.Bytes())
	}
}

// A capture goes into a box at one cable that real ssh reaches.
func TestBoxReplaysInto(t *testing.T) {
	tester, _ := oneCable(t)
	replayed(t, tester, "--box", "box", "--set", "target=box")
}

// A capture goes through a box with two cables that the agent has forward.
func TestBoxReplaysThrough(t *testing.T) {
	testutil.Long(t) // TestBoxReplaysInto is shorter
	testutil.Alone(t)
	tester, box := stranger(t)
	inSpace(t, box, "nft flush ruleset; ip address flush dev i0; ip address flush dev i1; sysctl -qw net.ipv4.ip_forward=0")
	addBox(t, box, "e0=i0", "e1=i1")
	replayed(t, tester, "--box", "box")
}

// A capture goes through a router that is nobody's.
func TestWireReplays(t *testing.T) {
	testutil.Long(t) // TestBoxReplaysInto is shorter
	testutil.Alone(t)
	tester, box := stranger(t)
	inSpace(t, box, "ip route add 198.18.64.0/18 via 198.18.0.2; ip route add 198.19.64.0/18 via 198.19.0.2")
	replayed(t, tester, "--lab", "wire2", "--set", "port_a=e0", "--set", "port_b=e1")
}
