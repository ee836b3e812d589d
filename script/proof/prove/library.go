// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"boxdyno/result"
	"boxdyno/store"
)

// What a library of mostBundles is asked for.
const (
	mostBundles  = 10_000
	mostRecords  = 1_000_000
	longestIndex = 60 * time.Second
	longestQuery = 50 * time.Millisecond
	longestSize  = 5 * time.Second
	queries      = 20
)

// library makes a library of n bundles, each with the records of one that is measured in
// memory, and returns how many of its claims fail: that all of them are indexed within
// a minute, that the history of one metric over all takes 50 ms, and that boxdyno size takes 5 s
// for them.
func library(ctx context.Context, binary, dir string, n int, seed uint64) (failed int, err error) {
	random := rand.New(rand.NewPCG(seed, 1))
	state := filepath.Join(dir, "library")
	runs := filepath.Join(state, "boxdyno", "runs")
	defer os.RemoveAll(state)
	one := filepath.Join(dir, "library-template")
	if _, err := timed(ctx, binary, "run", "forward", "--lab", "mem", "--quick", "--quiet", "--set", "service=filter", "--set", "frame_size=64,128,512,1518", "--out", one); err != nil {
		return 0, err
	}
	run, recs, err := result.Open(one)
	if err != nil {
		return 0, err
	}
	run.Kind = "real"                         // size counts no simulated box
	for len(recs)*mostBundles < mostRecords { // trials once more, under other names
		for _, r := range slices.Clone(recs) {
			if r.Parent != "" && len(recs)*mostBundles < mostRecords {
				r.ID = fmt.Sprint(r.ID, "+", len(recs))
				recs = append(recs, r)
			}
		}
	}
	octets := 0
	for i := range n {
		k, err := keepDrawn(random, runs, i, run, recs)
		if err != nil {
			return 0, err
		}
		octets += k
	}
	fmt.Printf("a library of %d bundles with %d records, %d MB, seed %d\n", n, n*len(recs), octets>>20, seed)
	boxdyno := func(args ...string) *exec.Cmd {
		c := exec.CommandContext(ctx, binary, args...)
		c.Env = append(os.Environ(), "XDG_STATE_HOME="+state, "SUDO_UID=")
		c.Stderr = os.Stderr
		return c
	}
	index := boxdyno("index", "--quiet")
	index.Stdout = os.Stdout
	begun := time.Now()
	if err := index.Run(); err != nil {
		return 0, fmt.Errorf("index: %w", err)
	}
	took, cpu := time.Since(begun), index.ProcessState.UserTime()+index.ProcessState.SystemTime()

	x, err := store.Open(ctx, filepath.Join(state, "boxdyno", "index.db"))
	if err != nil {
		return 0, err
	}
	defer x.Close()
	var each []time.Duration
	for range queries {
		begun := time.Now()
		h, err := x.History(ctx, store.Query{Metric: "throughput_fps", Where: []result.Pair{{Key: "frame_size", Value: "64"}}})
		if err != nil {
			return 0, err
		}
		if len(h.Series) != 1 || len(h.Series[0].Points) != n {
			return 0, fmt.Errorf("the history has %d series: the library is not the one that was made", len(h.Series))
		}
		each = append(each, time.Since(begun))
	}
	slices.Sort(each)
	median := each[len(each)/2]
	fmt.Printf("indexed in %.1f s, with %.1f s of CPU time; the history of one metric over all in %.0f ms (median of %d, the least %.0f ms)\n", took.Seconds(), cpu.Seconds(), 1000*median.Seconds(), queries, 1000*each[0].Seconds())
	begun = time.Now()
	sized, err := boxdyno("size", "--for", "firewall", "--csv", "--quiet").Output()
	if err != nil {
		return 0, fmt.Errorf("size: %w", err)
	}
	size := time.Since(begun)
	fmt.Printf("size over all in %.1f s\n", size.Seconds())
	if !bytes.Contains(sized, []byte(",own,")) || size > longestSize {
		fmt.Printf("FAILED: size takes more than %.0f s, or has no own figure: %s\n", longestSize.Seconds(), sized)
		failed++
	}
	if allowed := time.Duration(float64(longestIndex) * float64(n) / mostBundles); took > allowed {
		fmt.Printf("FAILED: indexing takes more than %.0f s\n", allowed.Seconds())
		failed++
	}
	if median > longestQuery {
		fmt.Printf("FAILED: the history takes more than %d ms\n", longestQuery.Milliseconds())
		failed++
	}
	return failed, nil
}

// keepDrawn keeps the ith bundle, an hour after the one before it, with a noise of 2 %.
func keepDrawn(random *rand.Rand, runs string, i int, run result.Run, recs []result.Record) (octets int, err error) {
	run.Start = run.Start.Add(time.Duration(i-mostBundles) * time.Hour)
	run.ID = run.Start.Format("20060102-150405") + "-forward"
	dir := filepath.Join(runs, run.ID)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	head, err := json.Marshal(run)
	if err != nil {
		return 0, err
	}
	noise := 1 + 0.02*random.NormFloat64()
	var lines []byte
	for _, r := range recs {
		if r.Parent == "" {
			r.Values = slices.Clone(r.Values)
			for j := range r.Values {
				r.Values[j].Value *= noise
			}
		}
		line, err := json.Marshal(r)
		if err != nil {
			return 0, err
		}
		lines = append(append(lines, line...), '\n')
	}
	for name, data := range map[string][]byte{result.RunFile: head, result.TrialsFile: lines} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return 0, err
		}
	}
	return len(head) + len(lines), nil
}
