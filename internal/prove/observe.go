// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"

	"boxdyno/result"
	"boxdyno/stat"
)

// What telemetry at 10 Hz may cost.
const (
	observerCPU    = 0.005 // of one core, in each run
	observerMemory = 25e6  // octets of anonymous memory, of the whole process
	observerRate   = 0.01  // of the forwarding rate, either way
)

// observed measures the forwarding rate n times with telemetry and n times without,
// in pairs in shuffled order, and returns how many of its claims fail: the interval of
// the pairs' ratio lies within observerRate of 1, and each record says that sampling
// cost no more than it may.
func observed(ctx context.Context, binary, dir string, n int, seed uint64) (failed int, err error) {
	random := rand.New(rand.NewPCG(seed, 2))
	var ratios, shares []float64
	var memory uint64
	for i := range n {
		rates := map[string]float64{}
		for _, k := range random.Perm(2) {
			telemetry := []string{"off", "on"}[k]
			out := filepath.Join(dir, "observe-"+telemetry+strconv.Itoa(i))
			if _, err := timed(ctx, binary, "run", "forward", "--quick", "--quiet", "--telemetry", telemetry, "--repeat", "3", "--set", "frame_size=64", "--set", "search=none", "--out", out); err != nil {
				return 0, err
			}
			run, recs, err := result.Open(out)
			if err != nil {
				return 0, err
			}
			var points []float64
			for _, r := range recs {
				if v := r.Value(overloadRate); r.Parent == "" && v != nil {
					points = append(points, v.Value)
				}
			}
			if len(points) == 0 {
				return 0, errors.New("no point has a rate under overload")
			}
			slices.Sort(points)
			rates[telemetry] = points[len(points)/2]
			for _, t := range run.Telemetry {
				shares, memory = append(shares, t.CPUShare), max(memory, t.Memory)
			}
		}
		ratios = append(ratios, rates["on"]/rates["off"])
	}
	s := stat.Summarize(ratios)
	most := slices.Max(shares)
	fmt.Printf("telemetry at 10 Hz in %d pairs, seed %d: the forwarding rate with it is %.4f of that without (%.4f to %.4f); sampling took %.2f %% of a core at most, %.2f %% in the median; %.1f MB of anonymous memory at most\n\n",
		n, seed, s.Center, s.Lo, s.Hi, most*100, stat.Summarize(shares).Center*100, float64(memory)/1e6)
	for _, holds := range []bool{s.Sure && s.Lo >= 1-observerRate && s.Hi <= 1+observerRate, most < observerCPU, memory < observerMemory} {
		if !holds {
			failed++
		}
	}
	return failed, nil
}
