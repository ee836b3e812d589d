// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"fmt"
	"net/netip"

	"boxdyno/unit"
)

// A Spec describes the frames of one stream; it is plain data. Frame k has size
// Sizes[k % len(Sizes)], belongs to flow First + k % Flows, and goes to network k % Networks
// (RFC 2544 section 12): the three turn independently.
type Spec struct {
	Sizes          []unit.FrameSize // cyclic; one entry for a fixed size, 12 for IMIX; at most MaxSizes
	Flows          int              // 1 to MaxFlows
	First          int              // flow of frame 0; First + Flows is at most MaxFlows
	SrcMAC, DstMAC [6]byte
	Src, Dst       netip.Addr // both IPv4 or both IPv6
	SrcPort        uint16     // flow f is SrcPort + f % FlowPorts, from Src + f / FlowPorts
	DstPort        uint16
	Answer         bool   // the stream answers flows: they vary DstPort and Dst instead
	VLAN           uint16 // 802.1Q tag of every frame, 1 to MaxVLAN; 0: none
	Networks       int    // where frames go, in turn (Network), 2 to MaxNetworks and no Answer; 0 or 1: to Dst alone
}

const (
	MaxFlows  = 1_000_000
	FlowPorts = 50_000 // ports that flows use before they go on to the next address
	MaxSizes  = 64
	MaxSize   = unit.FrameSize(1522)

	MaxNetworks = 256
	MaxVLAN     = 4094

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

// SmallestIn is Smallest of frames in a VLAN; 0: of untagged ones.
func SmallestIn(vlan uint16, ipv6 bool) unit.FrameSize {
	if vlan == 0 {
		return Smallest(ipv6)
	}
	return Smallest(ipv6) + tagLen
}

// Check says what is wrong with a spec, in a sentence.
func (s Spec) Check() error {
	if s.Flows < 1 || s.Flows > MaxFlows {
		return fmt.Errorf("flows %d: want 1 to %d", s.Flows, MaxFlows)
	}
	if s.First < 0 || s.First+s.Flows > MaxFlows {
		return fmt.Errorf("%d flows from flow %d on: the last one is at most %d", s.Flows, s.First, MaxFlows-1)
	}
	if !s.Src.IsValid() || !s.Dst.IsValid() || s.Src.Is4() != s.Dst.Is4() {
		return fmt.Errorf("addresses %v and %v: want two of one IP version", s.Src, s.Dst)
	}
	if last := int(s.flowPort()) + min(s.First+s.Flows, FlowPorts) - 1; last > 65535 {
		return fmt.Errorf("flows %d from port %d would need port %d", s.Flows, s.flowPort(), last)
	}
	if s.Networks < 0 || s.Networks > MaxNetworks {
		return fmt.Errorf("networks %d: want 1 to %d", s.Networks, MaxNetworks)
	}
	if s.Networks > 1 && s.Answer {
		return fmt.Errorf("networks %d: answers to flows go where the flows came from", s.Networks)
	}
	if s.VLAN > MaxVLAN {
		return fmt.Errorf("VLAN %d: want 1 to %d", s.VLAN, MaxVLAN)
	}
	return Mix{Sizes: s.Sizes}.SignedIn(s.VLAN, s.Src.Is6())
}

// Network is dst in its network n, 0 to MaxNetworks-1, with the network's length: n
// is the third octet of an IPv4 address (/24), the seventh of an IPv6 address (/64).
func Network(dst netip.Addr, n int) netip.Prefix {
	raw, bits := dst.AsSlice(), 24
	if dst.Is6() {
		bits = 64
	}
	raw[networkOctet(dst.Is6())] = byte(n)
	dst, _ = netip.AddrFromSlice(raw)
	return netip.PrefixFrom(dst, bits)
}

// networkOctet is which octet of an address is its network's number: the high one of
// a word of the checksums.
func networkOctet(ipv6 bool) int {
	if ipv6 {
		return 6
	}
	return 2
}

func (s Spec) flowPort() uint16 {
	if s.Answer {
		return s.DstPort
	}
	return s.SrcPort
}
