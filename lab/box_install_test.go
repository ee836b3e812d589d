// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What a box says besides its architecture is left out, and what it says for a path is
// taken for no command.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("SUDO_UID", "")
	for _, c := range []struct{ says, agent, want string }{
		{`echo Welcome; echo boxdyno:x86_64:1000:/home/pi`, "/home/pi/.local/state/boxdyno-agent/boxdyno-agent", ""},
		{`echo 'Welcome!' >&2; echo boxdyno:aarch64:0:/root; echo and more`, "/var/lib/boxdyno-agent/boxdyno-agent", ""},
		{`echo 'boxdyno:x86_64:1000:/home/$(id)'`, "", "not an absolute one of plain letters"},
		{`echo 'boxdyno:x86_64:1000:/home/x;id'`, "", "not an absolute one of plain letters"},
		{`echo boxdyno:x86_64:1000:`, "", "not an absolute one of plain letters"},
		{`printf 'boxdyno:\033[2J:0:/\n'`, "", `an agent for "\x1b[2J"`},
		{`echo nothing of the kind`, "", "where its architecture was asked for"},
		{`head -c 3000000 /dev/zero`, "", "where its architecture was asked for"},
		{`echo boxdyno:x86_64:1000; yes | head -c 3000000 >&2; exit 7`, "", "exit status 7"},
	} {
		if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte("#!/bin/sh\n"+c.says+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		b := Box{Name: "x", SSH: "y"}
		err := b.Find(t.Context())
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || len(err.Error()) > 1000) || err == nil && b.Agent != c.agent {
			t.Errorf("%s: %q, %v", c.says, b.Agent, err)
		}
	}
}

// A box that says without end fills no memory.
func TestCapped(t *testing.T) {
	var l capped
	for range 3 * mostSaid / 1000 {
		if n, err := l.Write(make([]byte, 1000)); n != 1000 || err != nil {
			t.Fatal(n, err)
		}
	}
	if l.Len() != mostSaid {
		t.Errorf("%d octets are kept, want %d", l.Len(), mostSaid)
	}
}

// What a board says of its architecture leads to no other file.
func TestAgentFileStays(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, arch := range []string{"/../" + filepath.Base(self), "arm64 ", "Arm64"} {
		if got, err := AgentFile(arch); err == nil || !strings.Contains(err.Error(), "none of Go's") {
			t.Errorf("%q: %q, %v", arch, got, err)
		}
	}
}
