// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
)

// emptySpace is a network namespace with lo.
func emptySpace(t *testing.T) string {
	t.Helper()
	testutil.Privileged(t)
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	if _, err := (&host.Local{Netns: ns.Path()}).Run(t.Context(), "ip link set lo up", "sh", "-eu"); err != nil {
		t.Fatal(err)
	}
	return ns.Path()
}

func called(t *testing.T, want int, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if code := Main(t.Context(), args, &out, &out); code != want {
		t.Fatalf("%s: exit code %d, want %d: %s", args, code, want, out.Bytes())
	}
	return out.String()
}

// A box behind a jump host: its sshd listens in a namespace that only the first sshd is in.
func TestBoxByJumpHost(t *testing.T) {
	space := emptySpace(t)
	know, folder := sshBox(t, space)
	know()
	dir := filepath.Dir(folder)
	read := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("second", "exec nsenter --net="+space+" sh -c '"+strings.ReplaceAll(strings.ReplaceAll(read("inside"), "'", `'\''`), " -i -f ", " -D -e -p 2222 -o ListenAddress=127.0.0.1 -f ")+"'", 0o700)
	second := exec.CommandContext(t.Context(), "sh", filepath.Join(dir, "second"))
	if err := second.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = second.Process.Kill(); _ = second.Wait() })
	write("config", read("config")+fmt.Sprintf("Host far\n  HostName 127.0.0.1\n  Port 2222\n  ProxyJump testbox\n  HostKeyAlias far\n  IdentityFile %s/id\n  IdentitiesOnly yes\n  UserKnownHostsFile %[1]s/known\n  GlobalKnownHostsFile /dev/null\n", dir), 0o600)
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		listening, err := (&host.Local{Netns: space}).Run(t.Context(), "cat /proc/net/tcp", "sh", "-eu")
		if err == nil && strings.Contains(string(listening), ":08AE ") {
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("the second sshd does not listen: %s", read("log"))
		}
	}
	file := builtAgent(t, runtime.GOARCH)
	if said := called(t, exitMissing, "box", "add", "far", "--ssh", "far", "--agent", file); !strings.Contains(said, "the host key of far") {
		t.Error(said)
	}
	write("known", read("known")+"far "+read("host.pub"), 0o600)
	called(t, exitOK, "box", "add", "far", "--ssh", "far", "--agent", file)
	if said := called(t, exitOK, "box", "check", "far"); !strings.Contains(said, "a round trip") {
		t.Error(said)
	}
	called(t, exitOK, "box", "rm", "far")
}

// Where the box's disk is full the agent is not installed, and what came of it is gone.
func TestBoxWithFullDisk(t *testing.T) {
	know, folder := sshBox(t, emptySpace(t))
	know()
	inside := filepath.Join(filepath.Dir(folder), "inside")
	text, err := os.ReadFile(inside)
	if err != nil {
		t.Fatal(err)
	}
	// The disk is the folder's: a file system of 2 MB that stays while the test lasts.
	disk := filepath.Join(t.TempDir(), "disk")
	full := strings.Replace(string(text), "mount --bind "+folder, "mount --bind "+disk, 1)
	if full == string(text) {
		t.Fatal("the box's disk is not where this test looks for it")
	}
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=2m", "none", disk).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", disk).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	if err := os.WriteFile(inside, []byte(full), 0o700); err != nil {
		t.Fatal(err)
	}
	if said := called(t, exitOther, "box", "add", "full", "--ssh", "testbox", "--agent", builtAgent(t, runtime.GOARCH)); !strings.Contains(said, "No space left on device") {
		t.Error(said)
	}
	left, _ := filepath.Glob(disk + "/boxdyno-agent/*")
	if len(left) > 0 || !strings.HasPrefix(called(t, exitOK, "box", "ls"), "no box is known yet") {
		t.Errorf("%v is left", left)
	}
}

// The agent is installed and runs by sudo, which asks nothing.
func TestBoxBySudo(t *testing.T) {
	know, _ := sshBox(t, emptySpace(t))
	know()
	if err := host.Has("sudo"); err != nil {
		t.Skip(err)
	}
	called(t, exitOK, "box", "add", "pi", "--ssh", "testbox", "--become", "sudo -n", "--agent", builtAgent(t, runtime.GOARCH))
	if said := called(t, exitOK, "box", "check", "pi"); !strings.Contains(said, "a round trip") {
		t.Error(said)
	}
	called(t, exitOK, "box", "rm", "pi")
}
