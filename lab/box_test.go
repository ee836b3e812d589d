// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"boxdyno/internal/files"
	"boxdyno/internal/yaml"
	"boxdyno/result"
)

// What boxes share is declared once in their file, checked, and kept when a box is added.
func TestShared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "boxes.yaml")
	if parts, err := Shared(path); err != nil || parts != nil {
		t.Errorf("%v, %v", parts, err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("shared:\n  switch: {usd: 60, idle: 6, watts: 8, inside: true}\n  fans: {usd: 15.5, meter: command}\n")
	const want = "fans=15.5USD,0W,meter=command;switch=60USD,6..8W,inside"
	for range 2 {
		parts, err := Shared(path)
		if got := result.PartsText(parts); err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
		if err := EditBoxes(path, nil, func(all []Box) []Box { return append(all, Box{Name: "pi", SSH: "pi", Agent: "/a"}) }); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string]string{
		"{switch: {usd: 60, volts: 8}}": `unknown key "volts"`, "{switch: {watts: -1}}": "its power is -1 W", "{switch: {usd: .nan}}": "want a number", "{switch: {usd: NaN}}": "its price is NaN",
		"{switch: {idle: 9, watts: 8}}": "9 W idle", "{switch: {watts: [8]}}": "must be", "{switch: 8W}": "must be", "7": "must be", "{switch: {}}": "nothing is said", "{switch: {inside: perhaps}}": "want a number", "{\"a;b\": {watts: 8}}": "is named", "{switch: {watts: 8}, switch: {watts: 9}}": "switch",
		"{switch: {meter: \"a;b\"}}": "its meter is", "{switch: {watts: Inf}}": "its power is +Inf",
	} {
		write("shared: " + text)
		if parts, err := Shared(path); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, %v, want %q", text, parts, err, want)
		}
	}
}

func TestBoxes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config", "boxes.yaml")
	if all, err := Boxes(path); err != nil || all != nil {
		t.Errorf("%v, %v", all, err)
	}
	want := []Box{
		{Name: "nuc", SSH: "root@192.168.1.9", Agent: "/var/lib/boxdyno-agent/boxdyno-agent", Arch: "amd64", Cables: []string{"eth1=enp1s0", "eth2=enp2s0"}},
		{Name: "pi5", SSH: "pi@pi5.lan", Become: "sudo -n", Agent: "/home/pi/a", Arch: "arm64"},
	}
	var all sync.WaitGroup
	for _, b := range want { // none is lost
		all.Go(func() {
			if err := EditBoxes(path, nil, func(all []Box) []Box { return append(all, b) }); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	got, err := Boxes(path)
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v\n%s", err, d)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	for _, bad := range []Box{{Name: "x", SSH: "-oProxyCommand=id", Agent: "/a"}, {Name: "x", SSH: "-F/tmp/x", Agent: "/a"}, {Name: "x", SSH: "a", Agent: "/a", Arch: "arm64\x1b[2J"},
		{Name: "x", SSH: "a", Agent: "/a", Cables: []string{"eth1=e\x1b[2J"}}, {Name: "x", SSH: "a", Agent: "/a", Cables: []string{"a=b", "a=b", "a=b"}}, {Name: "x\x1b[2J", SSH: "a", Agent: "/a"}, {Name: "x y", SSH: "a", Agent: "/a"}, {Name: "x", SSH: "a", Become: "sudo; id", Agent: "/a"},
		{Name: "x", SSH: "a", Agent: "a"}, {Name: "x", SSH: "a", Agent: "/a$(id)"}, {Name: "x", SSH: "a", Agent: "/a", Cables: []string{"eth1"}}} {
		if err := EditBoxes(path, nil, func(all []Box) []Box { return append(all, bad) }); err == nil {
			t.Errorf("%+v is kept", bad)
		}
	}
	for _, text := range []string{"boxes: {x: {ssh: a, agent: /a, arch: \"\\e[2J\"}}", "boxes: {\"\\e[2J\": {ssh: a, agent: /a}}", "a: &a [b, b]\nboxes: {x: {ssh: *a, agent: /a}}", strings.Repeat("#", yaml.MaxSize) + "\n#", "boxes: 7", "boxes: {x: {ssh: a, agent: /a, shell: id}}", "boxes: {x: {ssh: [a, '; id'], agent: /a}}", "other: {}", "boxes: {x: 7}", "boxes: ["} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if all, err := Boxes(path); err == nil {
			t.Errorf("%.80q is read as %+v", text, all)
		}
	}
	for what, plant := range map[string]func() error{
		"FIFO":      func() error { return unix.Mkfifo(path, 0o600) },
		"/dev/zero": func() error { return os.Symlink("/dev/zero", path) },
	} {
		if err := errors.Join(os.Remove(path), plant()); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { _, err := Boxes(path); ended <- err }()
		select {
		case err := <-ended:
			if !errors.Is(err, files.ErrNotRegular) {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: it is still being read after a minute", what)
		}
	}
}
