// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"

	"boxdyno/result"
	"boxdyno/unit"
)

// A knownLimit is planted in the DUT.
type knownLimit struct {
	name string
	rate float64 // frame/s that pass without end
	set  []string
}

// limits hold at least what their rate brings in 10 ms: while a virtual machine stands still,
// 1 ms and more at a time, a smaller bucket is full before it has what the rate
// would bring, and the box carries less than its limit.
var limits = []knownLimit{
	policer(50_000, 10), policer(187_000, 10), policer(187_000, 100), policer(187_000, 250), policer(250_000, 10), policer(700_000, 10),
	{"nftables rule 100 kframe/s", 100_000, []string{"frame_size=64", "dut.rule=100000", "dut.rule_burst=1000"}},
	{"shaper 100 Mbit/s, 512 B", 100e6 / 8 / 512, []string{"frame_size=512", "dut.shaper=100Mbps", "dut.shaper_burst=12500", "dut.shaper_queue=112500"}},
	{"the same, queue of 100 ms", 100e6 / 8 / 512, []string{"frame_size=512", "dut.shaper=100Mbps", "dut.shaper_burst=12500", "dut.shaper_queue=1250000"}},
}

// policer has a bucket of so many ms of its rate.
func policer(rate, ms int) knownLimit {
	r := strconv.Itoa(rate)
	return knownLimit{fmt.Sprintf("policer %sframe/s, %d ms", unit.SI(float64(rate)), ms), float64(rate), []string{"frame_size=64", "dut.policer=" + r, "dut.policer_burst=" + strconv.Itoa(rate*ms/1000)}}
}

// off is how far from the truth a limit may be found.
const off = 0.005

// A tally is what searches said of a limit.
type tally struct {
	found   []float64 // lower bounds, as shares of the truth
	right   int       // within off of the truth
	wrong   int       // sure of bounds that the truth is not between
	unsure  int       // no lower bound, or one far from the truth with an upper bound above it
	traffic time.Duration
}

// limitsFound searches every known limit times times with the named search and
// returns how many were not found within off of the truth each time.
func limitsFound(ctx context.Context, binary, dir, name string, times int) (failed int, err error) {
	fmt.Printf("known limits, search %s, %d times each\n%-28s %10s %12s %22s %8s %14s\n", name, times, "limit", "truth", "within 0.5 %", "found, of the truth", "wrong", "traffic, each")
	for _, l := range limits {
		t, truth, err := l.search(ctx, binary, dir, name, times)
		if err != nil {
			return failed, fmt.Errorf("%s: %w", l.name, err)
		}
		fmt.Println(t.row(l.name, truth, times))
		if t.right < times {
			failed++
		}
	}
	fmt.Println()
	return failed, nil
}

// disturbed searches a known limit times times while other programs take the
// CPUs now and then, and returns 1 if more than 1 % of the searches were sure of
// bounds that the truth is not between.
func disturbed(ctx context.Context, binary, dir string, times int) (failed int, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	hog := exec.CommandContext(ctx, os.Args[0], "-disturb")
	hog.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := hog.Start(); err != nil {
		return 0, fmt.Errorf("disturb: %w", err)
	}
	defer func() { hog.Process.Kill(); hog.Wait() }()
	l := policer(187_000, 10)
	t, truth, err := l.search(ctx, binary, dir, "quick", times)
	if err != nil {
		return 0, err
	}
	fmt.Printf("the same under disturbance, search quick, %d times\n%s\n\n", times, t.row(l.name, truth, times))
	if t.wrong*100 > times {
		failed++
	}
	return failed, nil
}

func (t tally) row(name string, truth float64, times int) string {
	between := "-"
	if len(t.found) > 0 {
		slices.Sort(t.found)
		between = fmt.Sprintf("%.4f to %.4f", t.found[0], t.found[len(t.found)-1])
	}
	return fmt.Sprintf("%-28s %10s %5d of %3d %22s %8d %14s", name, unit.SI(truth), t.right, times, between, t.wrong, (t.traffic / time.Duration(times)).Round(10*time.Millisecond))
}

// search is what the named search says of a limit, and the limit's truth in frame/s.
func (l knownLimit) search(ctx context.Context, binary, dir, name string, times int) (t tally, truth float64, err error) {
	truth = l.rate
	out, err := os.MkdirTemp(dir, "limits-")
	if err != nil {
		return t, 0, err
	}
	out = filepath.Join(out, "run")
	args := []string{"run", "throughput", "--quick", "--quiet", "--repeat", strconv.Itoa(times), "--out", out, "--set", "search=" + name}
	for _, s := range l.set {
		args = append(args, "--set", s)
	}
	if _, err := timed(ctx, binary, args...); err != nil {
		return t, 0, err
	}
	_, recs, err := result.Open(out)
	if err != nil {
		return t, 0, err
	}
	for _, r := range recs {
		if result.Get(r.Config, "trial") == "search" && r.Status != result.Running {
			for _, p := range r.Phases {
				if p.Name == "traffic" {
					t.traffic += time.Duration(p.End - p.Begin)
				}
			}
		}
		if r.Parent != "" {
			continue
		}
		v := r.Value("throughput_fps")
		switch {
		case v == nil || v.Lo == nil || r.Status == result.Invalid:
			t.unsure++
			continue
		}
		t.found = append(t.found, *v.Lo/truth)
		switch {
		case *v.Lo > truth*(1+off) || v.Hi != nil && *v.Hi < truth*(1-off):
			t.wrong++
		case *v.Lo >= truth*(1-off):
			t.right++
		default:
			t.unsure++
		}
	}
	return t, truth, nil
}

// disturb takes a tenth of the time of each CPU, for 1 to 40 ms at a time, until
// it is killed.
func disturb() {
	for range runtime.NumCPU() {
		go func() {
			for {
				busy := time.Duration(1+rand.IntN(40)) * time.Millisecond
				for end := time.Now().Add(busy); time.Now().Before(end); {
				}
				time.Sleep(9 * busy)
			}
		}()
	}
	select {}
}
