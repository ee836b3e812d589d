// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"boxdyno/internal/netns"
	"boxdyno/internal/snapshot"
	"boxdyno/result"
)

// tuning is what is applied and killed: everything that a port of a virtual cable has.
const tuning = `name: prove
steps:
- {knob: rps, value: "1"}
- {knob: rfs, value: "64"}
- {knob: xps, value: "2"}
- {knob: tx-checksum, value: "off"}
- {knob: tso, value: "off"}
- {knob: gso, value: "off"}
- {knob: gro, value: "on"}
- {knob: threaded, value: "1"}
- {knob: gro_flush_timeout, value: "20000"}
- {knob: napi_defer_hard_irqs, value: "2"}
- {knob: mtu, value: "1400"}
- {knob: txqueuelen, value: "500"}
- {knob: promiscuous, value: "on"}
- {knob: qdisc, value: pfifo_fast}
- {knob: rings, value: rx=4096}
- {knob: "sysctl:net.ipv4.ip_forward", value: "1"}
- {knob: "sysctl:net.ipv4.tcp_rmem", value: "4096 100000 200000"}
- {knob: "sysctl:net.ipv4.conf.{port}.rp_filter", value: "2"}
- {knob: "sysctl:net.core.netdev_max_backlog", value: "5000"}
- {knob: channels, value: rx=1 tx=1}
`

// apart is what is taken apart and killed: some of it is the machine's, and does not go
// with the sandbox.
const apart = `name: apart
steps:
- {knob: "sysctl:net.core.netdev_max_backlog", value: "5000"}
- {knob: mtu, value: "1400"}
`

// tuneKilled kills tune apply, tune revert, run --tune and tune ablate at random
// moments, a quarter of the times each, resumes what was killed of the last, and returns how often the next privileged command left anything
// otherwise than it was: full snapshots of the namespace of the first two, and of this
// one, are compared.
func tuneKilled(ctx context.Context, binary, dir string, n int, seed uint64) (failed int, err error) {
	random := rand.New(rand.NewPCG(seed, 1))
	fmt.Printf("%d kills of tune apply, tune revert, run --tune and tune ablate at random moments, seed %d\n", n, seed)
	recipe, small := filepath.Join(dir, "prove.yaml"), filepath.Join(dir, "apart.yaml")
	if err := errors.Join(os.WriteFile(recipe, []byte(tuning), 0o644), os.WriteFile(small, []byte(apart), 0o644)); err != nil {
		return 0, err
	}
	ns, err := netns.New()
	if err != nil {
		return 0, err
	}
	defer ns.Close()
	err = netns.Do(ns.Path(), func() error {
		a := netlink.NewLinkAttrs()
		a.Name, a.NumRxQueues, a.NumTxQueues = "p0", 2, 2
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: a, PeerName: "p1"}); err != nil {
			return err
		}
		for _, name := range []string{"p0", "p1"} {
			l, err := netlink.LinkByName(name)
			if err == nil {
				err = netlink.LinkSetUp(l)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	state := filepath.Join(dir, "state")
	call := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, binary, args...)
		cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+state)
		return cmd
	}
	apply := []string{"tune", "apply", recipe, "--port", "p0", "--netns", ns.Path()}
	kinds := [][]string{apply, {"tune", "revert"}, {"run", "self-test", "--quiet", "--tune", recipe, "--out"},
		{"tune", "ablate", small, "--quiet", "--repeat", "1", "--out"}}
	snap := func() (map[string]string, error) {
		all, err := snapshot.Take(ns.Path())
		if err != nil {
			return nil, err
		}
		own, err := snapshot.Take("")
		for k, v := range own {
			all["this namespace: "+k] = v
		}
		return all, err
	}
	time.Sleep(time.Second) // until the ports have their addresses
	before, err := snap()
	if err != nil {
		return 0, err
	}
	long := make([]time.Duration, len(kinds)) // undisturbed
	amid := 0
	for i := -len(kinds); i < n; i++ {
		kind := (i + len(kinds)) % len(kinds)
		args := kinds[kind]
		bundle := filepath.Join(dir, fmt.Sprintf("tuned%d", i))
		if kind >= 2 {
			args = append(append([]string{}, args...), bundle)
		}
		if kind == 1 {
			if out, err := call(apply...).CombinedOutput(); err != nil {
				return failed, fmt.Errorf("apply: %w: %s", err, out)
			}
		}
		cmd := call(args...)
		start := time.Now()
		if err := cmd.Start(); err != nil {
			return failed, err
		}
		if i >= 0 {
			time.Sleep(time.Duration(random.Float64() * float64(long[kind])))
			_ = cmd.Process.Kill()
		}
		err := cmd.Wait()
		var exit *exec.ExitError
		if i < 0 {
			if err != nil && (exit == nil && !errors.As(err, &exit) || exit.ExitCode() != 4) { // 4: somebody else had the CPUs
				return failed, fmt.Errorf("%s: %w", strings.Join(args, " "), err)
			}
			long[kind] = time.Since(start)
		} else if err != nil && !errors.As(err, &exit) {
			return failed, err
		}
		journals, _ := filepath.Glob(filepath.Join(state, "boxdyno", "tune", "*"))
		if i >= 0 && len(journals) > 0 {
			amid++
		}
		revert := call("tune", "revert") // the next privileged command; what stood as a whole is taken back by it, too
		var errw bytes.Buffer
		revert.Stderr = &errw
		if err := revert.Run(); err != nil {
			fmt.Printf("  %3d %s: recovering: %v: %s\n", i+1, args[1], err, errw.String())
		}
		after, err := snap()
		if err != nil {
			return failed, err
		}
		left := snapshot.Diff(before, after)
		if again, _ := filepath.Glob(filepath.Join(state, "boxdyno", "tune", "*")); len(again) > 0 {
			left = append(left, fmt.Sprintf("journals %v", again))
		}
		if _, err := os.Stat(filepath.Join(bundle, result.RunFile)); kind == 3 && i >= 0 && err == nil {
			problems, err := resumed(ctx, binary, bundle)
			if err != nil {
				return failed, err
			}
			left = append(left, problems...)
		}
		if len(left) > 0 {
			failed++
			fmt.Printf("  %3d %s: left: %s\n", i+1, strings.Join(args[:2], " "), strings.Join(left, "; "))
		}
	}
	fmt.Printf("%d kills, of which %d met a journal; %d left something; %d settings compared after each\n", n, amid, failed, len(before))
	if n >= 10 && amid == 0 {
		return failed, errors.New("no kill met a journal: they prove nothing")
	}
	return failed, nil
}

// resumed goes on with a run that was killed, and says what of it was lost or measured
// twice.
func resumed(ctx context.Context, binary, dir string) (problems []string, err error) {
	before, err := finished(dir)
	if err != nil {
		return nil, err
	}
	if _, err := timed(ctx, binary, "tune", "ablate", "--quiet", "--resume", dir); err != nil {
		return nil, fmt.Errorf("resume: %w", err)
	}
	after, err := finished(dir)
	if err != nil {
		return nil, err
	}
	for id, n := range after {
		if n != 1 {
			problems = append(problems, fmt.Sprintf("%s is finished %d times", id, n))
		}
	}
	for id := range before {
		if after[id] == 0 {
			problems = append(problems, id+" is lost")
		}
	}
	return problems, nil
}
