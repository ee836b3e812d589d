// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A group is each of its boxes in turn, or refused where one box is meant.
func TestBoxGroup(t *testing.T) {
	config := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", config)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("SUDO_UID", "")
	t.Setenv("PATH", t.TempDir()) // no ssh
	path := filepath.Join(config, "boxdyno", "boxes.yaml")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	text := "boxes:\n  pi1: {ssh: pi@a, agent: /a, groups: [rack1, arm]}\n  pi2: {ssh: pi@b, agent: /a, groups: [rack1]}\n  nuc: {ssh: root@c, agent: /a}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		want int
		says []string
		not  string
		args []string
	}{
		{exitOK, []string{"pi1:\n", "\npi2:\n"}, "nuc", []string{"run", "cpu", "--box", "group=rack1", "--dry-run"}},
		{exitOK, []string{"pi1:\n"}, "pi2", []string{"run", "cpu", "--box", "group=arm", "--dry-run"}},
		{exitOK, []string{"pi1:\n", "\npi2:\n"}, "", []string{"qualify", "storage", "--box", "group=rack1", "--dry-run"}},
		{exitUsage, []string{`no box is in group "rack2"`}, "", []string{"run", "cpu", "--box", "group=rack2", "--dry-run"}},
		{exitUsage, []string{"leave out --out"}, "", []string{"run", "cpu", "--box", "group=rack1", "--out", "x", "--dry-run"}},
		{exitUsage, []string{"leave out --json"}, "", []string{"run", "cpu", "--box", "group=rack1", "--json", "--dry-run"}},
		{exitOK, []string{"pi1:\n", "\npi2:\n"}, "nuc", []string{"run", "cpu", "--box", "tag=rack1", "--dry-run"}},
		{exitMissing, []string{"pi1  missing ", "pi2  missing "}, "nuc", []string{"watch", "--box", "group=rack1"}},
		{exitUsage, []string{"--plug is of one box"}, "", []string{"watch", "--box", "group=rack1", "--plug", "http://192.0.2.1"}},
		{exitUsage, []string{"--json is of one box"}, "", []string{"watch", "--box", "group=rack1", "--json"}},
		{exitUsage, []string{`no box is in group "rack2"`}, "", []string{"runs", "--box", "group=rack2"}},
		{exitUsage, []string{`no box is in group "rack2"`}, "", []string{"history", "throughput_fps", "--box", "group=rack2"}},
		{exitUsage, []string{"one box is meant here, and group rack1 has pi1, pi2: name one of them"}, "", []string{"box", "check", "group=rack1"}},
		{exitMissing, []string{"pi1:\n", "\npi2:\n", "pi1: missing ", "pi2: missing "}, "", []string{"tune", "status", "--box", "group=rack1"}},
		{exitOK, []string{"rack1,arm"}, "", []string{"box", "ls"}},
	} {
		var out bytes.Buffer
		if code := Main(t.Context(), c.args, &out, &out); code != c.want {
			t.Errorf("%q: exit code %d, want %d: %s", c.args, code, c.want, out.Bytes())
		}
		for _, s := range c.says {
			if !strings.Contains(out.String(), s) {
				t.Errorf("%q: nothing says %q: %s", c.args, s, out.Bytes())
			}
		}
		if c.not != "" && strings.Contains(out.String(), c.not) {
			t.Errorf("%q: %s", c.args, out.Bytes())
		}
	}
	names, _ := boxNames(nil, nil, "")
	if got := strings.Join(names, " "); !strings.Contains(got, "group=rack1") || !strings.Contains(got, "group=arm") {
		t.Errorf("%q", names)
	}
}
