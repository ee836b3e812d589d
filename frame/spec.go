// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"fmt"
	"net/netip"

	"boxdyno/unit"
)

// A Spec describes the frames of one stream; it is plain data. Frame k has size
// Sizes[k % len(Sizes)] and belongs to flow k % Flows.
type Spec struct {
	Sizes          []unit.FrameSize // cyclic; one entry for a fixed size, 12 for IMIX; at most MaxSizes
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
	MaxSizes  = 64
	MaxSize   = unit.FrameSize(1522)

	// Port is the UDP port (discard) that test frames go to: the DUT's filters
	// match it. FirstPort is the flows' first port at the other end.
	Port      = 9
	FirstPort = 10_000

	// Known-bad frames have a source port of BadPort and up, BadPorts in all: a
	// DUT's filters shall block them.
	BadPort  = 1000
	BadPorts = 1000
)

// Smallest is the least size of a signed UDP frame: 64 over IPv4, 84 over IPv6.
func Smallest(ipv6 bool) unit.FrameSize {
	if ipv6 {
		return ethLen + ip6Len + udpLen + SignatureLen + unit.FCS
	}
	return ethLen + ip4Len + udpLen + SignatureLen + unit.FCS
}

// Check says what is wrong with a spec, in a sentence.
func (s Spec) Check() error {
	if s.Flows < 1 || s.Flows > MaxFlows {
		return fmt.Errorf("flows %d: want 1 to %d", s.Flows, MaxFlows)
	}
	if !s.Src.IsValid() || !s.Dst.IsValid() || s.Src.Is4() != s.Dst.Is4() {
		return fmt.Errorf("addresses %v and %v: want two of one IP version", s.Src, s.Dst)
	}
	if last := int(s.flowPort()) + min(s.Flows, FlowPorts) - 1; last > 65535 {
		return fmt.Errorf("flows %d from port %d would need port %d", s.Flows, s.flowPort(), last)
	}
	return Mix{Sizes: s.Sizes}.Signed(s.Src.Is6())
}

func (s Spec) flowPort() uint16 {
	if s.Answer {
		return s.DstPort
	}
	return s.SrcPort
}
