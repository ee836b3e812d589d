// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"net"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
	"boxdyno/result"
)

// takesXDP puts a program on a veth that passes all frames: without one it takes none that
// the other end sends by XDP.
func takesXDP(t *testing.T, ns *netns.Namespace, port string) {
	t.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "Dual BSD/GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}})
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close()
	err = netns.Do(ns.Path(), func() error {
		iface, err := net.InterfaceByName(port)
		if err != nil {
			return err
		}
		l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: iface.Index, Flags: link.XDPDriverMode})
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A box whose ports nobody has configured is found, set up, measured as a NAT gateway, and
// put back, by real ssh.
func TestBoxServices(t *testing.T) {
	testutil.Long(t)
	testutil.Alone(t)
	tester, box := stranger(t)
	sh := func(script string) string {
		t.Helper()
		out, err := (&host.Local{Netns: box.Path()}).Run(t.Context(), script, "sh", "-eu")
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	sh("nft flush ruleset; ip address flush dev i0; ip address flush dev i1; sysctl -qw net.ipv4.ip_forward=0; ip link set i0 down; ip link set i1 down")
	for _, port := range []string{"i0", "i1"} {
		takesXDP(t, box, port)
	}
	const look = "nft list ruleset; ip -o address; sysctl -a 2>/dev/null | grep forwarding; ip -o link show up"
	before := sh(look)
	var out bytes.Buffer
	run := func(args ...string) {
		t.Helper()
		out.Reset()
		// A search may find nothing where the tester is held up; its trials tell enough.
		if code := Main(t.Context(), args, &out, &out); code != exitOK && (code != exitInvalid && code != exitFailed || args[0] != "run") {
			t.Fatalf("%s: exit code %d: %s", args, code, out.Bytes())
		}
	}
	addBox(t, box)
	run("box", "cables", "box", "--netns", tester.Path())
	for _, c := range [][]string{
		{"forward", "--set", "service=nat", "--set", "flows=4", "--set", "direction=lan-to-wan"},
		{"connections", "--set", "service=nat"},
	} {
		dir := t.TempDir() + "/run"
		run(slices.Concat([]string{"run", c[0], "--box", "box", "--quick", "--quiet", "--budget", "15s", "--out", dir, "--set", "netns=" + tester.Path()}, c[1:])...)
		_, recs, err := result.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		measured := 0
		for _, r := range recs {
			if r.Parent != "" && r.Account != nil && r.Account.Accepted > 1000 {
				measured++
			}
			if r.Account != nil && r.Account.Unexplained != 0 {
				t.Errorf("%s: %d frames are unexplained", r.ID, r.Account.Unexplained)
			}
		}
		if measured == 0 {
			t.Errorf("%s: nothing was measured: %s", c[0], out.Bytes())
		}
		if after := sh(look); after != before {
			t.Errorf("%s left\n%s\nwhere there was\n%s", c[0], after, before)
		}
	}
}
