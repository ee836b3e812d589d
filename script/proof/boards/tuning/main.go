// SPDX-License-Identifier: Apache-2.0

// Command tuning turns the knobs of this board's NICs with boxdyno, and looks whether
// the kernel shows what was asked for, whether revert and recovery bring back all that
// was, and whether what a driver rounds or refuses is named. It runs on an emulated
// board: it has its way with every NIC.
//
//	NIC -> snapshot -> tune apply -> kernel shows it? -> tune revert -> the same snapshot?
//	               \-> tune apply, SIGKILL after entry k of its journal -> next command -> the same?
//
// It prints a line for each check: "ok", "FAILED" or "skipped".
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"boxdyno/host"
	"boxdyno/internal/snapshot"
)

// up is how long a link may take to come up again after its NIC was reset.
const up = 20 * time.Second

func main() {
	if (&host.Local{}).Identify().Kind != "emulated" {
		fmt.Fprintln(os.Stderr, "tuning: this turns every knob of every NIC, and is for emulated boards alone: run script/boards --test")
		os.Exit(2)
	}
	t := &tester{state: "/run/tuning"}
	flag.IntVar(&t.kills, "kills", 2, "how often tune apply is killed with each NIC, at least 2")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the moments")
	flag.Parse()
	t.random = rand.New(rand.NewPCG(*seed, 1))
	fmt.Println("moments of kills by seed", *seed)
	if err := t.all(); err != nil {
		fmt.Println("FAILED", err)
		t.failed++
	}
	if t.failed > 0 {
		os.Exit(1)
	}
}

// A tester counts what does not hold.
type tester struct {
	failed int
	kills  int
	random *rand.Rand
	state  string // folder of boxdyno's journals
}

// check prints one line; problems is what does not hold.
func (t *tester) check(what string, problems []string) {
	if len(problems) == 0 {
		fmt.Println("ok", what)
		return
	}
	t.failed++
	fmt.Printf("FAILED %s: %s\n", what, strings.Join(problems, "; "))
}

func (t *tester) all() error {
	nics, err := find()
	if err != nil {
		return err
	}
	for _, n := range nics {
		if err := n.setUp(); err != nil {
			return err
		}
	}
	time.Sleep(2 * time.Second) // until addresses are there, which settings of IPv6 tell
	for _, n := range nics {
		p, ok := plans[n.driver]
		if !ok {
			fmt.Printf("skipped %s: nothing is known about driver %s\n", n.port, n.driver)
			continue
		}
		if n.queues() < 2 && slices.ContainsFunc(p.turned, func(s step) bool { return s.knob == "channels" }) {
			fmt.Printf("skipped channels of %s: this NIC has one queue; two need a tap, which root may make\n", n.driver)
			p.turned = slices.DeleteFunc(slices.Clone(p.turned), func(s step) bool { return s.knob == "channels" })
		}
		before, err := n.settled()
		if err != nil {
			return err
		}
		for _, f := range []func(nic, plan, map[string]string) error{t.reverts, t.names, t.strict, t.killed} {
			if err := f(n, p, before); err != nil {
				return fmt.Errorf("%s: %w", n.driver, err)
			}
		}
	}
	return nil
}

// reverts applies a plan, looks at it through the kernel and through tune status, and
// takes it back.
func (t *tester) reverts(n nic, p plan, before map[string]string) error {
	settings, err := t.apply(n, p.turned)
	if err != nil {
		return err
	}
	t.check(n.driver+": tune apply", answers(p.turned, settings))
	if err := n.linkUp(); err != nil {
		return err
	}
	seen, err := n.look(p.turned)
	if err != nil {
		return err
	}
	t.check(fmt.Sprintf("%s: the kernel shows all %d settings", n.driver, len(p.turned)), seen)
	standing, err := t.status()
	if err != nil {
		return err
	}
	t.check(n.driver+": tune status", stands(p.turned, standing))
	if err := t.revert(); err != nil {
		return err
	}
	return t.same(n, before, n.driver+": tune revert, and all is as it was")
}

// names gives the driver what it rounds or refuses, each knob once at a time.
func (t *tester) names(n nic, p plan, before map[string]string) error {
	for rest := p.odd; len(rest) > 0; {
		var now, later []step
		for _, s := range rest {
			if slices.ContainsFunc(now, func(o step) bool { return o.knob == s.knob }) {
				later = append(later, s)
			} else {
				now = append(now, s)
			}
		}
		rest = later
		settings, err := t.apply(n, now)
		if err != nil {
			return err
		}
		for i, s := range now {
			t.check(fmt.Sprintf("%s: %s %s is named", n.driver, s.knob, s.value), answers(now[i:i+1], settings[i:i+1]))
		}
		if err := t.revert(); err != nil {
			return err
		}
	}
	return t.same(n, before, n.driver+": after odd values all is as it was")
}

// strict puts an odd value behind some of the plan: nothing of it may stand.
func (t *tester) strict(n nic, p plan, before map[string]string) error {
	odd := p.odd[0]
	steps := slices.DeleteFunc(slices.Clone(p.turned), func(s step) bool { return s.knob == odd.knob }) // it may stand there once
	code, said := t.tune(n, append(steps[:3], odd), "--strict")
	var problems []string
	if code != 1 || !strings.Contains(said, "nothing was changed") {
		problems = append(problems, fmt.Sprintf("exit code %d: %s", code, said))
	}
	t.check(n.driver+": tune apply --strict refuses", problems)
	return t.same(n, before, n.driver+": after tune apply --strict all is as it was")
}

// killed kills tune apply once its journal has k entries, for kills of the k that there
// are, the first and the last among them: knobs are met while they are turned. The next
// privileged command has to put everything back.
func (t *tester) killed(n nic, p plan, before map[string]string) error {
	var problems []string
	kills := 0
	points := append(t.random.Perm(len(p.turned) - 2)[:min(t.kills, len(p.turned))-2], -1, len(p.turned)-2)
	slices.Sort(points)
	for _, k := range points {
		k += 2
		met, err := t.killAt(n, p.turned, k)
		if err != nil {
			return err
		}
		if !met {
			continue // it was through before it could be met
		}
		kills++
		next := []string{"tune", "revert"}
		if k == 1 {
			next = []string{"run", "self-test", "--lab", "mem", "--out", "/tmp/" + n.port}
		}
		if code, errs := t.boxdyno(next...); code != 0 || !strings.Contains(errs, "which a process that died had applied") {
			problems = append(problems, fmt.Sprintf("after entry %d: exit code %d: %s", k, code, errs))
		}
		after, err := n.settled()
		if err != nil {
			return err
		}
		for _, d := range append(snapshot.Diff(before, after), t.journals()...) {
			problems = append(problems, fmt.Sprintf("after entry %d: %s", k, d))
		}
	}
	if kills == 0 {
		problems = append(problems, "no kill met tune apply")
	}
	t.check(fmt.Sprintf("%s: SIGKILL amid tune apply %d times, and the next command puts all back", n.driver, kills), problems)
	return nil
}

// same compares the machine with what it was.
func (t *tester) same(n nic, before map[string]string, what string) error {
	after, err := n.settled()
	if err != nil {
		return err
	}
	t.check(fmt.Sprintf("%s (%d settings)", what, len(before)), append(snapshot.Diff(before, after), t.journals()...))
	return nil
}

// journals says which there are; there shall be none.
func (t *tester) journals() (left []string) {
	names, _ := filepath.Glob(filepath.Join(t.state, "boxdyno", "tune", "*"))
	for _, n := range names {
		left = append(left, "journal "+n+" is left")
	}
	return left
}
