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

	"boxdyno/host"
	"boxdyno/result"
)

// A boardFault happens to a board, or to the tester, in mid-run. Processes are found by
// name: a board's are its own, so it must be emulated.
type boardFault struct {
	name   string
	happen func(ctx context.Context, name string, tester *exec.Cmd) error
	mend   func(ctx context.Context, name string) error // once the box was asked again
	heal   func(ctx context.Context, name string) error // before it can be asked
	goesOn bool                                         // the run is to complete all the same
}

var boardFaults = []boardFault{
	{name: "cable-pulled", happen: link("0", "off"), mend: after(link("0", "on"))},
	{name: "sshd-stopped", happen: soon("pkill -STOP -f ^sshd-session:"), mend: after(there("pkill -CONT -f ^sshd-session: || true"))},
	{name: "connection-cut", happen: soon("pkill -KILL -f ^sshd-session:")},
	{name: "connection-half-open", happen: link("ssh", "off"), heal: after(link("ssh", "on"))},
	{name: "connection-slow", goesOn: true,
		happen: soon("for i in $(seq 20); do pkill -STOP -f ^sshd-session:; sleep 0.7; pkill -CONT -f ^sshd-session:; sleep 0.3; done")},
	{name: "clock-stepped", goesOn: true, happen: there("date -s @$(($(date +%s) + 3600))"), mend: after(there("date -s @$(($(date +%s) - 3600))"))},
	{name: "agent-killed", happen: there("pkill -KILL -x boxdyno-agent")},
	{name: "tester-killed", happen: func(_ context.Context, _ string, tester *exec.Cmd) error { return tester.Process.Kill() }},
	{name: "disk-full", happen: there(fillDisk + "pkill -KILL -x boxdyno-agent"), mend: after(there("rm -f /full*"))},
	{name: "board-reset", happen: func(ctx context.Context, name string, _ *exec.Cmd) error {
		_, err := board(ctx, "--reset", name)
		return err
	}},
}

// fillDisk takes what is left of a board's disk, also what is kept for root, in halves: written
// octet by octet the run would be over first.
const fillDisk = "for k in $(seq 22 -1 2); do for i in 1 2; do fallocate -l $((1 << k))K /full$k.$i 2>/dev/null || { rm -f /full$k.$i; break; }; done; done; dd if=/dev/zero of=/full bs=4k 2>/dev/null; "

func link(port, state string) func(context.Context, string, *exec.Cmd) error {
	return func(ctx context.Context, name string, _ *exec.Cmd) error {
		_, err := board(ctx, "--link", name, port, state)
		return err
	}
}

// soon is there, once the session that asks for it has ended.
func soon(command string) func(context.Context, string, *exec.Cmd) error {
	return there("setsid -f sh -c 'sleep 2; " + command + "' >/dev/null 2>&1 </dev/null")
}

// after is f, when the tester has ended.
func after(f func(context.Context, string, *exec.Cmd) error) func(context.Context, string) error {
	return func(ctx context.Context, name string) error { return f(ctx, name, nil) }
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
		<-ended
		if f.mend != nil { // for the next row
			err = errors.Join(err, f.mend(ctx, name))
		}
		return last(err.Error()), false
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
	if f.heal != nil {
		if err := f.heal(ctx, name); err != nil {
			return seen + "; " + err.Error(), false
		}
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
	if f.goesOn {
		books, closed := boardCell(recs, false)
		if seen += "; " + books; aborted > 0 || !closed || problems != nil {
			return seen + fmt.Sprintf("; %d trials aborted; ", aborted) + strings.Join(problems, "; "), false
		}
		return seen + ", box as it was", true
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

// twoRuns has a second tester, which does not wait for this machine's lock, measure on a board
// that forwards for a first one. It is refused by name, and the first run completes.
func twoRuns(ctx context.Context, name, out string) (seen string, works bool) {
	seen, works = boardFaulty(ctx, name, out, boardFault{goesOn: true, happen: func(ctx context.Context, name string, _ *exec.Cmd) error {
		_, refused := board(ctx, "--in", "sh", "-c", "f=$(mktemp); mount --bind $f "+host.LockPath+"; boxdyno run crypto --set path=openssl --box "+name+" --quick --quiet --out "+out+"2; code=$?; rm $f; exit $code")
		if refused == nil || !strings.Contains(refused.Error(), "another run holds it") {
			return fmt.Errorf("a second run was not refused: %v", refused)
		}
		return nil
	}})
	return "beside a second run: " + seen, works
}

// otherVersion puts an agent of another version on a board. It is refused by name until
// "box update" brings this version's.
func otherVersion(ctx context.Context, name, out string) (seen string, works bool) {
	const other, agent = "v0.0.1", "/var/lib/boxdyno-agent/boxdyno-agent"
	arch, err := board(ctx, "--in", "ssh", name, "uname", "-m")
	if err != nil {
		return err.Error(), false
	}
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags", "-X boxdyno/internal/version.version="+other, "-o", out, "./cmd/boxdyno-agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+map[string]string{"x86_64": "amd64", "aarch64": "arm64"}[strings.TrimSpace(arch)])
	if said, err := build.CombinedOutput(); err != nil {
		return fmt.Sprintf("build an agent: %v: %s", err, last(string(said))), false
	}
	if _, err := board(ctx, "--in", "sh", "-c", "ssh "+name+" 'cat >"+agent+".new && chmod 755 "+agent+".new && mv "+agent+".new "+agent+"' <"+out); err != nil {
		return err.Error(), false
	}
	_, refused := board(ctx, "--in", "boxdyno", "run", "forward", "--box", name, "--quick", "--quiet", "--out", out+".run")
	for _, words := range []string{"update", "check"} {
		if _, err := board(ctx, "--in", "boxdyno", "box", words, name); err != nil {
			return "box " + words + ": " + err.Error(), false
		}
	}
	if refused == nil || !strings.Contains(refused.Error(), "it has "+other) {
		return fmt.Sprintf("a run with an agent of version %s: %v", other, refused), false
	}
	return "works; " + refused.Error() + "; updated", true
}

func last(said string) string {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	return strings.ReplaceAll(lines[len(lines)-1], "|", "/")
}
