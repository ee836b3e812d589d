// SPDX-License-Identifier: Apache-2.0

// Package subjecttest is what tests of several subjects share: ports, and frames to them.
package subjecttest

import (
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/engine"
	"boxdyno/engine/catalog"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/unit"
)

// Pair makes two ports wired to each other in a namespace of their own.
func Pair(t testing.TB) (a, b host.Port) {
	t.Helper()
	path := testutil.Cable{A: "a", B: "b"}.Make(t)
	return host.Port{Netns: path, Name: "a"}, host.Port{Netns: path, Name: "b"}
}

// Send offers n frames of 148 octets of UDP payload.
func Send(t *testing.T, p host.Port, n uint64, rate unit.FrameRate) {
	t.Helper()
	b, err := catalog.Open("packet")
	if err != nil {
		t.Fatal(err)
	}
	tx, err := b.OpenTransmitter(t.Context(), []host.Port{p}, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Close()
	reports, err := tx.Transmit(t.Context(), engine.Load{Count: n, Rate: rate}, engine.Stream{Frames: frame.Spec{
		Sizes: []unit.FrameSize{194}, Flows: 1, SrcMAC: [6]byte{2, 0, 0, 0, 0, 1}, DstMAC: [6]byte{2, 0, 0, 0, 0, 2},
		Src: netip.MustParseAddr("198.18.0.2"), Dst: netip.MustParseAddr("198.19.0.2"), SrcPort: frame.FirstPort, DstPort: frame.Port,
	}})
	if err != nil || reports[0].Accepted != n {
		t.Fatalf("%+v, %v", reports, err)
	}
}

// Eventually waits for what other processes do.
func Eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// ACPU is one that this process may use.
func ACPU(t *testing.T) int {
	t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	cpu := 0
	for !set.IsSet(cpu) {
		cpu++
	}
	return cpu
}
