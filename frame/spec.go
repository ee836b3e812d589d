// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"fmt"
	"net/netip"
	"strconv"

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
)

// Smallest is the least size of a signed UDP frame: 64 over IPv4, 84 over IPv6.
func Smallest(ipv6 bool) unit.FrameSize {
	if ipv6 {
		return ethLen + ip6Len + udpLen + SignatureLen + unit.FCS
	}
	return ethLen + ip4Len + udpLen + SignatureLen + unit.FCS
}

// A Mix is a named cyclic sequence of frame sizes.
type Mix struct {
	Name  string
	Sizes []unit.FrameSize
}

// IMIX is the simple Internet mix 7:4:1 of 64, 594 and 1518 octets, spread over
// a cycle of 12; its mean is 361.8.
var IMIX = Mix{"imix", []unit.FrameSize{64, 594, 64, 64, 594, 64, 1518, 64, 594, 64, 594, 64}}

// ParseMix reads a frame size ("64") or the name of a mix ("imix").
func ParseMix(s string) (Mix, error) {
	if s == IMIX.Name {
		return IMIX, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return Mix{}, fmt.Errorf("frame size %q: want octets with FCS, such as 64, or imix", s)
	}
	if n < int(unit.MinFrame) || n > int(MaxSize) {
		return Mix{}, fmt.Errorf("frame size %d: want %d to %d octets with FCS", n, unit.MinFrame, MaxSize)
	}
	return Mix{strconv.Itoa(n), []unit.FrameSize{unit.FrameSize(n)}}, nil
}

// Signed is the mix as frames over IPv4 or IPv6 carry it; a size below the
// smallest signed frame is refused with that number.
func (m Mix) Signed(ipv6 bool) error {
	for _, s := range m.Sizes {
		if least := Smallest(ipv6); s < least {
			return fmt.Errorf("frame size %d: the smallest signed IPv%s/UDP frame has %d octets", s, version(ipv6), least)
		}
	}
	return nil
}

// Mean is the mean frame size, octets with FCS.
func (m Mix) Mean() float64 {
	sum := 0.0
	for _, s := range m.Sizes {
		sum += float64(s)
	}
	return sum / float64(len(m.Sizes))
}

// Largest is the greatest frame size in the mix.
func (m Mix) Largest() unit.FrameSize {
	var l unit.FrameSize
	for _, s := range m.Sizes {
		l = max(l, s)
	}
	return l
}

func version(ipv6 bool) string {
	if ipv6 {
		return "6"
	}
	return "4"
}

// Check says what is wrong with a spec, in a sentence.
func (s Spec) Check() error {
	if len(s.Sizes) == 0 || len(s.Sizes) > MaxSizes {
		return fmt.Errorf("a stream needs 1 to %d frame sizes, and this one has %d", MaxSizes, len(s.Sizes))
	}
	if s.Flows < 1 || s.Flows > MaxFlows {
		return fmt.Errorf("flows %d: want 1 to %d", s.Flows, MaxFlows)
	}
	if !s.Src.IsValid() || !s.Dst.IsValid() || s.Src.Is4() != s.Dst.Is4() {
		return fmt.Errorf("addresses %v and %v: want two of one IP version", s.Src, s.Dst)
	}
	if last := int(s.flowPort()) + min(s.Flows, FlowPorts) - 1; last > 65535 {
		return fmt.Errorf("flows %d from port %d would need port %d", s.Flows, s.flowPort(), last)
	}
	for _, size := range s.Sizes {
		if size > MaxSize {
			return fmt.Errorf("frame size %d: the largest is %d", size, MaxSize)
		}
	}
	return Mix{Sizes: s.Sizes}.Signed(s.Src.Is6())
}

func (s Spec) flowPort() uint16 {
	if s.Answer {
		return s.DstPort
	}
	return s.SrcPort
}
