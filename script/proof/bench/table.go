// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"boxdyno/stat"
	"boxdyno/unit"
)

// A block is what all senders did with one load on one bed.
type block struct {
	name   string
	mean   float64 // octets of a frame with FCS
	copied float64 // frames a second that one core copies in memory
	rows   []row
}

type row struct {
	name  string
	cores int
	rates []float64 // frame/s, by round; empty where why says why
	why   string
}

type results []*block

// copyRate is how many frames of octets one core copies from memory to memory in
// a second, with nothing else to do: what a sender that copies cannot exceed.
func copyRate(octets float64) float64 {
	const room, span = 64 << 20, 50 * time.Millisecond // beyond the caches of small machines
	from, to := make([]byte, room), make([]byte, room)
	for i := 0; i < room; i += 4096 {
		from[i], to[i] = 1, 1
	}
	n, at := max(int(octets)-unit.FCS, 1), 0
	frames, start := 0, time.Now()
	for time.Since(start) < span {
		for range 256 {
			if at+n > room {
				at = 0
			}
			copy(to[at:at+n], from[at:])
			at += (n + 63) &^ 63
		}
		frames += 256
	}
	return float64(frames) / time.Since(start).Seconds()
}

// print writes the block: rates, and ratios to the first sender's rate in the same
// round.
func (b *block) print() {
	repeats := 0
	var warnings []string
	for _, r := range b.rows {
		repeats = max(repeats, len(r.rates))
	}
	const port = 10_000_000_000 // what a veth claims
	fmt.Printf("%s: median of %d, %g %% interval\n", b.name, repeats, stat.Confidence*100)
	fmt.Printf("  limits: %s frame/s are the line rate of 10 Gbit/s; one core copies %s in memory\n", unit.SI(port/8/(b.mean+20)), unit.SI(b.copied))
	fmt.Printf("  %-34s %5s %8s %20s %8s   %s\n", "sender", "cores", "frame/s", "", "bit/s L2", "times the first")
	for i, r := range b.rows {
		if r.why != "" {
			continue
		}
		s := stat.Summarize(r.rates)
		ratio := ""
		if ratios := b.ratios(r.name, b.rows[0].name); i > 0 && ratios != nil {
			ratio = interval(stat.Summarize(ratios))
		}
		fmt.Printf("  %-34s %5d %8s %8s to %8s %8s   %s\n", r.name, r.cores, unit.SI(s.Center), unit.SI(s.Lo), unit.SI(s.Hi), unit.SI(s.Center*b.mean*8), ratio)
		for _, w := range s.Warnings {
			if !slices.Contains(warnings, w) {
				warnings = append(warnings, w)
			}
		}
	}
	for _, r := range b.rows {
		if r.why != "" && r.why != notForThis {
			fmt.Printf("  %-34s not measured: %s\n", r.name, r.why)
		}
	}
	for _, w := range warnings {
		fmt.Printf("  %s\n", w)
	}
	fmt.Println()
}

func interval(s stat.Summary) string {
	return fmt.Sprintf("%5.2f (%.2f to %.2f)", s.Center, s.Lo, s.Hi)
}

// rates of a sender by round; nil where it was not measured.
func (b *block) rates(name string) []float64 {
	for _, r := range b.rows {
		if r.name == name && r.why == "" {
			return r.rates
		}
	}
	return nil
}

// ratios are a sender's rates over those of the best of peers in the same round;
// nil where one of the two sides was not measured.
func (b *block) ratios(name string, peers ...string) []float64 {
	own := b.rates(name)
	best := make([]float64, len(own))
	for _, p := range peers {
		for i, v := range b.rates(p) {
			if i < len(best) {
				best[i] = math.Max(best[i], v)
			}
		}
	}
	var out []float64
	for i, v := range own {
		if best[i] == 0 {
			return nil
		}
		out = append(out, v/best[i])
	}
	return out
}

// A target is a ratio that the engine is to reach.
type target struct {
	block  []string // a block's title has all of them
	sender string
	peers  []string // the best of them is 1
	least  float64
}

const (
	tcpreplay = "tcpreplay -t -K"
	sendmmsg  = "sendmmsg (C, batch 256)"
)

var targets = []target{
	{[]string{"XDP_DROP", "64 octets"}, "boxdyno xdp, signed", []string{tcpreplay}, 12},
	{[]string{"XDP_DROP", "64 octets"}, "boxdyno xdp, signed, 2 cores", []string{tcpreplay}, 24},
	{[]string{"XDP_DROP", "capture"}, "boxdyno xdp, replay, copied whole", []string{tcpreplay}, 9},
	{[]string{"plain stack", "64 octets"}, "boxdyno xdp, signed", []string{tcpreplay, "trafgen", sendmmsg}, 1.8},
	{[]string{"XDP_DROP", "64 octets"}, "boxdyno packet, replay", []string{sendmmsg}, 0.95},
	{[]string{"XDP_DROP", "64 octets"}, "boxdyno afxdp/copy, replay", []string{sendmmsg}, 1.3},
}

// printTargets says which targets were reached.
func (all results) printTargets() {
	fmt.Println("targets: times the best of the peers in the same round, median and interval")
	for _, t := range targets {
		said := "not measured"
		for _, b := range all {
			if slices.ContainsFunc(t.block, func(w string) bool { return !strings.Contains(b.name, w) }) {
				continue
			}
			if ratios := b.ratios(t.sender, t.peers...); ratios != nil {
				s := stat.Summarize(ratios)
				said = interval(s) + "   reached"
				if s.Center < t.least {
					said = interval(s) + "   MISSED"
				}
			}
		}
		fmt.Printf("  %-26s %-34s of %-42s at least %5.2f: %s\n", strings.Join(t.block, ", "), t.sender, strings.Join(t.peers, ", "), t.least, said)
	}
}
