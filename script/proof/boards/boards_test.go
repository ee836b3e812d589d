// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"boxdyno/script/proof/boards/job"
)

// No board is ever given to KVM, and none has a way to a network.
func TestArguments(t *testing.T) {
	for _, b := range boards {
		for _, queues := range []bool{false, true} {
			args := b.arguments(drive{kernel: "k", initramfs: "i", results: "r", has: []string{"e1000e"}, queues: queues})
			text := strings.Join(args, " ")
			if i := slices.Index(args, "-accel"); i < 0 || args[i+1] != "tcg" || strings.Contains(text, "kvm") || strings.Contains(text, "-cpu host") {
				t.Errorf("%s: %s", b.name, text)
			}
			if !strings.Contains(text, " "+job.Emulated) {
				t.Errorf("%s: its kernel is not told that it is emulated: %s", b.name, text)
			}
			for i, a := range args {
				if a == "-netdev" && !strings.HasPrefix(args[i+1], "hubport,hubid=0,") && !strings.HasPrefix(args[i+1], "tap,ifname=board,queues=2,") {
					t.Errorf("%s has a way out: %s", b.name, args[i+1])
				}
			}
			if b.card {
				if strings.Contains(text, "-netdev") || !strings.Contains(text, "file=r") {
					t.Errorf("%s has no NIC and writes to its card: %s", b.name, text)
				}
				continue
			}
			if !strings.Contains(text, "e1000e,") || strings.Contains(text, "igb,") || strings.Contains(text, "vmxnet3,") {
				t.Errorf("%s: of its NICs QEMU has e1000e, and gets: %s", b.name, text)
			}
			if queues != strings.Contains(text, "mq=on") {
				t.Errorf("%s: queues %v: %s", b.name, queues, text)
			}
		}
	}
}

// What is needed comes first and once; built-in is left out; absent is an error.
func TestOrder(t *testing.T) {
	tree := t.TempDir()
	for name, text := range map[string]string{
		"modules.dep": "kernel/drivers/virtio/virtio.ko.xz: kernel/drivers/virtio/virtio-ring.ko.xz\nkernel/drivers/virtio/virtio-ring.ko.xz:\n" +
			"kernel/net/virtio_net.ko.xz: kernel/net/failover.ko kernel/drivers/virtio/virtio.ko.xz kernel/drivers/virtio/virtio-ring.ko.xz\nkernel/net/failover.ko:\n",
		"modules.builtin": "kernel/drivers/tty/n-null.ko\n",
	} {
		if err := os.WriteFile(filepath.Join(tree, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := order(tree, []string{"virtio", "n_null", "virtio_net"})
	want := []string{"kernel/drivers/virtio/virtio-ring.ko.xz", "kernel/drivers/virtio/virtio.ko.xz", "kernel/net/failover.ko", "kernel/net/virtio_net.ko.xz"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v %v, want %v", got, err, want)
	}
	if _, err := order(tree, []string{"e1000e"}); err == nil || !strings.Contains(err.Error(), "e1000e") {
		t.Errorf("a module that is not there: %v", err)
	}
}

// The program cpio reads the archive as it was meant.
func TestInitramfs(t *testing.T) {
	if _, err := exec.LookPath("cpio"); err != nil {
		t.Skip("needs cpio: run apt-get install cpio")
	}
	dir := t.TempDir()
	from := filepath.Join(dir, "from")
	if err := os.WriteFile(from, bytes.Repeat([]byte("x"), 4097), 0o600); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	err := writeInitramfs(&archive, []entry{{name: "init", mode: 0o755, from: from}, {name: "a/b/job.json", mode: 0o644, data: []byte("{}")}})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("cpio", "--extract", "--quiet", "--no-absolute-filenames", "--nonmatching", "dev/console")
	cmd.Dir, cmd.Stdin = dir, &archive
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cpio: %v: %s", err, out)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "a/b/job.json")); err != nil || string(data) != "{}" {
		t.Errorf("a/b/job.json is %q: %v", data, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "init")); err != nil || info.Size() != 4097 || info.Mode() != 0o755 {
		t.Errorf("init is %v: %v", info, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "sys")); err != nil || !info.IsDir() {
		t.Errorf("sys: %v", err)
	}
	if err := writeInitramfs(io.Discard, []entry{{name: "x", from: filepath.Join(dir, "absent")}}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// A stream that breaks off gives what came; only the last entry makes it whole.
func TestResults(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	var lengths []int
	outcome, err := json.Marshal(job.Outcome{Argv: []string{"x"}, Exit: 3})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range [][2]string{
		{job.BootEntry, `{"Kernel":"6.1"}`}, {"0/stdout", "said"}, {"0/stderr", "warned"}, {"0/outcome.json", string(outcome)},
		{"out/run/run.json", "{}"}, {"out/../../evil", "x"}, {job.EndEntry, ""},
	} {
		if err := w.WriteHeader(&tar.Header{Name: e[0], Mode: 0o644, Size: int64(len(e[1]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e[1])); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		lengths = append(lengths, b.Len())
	}
	name := filepath.Join(t.TempDir(), "results")
	read := func(n int) results {
		t.Helper()
		if err := os.WriteFile(name, b.Bytes()[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := readResults(name)
		if err != nil {
			t.Fatalf("the first %d octets: %v", n, err)
		}
		return r
	}
	for n := 0; n < b.Len(); n += 61 {
		r := read(n)
		ended := len(r.commands) == 1 && r.commands[0].Exit == 3
		if r.whole != (n >= lengths[6]) || ended && n < lengths[2]+512 || !ended && n >= lengths[3] {
			t.Fatalf("the first %d octets of %v give %+v", n, lengths, r)
		}
	}
	r := read(b.Len())
	if c := r.commands[0]; string(c.stdout) != "said" || string(c.stderr) != "warned" || r.boot.Kernel != "6.1" || string(r.files["run/run.json"]) != "{}" {
		t.Errorf("%+v", r)
	}
	dir := t.TempDir()
	if err := r.save(filepath.Join(dir, "in", "here")); err == nil {
		t.Error("a name that leads out of the folder was taken")
	}
	if _, err := os.Stat(filepath.Join(dir, "evil")); err == nil {
		t.Error("a file was written outside of the folder")
	}
	if r, err := readResults(filepath.Join(dir, "none")); err != nil || r.whole {
		t.Errorf("no stream: %+v %v", r, err)
	}
}

// What a board lacks is counted, and nothing that did not run is taken for done.
func TestStorageChecks(t *testing.T) {
	good := `{"config":[{"key":"trial","value":"known-answer"}],"values":[{"metric":"storage_known_answer","unit":"1","value":1},{"metric":"plain_write_octet_rate"},{"metric":"luks2_randread_iops"}]}`
	for text, want := range map[string]int{good: 0, strings.Replace(good, `"value":1`, `"value":0`, 1): 1, "{}": 4} {
		c := &checker{w: io.Discard, files: map[string][]byte{"storage/run.json": []byte(`{"kind":"emulated","machines":[{"kind":"emulated"}]}`), "storage/trials.jsonl": []byte(text)}}
		if c.storage(ran{}); c.failed != want || c.skipped != 0 {
			t.Errorf("%d failed of %s, want %d", c.failed, text, want)
		}
	}
	c := &checker{w: io.Discard}
	c.storage(ran{Outcome: job.Outcome{Exit: 3}, stderr: []byte("missing the program fio")})
	if c.skipped != 1 || c.failed != 0 {
		t.Errorf("what is missing: %+v", c)
	}
}

// What Go's tests say in a board counts by their names; a skip comes with its reason.
func TestUnitTests(t *testing.T) {
	const said = "=== RUN   TestA\n=== RUN   TestA/x\n    a_test.go:3: missing X: do y\n=== RUN   TestA/z\n--- PASS: TestA (1.00s)\n    --- SKIP: TestA/x (0.00s)\n    --- PASS: TestA/z (1.00s)\n    --- FAIL: TestA/f (1.00s)\nPASS\n"
	for _, c := range []struct {
		name                    string
		exit                    int
		passed, failed, skipped int
	}{
		{"TestA/z", 0, 2, 0, 0}, {"TestA/x", 0, 1, 0, 1}, {"TestA/f", 1, 0, 2, 0}, {"TestA/absent", 0, 1, 1, 0}, {"TestA", 2, 1, 1, 0}, {"Test.", 0, 1, 1, 0},
	} {
		k := &checker{w: io.Discard, board: "b"}
		unitTests(c.name)(k, ran{Outcome: job.Outcome{Argv: []string{"disk.test"}, Exit: c.exit}, stdout: []byte(said)})
		if k.passed != c.passed || k.failed != c.failed || k.skipped != c.skipped {
			t.Errorf("%s, exit code %d: %+v", c.name, c.exit, k)
		}
		if c.skipped > 0 && k.reasons[0] != "b: TestA/x: a_test.go:3: missing X: do y" {
			t.Errorf("%q", k.reasons)
		}
	}
}

// A point counts if it passed with every figure; a program that could not be fetched is
// a skip, and no other point's excuse.
func TestPoints(t *testing.T) {
	const run = `{"kind":"emulated","machines":[{"kind":"emulated"}]}`
	point := func(key, value, metrics string) string {
		out := `{"verdict":"passed","config":[{"key":"` + key + `","value":"` + value + `"}],"values":[`
		for i, m := range strings.Fields(metrics) {
			if i > 0 {
				out += ","
			}
			out += `{"metric":"` + m + `","value":2}`
		}
		return out + "]}\n"
	}
	const both, tunnel = "encrypt_bytes_per_s decrypt_bytes_per_s", "startup_s forwarding_rate_fps goodput_bps handshake_s"
	for _, c := range []struct {
		read            func(*checker, ran)
		dir, trials     string
		exit            int
		stderr          string
		failed, skipped int
	}{
		{(*checker).crypto, "crypto", point("path", "af-alg", both) + point("path", "cryptsetup", both), 0, "", 0, 0},
		{(*checker).crypto, "crypto", point("path", "af-alg", both), 3, "missing the\n program cryptsetup", 0, 1},
		{(*checker).crypto, "crypto", point("path", "af-alg", both), 0, "", 1, 0},
		{(*checker).crypto, "crypto", point("path", "af-alg", both) + point("path", "cryptsetup", "encrypt_bytes_per_s"), 0, "", 1, 0},
		{(*checker).crypto, "crypto", strings.ReplaceAll(point("path", "af-alg", both)+point("path", "cryptsetup", both), "passed", "failed"), 5, "", 3, 0},
		{(*checker).vpn, "vpn", point("tunnel", "ipsec", tunnel) + point("tunnel", "wireguard", tunnel), 0, "", 0, 0},
		{(*checker).vpn, "vpn", point("tunnel", "ipsec", "startup_s forwarding_rate_fps") + point("tunnel", "wireguard", "startup_s forwarding_rate_fps handshake_s"), 0, "missing the program iperf3", 0, 1},
		{(*checker).vpn, "vpn", point("tunnel", "ipsec", tunnel) + strings.ReplaceAll(point("tunnel", "wireguard", tunnel), `"value":2`, `"value":0`), 0, "", 1, 0},
	} {
		k := &checker{w: io.Discard, files: map[string][]byte{c.dir + "/run.json": []byte(run), c.dir + "/trials.jsonl": []byte(c.trials)}}
		c.read(k, ran{Outcome: job.Outcome{Argv: []string{"boxdyno", "run", c.dir}, Exit: c.exit}, stderr: []byte(c.stderr)})
		if k.failed != c.failed || k.skipped != c.skipped {
			t.Errorf("%s, exit code %d: %s: %+v", c.trials, c.exit, c.stderr, k)
		}
	}
}

// Continuous integration has one board, and some of its checks.
func TestChecksOfContinuousIntegration(t *testing.T) {
	for _, b := range boards {
		few, all := b.checks(true), b.checks(false)
		if had := b.name == "arm64"; len(few) >= len(all) || had != (len(few) > 0) {
			t.Errorf("%s: %d of %d checks", b.name, len(few), len(all))
		}
	}
	for _, c := range allChecks {
		for _, name := range c.ci {
			if b, err := find(name); err != nil || c.on != nil && !slices.Contains(c.on, b.name) {
				t.Errorf("%v is to run on %s, and does not: %v", c.command.Argv, name, err)
			}
		}
	}
}

// Checks count, and what a board says wrong is a failure.
func TestCheck(t *testing.T) {
	good := results{
		boot:  job.Boot{Kernel: "6.1"},
		whole: true,
		files: map[string][]byte{"run/run.json": []byte(`{"kind":"emulated","machines":[{"kind":"emulated"}]}`), "run/trials.jsonl": []byte("{}\n"),
			"forward/run.json":     []byte(`{"kind":"emulated","machines":[{"kind":"emulated"}]}`),
			"forward/trials.jsonl": []byte(`{"ledger":{"accepted":3,"received":2}}` + "\n")},
		commands: []ran{
			{Outcome: job.Outcome{Exit: 3}, stdout: []byte(`[{"name":"not virtual","answer":"no","detail":"emulated (qemu): x"},{"name":"network namespaces","answer":"ok"},
				{"name":"BPF programs","answer":"ok"},{"name":"packet","answer":"ok"},{"name":"sandbox","answer":"ok"},
				{"name":"xdp","answer":"ok"},{"name":"afxdp","answer":"ok"}]`)},
			{},
			{stdout: []byte("Measured on an emulated\n board: this shows")},
			{stdout: []byte(strings.Repeat("ok lm75\n", 8))},
			{stdout: []byte(strings.Repeat("ok e1000e: x\n", 21) + "skipped y: why\nseed 1\n")},
		},
	}
	all := []boardCheck{{read: (*checker).doctor}, {read: (*checker).bundle}, {read: (*checker).forward}, {read: (*checker).sensors}, {read: (*checker).tuning}}
	last := func(r results) (int, string) {
		var b bytes.Buffer
		code := check(&b, boards[0], all, r)
		lines := strings.Split(strings.TrimSpace(b.String()), "\n")
		return code, lines[len(lines)-1]
	}
	if code, line := last(good); code != 0 || line != "47 passed, 0 failed, 1 skipped" {
		t.Errorf("%d %s", code, line)
	}
	for _, spoil := range []func(*results){
		func(r *results) {
			r.commands[0].stdout = []byte(strings.ReplaceAll(string(r.commands[0].stdout), "emulated", "a virtual machine"))
		},
		func(r *results) {
			r.files = maps.Clone(r.files)
			r.files["run/run.json"] = []byte(`{"kind":"sandbox","machines":[{"kind":"emulated"}]}`)
		},
		func(r *results) { r.commands[4].stdout = append([]byte("FAILED z: why\n"), r.commands[4].stdout...) },
		func(r *results) { r.commands[4].Exit = 1 },
		func(r *results) { r.commands[4].stdout = []byte("ok a\n") },
		func(r *results) { r.commands[3].stdout = []byte("ok a\n") },
		func(r *results) { r.commands = r.commands[:4] },
		func(r *results) {
			r.files = maps.Clone(r.files)
			r.files["forward/trials.jsonl"] = []byte(`{"ledger":{"accepted":3,"received":0}}` + "\n")
		},
		func(r *results) { r.commands[2].stdout = []byte("Measured\n") },
		func(r *results) {
			r.commands[0].stdout = []byte(strings.ReplaceAll(string(r.commands[0].stdout), `"afxdp","answer":"ok"`, `"afxdp","answer":"no"`))
		},
	} {
		bad := good
		bad.commands = slices.Clone(good.commands)
		spoil(&bad)
		if code, line := last(bad); code != 1 || !strings.Contains(line, " 1 failed,") {
			t.Errorf("%d %s", code, line)
		}
	}
}
