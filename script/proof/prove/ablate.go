// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"boxdyno/report"
	"boxdyno/report/text"
	"boxdyno/result"
)

// The knobs that an ablation must judge right. The box's port wan has an MTU of 1280
// (dut.fault=mtu), so that every fourth of the frames is too long for it until a knob
// says otherwise; receive packet steering to the CPU that the frames are on already
// puts them through another queue for nothing; and nothing that forwards UDP reads the
// next two. What the others do is printed, and anything goes.
const ablation = `name: planted
steps:
- {knob: mtu, target: wan, value: "1500", why: planted to help}
- {knob: rps, value: "%x", why: planted to harm}
- {knob: "sysctl:net.ipv4.tcp_rmem", value: "4096 100000 200000", why: planted to do nothing}
- {knob: txqueuelen, value: "500", why: planted to do nothing}
- {knob: gro, value: "on"}
- {knob: tx-checksum, value: "on"}
- {knob: threaded, value: "0"}
- {knob: channels, value: rx=2}
- {knob: "sysctl:net.netfilter.nf_conntrack_acct", value: "1"}
- {knob: "sysctl:net.netfilter.nf_conntrack_max", value: "500000"}
`

// ablated takes the recipe apart n times, with route and nat in turn, and returns how
// many of its claims fail: the helpful knob helps and the harmful one harms, in
// the recipe and alone, the dummies are ~, and what a virtual cable cannot is named.
func ablated(ctx context.Context, binary, dir string, n int) (failed int, err error) {
	cpu, err := dutCPU(ctx, binary, filepath.Join(dir, "ablate-where"))
	if err != nil {
		return 0, err
	}
	recipe := filepath.Join(dir, "planted.yaml")
	if err := os.WriteFile(recipe, fmt.Appendf(nil, ablation, 1<<cpu), 0o644); err != nil {
		return 0, err
	}
	for i := range n {
		var out, errw bytes.Buffer
		cmd := exec.CommandContext(ctx, binary, "tune", "ablate", recipe, "--quiet", "--json", "--seed", strconv.Itoa(i+1), "--out", filepath.Join(dir, "ablate"+strconv.Itoa(i)),
			"--set", "service="+[]string{"route", "nat"}[i%2], "--set", "frame_size=64:3+1518:1", "--set", "dut.fault=mtu")
		cmd.Stdout, cmd.Stderr = &out, &errw
		if err := cmd.Run(); err != nil {
			return failed, fmt.Errorf("tune ablate: %w: %s", err, errw.String())
		}
		var d report.Document
		if err := json.Unmarshal(out.Bytes(), &d); err != nil {
			return failed, fmt.Errorf("read the ablation: %w", err)
		}
		if err := text.Terminal(os.Stdout, d); err != nil {
			return failed, err
		}
		wrong := ablationClaims(d)
		failed += len(wrong)
		fmt.Printf("\nablation %d of %d: %d claims do not hold: %s\n\n", i+1, n, len(wrong), strings.Join(wrong, "; "))
	}
	return failed, nil
}

func ablationClaims(d report.Document) (wrong []string) {
	if d.Ablation == nil || len(d.Ablation.Places) != 1 {
		return []string{"there is no ablation"}
	}
	want := map[string]string{"mtu": report.Better, "rps": report.Worse, "sysctl:net.ipv4.tcp_rmem": report.Alike, "txqueuelen": report.Alike}
	for _, p := range d.Ablation.Places {
		seen := 0
		for _, k := range p.Knobs {
			w, ok := want[k.Knob.Knob]
			if !ok {
				continue
			}
			seen++
			for how, r := range map[string]report.ComparedRow{"in the recipe": k.In, "alone": k.Alone} {
				if r.Verdict != w {
					wrong = append(wrong, fmt.Sprintf("%s: %s is %s %s, want %s", p.Name, k.Knob.Name, r.Verdict, how, w))
				}
			}
		}
		if seen != len(want) {
			wrong = append(wrong, fmt.Sprintf("%s: %d of %d planted knobs were tested", p.Name, seen, len(want)))
		}
	}
	for _, knob := range []string{"threaded", "channels", "sysctl:net.netfilter.nf_conntrack_max"} {
		if !slices.ContainsFunc(d.Ablation.Untested, func(k result.Ablated) bool { return k.Knob == knob && k.Reason != "" }) {
			wrong = append(wrong, knob+" is not named as untested")
		}
	}
	for _, p := range []struct {
		what string
		list []result.Ablated
		knob string
		want bool
	}{{"the best subset", d.Ablation.Best, "mtu", true}, {"the best subset", d.Ablation.Best, "rps", false}, {"what harms", d.Ablation.Harm, "rps", true}} {
		if slices.ContainsFunc(p.list, func(k result.Ablated) bool { return k.Knob == p.knob }) != p.want {
			wrong = append(wrong, fmt.Sprintf("%s among %s: %v is wrong", p.knob, p.what, !p.want))
		}
	}
	return wrong
}

// dutCPU is the CPU that does the DUT's work in a sandbox here.
func dutCPU(ctx context.Context, binary, out string) (int, error) {
	if _, err := timed(ctx, binary, "run", "self-test", "--quiet", "--out", out); err != nil {
		return 0, err
	}
	run, _, err := result.Open(out)
	if err != nil {
		return 0, err
	}
	if len(run.Environments) == 0 {
		return 0, errors.New("the self-test has no environment")
	}
	cpu, err := strconv.Atoi(result.Get(run.Environments[0], "dut_cpu"))
	if err != nil {
		return 0, fmt.Errorf("the sandbox does not say which CPU does the DUT's work: %w", err)
	}
	return cpu, nil
}
