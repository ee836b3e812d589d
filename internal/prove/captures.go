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

// captureSpread is by how much the most that a subject counts a second may differ among
// repeats, of their median.
const captureSpread = 0.05

// captures searches every subject's highest rate without loss once and the most that it
// counts a second times times, and returns how many of the claims fail: of each subject,
// the books close, what it counts at most lies within captureSpread, and there is a rate
// without loss; ours count as fast as every peer beside them.
func captures(ctx context.Context, binary, dir string, times int) (failed int, err error) {
	fmt.Printf("capturing programs, 64 octets, the most that they count %d times\n%-14s %26s %6s %26s %8s %12s\n", times, "subject", "without loss, frame/s", "valid", "counted at most, frame/s", "spread", "unexplained")
	fastest := map[string]float64{}
	for _, name := range slices.Concat(captureOurs, capturePeers) {
		run := func(what string, more ...string) ([]result.Record, error) {
			out := filepath.Join(dir, "captures-"+name+"-"+what)
			if _, err := timed(ctx, binary, slices.Concat([]string{"run", "capture", "--quick", "--quiet", "--set", "subject=" + name, "--set", "frame_size=64", "--out", out}, more)...); err != nil {
				return nil, err
			}
			_, recs, err := result.Open(out)
			return recs, err
		}
		searched, err := run("search", "--set", "rate=search")
		if err != nil {
			return failed, err
		}
		if slices.ContainsFunc(searched, func(r result.Record) bool { return r.Status == result.Skipped }) {
			fmt.Printf("%-14s skipped: it is not installed\n", name)
			continue
		}
		limit := "none"
		free := valuesOf(searched, "lossless_fps")
		if len(free) > 0 {
			limit = unit.SI(free[0].Value)
			if v := free[0]; v.Lo != nil && v.Hi != nil {
				limit = unit.SI(*v.Lo) + " to " + unit.SI(*v.Hi)
			}
		}
		overloaded, err := run("most", "--set", "rate=most", "--repeat", strconv.Itoa(times))
		if err != nil {
			return failed, err
		}
		var rates []float64
		for _, v := range valuesOf(overloaded, "counting_overload_fps") {
			rates = append(rates, v.Value)
		}
		over, spread, unexplained := stat.Summarize(rates), 0.0, int64(0)
		if over.N > 0 {
			spread = (slices.Max(rates) - slices.Min(rates)) / over.Center
		}
		for _, r := range slices.Concat(searched, overloaded) {
			if r.Account != nil && r.Status != result.Invalid {
				unexplained = max(unexplained, r.Account.Unexplained, -r.Account.Unexplained)
			}
		}
		fastest[name] = over.Center
		fmt.Printf("%-14s %26s %2d/%-3d %26s %7.1f%% %12d\n", name, limit, over.N, times, span(over), spread*100, unexplained)
		if over.N < times || spread > captureSpread || len(free) == 0 || unexplained > 0 {
			failed++
		}
	}
	k, err := besidePeers(ctx, binary, dir, times, fastest)
	return failed + k, err
}

// besidePeers offers ours and the peers the most that any of these counts, but those that
// count less than half of it, in turn, and returns how often one of ours counted less than a
// peer, their ranges apart.
func besidePeers(ctx context.Context, binary, dir string, times int, fastest map[string]float64) (failed int, err error) {
	var most float64
	for _, peer := range capturePeers {
		most = max(most, fastest[peer])
	}
	names := slices.Clone(captureOurs)
	for _, peer := range capturePeers {
		if fastest[peer] > most/2 {
			names = append(names, peer)
		}
	}
	out := filepath.Join(dir, "captures-beside")
	if _, err := timed(ctx, binary, "run", "capture", "--quick", "--quiet", "--set", "subject="+strings.Join(names, ","), "--set", "frame_size=64",
		"--set", fmt.Sprintf("rate=%.0f", most), "--set", "duration=2s", "--repeat", strconv.Itoa(times), "--out", out); err != nil {
		return 0, err
	}
	_, recs, err := result.Open(out)
	if err != nil {
		return 0, err
	}
	counted := map[string]stat.Summary{}
	fmt.Printf("in turn at %s frame/s\n", unit.SI(most))
	for _, name := range names {
		own := slices.DeleteFunc(slices.Clone(recs), func(r result.Record) bool { return result.Get(r.Config, "subject") != name })
		figures := func(metric string, factor float64) stat.Summary {
			var fs []float64
			for _, v := range valuesOf(own, metric) {
				fs = append(fs, v.Value*factor)
			}
			return stat.Summarize(fs)
		}
		counted[name] = figures("counting_rate_fps", 1)
		fmt.Printf("%-14s %26s frame/s, %4.0f ns a frame of its own, %4.0f ns of the host\n", name, span(counted[name]), figures("subject_cpu_per_frame_s", 1e9).Center, figures("host_cpu_per_frame_s", 1e9).Center)
	}
	for _, ours := range captureOurs {
		for _, peer := range names[len(captureOurs):] {
			if counted[peer].Lo > counted[ours].Hi {
				fmt.Printf("%s counts %.3g of what %s does\n", ours, counted[ours].Center/counted[peer].Center, peer)
				failed++
			}
		}
	}
	fmt.Println()
	return failed, nil
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
