// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"boxdyno/result"
)

// A boardRow is something that a box with two cables must do. Its loads are small:
// a board is emulated, and its speed means nothing.
type boardRow struct {
	name string
	run  []string                                                              // after "boxdyno run"
	try  func(ctx context.Context, name, out string) (seen string, works bool) // else
}

var boardRows = []boardRow{
	{"capture", []string{"capture", "--set", "subject=af_packet", "--set", "rate=200", "--set", "duration=2s"}, nil},
	{"ids", []string{"ids", "--set", "rules=50", "--set", "rate=400kbps", "--set", "idle=200kbps", "--set", "duration=2s"}, nil},
	{"tune", nil, tunedBoard},
	{"ablate", nil, ablatedBoard},
	{"route", []string{"forward", "--set", "service=route", "--set", "link_rate=300kbps"}, nil},
	{"filter", []string{"forward", "--set", "service=filter", "--set", "rules=10", "--set", "link_rate=300kbps"}, nil},
	{"nat", []string{"forward", "--set", "service=nat", "--set", "link_rate=300kbps"}, nil},
	{"cpus", []string{"forward", "--set", "service=nat", "--set", "link_rate=300kbps", "--set", "dut_cpus=1,all", "--set", "flows=32"}, nil},
	{"flood", []string{"flood", "--set", "rate=200", "--set", "benign=100", "--set", "link_rate=2Mbps"}, nil},
	{"connections", []string{"connections", "--set", "service=nat", "--set", "rate=20", "--set", "response_size=0"}, nil}, // a tap's buffers have no room for more
	{"replay", []string{"replay", "--set", "rate=100", "--set", "packets_of_file=200"}, nil},
	{"replay-into", []string{"replay", "--set", "target=box", "--set", "rate=100", "--set", "packets_of_file=200"}, nil},
	{"infer", []string{"infer", "--set", "model=tree", "--set", "rate=100", "--set", "duration=2s"}, nil},
	{"stream", []string{"stream", "--set", "protocol=tcp,udp"}, nil},
	{"vpn", []string{"vpn", "--set", "tunnel=openvpn", "--set", "traffic=tcp", "--set", "handshakes=3"}, nil},
	{"crypto", []string{"crypto", "--set", "path=openssl", "--set", "cipher=aes-cbc-128"}, nil},
	{"storage", []string{"storage", "--set", "size=8"}, nil},
	{"soak", []string{"soak", "--set", "stressors=pipe+yield", "--set", "each=5s"}, nil}, // an emulated board does thousands of their operations a second
	{"watch", nil, watchedBoard},
	{overloadRow, nil, overloadedBoard},
	{"another-version", nil, otherVersion},
	{"another-run", nil, twoRuns},
}

// bareRows are those whose trials have no frames of the engine, and so no books.
var bareRows = []string{"stream", "vpn", "crypto", "storage", "soak"}

const overloadRow = "overload"

// cellLimit is how long a cell may take, with the wait for others who measure.
const cellLimit = 10 * time.Minute

// onBoards starts a board for each model of ports, has it do every row by the product's
// own commands, and prints a table row for each. It returns how many cells do not work,
// or have frames whose end no counter names.
func onBoards(ctx context.Context, dir, arch string, models, rows []string) (failed int, err error) {
	for _, name := range rows {
		if !slices.ContainsFunc(boardRows, func(r boardRow) bool { return r.name == name }) && !slices.ContainsFunc(boardFaults, func(f boardFault) bool { return f.name == name }) {
			return 0, fmt.Errorf("there is no row %q", name)
		}
	}
	fmt.Printf("| ports | row | wall | seen |\n|---|---|---|---|\n")
	for _, model := range models {
		n, err := onBoard(ctx, filepath.Join(dir, model), arch, model, rows)
		if failed += n; err != nil {
			return failed, err
		}
	}
	return failed, nil
}

// A trial is worth nothing where others keep the tester or the board from the CPUs.
const boardNice = "0"

// tester is boxdyno ahead of other programs, in a session of its own: where CPU time goes to
// sessions first (autogroup), a nice value alone counts in its session only.
var tester = []string{"--in", "setsid", "sh", "-c", `[ ! -w /proc/self/autogroup ] || echo -10 >/proc/self/autogroup; exec nice -n -10 boxdyno "$@"`, "sh"}

const cables = "veth" // a namespace of this machine behind virtual cables, not emulated

var boardBench = cmp.Or(os.Getenv("BENCH"), "prove")

// board calls script/boards, in a bench of its own.
func board(ctx context.Context, args ...string) (stdout string, err error) {
	cmd := exec.CommandContext(ctx, "script/boards", args...)
	cmd.Env = append(os.Environ(), "BENCH="+boardBench)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 15 * time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err = cmd.Run(); err != nil {
		err = fmt.Errorf("%w: %s", err, last(errs.String()))
	}
	return out.String(), err
}

func onBoard(ctx context.Context, dir, arch, model string, rows []string) (failed int, err error) {
	const name = "p"
	begin := time.Now()
	if _, err := board(ctx, "--start", name, "--arch", arch, "--nice", boardNice, "--nic", model, "--nic", model); err != nil {
		return 0, fmt.Errorf("start a board with %s: %w", model, err)
	}
	defer func() {
		_, stopped := board(context.WithoutCancel(ctx), "--stop", name)
		err = errors.Join(err, stopped)
	}()
	kind := "emulated " + arch
	if model == cables {
		kind = "namespace"
	}
	line := func(row, seen string) {
		fmt.Printf("| %s, %s | %s | %.0f s | %s |\n", model, kind, row, time.Since(begin).Seconds(), seen)
	}
	line("start", "up")
	for _, words := range [][]string{{"box", "add", name, "--ssh", name}, {"box", "cables", name}} {
		begin = time.Now()
		if _, err := board(ctx, append([]string{"--in", "boxdyno"}, words...)...); err != nil {
			return failed, fmt.Errorf("%s: %w", strings.Join(words, " "), err)
		}
		line(strings.Join(words[:2], " "), "works")
	}
	cell := func(row string, try func(context.Context) (string, bool)) {
		if ctx.Err() != nil || len(rows) > 0 && !slices.Contains(rows, row) {
			return
		}
		begin = time.Now()
		limited, cancel := context.WithTimeout(ctx, cellLimit)
		defer cancel()
		seen, works := try(limited)
		if line(row, seen); !works {
			failed++
		}
	}
	for _, r := range boardRows {
		if model == cables && r.name == overloadRow { // its CPUs are this machine's
			continue
		}
		cell(r.name, func(ctx context.Context) (string, bool) {
			if r.try != nil {
				return r.try(ctx, name, filepath.Join(dir, r.name))
			}
			return ranOnBoard(ctx, name, filepath.Join(dir, r.name), r)
		})
	}
	for _, f := range boardFaults {
		if model == cables {
			break
		}
		cell(f.name, func(ctx context.Context) (string, bool) {
			return boardFaulty(ctx, name, filepath.Join(dir, f.name), f)
		})
	}
	return failed, ctx.Err()
}

func ranOnBoard(ctx context.Context, name, out string, r boardRow) (seen string, works bool) {
	args := slices.Concat(tester, []string{"run"}, r.run, []string{"--box", name, "--quick", "--quiet", "--out", out})
	_, err := board(ctx, args...)
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1 && exit.ExitCode() != 3 && exit.ExitCode() != 4) {
		return last(err.Error()), false
	}
	_, recs, oerr := result.Open(out)
	if oerr != nil {
		return last(fmt.Sprint(oerr, ": ", err)), false
	}
	return boardCell(recs, slices.Contains(bareRows, r.name))
}

// watchedBoard reads a board's collectors at 10 Hz for three seconds.
func watchedBoard(ctx context.Context, name, _ string) (seen string, works bool) {
	said, err := board(ctx, "--in", "boxdyno", "watch", "--box", name, "--json", "--rate", "10", "--for", "3s")
	if err != nil {
		return last(err.Error()), false
	}
	lines := strings.Count(said, "\n")
	return fmt.Sprintf("works; %d lines in 3 s", lines), lines > 10
}

// boardCell is what records of a run say of a box: whether each point was measured, and
// whether the books of all trials close; bare trials have none. A point without a figure,
// because somebody else had the CPUs, works if its books close: its cell says why. So does
// a run all of whose points the board lacks something for.
func boardCell(recs []result.Record, bare bool) (seen string, works bool) {
	var reasons, late, skipped []string
	var frames, least, most int64
	points, trials, without, open, invalid := 0, 0, 0, 0, ""
	for _, r := range recs {
		if r.Procedure == "self-test" {
			continue
		}
		if r.Parent == "" {
			points++
			switch why := fmt.Sprintf("%s: %s", r.Status, r.Reason); r.Status {
			case result.Passed, result.Failed:
			case result.Invalid:
				late = append(late, why)
			case result.Skipped:
				skipped = append(skipped, why)
			default:
				reasons = append(reasons, why)
			}
			continue
		}
		if r.Status == result.Invalid {
			invalid = r.Reason
		}
		if a := r.Account; a != nil {
			trials++
			frames += a.Accepted
			least, most = min(least, a.Unexplained), max(most, a.Unexplained)
			if a.Unexplained != 0 {
				open++
			}
		} else if r.Status == result.Passed {
			without++
		}
	}
	if bare || trials == 0 {
		reasons = append(reasons, late...)
	}
	if points > 0 && len(skipped) == points {
		return last(strings.Join(skipped, "; ")), true
	}
	reasons = append(reasons, skipped...)
	switch {
	case points == 0:
		reasons = append(reasons, "nothing was measured")
	case reasons == nil && trials == 0 && bare && without > 0:
		return fmt.Sprintf("works; %d trials, without the engine's frames", without), true
	case reasons == nil && trials == 0:
		reasons = append(reasons, "no trial has books: "+invalid)
	case open > 0:
		reasons = append(reasons, fmt.Sprintf("unexplained %d to %d in %d of %d trials, %d frames", least, most, open, trials, frames))
	}
	if reasons != nil {
		return last(strings.Join(reasons, "; ")), false
	}
	if seen = "works; unexplained 0 of " + strconv.FormatInt(frames, 10); late != nil {
		seen += "; no figure, " + last(strings.Join(late, "; "))
	}
	return seen, true
}

// boardSettings print what a recipe may have changed on a board.
const boardSettings = "for p in p0 p1; do for o in -g -c -l -k -a; do ethtool $o $p 2>&1; done; grep . /sys/class/net/$p/queues/*/*_cpus; ip -d link show $p; done; sysctl net.core; ps -eo comm | grep irqbalance || true"

// ringsRecipe is some of the sensor recipe, for ports with real rings.
const ringsRecipe = `name: rings
steps:
- {knob: rings, value: rx=512 tx=512}
- {knob: gro, value: "off"}
- {knob: rx-checksum, value: "off"}
`

// tunedBoard applies a recipe to a board's port and reverts it. All settings are then as
// before.
func tunedBoard(ctx context.Context, name, _ string) (seen string, works bool) {
	before := settingsOf(ctx, name)
	if _, err := board(ctx, "--in", "boxdyno", "tune", "apply", "sensor-pi5", "--box", name, "--port", "p0"); err != nil {
		return "apply: " + err.Error(), false
	}
	amid := settingsOf(ctx, name)
	if _, err := board(ctx, "--in", "boxdyno", "tune", "revert", "--box", name); err != nil {
		return "revert: " + err.Error(), false
	}
	changed, left := differing(before, amid), differing(before, settingsOf(ctx, name))
	if changed == 0 || left > 0 {
		return fmt.Sprintf("%d lines of settings changed, %d are left", changed, left), false
	}
	return fmt.Sprintf("works; %d lines of settings changed, all are back", changed), true
}

// ablatedBoard takes ringsRecipe apart on a board. All settings are then as before.
func ablatedBoard(ctx context.Context, name, out string) (seen string, works bool) {
	recipe := out + ".yaml"
	if err := errors.Join(os.MkdirAll(filepath.Dir(out), 0o755), os.WriteFile(recipe, []byte(ringsRecipe), 0o644)); err != nil {
		return err.Error(), false
	}
	before := settingsOf(ctx, name)
	_, err := board(ctx, append(slices.Clone(tester), "tune", "ablate", recipe, "--box", name, "--quiet", "--repeat", "1", "--set", "search=none", "--set", "link_rate=300kbps", "--out", out)...)
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 4) { // 4: one repeat decides nothing
		return last(err.Error()), false
	}
	_, recs, err := result.Open(out)
	if err != nil {
		return err.Error(), false
	}
	points := 0
	for _, r := range recs {
		if r.Parent == "" && r.Procedure != "self-test" {
			points++
		}
	}
	if left := differing(before, settingsOf(ctx, name)); left > 0 || points == 0 {
		return fmt.Sprintf("%d parts, %d lines of settings are left", points, left), false
	}
	return fmt.Sprintf("works; %d parts, all settings are back", points), true
}

func settingsOf(ctx context.Context, name string) string {
	out, err := board(ctx, "--in", "ssh", name, boardSettings)
	return fmt.Sprint(out, err)
}

func differing(a, b string) (n int) {
	was := strings.Split(a, "\n")
	for i, line := range strings.Split(b, "\n") {
		if i >= len(was) || was[i] != line {
			n++
		}
	}
	return n
}
