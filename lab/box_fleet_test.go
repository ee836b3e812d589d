// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A token is on no command line, here or there.
func TestTokenIsOnNoCommandLine(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	script := "#!/bin/sh\necho \"$@\" >" + dir + "/words\ncat >" + dir + "/input\necho board KEY joined\n"
	if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	b := Box{SSH: "pi1", Agent: "/var/lib/boxdyno-agent/boxdyno-agent"}
	said, err := b.JoinFleet(t.Context(), "tls://hub.lan:4222", "bdfleet1-SECRET", "pi1", []string{"tune"})
	if err != nil || said != "board KEY joined" {
		t.Fatalf("%q, %v", said, err)
	}
	words, err := os.ReadFile(filepath.Join(dir, "words"))
	if err != nil || strings.Contains(string(words), "SECRET") || !strings.Contains(string(words), " join tls://hub.lan:4222 - ") {
		t.Errorf("%q, %v", words, err)
	}
	if input, err := os.ReadFile(filepath.Join(dir, "input")); err != nil || string(input) != "bdfleet1-SECRET\n" {
		t.Errorf("%q, %v", input, err)
	}
}

// A service is the package's where that has one, with this agent if it has another version;
// else it is written. A process that only has the number of an earlier agent lives on. What
// enrolment has written goes with the agent.
func TestServiceOfEnrolment(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) string {
		data, _ := os.ReadFile(filepath.Join(dir, name)) // "": it is not there
		return string(data)
	}
	t.Setenv("PATH", filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	put("bin/id", "#!/bin/sh\necho 0\n")
	put("bin/systemctl", "#!/bin/sh\necho \"$@\" >>"+dir+"/calls\n")
	put("bin/ssh", `#!/bin/sh
for line; do :; done
exec sh -c "$(printf %s "$line" | sed 's|/etc/systemd|`+dir+`&|g; s|/usr/lib/systemd|`+dir+`&|g; s|/run/systemd|`+dir+`&|g; s|/usr/bin/boxdyno-agent|`+dir+`&|g')"
`)
	put("run/systemd/system/x", "")
	put("etc/systemd/system/x", "")
	put("agent/boxdyno-agent", "#!/bin/sh\necho boxdyno-agent 2\n")
	b := Box{SSH: "pi1", Agent: dir + "/agent/boxdyno-agent"}
	const own, packaged, drop = "etc/systemd/system/boxdyno-agent.service", "usr/lib/systemd/system/boxdyno-agent.service", "etc/systemd/system/boxdyno-agent.service.d/fleet.conf"
	connect := func() {
		t.Helper()
		if service, err := b.ConnectFleet(t.Context()); !service || err != nil {
			t.Fatal(service, err)
		}
	}

	other := exec.Command("sleep", "60")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Process.Kill(); _ = other.Wait() }()
	put("agent/connect.lock", fmt.Sprintln(other.Process.Pid))
	connect()
	if text := read(own); !strings.Contains(text, "ExecStart="+b.Agent+" connect --folder "+dir+"/agent\n") || read(drop) != "" {
		t.Errorf("without a package: %q, %q", text, read(drop))
	}
	if calls := read("calls"); !strings.Contains(calls, "daemon-reload\nenable -q boxdyno-agent\nrestart boxdyno-agent\n") {
		t.Errorf("systemctl: %s", calls)
	}
	put(packaged, "[Unit]\n")
	put("usr/bin/boxdyno-agent", "#!/bin/sh\necho boxdyno-agent 1\n")
	connect()
	if text := read(drop); read(own) != "" || text != "[Service]\nExecStart=\nExecStart="+b.Agent+" connect --folder "+dir+"/agent\n" {
		t.Errorf("with a package of another version: %q, %q", read(own), text)
	}
	put("usr/bin/boxdyno-agent", read("agent/boxdyno-agent"))
	put(own, "[Unit]\nDescription=an administrator's\n")
	connect()
	if read(drop) != "" || read(own) == "" {
		t.Errorf("with a package of this version: %q; the administrator's is %q", read(drop), read(own))
	}
	put(drop, "[Service]\n")
	put("agent/fleet.json", "{}")
	put("agent/fleet.seed", "S")
	put("agent/boxdyno-12-345-678-910/x", "of an agent that was ended")
	if err := b.Uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"agent", filepath.Dir(drop)} {
		if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", name, err)
		}
	}
	if read(own) == "" {
		t.Error("the administrator's service is gone")
	}
	if other.Process.Signal(syscall.Signal(0)) != nil {
		t.Error("another process was killed for an agent")
	}
}
