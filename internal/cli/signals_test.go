// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"boxdyno/internal/netns"
	"boxdyno/internal/snapshot"
	"boxdyno/internal/testutil"
)

// program is a copy of this test that runs as boxdyno.
func program(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "boxdyno")
	self, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(name, self, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// linkIn is what f says of a port in a namespace.
func linkIn(t *testing.T, path, name string, f func(*netlink.LinkAttrs) bool) (yes bool) {
	t.Helper()
	err := netns.Do(path, func() error {
		l, err := netlink.LinkByName(name)
		if err == nil {
			yes = f(l.Attrs())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return yes
}

func soon(yes func() bool) bool {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if yes() {
			return true
		}
	}
	return false
}

// Whatever ends a command that works on a port, the machine's settings are as before. Of
// tune that is so once its recipe has been reverted.
func TestSignalsLeaveNoSetting(t *testing.T) {
	testutil.Alone(t)
	testutil.Privileged(t)
	boxdyno := program(t)
	files := t.TempDir()
	recipe, pcap := filepath.Join(files, "r.yaml"), filepath.Join(files, "a.pcap")
	err := errors.Join(os.WriteFile(recipe, []byte("name: r\nsteps: [{knob: mtu, value: 1400}, {knob: gro, value: off}, {knob: txqueuelen, value: 77}]"), 0o644),
		os.WriteFile(pcap, pcapOf(60, 200, 1000), 0o644),
		os.WriteFile(filepath.Join(files, "watts"), []byte("#!/bin/sh\necho 5.2\n: >$XDG_STATE_HOME/watts\nexec sleep 60\n"), 0o755))
	if err != nil {
		t.Fatal(err)
	}
	sends := func(a *netlink.LinkAttrs) bool { return a.Statistics.TxPackets > 100 }
	for _, c := range []struct {
		name, args, port string
		begun            func(*netlink.LinkAttrs) bool
	}{
		{"send", "send -i v0 --rate 10k --duration 60 --force", "v0", sends},
		{"send by AF_XDP", "send -i v0 --rate 10k --duration 60 --backend afxdp", "v0", sends},
		{"replay", "replay -i v0 -p 10000 --loop 1000000 " + pcap, "v0", sends},
		{"meter", "meter -i v1 --duration 60", "v1", func(a *netlink.LinkAttrs) bool { return a.Xdp != nil && a.Xdp.Attached }},
		{"watch", "watch --meter " + filepath.Join(files, "watts"), "", nil},
		{"tune", "tune apply " + recipe + " --port v0", "v0", func(a *netlink.LinkAttrs) bool { return a.MTU == 1400 }},
	} {
		for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM, syscall.SIGKILL} {
			t.Run(fmt.Sprintf("%s/%v", c.name, s), func(t *testing.T) {
				t.Parallel()
				path := testutil.Cable{A: "v0", B: "v1", Silent: true}.Make(t)
				before, err := snapshot.Take(path)
				if err != nil {
					t.Fatal(err)
				}
				state := t.TempDir()
				begin := func(args ...string) *exec.Cmd {
					cmd := exec.Command(boxdyno, args...)
					cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+state, "SUDO_UID=")
					return cmd
				}
				cmd := begin(strings.Fields(c.args)...)
				var said strings.Builder
				cmd.Stdout, cmd.Stderr = &said, &said
				if err := netns.Do(path, cmd.Start); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = cmd.Process.Kill() })
				ended := make(chan error, 1)
				go func() { ended <- cmd.Wait() }()
				if !soon(func() bool {
					if c.begun == nil {
						_, err := os.Stat(filepath.Join(state, "watts"))
						return err == nil
					}
					return linkIn(t, path, c.port, c.begun)
				}) {
					t.Error("it does not begin")
				}
				_ = cmd.Process.Signal(s) // tune may have ended
				select {
				case err = <-ended:
				case <-time.After(time.Minute):
					_ = cmd.Process.Kill()
					err = <-ended
					t.Errorf("%v does not end it", s)
				}
				t.Logf("%v: %s", err, said.String())
				if c.name == "tune" {
					if err := netns.Do(path, begin("tune", "revert").Run); err != nil {
						t.Error(err)
					}
				}
				var left []string
				if !soon(func() bool {
					after, err := snapshot.Take(path)
					left = snapshot.Diff(before, after)
					return err == nil && len(left) == 0
				}) {
					t.Errorf("left: %v", left)
				}
			})
		}
	}
}

// send, replay, meter and topology wire2 stay away from a port that carries the caller's own
// connection, also with force.
func TestForceSparesTheOwnConnection(t *testing.T) {
	path := testutil.Cable{A: "v0", B: "v1", Silent: true}.Make(t)
	boxdyno := program(t)
	pcap := filepath.Join(t.TempDir(), "a.pcap")
	err := os.WriteFile(pcap, pcapOf(60, 200, 1000), 0o644)
	if err == nil {
		err = netns.Do(path, func() error {
			l, err := netlink.LinkByName("v0")
			if err != nil {
				return err
			}
			addr, err := netlink.ParseAddr("198.18.7.1/24")
			if err != nil {
				return err
			}
			return netlink.AddrAdd(l, addr)
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	const here = "198.18.7.9 51000 198.18.7.1 22"
	for _, c := range []struct {
		args, ssh string
		code      int
		hint      string // of a refusal
	}{
		{"send -i v0 -t --count 10 --force", here, exitUsage, "--force-own-connection"},
		{"send -i v0 -t --count 10", here, exitUsage, "--force-own-connection"},
		{"replay -i v0 -t --force " + pcap, here, exitUsage, "--force-own-connection"},
		{"meter -i v0 --duration 0.1 --force", here, exitUsage, "--force-own-connection"},
		{"run forward --lab wire2 --set port_a=v0 --set port_b=v1 --set force=true --quiet", here, exitMissing, "force_own_connection=true"},
		{"send -i v0 -t --count 10 --force", "192.0.2.9 51000 192.0.2.1 22", exitOK, ""}, // by another port
		{"send -i v0 -t --count 10 --force-own-connection", here, exitOK, ""},
	} {
		cmd := exec.Command(boxdyno, strings.Fields(c.args)...)
		cmd.Env = append(os.Environ(), "SSH_CONNECTION="+c.ssh, "XDG_STATE_HOME="+t.TempDir(), "SUDO_UID=")
		var errw strings.Builder
		cmd.Stderr = &errw
		sent := func() (n uint64) {
			linkIn(t, path, "v0", func(a *netlink.LinkAttrs) bool { n = a.Statistics.TxPackets; return true })
			return n
		}
		before := sent()
		err := netns.Do(path, cmd.Run)
		switch said := errw.String(); {
		case c.hint != "" && (cmd.ProcessState.ExitCode() != c.code || !strings.Contains(said, c.hint) || strings.Count(said, "\n") != 1 || sent() != before):
			t.Errorf("%s, SSH_CONNECTION=%s: exit code %d, %d frames sent: %s", c.args, c.ssh, cmd.ProcessState.ExitCode(), sent()-before, said)
		case c.hint == "" && (err != nil || sent() < before+10):
			t.Errorf("%s, SSH_CONNECTION=%s: %v, %d frames sent: %s", c.args, c.ssh, err, sent()-before, said)
		}
	}
}
