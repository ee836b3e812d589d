// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"boxdyno/result"
	"boxdyno/script/proof/boards/job"
)

// A boardCheck is what --test runs in a board, and what reads it.
type boardCheck struct {
	command job.Command
	read    func(*checker, ran)
	on      []string // boards; nil: all
	ci      []string // those where --ci has it, too: the time there is short
	tools   bool     // it runs programs of others
}

var virt = []string{"amd64", "arm64", "armhf", "riscv64"} // all but raspi3b, which has no NIC

// Limits are for a host that has other things to do: a board that hangs is told all
// the same.
var allChecks = []boardCheck{
	{command: boardCommand(4*time.Minute, "boxdyno doctor --json"), read: (*checker).doctor, ci: []string{"arm64"}},
	{command: boardCommand(4*time.Minute, "boxdyno run self-test --quiet --json --out run"), read: (*checker).bundle},
	{command: boardCommand(6*time.Minute, "boxdyno run forward --quiet --set frame_size=64 --out forward"), read: (*checker).forward, on: virt},
	{command: boardCommand(4*time.Minute, "sensors"), read: (*checker).sensors, on: []string{"amd64", "arm64", "raspi3b"}, ci: []string{"arm64"}},
	{command: boardCommand(time.Minute, "boxdyno watch --json --collectors thermal,hwmon --for 2s"), read: (*checker).thermal, on: []string{"raspi3b"}},
	{command: boardCommand(4*time.Minute, "cipher.test -test.run ^TestKernelCiphers$ -test.v"), read: unitTests(prefixed("TestKernelCiphers/", provenCiphers)...), on: virt, ci: []string{"arm64"}},
	{command: boardCommand(6*time.Minute, "boxdyno run crypto --quiet --set path=af-alg,cryptsetup --out crypto"), read: (*checker).crypto, on: []string{"amd64", "arm64"}, tools: true},
	{command: boardCommand(4*time.Minute, "tunnel.test -test.run ^TestTunnels$/^(wireguard|ipsec)$ -test.v"), read: unitTests("TestTunnels/wireguard", "TestTunnels/ipsec"), on: virt, ci: []string{"arm64"}},
	{command: boardCommand(4*time.Minute, "tunnel.test -test.run ^TestTunnels$/^(openvpn|openvpn-dco)$ -test.v"), read: unitTests("TestTunnels/openvpn", "TestTunnels/openvpn-dco"), on: []string{"amd64"}, tools: true},
	{command: boardCommand(10*time.Minute, "boxdyno run vpn --quiet --set tunnel=wireguard,ipsec --set search=none --out vpn"), read: (*checker).vpn, on: []string{"amd64", "arm64"}, tools: true},
	{command: boardCommand(6*time.Minute, "disk.test -test.run ^TestLUKS2$ -test.v"), read: unitTests("TestLUKS2"), on: []string{"arm64"}},
	{command: boardCommand(10*time.Minute, "boxdyno run storage --quiet --json --set size=8 --out storage"), read: (*checker).storage, on: []string{"arm64"}, tools: true},
	{command: boardCommand(10*time.Minute, "killed /sys/block/dm-* /sys/block/zram* -- boxdyno run storage --quiet --set size=8"), read: (*checker).killed, on: []string{"arm64"}, tools: true},
	{command: boardCommand(6*time.Minute, "tuning"), read: (*checker).tuning, on: []string{"amd64", "arm64"}},
}

func boardCommand(limit time.Duration, line string) job.Command {
	return job.Command{Argv: strings.Fields(line), Limit: limit}
}

func prefixed(prefix string, names []string) (out []string) {
	for _, n := range names {
		out = append(out, prefix+n)
	}
	return out
}

// checks are those of a board: all, or those of continuous integration.
func (b board) checks(ci bool) (out []boardCheck) {
	for _, c := range allChecks {
		if c.on != nil && !slices.Contains(c.on, b.name) || ci && !slices.Contains(c.ci, b.name) {
			continue
		}
		out = append(out, c)
	}
	return out
}

// A checker counts what holds.
type checker struct {
	w                       io.Writer
	board                   string
	files                   map[string][]byte
	passed, failed, skipped int
	reasons                 []string
}

// check looks at the results of all checks of a board, and ends with how many hold; it
// returns the exit code.
func check(w io.Writer, b board, all []boardCheck, r results) int {
	c := &checker{w: w, board: b.name, files: r.files}
	c.holds("boots", r.boot.Kernel != "", "it said nothing of its kernel")
	c.holds("does all of its job", len(r.commands) == len(all), fmt.Sprintf("it carried out %d of %d commands", len(r.commands), len(all)))
	for i, ran := range r.commands {
		all[i].read(c, ran)
	}
	for _, r := range c.reasons {
		fmt.Fprintf(w, "  1 skipped: %s\n", r)
	}
	fmt.Fprintf(w, "%d passed, %d failed, %d skipped\n", c.passed, c.failed, c.skipped)
	if c.failed > 0 {
		return 1
	}
	return 0
}

func (c *checker) holds(what string, ok bool, why string) {
	if ok {
		c.passed++
		fmt.Fprintf(c.w, "ok      %s: %s\n", c.board, what)
		return
	}
	c.failed++
	fmt.Fprintf(c.w, "FAILED  %s: %s: %s\n", c.board, what, why)
}

func (c *checker) skips(why string) {
	c.skipped++
	c.reasons = append(c.reasons, c.board+": "+why)
}

// doctor must know that this is no real board, and that engine and sandbox work there.
// The board has no programs but ours, so it misses some: exit code 3.
func (c *checker) doctor(r ran) {
	var ds []struct{ Group, Name, Answer, Detail string }
	err := json.Unmarshal(r.stdout, &ds)
	c.holds("doctor answers", err == nil && (r.Exit == 0 || r.Exit == 3), fmt.Sprintf("exit code %d %s: %v: %s", r.Exit, r.Problem, err, r.stderr))
	wanted := []struct{ name, answer, detail string }{
		{"not virtual", "no", "emulated (qemu)"}, {"network namespaces", "ok", ""}, {"BPF programs", "ok", ""}, {"packet", "ok", ""}, {"sandbox", "ok", ""},
	}
	if slices.Contains(virt, c.board) {
		for _, name := range []string{"xdp", "afxdp"} {
			wanted = append(wanted, struct{ name, answer, detail string }{name, "ok", ""})
		}
	}
	for _, want := range wanted {
		i := slices.IndexFunc(ds, func(d struct{ Group, Name, Answer, Detail string }) bool { return d.Name == want.name })
		if i < 0 {
			c.holds("doctor: "+want.name, false, "there is no such line")
			continue
		}
		ok := ds[i].Answer == want.answer && strings.HasPrefix(ds[i].Detail, want.detail)
		c.holds(fmt.Sprintf("doctor: %s: %s", want.name, want.answer), ok, fmt.Sprintf("it says %s: %s", ds[i].Answer, ds[i].Detail))
	}
}

// bundle must come back whole, and say in its header what it is from. How well the
// tester did is nothing to ask here.
func (c *checker) bundle(r ran) { c.comesBack("run", r, 0, 4) }

func (c *checker) comesBack(dir string, r ran, exits ...int) {
	var run result.Run
	err := json.Unmarshal(c.files[dir+"/"+result.RunFile], &run)
	c.holds(dir+": a run comes back", err == nil && len(c.files[dir+"/"+result.TrialsFile]) > 0 && slices.Contains(exits, r.Exit),
		fmt.Sprintf("exit code %d %s: %v: %s", r.Exit, r.Problem, err, r.stderr))
	kind := run.Kind
	for _, m := range run.Machines {
		kind += " " + m.Kind
	}
	c.holds(dir+": its run says that it is emulated", kind == "emulated emulated", fmt.Sprintf("kinds of run and machines are %q", kind))
}

// forward must have carried frames, whose books close, and its page must say what it
// is of.
func (c *checker) forward(r ran) {
	c.comesBack("forward", r, 0, 4)
	accepted, received := int64(0), int64(0)
	recs, problem := c.records("forward")
	for _, rec := range recs {
		if rec.Account != nil {
			accepted += int64(rec.Account.Accepted)
			received += int64(rec.Account.Received)
		}
	}
	c.holds("forward: frames went through the board", problem == nil && accepted > 0 && received > 0, fmt.Sprintf("%d accepted, %d received: %v", accepted, received, problem))
	c.holds("forward: its report says that the board is emulated", strings.Contains(strings.Join(strings.Fields(string(r.stdout)), " "), "Measured on an emulated board"), fmt.Sprintf("it says %.200q", r.stdout))
}

// storage must have computed right, and timed both ways; where fio and cryptsetup
// could not be fetched it says that they are missing.
func (c *checker) storage(r ran) {
	if r.Exit == 3 && strings.Contains(string(r.stderr)+string(r.stdout), "missing the program") {
		c.skips("storage: fio or cryptsetup is missing in the board")
		return
	}
	c.comesBack("storage", r, 0, 4)
	text := string(c.files["storage/"+result.TrialsFile])
	for _, want := range []string{`"trial","value":"known-answer"`, `"metric":"storage_known_answer","unit":"1","value":1`, `"metric":"plain_write_octet_rate"`, `"metric":"luks2_randread_iops"`} {
		c.holds("storage: its records have "+want, strings.Contains(text, want), fmt.Sprintf("exit code %d: %s", r.Exit, r.stderr))
	}
}

// thermal: the processor's own sensor, which is constant in QEMU's model.
func (c *checker) thermal(r ran) {
	text := string(r.stdout)
	c.holds("watch tells the processor's temperature", r.Exit == 0 && strings.Contains(text, `"node_thermal_zone_temp"`) && strings.Contains(text, `"cpu-thermal"`) && strings.Contains(text, `"values":[25.`),
		fmt.Sprintf("exit code %d %s: %.400s", r.Exit, r.Problem, text))
}

func (c *checker) tuning(r ran)  { c.lines("tuning", 20, r) }
func (c *checker) sensors(r ran) { c.lines("sensors", 7, r) }

func (c *checker) killed(r ran) {
	if r.Exit == 3 {
		c.skips("killed: fio or cryptsetup is missing in the board")
		return
	}
	c.lines("killed", 2, r)
}

// lines counts the checks of a program of ours in the board one by one; there are more
// than least.
func (c *checker) lines(name string, least int, r ran) {
	before := c.passed
	for line := range strings.Lines(string(r.stdout)) {
		word, what, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "ok":
			c.holds(what, true, "")
		case "FAILED":
			c.holds(name, false, what)
		case "skipped":
			c.skips(what)
		default:
			fmt.Fprintf(c.w, "        %s: %s\n", c.board, strings.TrimSpace(line))
		}
	}
	c.holds(name+" ends", r.Exit == 0 && c.passed-before > least, fmt.Sprintf("exit code %d, %d checks %s: %s", r.Exit, c.passed-before, r.Problem, r.stderr))
}
