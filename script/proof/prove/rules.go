// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"boxdyno/result"
	"boxdyno/stat"
)

const (
	// realRules is the file that generated rules are compared with. It is no part of the
	// project.
	realRules = "../shared/rules/et-open-2020.rules.gz"

	// rulesOff is how far CPU a frame with generated rules may be from that with real
	// ones, as a share of it.
	rulesOff = 0.20
)

// rulesCost runs Suricata in the sandbox with generated and with real rules, in pairs whose
// order is shuffled, times times with another seed each. It returns for how many numbers of
// rules the medians of its CPU time a frame are further apart than rulesOff.
func rulesCost(ctx context.Context, binary, dir string, times int) (failed int, err error) {
	if _, err := os.Stat(realRules); errors.Is(err, fs.ErrNotExist) {
		fmt.Printf("generated rules beside real ones: left out, for there is no %s\n\n", realRules)
		return 0, nil
	}
	numbers := []string{"1000", "10000", "18000"}
	cpu := map[[2]string][]float64{}
	for k := range times {
		out := filepath.Join(dir, fmt.Sprintf("rules-%d", k))
		args := []string{"run", "ids", "--quick", "--quiet", "--out", out, "--seed", strconv.Itoa(k + 1), "--set", "rules_seed=" + strconv.Itoa(k+1),
			"--set", "rate=60Mbps", "--set", "rules=" + numbers[0] + "," + numbers[1] + "," + numbers[2], "--set", "rules_file=generated," + realRules}
		if _, err := timed(ctx, binary, args...); err != nil {
			return failed, err
		}
		_, recs, err := result.Open(out)
		if err != nil {
			return failed, err
		}
		for _, r := range recs {
			if v := r.Value("subject_cpu_per_frame_s"); v != nil && r.Procedure == "ids" && r.Parent == "" {
				key := [2]string{result.Get(r.Config, "rules"), result.Get(r.Config, "rules_file")}
				cpu[key] = append(cpu[key], v.Value)
			}
		}
	}
	fmt.Printf("Suricata's CPU a frame at 60 Mbit/s of the application mix, %d seeds\n%8s %14s %14s %8s\n", times, "rules", "real, µs", "generated, µs", "ratio")
	for _, n := range numbers {
		real, generated := stat.Summarize(cpu[[2]string{n, realRules}]).Center, stat.Summarize(cpu[[2]string{n, "generated"}]).Center
		ratio, mark := generated/real, ""
		if !(math.Abs(ratio-1) <= rulesOff) {
			failed++
			mark = " !"
		}
		fmt.Printf("%8s %14.2f %14.2f %8.2f%s\n", n, real*1e6, generated*1e6, ratio, mark)
	}
	fmt.Println()
	return failed, nil
}
