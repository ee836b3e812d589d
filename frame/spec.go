// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"net/netip"

	"boxdyno/unit"
)

// A Spec describes the frames of one stream; it is plain data. Frame k has size
// Sizes[k % len(Sizes)] and flow k % Flows.
type Spec struct {
	Sizes          []unit.FrameSize // cyclic; one entry for a fixed size, 12 for IMIX
	Flows          int              // 1 to MaxFlows
	SrcMAC, DstMAC [6]byte
	Src, Dst       netip.Addr // both IPv4 or both IPv6
	SrcPort        uint16     // flow f is SrcPort + f % FlowPorts, from Src + f / FlowPorts
	DstPort        uint16
	Answer         bool // the stream answers flows: they vary DstPort and Dst instead
}

const (
	MaxFlows  = 1_000_000
	FlowPorts = 50_000 // ports that flows use before they go on to the next address
)
