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
	captureOurs  = []string{"af_packet", "af_xdp"}
	capturePeers = []string{"tcpdump", "dumpcap", "libpcap", "tshark", "python-socket", "scapy", "pyshark", "pypcap", "pcapy-ng", "pcap-ct"}
)

// captureSpread is by how much counting rates under overload may differ among repeats,
// of their median.
const captureSpread = 0.05

// captures measures every subject times times and returns how many of the claims fail:
// of each subject, the books close, counting rates under overload lie within
// captureSpread, and there is a lossless rate; ours count as fast as every peer.
func captures(ctx context.Context, binary, dir string, times int) (failed int, err error) {
	all := slices.Concat(captureOurs, capturePeers)
	out := filepath.Join(dir, "captures")
	if _, err := timed(ctx, binary, "run", "capture", "--quick", "--quiet", "--repeat", strconv.Itoa(times), "--set", "subject="+strings.Join(all, ","), "--set", "frame_size=64", "--set", "rate=search", "--out", out); err != nil {
		return 0, err
	}
	_, recs, err := result.Open(out)
	if err != nil {
		return 0, err
	}
	fmt.Printf("capturing programs, %d times each, 64 octets\n%-14s %6s %26s %8s %26s %12s\n", times, "subject", "valid", "under overload, frame/s", "spread", "without loss, frame/s", "unexplained")
	fastest := map[string]float64{}
	for _, name := range all {
		var rates, lossless []float64
		valid, skipped := 0, false
		unexplained := int64(0)
		for _, r := range recs {
			if result.Get(r.Config, "subject") != name && !strings.HasPrefix(r.Parent, "capture/"+name+"/") {
				continue
			}
			switch {
			case r.Parent != "" && r.Account != nil && r.Status != result.Invalid:
				unexplained = max(unexplained, r.Account.Unexplained, -r.Account.Unexplained)
			case r.Parent != "" || r.Procedure != "capture":
			case r.Status == result.Skipped:
				skipped = true
			default:
				if v := r.Value("counting_overload_fps"); v != nil {
					rates = append(rates, v.Value)
				}
				if v := r.Value("lossless_fps"); v != nil {
					lossless = append(lossless, v.Value)
				}
				if r.Status != result.Invalid {
					valid++
				}
			}
		}
		if skipped {
			fmt.Printf("%-14s skipped: it is not installed\n", name)
			continue
		}
		over, free := stat.Summarize(rates), stat.Summarize(lossless)
		spread := 0.0
		if over.Center > 0 {
			spread = (slices.Max(rates) - slices.Min(rates)) / over.Center
		}
		fastest[name] = over.Center
		fmt.Printf("%-14s %2d/%-3d %26s %7.1f%% %26s %12d\n", name, valid, times, span(over), spread*100, span(free), unexplained)
		if len(rates) < times || spread > captureSpread || len(lossless) < times || unexplained > 0 {
			failed++
		}
	}
	for _, ours := range captureOurs {
		for _, peer := range capturePeers {
			if fastest[peer] > fastest[ours] {
				fmt.Printf("%s counts %.3g of what %s does\n", ours, fastest[ours]/fastest[peer], peer)
				failed++
			}
		}
	}
	fmt.Println()
	return failed, nil
}

// span is a median with its least and greatest.
func span(s stat.Summary) string {
	if s.N == 0 {
		return "none"
	}
	return fmt.Sprintf("%s (%s to %s)", unit.SI(s.Center), unit.SI(s.Lo), unit.SI(s.Hi))
}
