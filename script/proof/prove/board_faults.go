// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"boxdyno/result"
)

// A boardFault happens to a board, or to the tester, in mid-run. Processes are found by
// name: a board's are its own, so it must be emulated.
type boardFault struct {
	name   string
	happen func(ctx context.Context, name string, tester *exec.Cmd) error
	mend   func(ctx context.Context, name string) error
}

var boardFaults = []boardFault{
	{"cable-pulled", link("off"), func(ctx context.Context, name string) error { return link("on")(ctx, name, nil) }},
	{"sshd-stopped", there("setsid -f sh -c 'sleep 2; pkill -STOP -f ^sshd-session:' >/dev/null 2>&1 </dev/null"), func(ctx context.Context, name string) error { // its own session has ended by then
		return there("pkill -CONT -f ^sshd-session: || true")(ctx, name, nil)
	}},
	{"agent-killed", there("pkill -KILL -x boxdyno-agent"), nil},
	{"tester-killed", func(_ context.Context, _ string, tester *exec.Cmd) error { return tester.Process.Kill() }, nil},
	{"disk-full", there("fallocate -l $(df --output=avail -k / | tail -n 1)K /full; dd if=/dev/zero of=/fuller bs=64k 2>/dev/null; pkill -KILL -x boxdyno-agent"), func(ctx context.Context, name string) error {
		_, err := board(ctx, "--in", "ssh", name, "rm", "-f", "/full", "/fuller")
		return err
	}},
	{"board-reset", func(ctx context.Context, name string, _ *exec.Cmd) error {
		_, err := board(ctx, "--reset", name)
		return err
	}, nil},
}

func link(state string) func(context.Context, string, *exec.Cmd) error {
	return func(ctx context.Context, name string, _ *exec.Cmd) error {
		_, err := board(ctx, "--link", name, "0", state)
		return err
	}
}

func there(command string) func(context.Context, string, *exec.Cmd) error {
	return func(ctx context.Context, name string, _ *exec.Cmd) error {
		_, err := board(ctx, "--in", "ssh", name, command)
		return err
	}
}

// boardState prints what a run sets on a board, and what it leaves.
const boardState = "ip -br addr | awk '$1 ~ /^p[0-9]/'; ip route show table all proto 211; sysctl net.ipv4.conf.p0.forwarding net.ipv4.conf.p1.forwarding net.ipv6.conf.all.forwarding; nft list ruleset; ls /var/lib/boxdyno-agent; pgrep -ax boxdyno-agent"

// boardFaulty runs forward on a board, in mid-run of which the fault happens. Its trial is
// then aborted with a reason, the trials before are kept, a resumed run completes, and the
// board is as it was at the agent's next start.
func boardFaulty(ctx context.Context, name, out string, f boardFault) (seen string, works bool) {
	state := func() string {
		said, _ := board(ctx, "--in", "ssh", name, boardState) // pgrep finds none
		return said
	}
	before := state()
	cmd := exec.CommandContext(ctx, "script/boards", "--in", "boxdyno", "run", "forward", "--box", name, "--quick", "--quiet", "--set", "service=nat", "--set", "search=none", "--set", "link_rate=300kbps", "--out", out)
	cmd.Env = append(os.Environ(), "BENCH="+boardBench)
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return err.Error(), false
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for lines := 0; lines < 6; time.Sleep(20 * time.Millisecond) {
		trials, _ := os.ReadFile(filepath.Join(out, result.TrialsFile))
		lines = bytes.Count(trials, []byte("\n"))
		select {
		case <-ended:
			return "the run ended before the fault: " + last(said.String()), false
		default:
		}
	}
	began := time.Now()
	if err := f.happen(ctx, name, cmd); err != nil {
		return err.Error(), false
	}
	<-ended
	seen = fmt.Sprintf("after %.0f s: exit code %d, %s", time.Since(began).Seconds(), cmd.ProcessState.ExitCode(), last(said.String()))
	_, recs, err := result.Open(out)
	if err != nil {
		return err.Error(), false
	}
	aborted := 0
	for _, r := range recs {
		if r.Parent != "" && !r.Finished() {
			aborted++
		}
	}
	done, err := finished(out)
	if err != nil {
		return err.Error(), false
	}
	if _, err := board(ctx, "--in", "boxdyno", "box", "check", name); err != nil {
		return seen + "; box check: " + err.Error(), false
	}
	if f.mend != nil {
		if err := f.mend(ctx, name); err != nil {
			return seen + "; " + err.Error(), false
		}
	}
	var problems []string
	if now := state(); now != before {
		problems = append(problems, fmt.Sprintf("the board is not as it was: %q, was %q", now, before))
	}
	if aborted == 0 || len(done) == 0 {
		problems = append(problems, fmt.Sprintf("%d trials aborted, %d kept", aborted, len(done)))
	}
	_, err = board(ctx, "--in", "boxdyno", "run", "--quiet", "--resume", out)
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1 && exit.ExitCode() != 4) {
		return seen + "; resume: " + err.Error(), false
	}
	after, err := finished(out)
	if err != nil {
		return err.Error(), false
	}
	for id := range done {
		if after[id] != 1 {
			problems = append(problems, fmt.Sprintf("%s is finished %d times", id, after[id]))
		}
	}
	if problems != nil {
		return seen + "; " + strings.Join(problems, "; "), false
	}
	return fmt.Sprintf("%s; %d trials kept, resumed, box as it was", seen, len(done)), true
}

func last(said string) string {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	return strings.ReplaceAll(lines[len(lines)-1], "|", "/")
}
