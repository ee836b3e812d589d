// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/runner"
)

// A FIFO that nobody writes to is refused wherever a file is named; nothing waits for it.
func TestFIFOsAreRefused(t *testing.T) {
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	t.Setenv("XDG_STATE_HOME", state)
	fifo, bundle, journals := filepath.Join(dir, "fifo.yaml"), filepath.Join(dir, "bundle"), filepath.Join(state, "boxdyno", "tune")
	journal, page := filepath.Join(journals, "00000000000000000001-1.journal"), filepath.Join(dir, "page.html")
	half, sampled := filepath.Join(dir, "half"), filepath.Join(dir, "sampled")
	err := errors.Join(os.Mkdir(bundle, 0o755), os.MkdirAll(journals, 0o755))
	for _, name := range []string{half, sampled} {
		b, cerr := result.Create(name, result.Run{Schema: result.Schema, ID: "x"})
		if err = errors.Join(err, cerr); err == nil {
			err = b.Close()
		}
	}
	err = errors.Join(err, os.Remove(filepath.Join(half, result.TrialsFile)))
	for _, name := range []string{fifo, filepath.Join(bundle, result.RunFile), filepath.Join(half, result.TrialsFile), filepath.Join(sampled, result.TelemetryFile), journal} {
		err = errors.Join(err, unix.Mkfifo(name, 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		"run " + fifo + " --dry-run",
		"qualify " + fifo + " --dry-run",
		"run forward --lab mem --dry-run --tune " + fifo,
		"run ids --dry-run --set rules_file=" + fifo,
		"tune status",
		"tune show " + fifo,
		"report " + bundle,
		"compare " + bundle + " " + bundle,
		"run --resume " + bundle,
		"report " + half,
		"run --resume " + half,
		"report " + sampled + " -o " + filepath.Join(dir, "telemetry.parquet"),
		"report " + sampled + " -o " + page,
		"meter -i lo --netns " + fifo,
		"tune show latency --port lo --netns " + fifo,
	} {
		said := make(chan string, 1)
		noted := args == "tune status" || strings.HasSuffix(args, page) // a page is made without
		go func() {
			code, _, errw := call(context.Background(), runner.Plugins(), strings.Fields(args)...)
			if code == exitOK && !noted {
				errw = "exit code 0"
			}
			said <- errw
		}()
		select {
		case s := <-said:
			// The journal is a note before each error.
			_, failure, _ := strings.Cut(s, "boxdyno: ")
			if noted {
				failure = s
			}
			want := "it is not a regular file"
			if strings.Contains(args, "--netns") {
				want = "invalid argument"
			}
			if !strings.Contains(failure, want) {
				t.Errorf("%s: %q", args, s)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: it hangs", args)
		}
	}
}

// Where the default place for runs cannot be looked into, a run ends at once and says so.
func TestNoPlaceForRuns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_STATE_HOME", file)
	ended := make(chan string, 1)
	go func() {
		_, _, errw := call(context.Background(), runner.Plugins(), "run", "throughput", "--lab", "mem", "--quiet")
		ended <- errw
	}()
	select {
	case errw := <-ended:
		if !strings.Contains(errw, "give --out") || strings.Count(errw, "\n") != 1 {
			t.Errorf("%q", errw)
		}
	case <-time.After(time.Minute):
		t.Error("it looks for a place without end")
	}
}

// A report that cannot be written to its end leaves the file as it was, and nothing
// beside it.
func TestReportIsReplacedWhole(t *testing.T) {
	if !alone(t) {
		return
	}
	dir := t.TempDir()
	run := filepath.Join(dir, "run")
	b, err := result.Create(run, result.Run{Schema: result.Schema, ID: "x"})
	if err == nil {
		err = b.Close()
	}
	page := filepath.Join(dir, "page.html")
	if err := errors.Join(err, os.WriteFile(page, []byte("the old one"), 0o600)); err != nil {
		t.Fatal(err)
	}
	smallFiles(t, 1000)
	code, _, errw := call(context.Background(), runner.Plugins(), "report", run, "-o", page)
	if code != exitOther || !strings.Contains(errw, "file too large") {
		t.Errorf("exit code %d, %q", code, errw)
	}
	data, err := os.ReadFile(page)
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || string(data) != "the old one" || len(names) != 2 {
		t.Errorf("the page is now %d octets, %v; the folder holds %q", len(data), err, names)
	}
}

// Under sudo a link that a user put in place of a run's file, or of a report, leads root
// to no other file, and nothing but the run is handed over.
func TestLinksOfUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: run script/test with sudo")
	}
	const user = 12345
	t.Setenv("SUDO_UID", strconv.Itoa(user))
	t.Setenv("SUDO_GID", strconv.Itoa(user))
	secret := filepath.Join(t.TempDir(), "secret") // of root
	keep := func(t *testing.T) {
		t.Helper()
		data, err := os.ReadFile(secret)
		info, serr := os.Lstat(secret)
		if err != nil || serr != nil || string(data) != "root's" || info.Sys().(*syscall.Stat_t).Uid != 0 {
			t.Errorf("root's file is now %q of %+v (%v, %v)", data, info.Sys(), err, serr)
		}
	}
	if err := os.WriteFile(secret, []byte("root's"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := scripted(func(context.Context, *procedure.Env) (procedure.Outcome, error) {
		return procedure.Outcome{Status: result.Passed}, nil
	})
	for _, name := range []string{result.RunFile, result.RunFile + ".tmp", result.TrialsFile, result.TelemetryFile, result.LogFile} {
		for how, link := range map[string]func(string, string) error{"symbolic": os.Symlink, "hard": os.Link} {
			t.Run(how+" "+name, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "run")
				if err := errors.Join(os.Mkdir(dir, 0o755), os.Chown(dir, user, user), link(secret, filepath.Join(dir, name))); err != nil {
					t.Fatal(err)
				}
				_, _, errw := call(context.Background(), c, "run", "probe", "--out", dir)
				keep(t)
				if s := (&sink{dir: dir, owner: sudoer()}); s.WriteRun(result.Run{Schema: result.Schema}) == nil {
					_ = s.Sample([]byte("{}\n"))
					s.Log(result.LogLine{Text: "of root"})
					s.Close()
				}
				keep(t)
				t.Log(strings.TrimSpace(errw))
			})
		}
	}
	dir := filepath.Join(t.TempDir(), "run")
	if code, _, errw := call(context.Background(), c, "run", "probe", "--out", dir); code != exitOK {
		t.Fatal(code, errw)
	}
	for _, name := range []string{"page.html", "x.csv"} {
		page := filepath.Join(dir, name)
		if err := os.Symlink(secret, page); err != nil {
			t.Fatal(err)
		}
		code, _, errw := call(context.Background(), runner.Plugins(), "report", dir, "-o", page)
		keep(t)
		if info, err := os.Lstat(page); code != exitOK || err != nil || !info.Mode().IsRegular() || info.Sys().(*syscall.Stat_t).Uid != user {
			t.Errorf("%s: exit code %d, %q, %v, %v", name, code, errw, info, err)
		}
	}
	// A folder of root's that a user's link leads to.
	place := filepath.Join(t.TempDir(), "place")
	away := filepath.Join(t.TempDir(), "away")
	if err := errors.Join(os.Mkdir(place, 0o755), os.Symlink(place, away), os.Lchown(away, user, user)); err != nil {
		t.Fatal(err)
	}
	code, _, errw := call(context.Background(), c, "run", "probe", "--out", filepath.Join(away, "run"))
	if names, _ := os.ReadDir(place); len(names) > 0 || code == exitOK {
		t.Errorf("exit code %d, %q; root's folder holds %v", code, errw, names)
	}
	if err := os.Lchown(place, user, user); err != nil { // it is the user's own: they may
		t.Fatal(err)
	}
	if code, _, errw := call(context.Background(), c, "run", "probe", "--out", filepath.Join(away, "run")); code != exitOK {
		t.Errorf("through a link to a folder of the same user: exit code %d, %q", code, errw)
	}
}

// A run that still goes on is not resumed, and not touched.
func TestLiveRunIsNotResumed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	trials := filepath.Join(dir, result.TrialsFile)
	var c runner.Catalogue
	tried := false
	c = scripted(func(context.Context, *procedure.Env) (procedure.Outcome, error) {
		if tried {
			return procedure.Outcome{Status: result.Passed}, nil
		}
		tried = true
		f, err := os.OpenFile(trials, os.O_WRONLY|os.O_APPEND, 0)
		if err == nil { // as if it were writing this very line
			_, err = f.WriteString(`{"schema":`)
			err = errors.Join(err, f.Close())
		}
		before, rerr := os.ReadFile(trials)
		if err := errors.Join(err, rerr); err != nil {
			t.Error(err)
		}
		code, _, errw := call(context.Background(), c, "run", "--resume", dir)
		if code != exitMissing || !strings.Contains(errw, dir) || !strings.Contains(errw, "another boxdyno") || strings.Count(errw, "\n") != 1 {
			t.Errorf("exit code %d, %q", code, errw)
		}
		after, err := os.ReadFile(trials)
		if err != nil || string(after) != string(before) {
			t.Errorf("the trials were %q and are %q, %v", before, after, err)
		}
		return procedure.Outcome{Status: result.Passed}, os.Truncate(trials, int64(strings.LastIndexByte(string(before), '\n')+1))
	})
	if code, _, errw := call(context.Background(), c, "run", "probe", "--out", dir); code != exitOK || !tried {
		t.Errorf("exit code %d, %q", code, errw)
	}
	if code, _, errw := call(context.Background(), c, "run", "--resume", dir); code != exitOK {
		t.Errorf("then: exit code %d, %q", code, errw)
	}
}

// Commands that another user wrote into a plan, a run or a subject's file are shown and
// refused, unless they are asked for.
func TestCommandsOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to make files of other users: run script/test with sudo")
	}
	t.Setenv("SUDO_UID", "")
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(name, []byte(text), 0o644), os.Chown(name, 12345, 12345)); err != nil {
			t.Fatal(err)
		}
		return name
	}
	mine := write("mine.yaml", "name: mine\nwork: count\ncommand: [/tmp/evil, now]\n")
	const lab = "lab: mem\nprocedures: [forward]\n"
	const pair = "lab: {use: pair, ssh: box, dut_a: i0, port_a: lo%s}\nprocedures: [forward]\n"
	for name, want := range map[string]string{
		write("meter.yaml", lab+"telemetry: {meter: /tmp/evil --now}\n"):                              `"/tmp/evil --now" (meter)`,
		write("ssh.yaml", "lab: {use: pair, ssh_command: /tmp/evil -x}\nprocedures: [forward]\n"):     `"/tmp/evil -x" (ssh_command)`,
		write("peers.yaml", "lab: {use: peers, ssh_command_a: /tmp/evil -y}\nprocedures: [stream]\n"): `"/tmp/evil -y" (ssh_command_a)`,
		write("box.yaml", fmt.Sprintf(pair, "")):                                                      `"box" (ssh)`,
		write("program.yaml", fmt.Sprintf(pair, ", program: evil --now")):                             `"evil --now" (program)`,
		write("own.yaml", "procedures: [{use: capture, subject: own, file: "+mine+"}]\n"):             `"/tmp/evil now"`,
		write("harmless.yaml", lab): "",
	} {
		args := []string{"run", name, "--dry-run"}
		code, _, errw := call(context.Background(), runner.Plugins(), args...)
		if refused := code == exitUsage && strings.Contains(errw, "belongs to user 12345") && strings.Contains(errw, "--allow-commands"); refused != (want != "") || !strings.Contains(errw, want) {
			t.Errorf("%s: exit code %d, %q", name, code, errw)
		}
		if _, _, errw := call(context.Background(), runner.Plugins(), append(args, "--allow-commands")...); strings.Contains(errw, "belongs to user") {
			t.Errorf("%s, asked for: %q", name, errw)
		}
		t.Setenv("SUDO_UID", "12345")
		t.Setenv("SUDO_GID", "12345")
		if _, _, errw := call(context.Background(), runner.Plugins(), args...); strings.Contains(errw, "belongs to user") {
			t.Errorf("%s, of who called sudo: %q", name, errw)
		}
		t.Setenv("SUDO_UID", "")
	}
	// Their role.
	role := write("role.yaml", "name: x\ndescription: x\nlink_rate: 1Gbps\ncriteria: [{text: x, metric: throughput_fps, min: link_rate}]\n"+
		"quick: {plan: {lab: mem, procedures: [forward], telemetry: {meter: /tmp/evil}}}\nstandard: {plan: {lab: mem, procedures: [forward]}}\n")
	if code, _, errw := call(context.Background(), runner.Plugins(), "qualify", role, "--dry-run"); code != exitUsage || !strings.Contains(errw, `"/tmp/evil" (meter)`) {
		t.Errorf("exit code %d, %q", code, errw)
	}
	// Their boxes.
	config := filepath.Join(dir, "config")
	if err := os.MkdirAll(filepath.Join(config, "boxdyno"), 0o755); err != nil {
		t.Fatal(err)
	}
	write("config/boxdyno/boxes.yaml", "boxes: {x: {ssh: evil, agent: /a, cables: [eth1=eth0]}}\n")
	t.Setenv("XDG_CONFIG_HOME", config)
	for _, args := range []string{"run forward --box x --dry-run", "box check x", "box update x", "box rm x", "box ls"} {
		if code, _, errw := call(context.Background(), runner.Plugins(), strings.Fields(args)...); code != exitUsage || !strings.Contains(errw, "boxes.yaml belongs to user 12345") {
			t.Errorf("%s: exit code %d, %q", args, code, errw)
		}
	}
	// A description of theirs in a command of one's own.
	if code, _, errw := call(context.Background(), runner.Plugins(), "run", "capture", "--dry-run", "--set", "subject=own", "--set", "file="+mine); code != exitUsage || !strings.Contains(errw, `"/tmp/evil now"`) {
		t.Errorf("exit code %d, %q", code, errw)
	}
	// Their run.
	run := filepath.Join(dir, "run")
	b, err := result.Create(run, result.Run{Schema: result.Schema, ID: "x", Plan: []byte(`{"lab":"mem","procedures":["forward"],"telemetry":{"meter":"/tmp/evil"}}`)})
	if err == nil {
		err = errors.Join(b.Close(), os.Chown(filepath.Join(run, result.RunFile), 12345, 12345))
	}
	if err != nil {
		t.Fatal(err)
	}
	if code, _, errw := call(context.Background(), runner.Plugins(), "run", "--resume", run); code != exitUsage || !strings.Contains(errw, `"/tmp/evil" (meter)`) {
		t.Errorf("exit code %d, %q", code, errw)
	}
}

// What file capabilities give this program does not open files for its user, and does
// not reach programs of the user's PATH.
func TestFileCapabilities(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to give a file capabilities: run script/test with sudo")
	}
	dir, err := os.MkdirTemp("/tmp", "boxdyno-caps-") // that others can reach
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program, secret, evil, fake := filepath.Join(dir, "boxdyno"), filepath.Join(dir, "secret.html"), filepath.Join(dir, "evil"), filepath.Join(dir, "nft")
	self, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = errors.Join(os.Chmod(dir, 0o755), os.WriteFile(program, self, 0o755),
			os.WriteFile(secret, []byte("root: $6$secret\n"), 0o600), os.WriteFile(evil, nil, 0o666), os.Chmod(evil, 0o666),
			os.WriteFile(fake, []byte("#!/bin/sh\ngrep -h -e CapEff -e CapAmb /proc/self/status >>"+evil+"\nenv >>"+evil+"\n"), 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
	// VFS_CAP_REVISION_2, effective, permitted all that is asked for in host.Capabilities
	var set uint64
	for _, c := range []int{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_NET_RAW, unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_IPC_LOCK, unix.CAP_DAC_OVERRIDE, unix.CAP_SYS_NICE} {
		set |= 1 << c
	}
	xattr := binary.LittleEndian.AppendUint32(nil, 0x02000001)
	for _, v := range []uint32{uint32(set), 0, uint32(set >> 32), 0} {
		xattr = binary.LittleEndian.AppendUint32(xattr, v)
	}
	if err := unix.Setxattr(program, "security.capability", xattr, 0); errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EPERM) {
		t.Skip("needs a file system with capabilities in /tmp")
	} else if err != nil {
		t.Fatal(err)
	}
	asNobody := func(args ...string) string {
		cmd := exec.Command(program, args...)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + dir + ":/usr/bin:/bin", "LD_PRELOAD=/tmp/evil.so", "SUDO_UID=0", "HOME=" + dir, "XDG_STATE_HOME=" + dir + "/state"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, Pdeathsig: syscall.SIGKILL}
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	for _, args := range [][]string{{"run", secret}, {"qualify", secret}, {"tune", "show", secret}} {
		if out := asNobody(args...); strings.Contains(out, "$6$") || !strings.Contains(out, "permission denied") {
			t.Errorf("%v: %q", args, out)
		}
	}
	run := filepath.Join(dir, "run")
	b, err := result.Create(run, result.Run{Schema: result.Schema, ID: "x"})
	if err := errors.Join(err, b.Close()); err != nil {
		t.Fatal(err)
	}
	out := asNobody("report", run, "-o", secret)
	if data, err := os.ReadFile(secret); err != nil || string(data) != "root: $6$secret\n" {
		t.Errorf("report -o: %q; root's file is now %.40q, %v", out, data, err)
	}
	// A name is looked up among the system's programs, not in the user's PATH.
	if out := asNobody("watch", "--collectors", "meter", "--meter", "nft"); !strings.Contains(out, "nft") {
		t.Error(out)
	}
	if data, err := os.ReadFile(evil); err != nil || len(data) > 0 {
		t.Errorf("nft of the user's PATH was run, and saw %s (%v)", data, err)
	}
	// A program that the user names has no capabilities, nor what the user planted.
	out = asNobody("watch", "--collectors", "meter", "--meter", fake)
	data, err := os.ReadFile(evil)
	if err != nil || strings.Count(string(data), "0000000000000000") != 2 || strings.Contains(string(data), "LD_PRELOAD") || strings.Contains(string(data), "SUDO_UID") {
		t.Errorf("a command of the user's saw %s (%v): %s", data, err, out)
	}
}
