// SPDX-License-Identifier: Apache-2.0

// Command prove runs the proofs that take too long for every test run, and
// prints their tables: whether repeated qualifications agree, and whether runs
// that were killed leave nothing and go on where they were. script/prove sets up
// and runs it as root.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"time"
)

func main() {
	runs := flag.Int("runs", 10, "qualifications in a row; 0: leave them out")
	kills := flag.Int("kills", 20, "runs killed at random moments; 0: leave them out")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the random moments")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := prove(ctx, *runs, *kills, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "prove:", err)
		os.Exit(1)
	}
}

func prove(ctx context.Context, runs, kills int, seed uint64) error {
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
	if runs > 0 {
		n, err := repeatability(ctx, binary, dir, runs)
		if err != nil {
			return err
		}
		failed += n
	}
	if kills > 0 {
		n, err := killed(ctx, binary, dir, kills, seed)
		if err != nil {
			return err
		}
		failed += n
	}
	if failed > 0 {
		return fmt.Errorf("%d claims do not hold", failed)
	}
	return nil
}
