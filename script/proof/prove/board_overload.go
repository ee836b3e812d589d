// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"boxdyno/result"
	"boxdyno/verdict"
)

// busiest is the CPU of a box that onlyRecipe gives all work behind a port.
const busiest = 3

// onlyRecipe has one CPU do all work behind the port that is loaded, with a short queue before
// it. The other port answers for addresses: what of it found no room would be in the books.
const onlyRecipe = `name: only
steps:
- {knob: channels, value: combined=1}
- {knob: rps, target: p0, value: "8"}
- {knob: "sysctl:net.core.netdev_max_backlog", target: host, value: "100"}
`

// fullCPU are the causes that name a CPU by its softirqs. Which it is, the load of the machine
// that computes the board decides.
var fullCPU = []verdict.Cause{verdict.CauseCPU, verdict.CauseCPUs, verdict.CauseBusyCore}

// overloadedBoard offers an emulated box more than one CPU of it can filter. The verdict of each
// overload must name that CPU and its softirqs, and the books close.
func overloadedBoard(ctx context.Context, name, out string) (seen string, works bool) {
	recipe := out + ".yaml"
	if err := errors.Join(os.MkdirAll(filepath.Dir(out), 0o755), os.WriteFile(recipe, []byte(onlyRecipe), 0o644)); err != nil {
		return err.Error(), false
	}
	args := append(slices.Clone(tester), "run", "forward", "--box", name, "--tune", recipe, "--quiet", "--out", out,
		"--set", "service=filter", "--set", "rules=2000", "--set", "search=none", "--set", "direction=lan-to-wan", "--set", "frame_size=64", "--set", "preset=standard")
	_, err := board(ctx, args...)
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1 && exit.ExitCode() != 4) {
		return last(err.Error()), false
	}
	run, recs, err := result.Open(out)
	if err != nil {
		return err.Error(), false
	}
	if seen, works = boardCell(recs, false); !works {
		return seen, false
	}
	named, overloads := "", 0
	for _, r := range recs {
		if !isOverload(r) {
			continue
		}
		overloads++
		limits := verdict.Limits(verdict.Case{Record: r, Environment: run.Environments[0]})
		switch {
		case len(limits) == 0:
			return "an overload has no limit", false
		case !slices.Contains(fullCPU, limits[0].Cause) || !strings.Contains(limits[0].Sentence, fmt.Sprintf("CPU %d ", busiest)):
			return fmt.Sprintf("%s: %s", limits[0].Cause, limits[0].Sentence), false
		}
		named = limits[0].Sentence
	}
	return fmt.Sprintf("%s; of %d overloads each names CPU %d: %s", seen, overloads, busiest, named), overloads > 0
}
