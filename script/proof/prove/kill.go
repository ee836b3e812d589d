// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"boxdyno/result"

	"github.com/cilium/ebpf"
)

// killed starts a run n times, kills it at a random moment, resumes it, and
// returns how many of its claims fail:
//
//   - after the resumed run no namespace, link, BPF program or process is left,
//   - no finished trial is measured again, and the run completes.
func killed(ctx context.Context, binary, dir string, n int, seed uint64) (failed int, err error) {
	random := rand.New(rand.NewPCG(seed, 0))
	fmt.Printf("%d runs killed at random moments, seed %d\n", n, seed)
	args := []string{"run", "forward", "--quick", "--quiet", "--set", "service=route,nat,drop-tc", "--set", "flows=100"}
	whole, err := timed(ctx, binary, append(args, "--out", filepath.Join(dir, "whole"))...)
	if err != nil {
		return 0, err
	}
	fmt.Printf("undisturbed, the run takes %.1f s\n", whole.Seconds())
	before, err := traces()
	if err != nil {
		return 0, err
	}
	for i := range n {
		out := filepath.Join(dir, "kill"+strconv.Itoa(i))
		after := time.Duration(random.Float64() * float64(whole))
		cmd := exec.CommandContext(ctx, binary, append(args, "--out", out)...)
		if err := cmd.Start(); err != nil {
			return failed, err
		}
		time.Sleep(after)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if _, err := os.Stat(filepath.Join(out, result.RunFile)); err != nil {
			fmt.Printf("  %2d killed after %5.2f s: before the run began\n", i+1, after.Seconds())
			continue
		}
		finishedBefore, err := finished(out)
		if err != nil {
			return failed, err
		}
		if _, err := timed(ctx, binary, "run", "--quiet", "--resume", out); err != nil {
			return failed, fmt.Errorf("resume: %w", err)
		}
		problems, err := compare(out, finishedBefore, before)
		if err != nil {
			return failed, err
		}
		if len(problems) > 0 {
			failed++
		}
		fmt.Printf("  %2d killed after %5.2f s: %d trials were finished; %s\n", i+1, after.Seconds(), len(finishedBefore), verdictOf(problems))
	}
	return failed, nil
}

func verdictOf(problems []string) string {
	if len(problems) == 0 {
		return "resumed, completed, nothing left, nothing measured twice"
	}
	return strings.Join(problems, "; ")
}

func timed(ctx context.Context, binary string, args ...string) (time.Duration, error) {
	start := time.Now()
	cmd := exec.CommandContext(ctx, binary, args...)
	var errw bytes.Buffer
	cmd.Stderr = &errw
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && (exit.ExitCode() == 1 || exit.ExitCode() == 4) {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, errw.String())
	}
	return time.Since(start), err
}

// finished reads how often each ID stands as finished in a bundle's trials.
func finished(dir string) (map[string]int, error) {
	f, err := os.Open(filepath.Join(dir, result.TrialsFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n := map[string]int{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var r result.Record
		if json.Unmarshal(lines.Bytes(), &r) == nil && r.Finished() {
			n[r.ID]++
		}
	}
	return n, lines.Err()
}

func compare(dir string, finishedBefore map[string]int, before map[string][]string) (problems []string, err error) {
	after, err := finished(dir)
	if err != nil {
		return nil, err
	}
	for id, n := range after {
		if n != 1 {
			problems = append(problems, fmt.Sprintf("%s is finished %d times", id, n))
		}
	}
	for id := range finishedBefore {
		if after[id] == 0 {
			problems = append(problems, id+" is lost")
		}
	}
	_, recs, err := result.Open(dir)
	if err != nil {
		return nil, err
	}
	for _, r := range recs {
		if !r.Finished() {
			problems = append(problems, r.ID+" is "+string(r.Status))
		}
	}
	// The kernel takes namespaces and programs down after their last user went.
	var now map[string][]string
	for range 100 {
		if now, err = traces(); err != nil {
			return nil, err
		}
		if len(extra(before, now)) == 0 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	return append(problems, extra(before, now)...), nil
}

func extra(before, now map[string][]string) (left []string) {
	for kind, names := range now {
		for _, n := range names {
			if !slices.Contains(before[kind], n) {
				left = append(left, kind+" "+n+" is left")
			}
		}
	}
	return left
}

// traces lists what a run could leave: links, network namespaces that a process
// or a name holds, BPF programs, and processes of boxdyno.
func traces() (map[string][]string, error) {
	t := map[string][]string{}
	links, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		t["link"] = append(t["link"], l.Name)
	}
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			break
		}
		if err != nil {
			return nil, err
		}
		id = next
		t["BPF program"] = append(t["BPF program"], strconv.Itoa(int(id)))
	}
	named, _ := filepath.Glob("/run/netns/*")
	t["namespace"] = append(t["namespace"], named...)
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range processes {
		if ns, err := os.Readlink(p + "/ns/net"); err == nil {
			t["namespace"] = append(t["namespace"], ns)
		}
		comm, err := os.ReadFile(p + "/comm")
		if err == nil && strings.TrimSpace(string(comm)) == "boxdyno" {
			t["process"] = append(t["process"], filepath.Base(p))
		}
	}
	return t, nil
}
