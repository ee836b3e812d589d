// SPDX-License-Identifier: Apache-2.0

// Command prove runs the proofs that take too long for every test run, and
// prints their tables: whether repeated qualifications agree, whether runs that
// were killed leave nothing and go on where they were, whether compare tells a
// slower box from the same one, whether planted bottlenecks are named, whether the
// suite agrees with what it must find, whether known limits are found, whether
// telemetry disturbs, whether generated rules cost what real ones do, whether a large
// library is fast and its alarms are Apache Otava's, whether viewers disturb, whether other
// programs read our files, and what boxes behind emulated NICs do.
// script/prove sets up and runs it as root.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// How often each proof repeats what it looks at; 0 leaves it out.
type times struct {
	runs, kills, compares, bottlenecks, suites, limits, csit, bisect, memories, memoriesCSIT, disturbed, killTune, ablations, captures, observed, far, rules, killBox, bundles, otava, viewers, formats int
}

func main() {
	var n times
	flag.IntVar(&n.runs, "runs", 10, "qualifications in a row; 0, here and below: leave them out")
	flag.IntVar(&n.kills, "kills", 20, "runs killed at random moments")
	flag.IntVar(&n.compares, "compares", 16, "runs of each side whose comparison is tried")
	flag.IntVar(&n.bottlenecks, "bottlenecks", 10, "overload trials of each planted bottleneck, which must be named")
	flag.IntVar(&n.suites, "suites", 2, "runs of RFC 2544's suite against each plant whose bursts and losses are known")
	flag.IntVar(&n.limits, "limits", 50, "times that each known limit is searched with search quick")
	flag.IntVar(&n.csit, "limits-csit", 3, "times with search csit")
	flag.IntVar(&n.bisect, "limits-bisect", 3, "times with search bisect, for its traffic")
	flag.IntVar(&n.memories, "memories", 1000, "random limits with memories that are searched in virtual time with search quick; needs no root")
	flag.IntVar(&n.memoriesCSIT, "memories-csit", 100, "the same with search csit")
	flag.IntVar(&n.disturbed, "disturbed", 200, "times that a known limit is searched while other programs take the CPUs now and then")
	flag.IntVar(&n.killTune, "kill-tune", 100, "times that tune apply, tune revert, run --tune and tune ablate are killed at random moments")
	flag.IntVar(&n.killBox, "kill-box", 100, "times that the tester or the agent of a run on a box is killed at random moments")
	flag.IntVar(&n.ablations, "ablations", 2, "ablations of a recipe with planted knobs, with route and nat in turn, which must be judged right")
	flag.IntVar(&n.captures, "captures", 5, "times that each installed program that captures is overloaded, after its highest rate was searched")
	flag.IntVar(&n.observed, "observed", 600, "pairs of trials with and without telemetry, whose forwarding rates must agree")
	flag.IntVar(&n.far, "observed-far", 12, "pairs of runs on a box behind virtual cables, with and without its telemetry, whose forwarding rates must agree")
	flag.IntVar(&n.rules, "rules", 3, "seeds with which generated rules must cost Suricata what real ones do (needs "+realRules+")")
	flag.IntVar(&n.bundles, "library", mostBundles, "bundles of a library whose index and histories are timed; needs no root")
	flag.IntVar(&n.otava, "otava", 300, "drawn series whose changes of level must be those that Apache Otava finds; needs no root")
	flag.IntVar(&n.viewers, "viewers", 8, "pairs of runs with three viewers of boxdyno serve and without, whose throughput must agree")
	flag.IntVar(&n.formats, "formats", 1, "times that real runs are written for sbc-bench, the Phoronix Test Suite and Python's package iperf3")
	phoronix := flag.String("phoronix", phoronixSource, "git repository with the Phoronix Test Suite, which -formats has read our files; it needs php-cli and php-xml")
	models := flag.String("boards", "", "models of ports of script/boards, with commas, on which a box does every row; nothing else is proven then")
	arch := flag.String("board-arch", "amd64", "processor of those boards, and of a box that is killed on")
	killedPorts := flag.String("kill-box-ports", cables, "model of ports of the box that -kill-box kills on")
	pairs := flag.String("board-pair", "", "models of ports, with commas, of a cable between two emulated boards, which carry streams and tunnels; nothing else is proven then")
	shelf := flag.Int("board-fleet", 0, "number of emulated boards of a fleet on one switch; nothing else is proven then")
	rows := flag.String("board-rows", "", "rows of -boards, or runs of -board-fleet, with commas; all by default")
	fleets := flag.String("fleet", "", "numbers of simulated boards, with commas, of a fleet each: start, memory, losses; nothing else is proven then, and no root is needed")
	fleetOf, boardsIn, url := flag.String("fleet-hub", "", "be their hub, in this folder"), flag.String("fleet-boards", "", "be boards, in this folder"), flag.String("fleet-url", "", "of their hub")
	faults := flag.Int("fleet-faults", 0, "number of simulated boards of a fleet in which things break; nothing else is proven then, and no root is needed")
	listen, clock := flag.String("fleet-listen", "127.0.0.1:0", "of -fleet-hub: where it listens"), flag.Duration("fleet-clock", 0, "of -fleet-boards: how far their clocks are ahead")
	disturber := flag.Bool("disturb", false, "be those programs")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the random moments")
	flag.Parse()
	if *disturber {
		disturb()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	var err error
	switch {
	case *fleetOf != "":
		err = fleetHub(ctx, *fleetOf, *listen)
	case *boardsIn != "":
		err = fleetBoards(ctx, *boardsIn, *url, *clock)
	case *fleets != "":
		err = proveFleet(ctx, strings.Split(*fleets, ","))
	case *faults != 0:
		err = proveFleetFaults(ctx, *faults)
	case *models != "":
		err = proveBoards(func(dir string) (int, error) { return onBoards(ctx, dir, *arch, words(*models), words(*rows)) })
	case *pairs != "":
		err = proveBoards(func(dir string) (int, error) { return boardPairs(ctx, dir, *arch, words(*pairs)) })
	case *shelf != 0:
		err = proveBoards(func(dir string) (int, error) { return boardFleet(ctx, dir, *arch, *shelf, words(*rows)) })
	default:
		err = prove(ctx, n, *killedPorts, *arch, *phoronix, *seed)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "prove:", err)
		os.Exit(1)
	}
}

func words(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' })
}

func proveBoards(on func(dir string) (failed int, err error)) error {
	dir, err := os.MkdirTemp("", "boxdyno-prove-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	failed, err := on(dir)
	if err == nil && failed > 0 {
		err = fmt.Errorf("%d cells do not work, or have unexplained frames", failed)
	}
	return err
}

func prove(ctx context.Context, n times, ports, arch, phoronix string, seed uint64) error {
	dir, err := os.MkdirTemp("", "boxdyno-prove-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "boxdyno")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", binary, "./cmd/boxdyno")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build boxdyno: %w", err)
	}
	failed := 0
	for _, p := range []struct {
		times int
		prove func(times int) (failed int, err error)
	}{
		{n.runs, func(k int) (int, error) { return repeatability(ctx, binary, dir, k) }},
		{n.kills, func(k int) (int, error) { return killed(ctx, binary, dir, k, seed) }},
		{n.compares, func(k int) (int, error) { return compares(ctx, binary, dir, k, seed) }},
		{n.bottlenecks, func(k int) (int, error) { return names(ctx, binary, dir, k) }},
		{n.suites, func(k int) (int, error) { return suites(ctx, binary, dir, k) }},
		{n.limits, func(k int) (int, error) { return limitsFound(ctx, binary, dir, "quick", k) }},
		{n.csit, func(k int) (int, error) { return limitsFound(ctx, binary, dir, "csit", k) }},
		{n.bisect, func(k int) (int, error) { return limitsFound(ctx, binary, dir, "bisect", k) }},
		{n.memories, func(k int) (int, error) { return memories(ctx, binary, dir, "quick", k, 500e3, 0.01, seed) }},
		{n.memoriesCSIT, func(k int) (int, error) { return memories(ctx, binary, dir, "csit", k, 50e3, 0.005, seed) }},
		{n.killTune, func(k int) (int, error) { return tuneKilled(ctx, binary, dir, k, seed) }},
		{n.killBox, func(k int) (int, error) { return boxKilled(ctx, dir, ports, arch, k, seed) }},
		{n.ablations, func(k int) (int, error) { return ablated(ctx, binary, dir, k) }},
		{n.captures, func(k int) (int, error) { return captures(ctx, binary, dir, k) }},
		{n.observed, func(k int) (int, error) { return observed(ctx, binary, dir, k, seed) }},
		{n.far, func(k int) (int, error) { return observedFar(ctx, dir, k, seed) }},
		{n.rules, func(k int) (int, error) { return rulesCost(ctx, binary, dir, k) }},
		{n.bundles, func(k int) (int, error) { return library(ctx, binary, dir, k, seed) }},
		{n.otava, func(k int) (int, error) { return asOtava(ctx, dir, k, seed) }},
		{n.viewers, func(k int) (int, error) { return watchers(ctx, binary, dir, k, seed) }},
		{n.formats, func(k int) (int, error) { return formats(ctx, binary, dir, phoronix, k) }},
		{n.disturbed, func(k int) (int, error) { return disturbed(ctx, binary, dir, k) }},
	} {
		if p.times == 0 {
			continue
		}
		k, err := p.prove(p.times)
		if err != nil {
			return err
		}
		failed += k
	}
	if failed > 0 {
		return fmt.Errorf("%d claims do not hold", failed)
	}
	return nil
}
