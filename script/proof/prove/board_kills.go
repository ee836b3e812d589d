// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"boxdyno/internal/snapshot"
)

// A killedBox is a box whose agents can be found, killed, and looked after.
type killedBox struct {
	agents func() int
	kill   func()
	state  func(into map[string]string) error
}

// cabledBox is a box behind virtual cables.
func cabledBox(ctx context.Context, name string) killedBox {
	space := "/run/netns/boxdyno-" + boardBench + "-" + name
	return killedBox{
		agents: func() int { return len(agentsIn(space)) },
		kill: func() {
			for _, pid := range agentsIn(space) {
				if p, err := os.FindProcess(pid); err == nil {
					_ = p.Kill() // it may be gone
				}
			}
		},
		state: func(into map[string]string) error {
			all, err := snapshot.Take(space)
			maps.Copy(into, all)
			files, ferr := board(ctx, "--in", "ssh", name, "find /var/lib | sort")
			into["files of the box"] = files
			return errors.Join(err, ferr)
		},
	}
}

// emulatedBox is a box whose processes and settings ssh tells.
func emulatedBox(ctx context.Context, name string) killedBox {
	ask := func(command string) string {
		said, _ := board(ctx, "--in", "ssh", name, command) // pgrep and pkill find none
		return said
	}
	return killedBox{
		agents: func() int { return strings.Count(ask("pgrep -x boxdyno-agent"), "\n") },
		kill:   func() { ask("pkill -KILL -x boxdyno-agent") },
		state: func(into map[string]string) error {
			for what, command := range map[string]string{"ports": boardSettings, "addresses, routes, tables": boardState, "namespaces": "ip netns; ip -br link", "files": "find /var/lib/boxdyno-agent | sort", "programs": "ls /sys/fs/bpf; tc qdisc"} {
				into[what+" of the box"] = ask(command)
			}
			return nil
		},
	}
}

// boxKilled kills, n times, a run on a box with ports of a model at a random moment: in
// turn the tester and the box's agent. It returns how often the box is not as before at
// the agent's next start, or something of the tester is left.
func boxKilled(ctx context.Context, dir, model, arch string, n int, seed uint64) (failed int, err error) {
	const name = "k"
	random := rand.New(rand.NewPCG(seed, 2))
	fmt.Printf("%d kills of tester and agent during runs on a box with ports %s, seed %d\n", n, model, seed)
	if _, err := board(ctx, "--start", name, "--arch", arch, "--nice", boardNice, "--nic", model, "--nic", model); err != nil {
		return 0, err
	}
	defer func() {
		_, stopped := board(context.WithoutCancel(ctx), "--stop", name)
		err = errors.Join(err, stopped)
	}()
	if _, err := board(ctx, "--in", "boxdyno", "box", "add", name, "--ssh", name, "--cable", name+"-0=p0", "--cable", name+"-1=p1"); err != nil {
		return 0, err
	}
	box := emulatedBox(ctx, name)
	if model == cables {
		box = cabledBox(ctx, name)
	}
	state := func() (map[string]string, error) {
		all := map[string]string{}
		err := box.state(all)
		tester, terr := snapshot.Take("/run/netns/boxdyno-" + boardBench)
		for k, v := range tester {
			all["tester: "+k] = v
		}
		all["agents"] = fmt.Sprint(box.agents())
		return all, errors.Join(err, terr)
	}
	start := func(i int) (*exec.Cmd, error) {
		cmd := exec.CommandContext(ctx, "script/boards", "--in", "boxdyno", "run", "forward", "--box", name, "--quick", "--quiet", "--set", "service=nat", "--set", "search=none", "--set", "link_rate=300kbps", "--out", filepath.Join(dir, "box"+strconv.Itoa(i)))
		cmd.Env = append(os.Environ(), "BENCH="+boardBench)
		var said bytes.Buffer
		cmd.Stderr = &said
		return cmd, cmd.Start()
	}
	var whole time.Duration      // undisturbed
	var before map[string]string // after that: the agent has its folders then
	amid := 0
	for i := -1; i < n; i++ {
		began := time.Now()
		cmd, err := start(i)
		if err != nil {
			return failed, err
		}
		victim := "tester"
		if i >= 0 {
			time.Sleep(time.Duration(random.Float64() * float64(whole)))
			if box.agents() > 0 {
				amid++
			}
			if i%2 == 1 {
				victim = "agent"
				box.kill()
			} else {
				_ = cmd.Process.Kill()
			}
		}
		err = cmd.Wait()
		if i < 0 {
			var exit *exec.ExitError
			if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 4) { // 4: somebody else had the CPUs
				return 0, fmt.Errorf("a run on the box: %w: %s", err, cmd.Stderr)
			}
			whole = time.Since(began)
		}
		for began := time.Now(); box.agents() > 0 && time.Since(began) < 15*time.Second; {
			time.Sleep(20 * time.Millisecond)
		}
		if _, err := board(ctx, "--in", "boxdyno", "box", "check", name); err != nil {
			return failed, err
		}
		if i < 0 {
			if before, err = state(); err != nil {
				return 0, err
			}
			continue
		}
		var left []string
		for range 50 { // the kernel takes programs down after their last user has gone
			now, err := state()
			if err != nil {
				return failed, err
			}
			if left = snapshot.Diff(before, now); len(left) == 0 {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		if len(left) > 0 {
			failed++
			fmt.Printf("  %3d %s: left: %s\n", i+1, victim, strings.Join(left, "; "))
		}
	}
	fmt.Printf("%d kills, %d of them while an agent ran; a run takes %.1f s; %d left something; %d settings compared after each\n", n, amid, whole.Seconds(), failed, len(before))
	if n >= 10 && amid == 0 {
		return failed, errors.New("no kill met an agent: they prove nothing")
	}
	return failed, nil
}

// agentsIn are the agents in a named network namespace.
func agentsIn(space string) (pids []int) {
	said, err := exec.Command("ip", "netns", "pids", filepath.Base(space)).Output()
	if err != nil {
		return nil
	}
	for _, word := range strings.Fields(string(said)) {
		comm, _ := os.ReadFile("/proc/" + word + "/comm")
		if pid, err := strconv.Atoi(word); err == nil && strings.TrimSpace(string(comm)) == "boxdyno-agent" {
			pids = append(pids, pid)
		}
	}
	return pids
}
