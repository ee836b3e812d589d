// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"boxdyno/result"
)

// A plant is what the sandbox's DUT is given: it carries rate frame/s, lets so many
// frames of a burst pass ahead of that, and keeps the last waiting of them in a
// queue, which a policer has not.
type plant struct {
	name                 string
	rate, ahead, waiting float64
	set                  []string
}

// Each comes twice, with a small and a large burst or queue.
var plants = []plant{
	policed(100_000, 500), policed(100_000, 2000),
	shaped(100e6, 512, 25_600, 25_600), shaped(100e6, 512, 25_600, 102_400),
}

// policed has a link of 100 Mbit/s: at its 149 kframe/s the DUT's receive ring
// bounds no burst.
func policed(rate, burst int) plant {
	return plant{
		name: fmt.Sprintf("policer of %d frame/s, burst %d", rate, burst), rate: float64(rate), ahead: float64(burst),
		set: []string{"frame_size=64", "link_rate=100Mbps", fmt.Sprintf("dut.policer=%d", rate), fmt.Sprintf("dut.policer_burst=%d", burst)},
	}
}

// shaped counts what the kernel's queue counts: frames without their FCS.
func shaped(bits float64, size, burst, queue int) plant {
	octets := float64(size - 4)
	return plant{
		name: fmt.Sprintf("shaper of %.0f Mbit/s, queue of %d B", bits/1e6, queue), rate: bits / 8 / octets,
		ahead: float64(burst+queue) / octets, waiting: float64(queue) / octets,
		set: []string{fmt.Sprintf("frame_size=%d", size), fmt.Sprintf("dut.shaper=%.0fMbps", bits/1e6), fmt.Sprintf("dut.shaper_burst=%d", burst), fmt.Sprintf("dut.shaper_queue=%d", queue)},
	}
}

// How far the suite may be from what a plant's formulas say: of a burst and a
// recovery, as a share of it; of a loss ratio, in points.
const (
	burstOff    = 0.05
	lossOff     = 0.02
	recoveryOff = 0.10
	recoveryMin = 1e-3 // s, in which a stall of the machine is no error of the suite
)

// suites runs RFC 2544's suite against plants whose bursts and loss curves follow
// from a formula, times times each, and returns how many runs it missed:
//
//	longest burst at R frame/s      ahead x R / (R - rate)
//	loss at R for T seconds         1 - (rate + ahead/T) / R
//	recovery                        waiting / rate: a full queue drains
func suites(ctx context.Context, binary, dir string, times int) (failed int, err error) {
	fmt.Printf("RFC 2544's suite against plants, %d times each: measured/true\n%-40s %24s %24s %26s\n", times, "plant", "back-to-back, frames", "worst loss, of n loads", "recovery, ms")
	for i, p := range plants {
		for k := range times {
			out := filepath.Join(dir, fmt.Sprintf("suite-%d-%d", i, k))
			args := []string{"run", "rfc2544", "--quick", "--quiet", "--out", out, "--set", "direction=lan-to-wan"}
			for _, s := range p.set {
				args = append(args, "--set", s)
			}
			if _, err := timed(ctx, binary, args...); err != nil {
				return failed, fmt.Errorf("%s: %w", p.name, err)
			}
			_, recs, err := result.Open(out)
			if err != nil {
				return failed, err
			}
			row, ok := p.check(recs)
			fmt.Printf("%-40s %s\n", p.name, row)
			if !ok {
				failed++
			}
		}
	}
	fmt.Println()
	return failed, nil
}

func (p plant) check(recs []result.Record) (row string, ok bool) {
	ok = true
	cell := func(width int, holds bool, format string, args ...any) {
		if !holds {
			format, ok = format+" !", false
		}
		row += fmt.Sprintf("%*s ", width, fmt.Sprintf(format, args...))
	}
	figure := func(procedure, metric string) float64 {
		for _, r := range recs {
			if r.Procedure == procedure && r.Parent == "" {
				if v := r.Value(metric); v != nil {
					return v.Value
				}
			}
		}
		return math.NaN()
	}
	burst, load := figure("back-to-back", "back_to_back_frames"), figure("back-to-back", "burst_rate_fps")
	passes := p.ahead * load / (load - p.rate)
	cell(24, math.Abs(burst/passes-1) <= burstOff, "%.0f/%.0f", burst, passes)

	worst, where, n := 0.0, "", 0
	for _, r := range recs {
		if result.Get(r.Config, "trial") != "loss-curve" || r.Status == result.Invalid || r.Load == nil {
			continue
		}
		offered := float64(r.Load.Offered)
		want := max(0, 1-p.rate/offered-p.ahead/float64(r.Account.Accepted))
		got := float64(r.Account.Lost()) / float64(r.Account.Accepted)
		if n++; math.Abs(got-want) >= math.Abs(worst) {
			worst, where = got-want, fmt.Sprintf("%.3f/%.3f", got, want)
		}
	}
	cell(24, n >= 3 && math.Abs(worst) <= lossOff, "%s of %d", where, n)

	recovery, drains := figure("recovery", "recovery_s"), p.waiting/p.rate
	cell(26, math.Abs(recovery-drains) <= max(recoveryMin, recoveryOff*drains), "%.2f/%.2f", recovery*1e3, drains*1e3)
	return strings.TrimRight(row, " "), ok
}
