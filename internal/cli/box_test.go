// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/link"
)

// builtAgents is the folder of the agents that were built, made with the first; TestMain
// removes it.
var builtAgents string

// builtAgent is the agent as script/release builds it, once for all tests.
func builtAgent(t *testing.T, arch string) string {
	t.Helper()
	if builtAgents == "" {
		dir, err := os.MkdirTemp("", "boxdyno-agents")
		if err != nil {
			t.Fatal(err)
		}
		builtAgents = dir
	}
	file := filepath.Join(builtAgents, "boxdyno-agent-"+arch)
	if _, err := os.Stat(file); err == nil {
		return file
	}
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", file, "boxdyno/cmd/boxdyno-agent")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOARCH="+arch, "GOARM=7", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return file
}

func TestAgentSize(t *testing.T) {
	testutil.Long(t)
	for _, arch := range []string{"arm", "arm64"} {
		info, err := os.Stat(builtAgent(t, arch))
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > 14<<20 {
			t.Errorf("%s: %.1f MB", arch, float64(info.Size())/(1<<20))
		}
	}
}

// sshBox makes "ssh testbox" reach a real sshd, in the namespace netns ("": this one), whose
// streams are a pipe: it listens nowhere. know makes its host key known. What is in the
// box's /var/lib is in folder.
func sshBox(t *testing.T, netns string) (know func(), folder string) {
	t.Helper()
	testutil.Privileged(t) // sshd lets nobody in who has no shell
	for _, p := range []string{"ssh", "sshd", "ssh-keygen", "go"} {
		if err := host.Has(p); err != nil {
			t.Skip(err)
		}
	}
	dir := t.TempDir()
	folder = filepath.Join(dir, "lib")
	sshd, err := host.Program("sshd")
	if err != nil {
		t.Fatal(err)
	}
	ssh, err := host.Program("ssh")
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"host", "id"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", filepath.Join(dir, key)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	public, err := os.ReadFile(filepath.Join(dir, "id.pub"))
	if err != nil {
		t.Fatal(err)
	}
	write("authorized", string(public), 0o600)
	write("sshd_config", fmt.Sprintf("HostKey %s/host\nAuthorizedKeysFile %[1]s/authorized\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nPidFile none\n", dir), 0o600)
	proxy := fmt.Sprintf("exec %s -i -f %s/sshd_config 2>>%[2]s/log", sshd, dir)
	if os.Geteuid() == 0 {
		proxy = fmt.Sprintf("mkdir -p /run/sshd %s; exec unshare -m sh -c 'mount --bind %[1]s /var/lib; %s'", folder, proxy)
	}
	write("inside", proxy, 0o700)
	proxy = fmt.Sprintf("exec sh %s/inside", dir)
	if netns != "" {
		proxy = fmt.Sprintf("exec nsenter --net=%s sh %s/inside", netns, dir)
	}
	write("proxy", proxy, 0o700)
	write("config", fmt.Sprintf("Host testbox\n  ProxyCommand sh %s/proxy\n  IdentityFile %[1]s/id\n  IdentitiesOnly yes\n  UserKnownHostsFile %[1]s/known\n  GlobalKnownHostsFile /dev/null\n", dir), 0o600)
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	write("bin/ssh", fmt.Sprintf("#!/bin/sh\nexec %s -F %s/config \"$@\"\n", ssh, dir), 0o755)
	t.Setenv("PATH", filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, "xdg"))
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
	t.Setenv("SUDO_UID", "")
	t.Cleanup(func() {
		if log, _ := os.ReadFile(filepath.Join(dir, "log")); t.Failed() {
			t.Logf("%s", log)
		}
	})
	return func() {
		public, err := os.ReadFile(filepath.Join(dir, "host.pub"))
		if err != nil {
			t.Fatal(err)
		}
		write("known", "testbox "+string(public), 0o600)
	}, folder
}

// addBox adds the box in a namespace, which a real sshd of its own reaches, by the name box.
func addBox(t *testing.T, box *netns.Namespace, cables ...string) {
	t.Helper()
	know, _ := sshBox(t, box.Path())
	know()
	args := []string{"box", "add", "box", "--ssh", "testbox", "--agent", builtAgent(t, runtime.GOARCH)}
	for _, c := range cables {
		args = append(args, "--cable", c)
	}
	called(t, exitOK, args...)
}

// A box is added, checked, updated and removed by real ssh.
func TestBox(t *testing.T) {
	know, folder := sshBox(t, "")
	file := builtAgent(t, runtime.GOARCH)
	run := func(want int, args ...string) string {
		t.Helper()
		var out bytes.Buffer
		if code := Main(context.Background(), args, &out, &out); code != want {
			t.Fatalf("%s: exit code %d, want %d: %s", args, code, want, out.Bytes())
		}
		return out.String()
	}
	add := []string{"box", "add", "pi5", "--ssh", "testbox", "--agent", file, "--cable", "eth1=eth0"}
	if said := run(exitMissing, add...); !strings.Contains(said, "run ssh testbox true") {
		t.Errorf("%s", said)
	}
	know()
	for _, bad := range [][]string{{"box", "add", "a b", "--ssh", "testbox"}, {"box", "add", "x", "--ssh", "-oProxyCommand=id"}, {"box", "add", "x", "--ssh", "testbox", "--become", "sudo; id"},
		{"box", "add", "x", "--ssh", "testbox", "--cable", "eth1"}, {"box", "add", "x"}, {"box", "check", "pi5"}, {"run", "forward", "--box", "pi5", "--dry-run"}} {
		run(exitUsage, bad...)
	}
	if said := run(exitMissing, "box", "add", "x", "--ssh", "testbox", "--become", "no-such-program", "--agent", file); !strings.Contains(said, "no-such-program on testbox") {
		t.Errorf("%s", said)
	}
	if said := run(exitOther, "box", "add", "x", "--ssh", "testbox", "--agent", "/bin/true"); !strings.Contains(said, "and not version") {
		t.Errorf("%s", said)
	}
	privileged := exitMissing
	if os.Geteuid() == 0 {
		privileged = exitOK
	}
	run(privileged, add...)
	path, err := boxesFile()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	var all []lab.Box
	if err := json.Unmarshal([]byte(run(exitOK, "box", "ls", "--json")), &all); err != nil || len(all) != 1 || all[0].Arch != runtime.GOARCH || all[0].SSH != "testbox" || len(all[0].Cables) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
	if said := run(privileged, "box", "check", "pi5"); !strings.Contains(said, "a round trip") {
		t.Errorf("%s", said)
	}
	run(privileged, "box", "update", "pi5", "--agent", file)
	run(exitOK, "box", "rm", "pi5")
	if _, err := os.Stat(all[0].Agent); os.Geteuid() != 0 && err == nil {
		t.Errorf("%s stays", all[0].Agent)
	}
	if entries, _ := os.ReadDir(folder); len(entries) != 0 {
		t.Errorf("%v stay", entries)
	}
	if said := run(exitOK, "box", "ls"); said != "no box is known yet: boxdyno box add NAME --ssh HOST adds one\n" {
		t.Errorf("%q", said)
	}
}

// An agent of another version is updated by the name of its box, where that is known.
func TestBoxOfAnotherVersion(t *testing.T) {
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\necho '{\"agent\":\"boxdyno-agent\",\"protocol\":%d,\"version\":\"0.0.1\"}'\ncat >/dev/null\n", link.Protocol)
	if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("XDG_CONFIG_HOME", dir)
	if err := editBoxes(func([]lab.Box) []lab.Box {
		return []lab.Box{{Name: "pi5", SSH: "pi@pi5.lan", Agent: "/usr/bin/boxdyno-agent", Arch: "arm64"}}
	}); err != nil {
		t.Fatal(err)
	}
	for words, want := range map[string]string{
		"--box pi5":                            "it has 0.0.1 (protocol %d), and this machine %s (protocol %[1]d): run boxdyno box update pi5",
		"--lab there --set ssh=root@other.lan": "it has 0.0.1 (protocol %d), and this machine %s (protocol %[1]d): install this version there, by boxdyno box update NAME",
	} {
		var out bytes.Buffer
		args := slices.Concat([]string{"run", "cpu", "--quiet", "--out", filepath.Join(t.TempDir(), "run")}, strings.Fields(words))
		want = fmt.Sprintf(want, link.Protocol, Version())
		if code := Main(t.Context(), args, &out, &out); code != exitMissing || !strings.Contains(out.String(), want) {
			t.Errorf("%s: exit code %d, %s does not say %q", words, code, out.Bytes(), want)
		}
	}
}
