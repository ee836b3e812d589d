// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"boxdyno/unit"
)

const (
	// MaxJumbo is the largest synthetic frame: an MTU of 9000 octets. A source of
	// one needs ports with that MTU.
	MaxJumbo = unit.FrameSize(9018)
	// MaxCycle is the most sizes of a mix: a random mix repeats after as many.
	MaxCycle = 4096
)

// A Mix is a named cyclic sequence of frame sizes.
type Mix struct {
	Name  string
	Sizes []unit.FrameSize
}

// IMIX is the simple Internet mix 7:4:1 of 64, 594 and 1518 octets, spread over
// a cycle of 12; its mean is 361.8.
var IMIX = Mix{"imix", []unit.FrameSize{64, 594, 64, 64, 594, 64, 1518, 64, 594, 64, 594, 64}}

// ParseMix reads frame sizes, octets with FCS:
//
//	64                    a fixed size
//	imix                  7 x 64, 4 x 594, 1 x 1518
//	64:7,594:4,1518:1     a mix of one's own: sizes and their shares; + for the comma where that means something else
//	sweep:64-1518:64      64, 128, ... 1472, 1518; the step is 1 if left out
//	random:64-1518        uniform; the same 4,096 sizes each time
func ParseMix(s string) (Mix, error) {
	m := Mix{Name: s}
	var err error
	kind, rest, _ := strings.Cut(s, ":")
	switch {
	case s == IMIX.Name:
		return IMIX, nil
	case kind == "sweep":
		m.Sizes, err = parseSweep(rest)
	case kind == "random":
		var from, to unit.FrameSize
		if from, to, err = parseSizes(rest); err == nil {
			m.Sizes = randomSizes(from, to)
		}
	case strings.ContainsAny(s, ":,+"):
		m.Sizes, err = parseShares(s)
	default:
		var size unit.FrameSize
		if size, err = parseSize(s); err == nil {
			return Mix{strconv.Itoa(int(size)), []unit.FrameSize{size}}, nil
		}
	}
	if err != nil {
		return Mix{}, fmt.Errorf("frame size %q: %w", s, err)
	}
	return m, nil
}

func parseSize(s string) (unit.FrameSize, error) {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, fmt.Errorf("want octets with FCS, such as 64, or imix, 64:7,594:4,1518:1, sweep:64-1518:64, random:64-1518")
	}
	if n < int(unit.MinFrame) || n > int(MaxJumbo) {
		return 0, fmt.Errorf("%d is outside %d to %d octets with FCS", n, unit.MinFrame, MaxJumbo)
	}
	return unit.FrameSize(n), nil
}

func parseSizes(s string) (from, to unit.FrameSize, err error) {
	a, b, _ := strings.Cut(s, "-")
	if from, err = parseSize(a); err != nil {
		return 0, 0, err
	}
	if to, err = parseSize(b); err != nil {
		return 0, 0, err
	}
	if from > to {
		return 0, 0, fmt.Errorf("%d to %d is empty: want the smaller size first", from, to)
	}
	return from, to, nil
}

func parseSweep(s string) ([]unit.FrameSize, error) {
	sizes, by, stepped := strings.Cut(s, ":")
	from, to, err := parseSizes(sizes)
	if err != nil {
		return nil, err
	}
	step := 1
	if stepped {
		if step, err = strconv.Atoi(by); err != nil || step < 1 {
			return nil, fmt.Errorf("step %q: want 1 or more octets", by)
		}
	}
	var list []unit.FrameSize
	for size := from; size < to; size += unit.FrameSize(min(step, int(MaxJumbo))) {
		list = append(list, size)
	}
	list = append(list, to)
	if len(list) > MaxCycle {
		return nil, fmt.Errorf("a sweep of %d sizes: at most %d are possible, so take a greater step", len(list), MaxCycle)
	}
	return list, nil
}

func randomSizes(from, to unit.FrameSize) []unit.FrameSize {
	r := rand.New(rand.NewPCG(uint64(from), uint64(to)))
	list := make([]unit.FrameSize, MaxCycle)
	for i := range list {
		list[i] = from + unit.FrameSize(r.IntN(int(to-from)+1))
	}
	return list
}

// parseShares spreads the sizes over a cycle as evenly as their shares allow.
func parseShares(s string) ([]unit.FrameSize, error) {
	type share struct {
		size          unit.FrameSize
		weight, owing int
	}
	var shares []share
	total, divisor := 0, 0
	for part := range strings.SplitSeq(strings.ReplaceAll(s, "+", ","), ",") {
		text, times, weighted := strings.Cut(part, ":")
		size, err := parseSize(text)
		if err != nil {
			return nil, err
		}
		weight := 1
		if weighted {
			if weight, err = strconv.Atoi(times); err != nil || weight < 1 || weight > 1_000_000 {
				return nil, fmt.Errorf("share %q: want a whole number from 1 to 1000000", times)
			}
		}
		shares = append(shares, share{size: size, weight: weight})
		total, divisor = total+weight, gcd(weight, divisor)
	}
	if total /= divisor; total > MaxCycle {
		return nil, fmt.Errorf("a cycle of %d frames: at most %d are possible, so round the shares", total, MaxCycle)
	}
	list := make([]unit.FrameSize, 0, total)
	for range total {
		most := 0
		for i := range shares {
			shares[i].owing += shares[i].weight / divisor
			if shares[i].owing > shares[most].owing {
				most = i
			}
		}
		shares[most].owing -= total
		list = append(list, shares[most].size)
	}
	return list, nil
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Signed says, in a sentence, why a Spec over IPv4 or IPv6 cannot have the mix:
// it has too many sizes, or one that is too large or below the smallest signed
// frame.
func (m Mix) Signed(ipv6 bool) error { return m.SignedIn(0, ipv6) }

// SignedIn is Signed in a VLAN; 0: without a tag.
func (m Mix) SignedIn(vlan uint16, ipv6 bool) error {
	if len(m.Sizes) == 0 || len(m.Sizes) > MaxSizes {
		return fmt.Errorf("a stream needs 1 to %d frame sizes, and this one has %d", MaxSizes, len(m.Sizes))
	}
	for _, s := range m.Sizes {
		if s > MaxSize {
			return fmt.Errorf("frame size %d: the largest of a test stream is %d", s, MaxSize)
		}
		if least := SmallestIn(vlan, ipv6); s < least {
			tagged := ""
			if vlan > 0 {
				tagged = " with a VLAN tag"
			}
			return fmt.Errorf("frame size %d: the smallest signed IPv%s/UDP frame%s has %d octets", s, IPText(ipv6), tagged, least)
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

// IPText is the number of the IP version, as parameter ip has it.
func IPText(ipv6 bool) string {
	if ipv6 {
		return "6"
	}
	return "4"
}
