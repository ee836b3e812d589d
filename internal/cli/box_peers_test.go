// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/internal/snapshot"
	"boxdyno/internal/testutil"
	"boxdyno/result"
	"boxdyno/tune"
)

// bareCable is a box named box whose port i0 is wired to the tester's e0; nothing is set.
func bareCable(t *testing.T) (tester, box *netns.Namespace) {
	t.Helper()
	for _, program := range []string{"iperf3", "wireguard-go", "openvpn"} {
		if err := host.Has(program); err != nil {
			t.Skip(err)
		}
	}
	tester, box = stranger(t)
	inSpace(t, box, "ip link set lo up; ip address flush dev i0; ip address flush dev i1; ip link set i0 down")
	inSpace(t, tester, "ip link set lo up; ip link set e0 down")
	addBox(t, box, "e0=i0")
	return tester, box
}

func inSpace(t *testing.T, ns *netns.Namespace, script string) string {
	t.Helper()
	out, err := (&host.Local{Netns: ns.Path()}).Run(t.Context(), script, "sh", "-eu")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// asItStands is all that is set in namespaces.
func asItStands(t *testing.T, spaces ...*netns.Namespace) map[string]string {
	t.Helper()
	all := map[string]string{}
	for i, ns := range spaces {
		taken, err := snapshot.Take(ns.Path())
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range taken {
			if !strings.Contains(k, "neigh") && !strings.Contains(k, "conntrack") && !strings.Contains(k, "statistics") {
				all[string(rune('a'+i))+" "+k] = v
			}
		}
		all[string(rune('a'+i))+" links"] = inSpace(t, ns, "ip -o link show | sed 's/ qlen.*//'; ip -o -4 address; ip -4 route show table all; ip xfrm state 2>/dev/null || true")
	}
	return all
}

// Tester and box are the gateways of a stream, on one CPU of the box as it is and on all, and
// then as they were.
func TestBoxStreams(t *testing.T) {
	tester, box := bareCable(t)
	before := asItStands(t, tester, box)
	points := 0
	for _, r := range runBox(t, tester, "stream", "--set", "trials=1", "--set", "duration=1s", "--set", "dut_cpus=1,all") {
		if r.Parent != "" || r.Procedure != "stream" {
			continue
		}
		points++
		for _, name := range []string{"goodput_bps", "cpu_per_mbit_s", "sender_cpu_per_mbit_s", "receiver_cpu_per_mbit_s"} {
			if v := r.Value(name); v == nil || v.Value <= 0 {
				t.Errorf("%s %s: %s: %+v", r.Status, r.Reason, name, v)
			}
		}
	}
	if points != 2 {
		t.Errorf("%d points", points)
	}
	if d := snapshot.Diff(before, asItStands(t, tester, box)); len(d) > 0 {
		t.Error(strings.Join(d, "\n"))
	}
}

// Tunnels of programs join tester and box. Those of kernels are tried on boards.
func TestBoxTunnels(t *testing.T) {
	testutil.Long(t)
	testutil.Alone(t)
	tester, box := bareCable(t)
	before := asItStands(t, tester, box)
	points := map[string]result.Record{}
	for _, r := range runBox(t, tester, "vpn", "--set", "tunnel=wireguard-go,openvpn,none", "--set", "trials=1", "--set", "handshakes=2") {
		if r.Parent == "" && r.Procedure == "vpn" {
			points[result.Get(r.Config, "tunnel")] = r
		}
	}
	if len(points) != 3 {
		t.Errorf("%d points", len(points))
	}
	for name, r := range points {
		figures := []string{"goodput_bps", "sender_cpu_per_mbit_s", "receiver_cpu_per_mbit_s"}
		if name != "none" {
			figures = append(figures, "baseline_goodput_bps", "startup_s", "handshake_s", "daemon_cpu_per_mbit_s", "subject_memory_bytes")
		}
		for _, f := range figures {
			if v := r.Value(f); v == nil || v.Value <= 0 {
				t.Errorf("%s: %s %s: %s: %+v", name, r.Status, r.Reason, f, v)
			}
		}
	}
	if d := snapshot.Diff(before, asItStands(t, tester, box)); len(d) > 0 {
		t.Error(strings.Join(d, "\n"))
	}
}

// What a killed agent, or a killed tester, leaves of a tunnel is put back by the next start.
func TestBoxTunnelIsKilled(t *testing.T) {
	testutil.Long(t)
	testutil.Alone(t)
	const agent = "/var/lib/boxdyno-agent/boxdyno-agent "
	boxdyno := program(t)
	for _, tester := range []bool{false, true} {
		t.Run(map[bool]string{false: "agent", true: "tester"}[tester], func(t *testing.T) {
			here, box := bareCable(t)
			before := asItStands(t, here, box)
			args := []string{"--box", "box", "--quick", "--quiet", "--set", "trials=1", "--set", "netns=" + here.Path()}
			cmd := exec.Command(boxdyno, append([]string{"run", "vpn", "--set", "tunnel=openvpn", "--set", "traffic=tcp", "--out", filepath.Join(t.TempDir(), "run")}, args...)...)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cmd.Process.Kill() }()
			for begin := time.Now(); !strings.Contains(inSpace(t, box, "ip link"), tune.TunnelDevice) || !strings.Contains(inSpace(t, here, "ip link"), tune.TunnelDevice); time.Sleep(10 * time.Millisecond) {
				if time.Since(begin) > time.Minute {
					t.Fatalf("no tunnel: %s", out.Bytes())
				}
			}
			victims := []int{cmd.Process.Pid}
			if !tester {
				victims = inside(t, box.Path(), agent+"serve")
			}
			for _, pid := range victims {
				if err := unix.Kill(pid, unix.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
			_ = cmd.Wait()
			for begin := time.Now(); len(inside(t, box.Path(), agent))+len(inside(t, box.Path(), "openvpn")) > 0; time.Sleep(50 * time.Millisecond) {
				if time.Since(begin) > time.Minute {
					t.Fatal("something of the agent is still there")
				}
			}
			if !strings.Contains(inSpace(t, map[bool]*netns.Namespace{false: box, true: here}[tester], "ip address"), "192.0.2.") {
				t.Fatal("nothing was left: the test shows nothing")
			}
			runBox(t, here, "stream", "--set", "trials=1")
			if d := snapshot.Diff(before, asItStands(t, here, box)); len(d) > 0 {
				t.Error(strings.Join(d, "\n"))
			}
		})
	}
}
