// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"boxdyno/result"
)

// A box is watched by real ssh: its own series, whose namespace has other ports than this
// one, and how far its clock is off.
func TestWatchBox(t *testing.T) {
	_, box := stranger(t)
	addBox(t, box)
	var out, errw bytes.Buffer
	run := func(want int, args ...string) string {
		t.Helper()
		out.Reset()
		errw.Reset()
		if code := Main(t.Context(), args, &out, &errw); code != want {
			t.Fatalf("%s: exit code %d, want %d: %s%s", args, code, want, out.Bytes(), errw.Bytes())
		}
		return out.String()
	}
	run(exitUsage, "watch", "--box", "none")
	run(exitUsage, "watch", "--box", "box", "--collectors", "none")
	lines := strings.Split(strings.TrimSpace(run(exitOK, "watch", "--box", "box", "--json", "--for", "1.3", "--collectors", "interfaces,cpu,reading", "--reading", "5W")), "\n")
	var head result.TelemetryHead
	if err := json.Unmarshal([]byte(lines[0]), &head); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for i, s := range head.Series {
		seen[s.Name+" "+result.Get(s.Labels, "device")] = i
		if result.Get(s.Labels, result.MachineLabel) != "" {
			t.Errorf("%+v", s)
		}
	}
	if _, ok := seen["node_network_receive_packets_total i0"]; !ok {
		t.Errorf("the box's port is not among %v", seen)
	}
	if _, ok := seen["boxdyno_power_reading_watts "]; !ok {
		t.Errorf("what was typed in is not among %v", seen)
	}
	i, ok := seen["boxdyno_clock_offset_error_seconds "]
	if !ok {
		t.Fatalf("no clock among %v", seen)
	}
	read, offset := 0, 0.0
	for _, l := range lines[1:] {
		var b struct {
			First  int        `json:"first"`
			Values []*float64 `json:"values"`
		}
		if err := json.Unmarshal([]byte(l), &b); err != nil {
			t.Fatal(err)
		}
		if at := i - b.First; at >= 0 && at < len(b.Values) && b.Values[at] != nil {
			read++
			if offset = *b.Values[at-1]; *b.Values[at] <= 0 || *b.Values[at] > 0.25 || offset > *b.Values[at] || offset < -*b.Values[at] {
				t.Errorf("the clock of this same machine is %g s ahead, at most %g off", offset, *b.Values[at])
			}
		}
	}
	if read == 0 {
		t.Errorf("nothing was read: %s", out.Bytes())
	}
}

// boxWasWatched wants a box's telemetry, labelled, by the side of the tester's own, in a
// run with cables from e0 and e1 to i0 and i1.
func boxWasWatched(t *testing.T, run result.Run, recs []result.Record) {
	t.Helper()
	port := func(s result.Series, machine, device string) bool {
		return s.Name == "node_network_receive_packets_total" && result.Get(s.Labels, result.MachineLabel) == machine && result.Get(s.Labels, "device") == device
	}
	here, there, compared := 0, 0, 0
	for i, s := range run.Series {
		if port(s, result.MachineTester, "e1") {
			here++
		}
		if !port(s, result.MachineDUT, "i0") {
			continue
		}
		there++
		for _, r := range recs {
			for _, d := range r.Digests {
				if d.Series != i || r.Account == nil {
					continue
				}
				if result.Get(r.Config, "direction") != "lan-to-wan" {
					continue
				}
				compared++
				// A reading of the box lies beside the tester's by a round trip at most.
				if in := float64(r.Account.Accepted); d.Growth < 0.9*in || d.Growth > 1.1*in+50 {
					t.Errorf("%s: the box's port counted %g frames of %g", r.ID, d.Growth, in)
				}
			}
		}
	}
	if here != 1 || there != 1 || compared == 0 {
		t.Errorf("%d series of e1, %d of i0, compared in %d trials", here, there, compared)
	}
}
