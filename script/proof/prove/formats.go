// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"boxdyno/result"
)

// iperf3Package is the version of Python's package iperf3 that reads our files.
const iperf3Package = "0.1.11"

// reads prints what that package takes out of each line.
const reads = `
import json, sys
from iperf3 import TestResult
for line in sys.stdin:
    r = TestResult(line)
    udp = r.protocol == "UDP"
    print(json.dumps({"error": r.error, "protocol": r.protocol, "sent": r.bps if udp else r.sent_bps, "received": 0 if udp else r.received_bps, "retransmits": 0 if udp else r.retransmits}))
`

// formattedRuns are those whose bundles are written for other programs.
var formattedRuns = [][]string{
	{"cpu", "--set", "subject=7-zip", "--set", "parallel=1"},
	{"crypto", "--set", "path=openssl", "--set", "cipher=aes-cbc-256", "--set", "parallel=1"},
	{"stream", "--set", "protocol=tcp,udp"},
}

// formats writes the bundles of real runs for other programs, n times, and returns how many files are
// not as those programs want them: a row of sbc-bench without its figures, and what the Phoronix
// Test Suite, whose files are in the git repository phoronix, or Python's package iperf3 does not read.
func formats(ctx context.Context, binary, dir, phoronix string, n int) (failed int, err error) {
	wrong := func(format string, args ...any) {
		fmt.Printf("FAILED: "+format+"\n", args...)
		failed++
	}
	for i := range n {
		var runs []string
		for _, args := range formattedRuns {
			out := filepath.Join(dir, fmt.Sprintf("formats-%d-%s", i, args[0]))
			runs = append(runs, out)
			if _, err := timed(ctx, binary, slices.Concat([]string{"run"}, args, []string{"--quick", "--quiet", "--out", out})...); err != nil {
				return 0, err
			}
			if err := someValid(out); err != nil {
				return 0, err
			}
		}
		written := func(name string, runs ...string) []byte {
			file := filepath.Join(dir, name)
			if _, err := timed(ctx, binary, slices.Concat([]string{"report"}, runs, []string{"-o", file})...); err != nil {
				wrong("%v", err)
				return nil
			}
			data, err := os.ReadFile(file)
			if err != nil {
				wrong("%v", err)
			}
			return data
		}
		if row := written("x.sbc-bench.md", runs[0], runs[1]); !sbcFigures(row) {
			wrong("the rows of sbc-bench lack a figure: %s", row)
		}
		if err := asPhoronix(ctx, dir, phoronix, written("composite.xml", runs...), runs, wrong); err != nil {
			return failed, err
		}
		if err := asIperf3(ctx, dir, written("x.iperf3.json", runs[2]), runs[2], wrong); err != nil {
			return failed, err
		}
	}
	return failed, nil
}

// someValid is an error where no point of a run is valid, with the reason of the last one: no file
// has figures of such a run.
func someValid(dir string) error {
	_, recs, err := result.Open(dir)
	if err != nil {
		return err
	}
	reason := "it has none"
	for _, r := range recs {
		if r.Parent != "" {
			continue
		}
		if r.Status == result.Passed || r.Status == result.Failed {
			return nil
		}
		reason = r.Reason
	}
	return fmt.Errorf("%s has no valid point to write: %s", filepath.Base(dir), reason)
}

// sbcFigures says whether rows of sbc-bench have a figure of 7-Zip and one of AES.
func sbcFigures(table []byte) bool {
	var head []string
	has := map[string]bool{}
	for line := range strings.Lines(string(table)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if head == nil {
			head = cells
			continue
		}
		for i, c := range cells {
			if i < len(head) && strings.Trim(c, " 0123456789") == "" && strings.TrimSpace(c) != "" {
				has[strings.TrimSpace(head[i])] = true
			}
		}
	}
	return has["7-zip single"] && has["AES"]
}

// asIperf3 has Python's package read a file, and compares what it says with the records.
func asIperf3(ctx context.Context, dir string, data []byte, run string, wrong func(string, ...any)) error {
	venv := filepath.Join(dir, "iperf3")
	for _, args := range [][]string{{"python3", "-m", "venv", venv}, {filepath.Join(venv, "bin/pip"), "install", "--quiet", "--disable-pip-version-check", "iperf3==" + iperf3Package}} {
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			fmt.Printf("left out, Python's iperf3 %s: %v: %s: it needs python3-venv and Python's package index\n", iperf3Package, err, bytes.TrimSpace(out))
			return ctx.Err()
		}
	}
	read := exec.CommandContext(ctx, filepath.Join(venv, "bin/python"), "-c", reads)
	var said bytes.Buffer
	read.Stdin, read.Stderr = bytes.NewReader(data), &said
	out, err := read.Output()
	if err != nil {
		wrong("Python's iperf3 does not read it: %v: %s", err, bytes.TrimSpace(said.Bytes()))
		return ctx.Err()
	}
	_, recs, err := result.Open(run)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(bytes.NewReader(out))
	n := 0
	for _, r := range recs {
		if r.Parent == "" || r.Status != result.Passed || r.Value("goodput_bps") == nil || r.Value("sent_bps") == nil {
			continue
		}
		var x struct {
			Error                       any
			Protocol                    string
			Sent, Received, Retransmits float64
		}
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &x) != nil {
			wrong("Python's iperf3 does not say what %s has: %s", r.ID, lines.Bytes())
			break
		}
		n++
		udp := result.Get(r.Config, "protocol") == "udp"
		retransmits := 0.0
		if v := r.Value("retransmits"); v != nil {
			retransmits = v.Value
		}
		if x.Error != nil || (x.Protocol == "UDP") != udp || x.Sent != r.Value("sent_bps").Value || !udp && (x.Received != r.Value("goodput_bps").Value || x.Retransmits != retransmits) {
			wrong("%s: Python's iperf3 reads %s", r.ID, lines.Bytes())
		}
	}
	fmt.Printf("Python's iperf3 %s reads %d trials as they were measured\n", iperf3Package, n)
	if n == 0 {
		wrong("no trial of stream was valid")
	}
	return nil
}
