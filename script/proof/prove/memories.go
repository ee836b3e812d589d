// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"boxdyno/result"
)

// A plantedBox in memory forwards rate frame/s without end, and keeps or lets pass memory
// frames more, once: as a policer's bucket, or in a queue.
type plantedBox struct {
	rate, ceiling, memory int
	policed               bool
}

// spans of memory that the table tells apart.
var spans = [...]string{"0 to 7 frames", "8 frames to 10 ms", "10 to 250 ms"}

func plantBox(rng *rand.Rand, most float64) plantedBox {
	rate := 1e3 * math.Exp(rng.Float64()*math.Log(most/1e3))
	memory := float64(rng.IntN(8))
	switch rng.IntN(3) {
	case 1:
		memory = max(8, rate*0.01*rng.Float64())
	case 2:
		memory = max(8, rate*(0.01+0.24*rng.Float64()))
	}
	return plantedBox{int(rate), int(rate * math.Exp(math.Log(1.5)+rng.Float64()*math.Log(4))), int(memory), rng.IntN(2) == 0}
}

func (b plantedBox) span() int {
	switch {
	case b.memory < 8:
		return 0
	case float64(b.memory) < 0.01*float64(b.rate):
		return 1
	}
	return 2
}

func (b plantedBox) set() []string {
	s := []string{"ceiling=" + strconv.Itoa(b.ceiling)}
	if b.policed {
		return append(s, "capacity=0", "dut.policer="+strconv.Itoa(b.rate), "dut.policer_burst="+strconv.Itoa(max(1, b.memory)))
	}
	return append(s, "capacity="+strconv.Itoa(b.rate), "queue="+strconv.Itoa(max(1, b.memory)))
}

// memories searches n random limits with memories in virtual time and returns 1 if fewer
// than 95 of 100 are found within share, or one is wrong and nothing is said of it.
func memories(ctx context.Context, binary, dir, name string, n int, most, share float64, seed uint64) (failed int, err error) {
	rng := rand.New(rand.NewPCG(seed, 0))
	type count struct{ cases, right, told, wrong int }
	var counts [len(spans)]count
	var least, highest [len(spans)]float64
	for range n {
		b := plantBox(rng, most)
		out := filepath.Join(dir, "memory")
		args := []string{"run", "throughput", "--lab", "mem", "--quiet", "--out", out, "--set", "search=" + name}
		for _, s := range b.set() {
			args = append(args, "--set", s)
		}
		if _, err := timed(ctx, binary, args...); err != nil {
			return failed, fmt.Errorf("%+v: %w", b, err)
		}
		_, recs, err := result.Open(out)
		if err != nil {
			return failed, err
		}
		if err := os.RemoveAll(out); err != nil {
			return failed, err
		}
		off, honest := b.judge(recs, share)
		i := b.span()
		c := &counts[i]
		c.cases++
		least[i], highest[i] = min(least[i], off), max(highest[i], off)
		switch {
		case math.Abs(off) <= share:
			c.right++
		case honest:
			c.told++
			fmt.Printf("%+v: off by %.2f %%, and says so\n", b, off*100)
		default:
			c.wrong++
			fmt.Printf("%+v: off by %.2f %%, without a word\n", b, off*100)
		}
	}
	fmt.Printf("limits of 1 k to %.0f k frame/s with memories, in virtual time, search %s, seed %d\n%-20s %7s %14s %18s %12s %18s\n", most/1e3, name, seed, "memory", "limits", fmt.Sprintf("within %g %%", share*100), "outside, and told", "wrong", "off, of the truth")
	right, wrong := 0, 0
	for i, c := range counts {
		fmt.Printf("%-20s %7d %14d %18d %12d %18s\n", spans[i], c.cases, c.right, c.told, c.wrong, fmt.Sprintf("%+.2f to %+.2f %%", least[i]*100, highest[i]*100))
		right, wrong = right+c.right, wrong+c.wrong
	}
	fmt.Println()
	if right*100 < 95*n || wrong > 0 {
		failed = 1
	}
	return failed, nil
}

// judge returns how far the throughput found is from the truth, and whether the outcome
// claims no more than is true.
func (b plantedBox) judge(recs []result.Record, share float64) (off float64, honest bool) {
	truth := float64(b.rate)
	for _, r := range recs {
		v := r.Value("throughput_fps")
		if r.Parent != "" {
			continue
		}
		honest = r.Status == result.Invalid || strings.Contains(strings.Join(r.Warnings, "; "), "too short to know")
		if v == nil {
			return -1, honest
		}
		high := math.Inf(1)
		if v.Hi != nil && v.Bound == result.Exactly {
			high = *v.Hi
		}
		return v.Value/truth - 1, honest || v.Value <= truth*(1+share) && high >= truth*(1-share)
	}
	return -1, false
}
