// SPDX-License-Identifier: Apache-2.0

// Command killed starts a command, kills it with SIGKILL once it has made what is
// waited for, and looks whether all that it made is gone soon:
//
//	killed /sys/block/dm-* /sys/block/zram* -- boxdyno run storage
//
// What patterns match before the command's start is nobody's concern, nor is a process
// that ran then. It prints a line for each moment: "ok" or "FAILED". It runs on an
// emulated board.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	startPatience = 3 * time.Minute
	gonePatience  = 30 * time.Second
	look          = 20 * time.Millisecond
	missing       = 3 // exit code of boxdyno, and of this, where a program is not there
)

// later are how long the command works on once all is there, each a moment of its own.
var later = []time.Duration{0, 700 * time.Millisecond, 3 * time.Second}

func main() {
	split := slices.Index(os.Args, "--")
	if split < 2 || split+1 == len(os.Args) {
		fmt.Fprintln(os.Stderr, "killed: say PATTERN... -- COMMAND...")
		os.Exit(2)
	}
	failed := false
	for _, d := range later {
		if err := kill(os.Args[1:split], os.Args[split+1:], d); err != nil {
			if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == missing {
				os.Exit(missing)
			}
			failed = true
			fmt.Printf("FAILED killed %v after it had begun: %v\n", d, err)
			continue
		}
		fmt.Printf("ok killed %v after it had begun, nothing is left of %s\n", d, strings.Join(os.Args[split+1:], " "))
	}
	if failed {
		os.Exit(1)
	}
}

// kill is one moment.
func kill(patterns, argv []string, after time.Duration) error {
	before := there(append(slices.Clip(patterns), "/proc/[0-9]*"))
	dir, err := os.MkdirTemp("", "killed-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c := exec.Command(argv[0], argv[1:]...)
	c.Dir = dir
	if err := c.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	err = await(startPatience, func() bool {
		return !slices.ContainsFunc(patterns, func(p string) bool { return len(fresh([]string{p}, before)) == 0 })
	}, ended)
	if err != nil {
		_ = c.Process.Kill()
		return fmt.Errorf("it has not made %s: %w", strings.Join(patterns, " and "), err)
	}
	time.Sleep(after)
	if err := c.Process.Kill(); err != nil {
		return err
	}
	<-ended
	if err := await(gonePatience, func() bool { return len(fresh(patterns, before)) == 0 && len(working(before)) == 0 }, nil); err != nil {
		return fmt.Errorf("%v and processes %v are left: %w", fresh(patterns, before), working(before), err)
	}
	return nil
}

var errLate = errors.New("the time is over")

// await looks until something holds, ended says that a process has, or the time is over.
func await(most time.Duration, holds func() bool, ended <-chan error) error {
	for late := time.Now().Add(most); !holds(); {
		select {
		case err := <-ended:
			if err == nil {
				err = errors.New("exit code 0")
			}
			return fmt.Errorf("it ended before: %w", err)
		case <-time.After(look):
		}
		if time.Now().After(late) {
			return errLate
		}
	}
	return nil
}

func there(patterns []string) map[string]bool {
	found := map[string]bool{}
	for _, p := range patterns {
		names, _ := filepath.Glob(p) // a pattern that is none matches nothing, and is told as not made
		for _, n := range names {
			found[n] = true
		}
	}
	return found
}

// fresh is what patterns match now, and did not before.
func fresh(patterns []string, before map[string]bool) (names []string) {
	for n := range there(patterns) {
		if !before[n] {
			names = append(names, n)
		}
	}
	return names
}

// working are the programs that have begun since; the kernel's threads have none.
func working(before map[string]bool) (programs []string) {
	for _, p := range fresh([]string{"/proc/[0-9]*"}, before) {
		if program, err := os.Readlink(filepath.Join(p, "exe")); err == nil && p != fmt.Sprint("/proc/", os.Getpid()) {
			programs = append(programs, program)
		}
	}
	return programs
}
