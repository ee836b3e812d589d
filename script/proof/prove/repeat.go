// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"boxdyno/report"
	"boxdyno/result"
	"boxdyno/unit"
)

// repeatability qualifies the machine runs times in a row and returns how many
// of its claims fail:
//
//   - in every trial every frame is explained,
//   - forwarding rates of one row, and the rates of drop services, differ by less
//     than 10 %,
//   - no throughput interval contradicts the one of the run before.
func repeatability(ctx context.Context, binary, dir string, runs int) (failed int, err error) {
	type row struct {
		rates []float64
		lo    []float64
		hi    []float64
		sharp int
	}
	rows := map[string]*row{}
	var order []string
	trials, open := 0, 0
	var slowest time.Duration
	for n := range runs {
		out := filepath.Join(dir, "run"+strconv.Itoa(n))
		start := time.Now()
		doc, err := qualify(ctx, binary, out)
		if err != nil {
			return 0, err
		}
		slowest = max(slowest, time.Since(start))
		_, recs, err := result.Open(out)
		if err != nil {
			return 0, err
		}
		for _, r := range recs {
			if r.Parent == "" || r.Account == nil {
				continue
			}
			trials++
			if r.Account.Unexplained != 0 {
				open++
				fmt.Printf("run %d: %s: unexplained %d, settled %v, drops %v\n", n+1, r.ID, r.Account.Unexplained, r.Account.Settled, r.Account.Drops)
			}
		}
		fmt.Printf("run %d of %d: %s in %.0f s: %s\n", n+1, runs, doc.Verdict, time.Since(start).Seconds(), doc.Sentence)
		for _, r := range doc.Rows {
			key := fmt.Sprintf("%s/%d/%d %s %s", r.Service, r.Rules, r.Flows, r.Direction, r.FrameSize)
			if rows[key] == nil {
				rows[key] = &row{}
				order = append(order, key)
			}
			w := rows[key]
			rate := r.ForwardingFPS
			if r.DropFPS != nil {
				rate = r.DropFPS
			}
			if rate != nil {
				w.rates = append(w.rates, *rate)
			}
			if r.ThroughputFPS != nil {
				hi := math.Inf(1)
				if r.ThroughputFPSHi != nil {
					hi = *r.ThroughputFPSHi
				}
				w.lo, w.hi = append(w.lo, *r.ThroughputFPS), append(w.hi, hi)
				if hi < 1.05**r.ThroughputFPS {
					w.sharp++
				}
			}
		}
	}

	fmt.Printf("\n%-38s %10s %8s   %-22s %s\n", "row", "rate", "spread", "throughput, all runs", "contradictions")
	for _, key := range order {
		w := rows[key]
		slices.Sort(w.rates)
		spread := math.NaN()
		median := math.NaN()
		if len(w.rates) > 0 {
			median = w.rates[len(w.rates)/2]
			spread = (w.rates[len(w.rates)-1] - w.rates[0]) / median
		}
		contradictions := 0
		for i := 1; i < len(w.lo); i++ {
			if w.lo[i] > w.hi[i-1] || w.hi[i] < w.lo[i-1] {
				contradictions++
			}
		}
		if len(w.rates) < runs || !(spread < 0.10) {
			failed++
		}
		if contradictions > 0 {
			failed++
		}
		interval := "-"
		if len(w.lo) > 0 {
			interval = fmt.Sprintf("%s to %s, sharp %d", unit.SI(slices.Min(w.lo)), unit.SI(slices.Max(w.hi)), w.sharp)
		}
		fmt.Printf("%-38s %10s %7.1f%%   %-30s %d\n", key, unit.SI(median), spread*100, interval, contradictions)
	}
	fmt.Printf("\n%d trials with an account, %d not closed; the slowest run took %.0f s\n\n", trials, open, slowest.Seconds())
	if open > 0 {
		failed++
	}
	if slowest > 90*time.Second {
		failed++
	}
	return failed, nil
}

// qualify runs the quick firewall role into out. A verdict of failed or invalid
// is a result.
func qualify(ctx context.Context, binary, out string) (report.Document, error) {
	var doc report.Document
	cmd := exec.CommandContext(ctx, binary, "qualify", "firewall", "--quick", "--json", "--quiet", "--out", out)
	cmd.Stderr = os.Stderr
	data, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && (exit.ExitCode() == 1 || exit.ExitCode() == 4) {
		err = nil
	}
	if err != nil {
		return doc, fmt.Errorf("qualify: %w", err)
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return doc, fmt.Errorf("read qualify's document: %w", err)
	}
	return doc, nil
}
