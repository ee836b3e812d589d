// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"boxdyno/stat"
)

// otavaVersion is that of Apache Otava whose answers are compared.
const otavaVersion = "0.8.0"

// asks prints the indexes of the changes that Otava finds by its defaults, a line for each
// line of samples.
const asks = `
import json, sys
from otava.analysis import compute_change_points
for line in sys.stdin:
    changes, _ = compute_change_points(json.loads(line), window_len=50, max_pvalue=0.001, min_magnitude=0.0)
    print(json.dumps([int(c.index) for c in changes]))
`

// asOtava gives n drawn series to stat.Levels and to Apache Otava, in a virtual environment
// of Python, and returns how many of them have other changes.
func asOtava(ctx context.Context, dir string, n int, seed uint64) (failed int, err error) {
	venv := filepath.Join(dir, "otava")
	for _, args := range [][]string{{"python3", "-m", "venv", venv}, {filepath.Join(venv, "bin/pip"), "install", "--quiet", "--disable-pip-version-check", "apache-otava==" + otavaVersion}} {
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			fmt.Printf("left out, Apache Otava %s: %v: %s: it needs python3-venv and Python's package index\n", otavaVersion, err, bytes.TrimSpace(out))
			return 0, ctx.Err()
		}
	}
	random := rand.New(rand.NewPCG(seed, 1))
	var all [][]float64
	var lines bytes.Buffer
	for range n {
		samples := series(random)
		all = append(all, samples)
		line, err := json.Marshal(samples)
		if err != nil {
			return 0, err
		}
		lines.Write(append(line, '\n'))
	}
	ask := exec.CommandContext(ctx, filepath.Join(venv, "bin/python"), "-c", asks)
	ask.Stdin, ask.Stderr = &lines, os.Stderr
	out, err := ask.Output()
	if err != nil {
		return 0, fmt.Errorf("ask Apache Otava: %w", err)
	}
	changes, i := 0, 0
	for answers := bufio.NewScanner(bytes.NewReader(out)); answers.Scan(); i++ {
		var theirs, ours []int
		if err := json.Unmarshal(answers.Bytes(), &theirs); err != nil || i >= n {
			return 0, fmt.Errorf("answer %d of Apache Otava: %w", i, err)
		}
		for _, c := range stat.Levels(all[i]) {
			ours = append(ours, c.At)
		}
		changes += len(theirs)
		if !slices.Equal(ours, theirs) && len(ours)+len(theirs) > 0 {
			fmt.Printf("FAILED: series %d of %d samples: changes at %v, Otava has %v\n", i, len(all[i]), ours, theirs)
			failed++
		}
	}
	if i != n {
		return 0, fmt.Errorf("Apache Otava answered for %d of %d series", i, n)
	}
	fmt.Printf("%d of %d drawn series have the changes that Apache Otava %s finds, %d in all, seed %d\n", n-failed, n, otavaVersion, changes, seed)
	return failed, nil
}

// series draws 5 to 300 samples with noise, and changes of level in two of three series.
func series(random *rand.Rand) []float64 {
	out := make([]float64, 5+random.IntN(296))
	level, noise := 1e6, []float64{0.005, 0.02, 0.05}[random.IntN(3)]
	changing := random.IntN(3) > 0
	for i := range out {
		if changing && random.Float64() < 0.03 {
			level *= 0.9 + 0.2*random.Float64()
		}
		out[i] = level * (1 + noise*random.NormFloat64())
	}
	return out
}
