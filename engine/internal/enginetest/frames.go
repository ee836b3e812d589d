// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"net/netip"
	"testing"

	"boxdyno/frame"
	"boxdyno/unit"
)

// StampOf is what a sender stamped a frame with that carries s.
func StampOf(s frame.Signature) unit.Instant {
	if s.Late {
		return frame.Late(s.Time)
	}
	return s.Time
}

// Spec is a stream of frames of 64 octets in one flow.
func Spec() frame.Spec {
	return frame.Spec{
		Sizes: []unit.FrameSize{64}, Flows: 1,
		SrcMAC: [6]byte{2, 0, 0, 0, 0, 1}, DstMAC: [6]byte{2, 0, 0, 0, 0, 2},
		Src: netip.MustParseAddr("198.18.0.1"), Dst: netip.MustParseAddr("198.19.0.1"),
		SrcPort: 10000, DstPort: 20000,
	}
}

// Frame is frame k of a stream of spec.
func Frame(t testing.TB, spec frame.Spec, stream uint16, k uint64) []byte {
	t.Helper()
	b, err := frame.NewBuilder(spec, stream)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 2048)
	return buf[:b.Build(k, buf)]
}

// Spec4 is a stream over IPv4.
func Spec4(flows int, sizes ...unit.FrameSize) frame.Spec {
	return frame.Spec{
		Sizes: sizes, Flows: flows,
		SrcMAC: [6]byte{2, 0, 0, 0, 0, 1}, DstMAC: [6]byte{2, 0, 0, 0, 0, 2},
		Src: netip.MustParseAddr("198.18.0.2"), Dst: netip.MustParseAddr("198.19.0.2"),
		SrcPort: frame.FirstPort, DstPort: frame.Port,
	}
}

// Spec6 is a stream over IPv6.
func Spec6(flows int, sizes ...unit.FrameSize) frame.Spec {
	s := Spec4(flows, sizes...)
	s.Src, s.Dst = netip.MustParseAddr("2001:2:0:1::2"), netip.MustParseAddr("2001:2:0:2::2")
	return s
}

// Networks is s to several networks.
func Networks(s frame.Spec) frame.Spec {
	s.Networks = frame.MaxNetworks
	return s
}
