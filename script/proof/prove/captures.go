// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"boxdyno/result"
	"boxdyno/stat"
	"boxdyno/unit"
)

// captureSubjects are the programs that capture; those that are not installed are left
// out, and ours are told from peers.
var (
	captureOurs  = []string{"af_packet", "af_xdp", "xdp"}
	capturePeers = []string{"tcpdump", "dumpcap", "libpcap", "tshark", "python-socket", "scapy", "pyshark", "pypcap", "pcapy-ng", "pcap-ct"}
)

// captureSpread is by how much what a subject counts a second under overload may differ
// among runs, of their median.
const captureSpread = 0.05

// captures searches every subject's highest rate without loss once, and overloads all of
// them in each of times runs. It returns how many of the claims fail: of each
// subject, the books close, what it counts under overload lies within captureSpread, and
// there is a rate without loss; none of ours counts less than a peer, their ranges apart.
func captures(ctx context.Context, binary, dir string, times int) (failed int, err error) {
	names := slices.Concat(captureOurs, capturePeers)
	run := func(what string, more ...string) ([]result.Record, error) {
		out := filepath.Join(dir, "captures-"+what)
		if _, err := timed(ctx, binary, slices.Concat([]string{"run", "capture", "--quick", "--quiet", "--set", "subject=" + strings.Join(names, ","), "--set", "frame_size=64", "--out", out}, more)...); err != nil {
			return nil, err
		}
		_, recs, err := result.Open(out)
		return recs, err
	}
	searched, err := run("search", "--set", "rate=search")
	if err != nil {
		return 0, err
	}
	var overloaded []result.Record
	for n := range times {
		recs, err := run(fmt.Sprintf("overload-%d", n+1), "--set", "rate=overload", "--seed", strconv.Itoa(n+1))
		if err != nil {
			return 0, err
		}
		overloaded = append(overloaded, recs...)
	}
	counted := map[string]stat.Summary{}
	fmt.Printf("capturing programs, 64 octets, overloaded in %d runs\n%-14s %26s %6s %32s %8s %10s %10s %12s\n", times,
		"subject", "without loss, frame/s", "valid", "counted under overload, frame/s", "spread", "own CPU", "host's", "unexplained")
	for _, name := range names {
		free, over := of(searched, name), of(overloaded, name)
		if !slices.ContainsFunc(free, func(r result.Record) bool { return r.Status != result.Skipped }) {
			fmt.Printf("%-14s skipped: it is not installed\n", name)
			continue
		}
		limits := valuesOf(free, "lossless_fps")
		limit := "none"
		if len(limits) > 0 {
			v := limits[0]
			if limit = unit.SI(v.Value); v.Lo != nil && v.Hi != nil {
				limit = unit.SI(*v.Lo) + " to " + unit.SI(*v.Hi)
			}
		}
		rates := figuresOf(over, "counting_overload_fps")
		c, spread, unexplained := stat.Summarize(rates), 0.0, int64(0)
		if c.N > 0 {
			spread = (slices.Max(rates) - slices.Min(rates)) / c.Center
		}
		for _, r := range slices.Concat(free, over) {
			if r.Account != nil && r.Status != result.Invalid {
				unexplained = max(unexplained, r.Account.Unexplained, -r.Account.Unexplained)
			}
		}
		counted[name] = c
		fmt.Printf("%-14s %26s %2d/%-3d %32s %7.1f%% %7.0f ns %7.0f ns %12d\n", name, limit, c.N, times, span(c), spread*100,
			1e9*stat.Summarize(figuresOf(over, "subject_cpu_per_frame_s")).Center, 1e9*stat.Summarize(figuresOf(over, "host_cpu_per_frame_s")).Center, unexplained)
		if c.N < times || spread > captureSpread || len(limits) == 0 || unexplained > 0 {
			failed++
		}
	}
	for _, ours := range captureOurs {
		for _, peer := range capturePeers {
			if counted[peer].Lo > counted[ours].Hi {
				fmt.Printf("%s counts %.3g of what %s does\n", ours, counted[ours].Center/counted[peer].Center, peer)
				failed++
			}
		}
	}
	fmt.Println()
	return failed, nil
}

// of are the records of a subject.
func of(recs []result.Record, subject string) []result.Record {
	return slices.DeleteFunc(slices.Clone(recs), func(r result.Record) bool { return result.Get(r.Config, "subject") != subject })
}

func figuresOf(recs []result.Record, metric string) (fs []float64) {
	for _, v := range valuesOf(recs, metric) {
		fs = append(fs, v.Value)
	}
	return fs
}

// valuesOf are the values of metric that measurements had, not the trials that they are of.
func valuesOf(recs []result.Record, metric string) (vs []result.Value) {
	for _, r := range recs {
		if v := r.Value(metric); v != nil && r.Parent == "" && r.Status != result.Invalid {
			vs = append(vs, *v)
		}
	}
	return vs
}

// span is a median with its least and greatest.
func span(s stat.Summary) string {
	if s.N == 0 {
		return "none"
	}
	return fmt.Sprintf("%s (%s to %s)", unit.SI(s.Center), unit.SI(s.Lo), unit.SI(s.Hi))
}
