// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"boxdyno/result"
	"boxdyno/verdict"
)

// A planted bottleneck is what is set, and what an overload trial must be told to
// be limited by. The verdict sees a trial's record and environment, not the
// plant's name.
type planted struct {
	name string
	want verdict.Cause
	set  []string // beside direction=lan-to-wan
}

var bottlenecks = []planted{
	{"nothing: one CPU, one queue, no RPS", verdict.CauseCPU, []string{"frame_size=64"}},
	{"a ruleset of 1000 rules", verdict.CauseRules, []string{"frame_size=64", "service=filter", "rules=1000"}},
	{"another program on the DUT's CPU", verdict.CauseBusyCore, []string{"frame_size=64", "dut.fault=busy-core"}},
	{"a policer of 100 kframe/s", verdict.CausePolicer, []string{"frame_size=64", "dut.policer=100k"}},
	{"a shaper of 100 Mbit/s", verdict.CauseShaper, []string{"frame_size=512", "dut.shaper=100Mbps"}},
	{"every fourth frame lost", verdict.CausePlantedLoss, []string{"frame_size=64", "dut.loss=every:4"}},
	{"a full connection table", verdict.CauseTableFull, []string{"frame_size=64", "dut.fault=conntrack-full"}},
	{"an MTU of 1280 behind", verdict.CauseMTU, []string{"frame_size=1518", "dut.fault=mtu"}},
	{"asymmetric routes", verdict.CauseReversePath, []string{"frame_size=64", "dut.fault=rp-filter"}},
	{"a neighbour that is silent", verdict.CauseNeighbour, []string{"frame_size=64", "dut.fault=neighbour"}},
	{"a blackhole route", verdict.CauseRoute, []string{"frame_size=64", "dut.fault=blackhole"}},
	{"forwarding off", verdict.CauseForwardingOff, []string{"frame_size=64", "dut.fault=forwarding-off"}},
	{"a link at 100 Mbit/s", verdict.CauseLineRate, []string{"frame_size=1518", "link_rate=100Mbps"}},
	{"a tester that is too slow (100 Gbit/s of 64 B)", verdict.CauseTester, []string{"frame_size=64", "link_rate=100Gbps"}},
	{"one CPU for tester and DUT", verdict.CauseShared, []string{"frame_size=64", "placement=shared"}},
}

// names plants every bottleneck, looks at trials overload trials of each, and
// returns how many were not named right in most of them. The table goes to
// standard output.
func names(ctx context.Context, binary, dir string, trials int) (failed int, err error) {
	var b strings.Builder
	b.WriteString("| planted | should be named | was named, of its trials |\n|---|---|---|\n")
	for i, p := range bottlenecks {
		out := filepath.Join(dir, fmt.Sprintf("bottleneck%d", i))
		run, recs, err := overloads(ctx, binary, out, trials, p.set)
		if err != nil {
			return failed, fmt.Errorf("%s: %w", p.name, err)
		}
		count := map[verdict.Cause]int{}
		total := 0
		for _, r := range recs {
			cause, sentence := verdict.Cause("no limit"), ""
			if l := verdict.Limits(verdict.Case{Record: r, Environment: run.Environments[0]}); len(l) > 0 {
				cause, sentence = l[0].Cause, l[0].Sentence
			}
			if count[cause] == 0 {
				fmt.Printf("%s -> %s: %s\n", p.name, cause, sentence)
			}
			count[cause]++
			total++
		}
		if 2*count[p.want] <= total {
			failed++
		}
		var was []string
		for _, c := range append(slices.Clone(verdict.Causes), "no limit") {
			if count[c] > 0 {
				was = append(was, fmt.Sprintf("%s %d", c, count[c]))
			}
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", p.name, p.want, strings.Join(was, ", "))
	}
	fmt.Printf("\n%s\n", b.String())
	return failed, nil
}

// overloads runs forward until it has finished so many overload trials, and
// interrupts it then.
func overloads(ctx context.Context, binary, out string, trials int, set []string) (run result.Run, found []result.Record, err error) {
	args := []string{"run", "forward", "--quick", "--quiet", "--out", out, "--set", "direction=lan-to-wan"}
	for _, s := range set {
		args = append(args, "--set", s)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return run, nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	over := false
	for {
		select {
		case err = <-ended:
			over = true
		case <-time.After(50 * time.Millisecond):
		}
		if over || overloadsIn(out) >= trials {
			break
		}
	}
	if !over {
		cancel()
		err = <-ended
	}
	run, recs, rerr := result.Open(out)
	if rerr != nil {
		return run, nil, errors.Join(err, rerr, errors.New(strings.TrimSpace(said.String())))
	}
	for _, r := range recs {
		if isOverload(r) && len(found) < trials {
			found = append(found, r)
		}
	}
	if len(found) == 0 {
		return run, nil, fmt.Errorf("no overload trial was finished (%w): %s", err, strings.TrimSpace(said.String()))
	}
	return run, found, nil
}

func isOverload(r result.Record) bool {
	return r.Finished() && r.Account != nil && result.Get(r.Config, "trial") == "overload"
}

// overloadsIn is how many overload trials stand in a bundle so far.
func overloadsIn(out string) (n int) {
	_, recs, err := result.Open(out)
	if err != nil {
		return 0 // not begun
	}
	for _, r := range recs {
		if isOverload(r) {
			n++
		}
	}
	return n
}
