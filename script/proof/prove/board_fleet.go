// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"boxdyno/host"
	"boxdyno/report"
	"boxdyno/report/text"
	"boxdyno/result"
)

// A fleet of emulated boards on one switch:
//
//	this machine: hub at 10.111.0.254 ---- switch ---- f1, f2, ... (2 CPUs, 256 MiB each)
//	ssh to each ------------------------- user network
//
// Systemd runs on the first board, which has the agent's package, and on the third, which
// has not. The others have no systemd. Three boards and more have one CPU each. Another
// one beside them on amd64, n1, has programs of 32 bits: it takes part in all but hpl-mpi.
// There each board has one process, which takes a CPU of this machine even while it waits.
var fleetRuns = []fleetWork{
	{name: "crypto", words: []string{"--set", "path=openssl", "--set", "cipher=aes-cbc-128", "--set", "most_skew=0.2"}, metric: "encrypt_bytes_per_s"},
	{name: "study", words: []string{"--set", "path=cryptsetup", "--set", "cipher=" + studied, "--set", "most_skew=0.5"}, metric: "encrypt_bytes_per_s", must: true},
	{name: "soak", words: []string{"--set", "stressors=cpu", "--set", "each=10s", "--set", "most_skew=0.2"}, metric: "bogo_ops_rate"},
	{name: "hpl-mpi", words: []string{"--set", "order=256", "--set", "block=64", "--set", "parallel=1", "--set", "most_skew=1"}, metric: "hpl_rate", must: true},
	{name: "stream", words: []string{"--set", "trials=1"}},
}

// A fleetWork is what boards do together.
type fleetWork struct {
	name   string // of the procedure; study is that of crypto
	words  []string
	metric string // of all boards together; "": of pairs
	must   bool   // have a figure for each number of boards
}

// studied are the ciphers of the published cluster study, each of which is measured both ways.
const studied = "aes-cbc-128,aes-cbc-256,twofish-cbc-128,twofish-cbc-256,serpent-cbc-128,serpent-cbc-256"

const (
	fleetHubAt = "10.111.0.254:4222"
	fleetUp    = time.Minute
)

// fleetRows are those of fleetRuns with these names; without names, all.
func fleetRows(names []string) ([]fleetWork, error) {
	for _, name := range names {
		if !slices.ContainsFunc(fleetRuns, func(r fleetWork) bool { return r.name == name }) {
			return nil, fmt.Errorf("there is no run %q of a fleet", name)
		}
	}
	return slices.DeleteFunc(slices.Clone(fleetRuns), func(r fleetWork) bool { return len(names) > 0 && !slices.Contains(names, r.name) }), nil
}

// boardFleet starts n boards, enrols them by ssh, and has 1 to n of them encrypt, compute and
// solve one system together, and stream to each other; rows are those of fleetRuns that are
// run, by default all. It prints what was seen, and returns how many of its lines are not as
// they must be.
func boardFleet(ctx context.Context, dir, arch string, n int, rows []string) (failed int, err error) {
	if n < 2 || n > 9 {
		return 0, fmt.Errorf("a fleet of %d emulated boards: want 2 to 9", n)
	}
	runs, err := fleetRows(rows)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	line := func(what string, works bool, seen string) {
		if !works {
			failed++
			seen = "NOT AS IT MUST BE: " + seen
		}
		fmt.Printf("| %s | %.0f s | %s |\n", what, time.Since(begin).Seconds(), strings.ReplaceAll(strings.TrimSpace(seen), "\n", "; "))
		begin = time.Now()
	}
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("f%d", i+1))
	}
	alike, cpus := slices.Clone(names), "2"
	if n > 2 {
		cpus = "1"
		if arch == "amd64" {
			names = append(names, narrow)
		}
	}
	for i, name := range names {
		of := arch
		if name == narrow {
			of = "i386"
		}
		args := []string{"--start", name, "--arch", of, "--cpus", cpus, "--memory", "256", "--nice", boardNice, "--nic", "virtio-net@switch"}
		if systemdOn(i) {
			args = append(args, "--systemd")
		}
		if _, err := board(ctx, args...); err != nil {
			return failed, fmt.Errorf("start board %s: %w", name, err)
		}
		defer func() {
			_, stopped := board(context.WithoutCancel(ctx), "--stop", name)
			err = errors.Join(err, stopped)
		}()
	}
	fmt.Printf("| boards %s, emulated %s | wall | seen |\n|---|---|---|\n", strings.Join(names, ", "), arch)
	line("start", true, cpus+" CPUs and 256 MiB each, one switch")
	hub, err := startHub(ctx, dir)
	if err != nil {
		return failed, err
	}
	defer func() { err = errors.Join(err, hub.end()) }()
	boxdyno := func(words ...string) (string, error) {
		return board(ctx, append([]string{"--in", "boxdyno"}, words...)...)
	}
	for _, name := range names {
		if _, err := boxdyno("box", "add", name, "--ssh", name); err != nil {
			return failed, fmt.Errorf("box add: %w", err)
		}
	}
	line("box add", true, "each has the agent")
	if err := packaged(ctx, names[0], arch); err != nil {
		return failed, err
	}
	enrol := []string{"fleet", "enrol", "--quiet", "--group", "shelf", "--allow", "network", "--folder", hub.folder}
	said, err := boxdyno(enrol...)
	if err != nil {
		return failed, fmt.Errorf("fleet enrol: %w", err)
	}
	right := true
	for i, name := range names {
		right = right && strings.Contains(said, "is in the fleet as "+name+", "+map[bool]string{true: "as a service", false: "in the background"}[systemdOn(i)])
	}
	line("fleet enrol", right, said)
	again, err := boxdyno(enrol...)
	line("fleet enrol again", err == nil && strings.Count(again, "was in the fleet already") == len(names), fmt.Sprint(again, errorText(err)))
	for i, name := range names {
		if systemdOn(i) {
			said, works := unitOf(ctx, name, i == 0)
			line("service on "+name, works, said)
		}
	}
	for _, r := range runs {
		procedure, out, boxes := r.name, filepath.Join(dir, r.name), names
		var numbers []int
		for k := range len(names) {
			numbers = append(numbers, k+1)
		}
		switch r.name {
		case "study":
			procedure = "crypto"
		case "stream":
			numbers = []int{len(names)}
		case "hpl-mpi":
			boxes, numbers = alike, slices.DeleteFunc([]int{1, 2, 4}, func(k int) bool { return k > n })
		}
		args := slices.Concat([]string{"fleet", "run", procedure}, r.words, []string{"--boxes", strings.Join(boxes, ","), "--nodes", strings.Trim(strings.ReplaceAll(fmt.Sprint(numbers), " ", ","), "[]"), "--quick", "--quiet", "--folder", hub.folder, "--out", out})
		said, err := boxdyno(args...)
		var exit *exec.ExitError
		if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 4 && exit.ExitCode() != 1) { // 4: a point is invalid; 1: it failed
			line("fleet run "+r.name, false, err.Error())
			continue
		}
		works := true
		if r.metric == "" {
			said, works, err = streamed(out, len(names), said)
		} else {
			said, works, err = fleetRan(out, numbers, r)
		}
		if err != nil {
			return failed, err
		}
		page, made := fleetPage(boxdyno, out, cmp.Or(r.metric, "goodput_bps"))
		line("fleet run "+r.name, works && made, strings.TrimSuffix(said, "; ")+"; "+page)
		if r.name == "study" {
			if err := besideCluster(os.Stdout, out); err != nil {
				return failed, err
			}
		}
	}
	if len(names) > n {
		said, err := boxdyno("fleet", "run", "hpl-mpi", "--boxes", names[0]+","+narrow, "--quick", "--quiet", "--folder", hub.folder, "--out", filepath.Join(dir, "mixed"))
		const refused = "cannot pass messages to each other"
		said = strings.Join(strings.Fields(said), " ")
		line("hpl-mpi of two widths", err != nil && strings.Contains(said, refused), said[max(0, strings.Index(said, "FAILED")):]+errorText(err))
	}
	said, err = boxdyno("size", "--for", "hpl", "--load", "1GFLOPS", "--runs", dir)
	line("size", err == nil && !strings.Contains(said, "emulated"), "no emulated board is counted; "+last(strings.TrimSpace(said))+errorText(err))
	_, err = board(ctx, "--reset", names[0])
	if err == nil {
		err = await(ctx, func() bool {
			said, err := boxdyno("fleet", "check", names[0], "--folder", hub.folder)
			return err == nil && strings.Contains(said, names[0]+": ")
		})
	}
	line("reset of "+names[0], err == nil, "its service brings it back into the fleet"+errorText(err))
	for i, name := range names {
		_, err := boxdyno("box", "rm", name)
		left, lerr := board(ctx, "--in", "ssh", name, leftOfFleet)
		if i == 0 { // the package's agent stays in the fleet
			left = ""
		}
		if err != nil || lerr != nil || strings.TrimSpace(left) != "" {
			line("box rm "+name, false, fmt.Sprint(left, errorText(err), errorText(lerr)))
		}
	}
	line("box rm", true, "no agent, key or service of it is left on a board")
	return failed, nil
}

// narrow is the board with programs of 32 bits.
const narrow = "n1"

func systemdOn(i int) bool { return i == 0 || i == 2 }

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return ": " + last(err.Error())
}

// leftOfFleet prints what enrolment put on a board.
const leftOfFleet = "ls -d /var/lib/boxdyno-agent /etc/systemd/system/boxdyno-agent* /etc/systemd/system/*/boxdyno-agent.service 2>/dev/null; pgrep -ax boxdyno-agent; true"

// packaged puts the files of the agent's package on a board, which has no dpkg.
func packaged(ctx context.Context, name, arch string) error {
	for from, to := range map[string]string{"bin/boxdyno-agent-" + arch: "/usr/bin/boxdyno-agent", "script/packages/boxdyno-agent.service": "/usr/lib/systemd/system/boxdyno-agent.service"} {
		if _, err := board(ctx, "--in", "sh", "-c", fmt.Sprintf("ssh %s 'cat >%[3]s; chmod 755 %[3]s' <%[2]s", name, from, to)); err != nil {
			return fmt.Errorf("put %s on %s: %w", to, name, err)
		}
	}
	return nil
}

// unitOf is how the agent's service on a board runs: bounded, and from the package where that
// has one.
func unitOf(ctx context.Context, name string, ofPackage bool) (said string, works bool) {
	said, err := board(ctx, "--in", "ssh", name, "systemctl show -P ActiveState -P NRestarts -P FragmentPath -P DropInPaths boxdyno-agent; readlink /proc/$(systemctl show -P MainPID boxdyno-agent)/exe; grep -E 'CapBnd|NoNewPrivs' /proc/$(systemctl show -P MainPID boxdyno-agent)/status")
	if err != nil {
		return err.Error(), false
	}
	at := "/etc/systemd/system/boxdyno-agent.service"
	if ofPackage {
		at = "/usr/lib/systemd/system/boxdyno-agent.service"
	}
	works = strings.Contains(said, "active\n") && strings.Contains(said, "\n"+at+"\n") && strings.Contains(said, "NoNewPrivs:\t1") && !strings.Contains(said, "CapBnd:\t000001ff")
	return strings.ReplaceAll(said, "\t", " "), works
}

// starved are parts of reasons for which a trial on an emulated board is rightly invalid: an
// emulated CPU runs the agent and the kernel, too, and has too little of this machine's CPUs.
var starved = []string{"is the least: something else ran there", "from the common instant"}

// fleetRan is what a run of w on numbers of boards says: of each number, how many trials
// have a figure, and the greatest. Trials that are invalid by a board's name because it was
// starved are as expected, unless a figure must be.
func fleetRan(out string, numbers []int, w fleetWork) (said string, works bool, err error) {
	_, recs, err := result.Open(out)
	if err != nil {
		return "", false, err
	}
	works = true
	valid, trials, sums := map[int]int{}, map[int]int{}, map[int]float64{}
	whys := map[string]bool{}
	for _, r := range recs {
		nodes, _ := strconv.Atoi(setting(r, "nodes")) // a part of the run without boards has none
		if nodes < 1 {
			continue
		}
		if r.Parent == "" {
			if r.Status != result.Passed {
				whys[fmt.Sprintf("a point is %s: %s", r.Status, r.Reason)] = true
			}
			continue
		}
		if len(r.Boards) != nodes {
			works = false
			said += fmt.Sprintf("a trial of %d boards has %d; ", nodes, len(r.Boards))
		}
		if r.Status == result.Passed && len(r.Values) == 0 {
			continue // a known answer
		}
		trials[nodes]++
		if r.Status == result.Passed {
			valid[nodes]++
			sums[nodes] = max(sums[nodes], figure(r, w.metric))
			continue
		}
		known := slices.ContainsFunc(starved, func(s string) bool { return strings.Contains(r.Reason, s) })
		works = works && r.Status == result.Invalid && strings.Contains(r.Reason, "board ") && known
		whys[fmt.Sprintf("%s: %s", r.Status, r.Reason)] = true
	}
	for _, n := range numbers {
		works = works && trials[n] > 0 && (valid[n] > 0 && sums[n] > 0 || !w.must && valid[n] == 0)
		said += fmt.Sprintf("%d boards: %d of %d trials are valid, together at most %.3g/s; ", n, valid[n], trials[n], sums[n])
	}
	if len(whys) > 0 && works {
		said += "the others are invalid, as expected of emulated CPUs that share this machine's: "
	}
	return said + last(strings.Join(slices.Sorted(maps.Keys(whys)), "; ")), works, nil
}

// besideCluster prints what emulated boards did beside the published cluster of 20, with its
// notes. A report has no such table of emulated boards, whose speeds mean nothing.
func besideCluster(w io.Writer, dir string) error {
	run, recs, err := result.Open(dir)
	if err != nil {
		return err
	}
	for i := range run.Machines {
		run.Machines[i].Kind = "real"
	}
	d := report.Summarize(run, recs)
	d.Tables = slices.DeleteFunc(d.Tables, func(t report.Table) bool { return !strings.Contains(t.Title, "published cluster") })
	for i := range d.Tables {
		d.Tables[i].Title = "EMULATED, speeds mean nothing: " + d.Tables[i].Title
	}
	return text.Terminal(w, report.Document{Tables: d.Tables})
}

// streamed is what a run of streams in all pairs of n boards says: every pair has a figure.
func streamed(out string, n int, printed string) (said string, works bool, err error) {
	_, recs, err := result.Open(out)
	if err != nil {
		return "", false, err
	}
	var pairs []string
	for _, r := range recs {
		if v := figure(r, "goodput_bps"); r.Parent != "" && v > 0 {
			pairs = append(pairs, fmt.Sprintf("%s to %s %.3g Mbit/s", setting(r, "from"), setting(r, "to"), v/1e6))
		}
	}
	note := ""
	for text := range strings.Lines(printed) {
		if strings.Contains(text, "the slowest pair is") {
			note = "; " + strings.TrimSpace(text)
		}
	}
	return strings.Join(pairs, "; ") + note, len(pairs) == n*(n-1) && note != "", nil
}

// fleetPage makes the page of a run, and looks whether it is one and has the metric.
func fleetPage(boxdyno func(...string) (string, error), run, metric string) (said string, works bool) {
	page := run + ".html"
	if _, err := boxdyno("report", run, "-o", page); err != nil {
		return err.Error(), false
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err.Error(), false
	}
	return fmt.Sprintf("one HTML page of %d kB, which says emulated", len(text)/1000), bytes.Contains(text, []byte("emulated")) && bytes.Contains(text, []byte(metric))
}

// await waits until something is so.
func await(ctx context.Context, so func() bool) error {
	for begin := time.Now(); !so(); {
		if time.Since(begin) > fleetUp {
			return fmt.Errorf("not after %v", fleetUp)
		}
		if err := host.Pause(ctx, time.Second); err != nil {
			return err
		}
	}
	return nil
}

// A runningHub is the product's hub in the boards' namespace.
type runningHub struct {
	cmd    *exec.Cmd
	folder string
}

func startHub(ctx context.Context, dir string) (*runningHub, error) {
	h := &runningHub{folder: filepath.Join(dir, "hub")}
	h.cmd = exec.CommandContext(ctx, "script/boards", "--in", "boxdyno", "fleet", "hub", "--listen", fleetHubAt, "--boards", "tls://"+fleetHubAt, "--folder", h.folder)
	h.cmd.Env = append(os.Environ(), "BENCH="+boardBench)
	h.cmd.Cancel = func() error { return h.cmd.Process.Signal(os.Interrupt) }
	h.cmd.WaitDelay = 5 * time.Second
	var said bytes.Buffer
	h.cmd.Stderr = &said
	if err := h.cmd.Start(); err != nil {
		return nil, err
	}
	err := await(ctx, func() bool {
		_, err := board(ctx, "--in", "boxdyno", "fleet", "ls", "--folder", h.folder)
		return err == nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the hub does not listen: %w: %s", err, last(said.String())), h.end())
	}
	return h, nil
}

// end interrupts the hub, which is then done.
func (h *runningHub) end() error {
	if err := h.cmd.Process.Signal(os.Interrupt); err != nil {
		return nil // it has ended
	}
	if err := h.cmd.Wait(); err != nil && h.cmd.ProcessState.ExitCode() != 0 && h.cmd.ProcessState.ExitCode() != 130 {
		return fmt.Errorf("the hub: %w", err)
	}
	return nil
}
