// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/internal/testutil"
	"boxdyno/result"
)

// controlled is a box of stranger with two cables, added under the name box, whose sshd
// listens on a third port: what ssh carries is in the box's own counters.
func controlled(t *testing.T) (tester, box *netns.Namespace) {
	t.Helper()
	tester, box = stranger(t)
	know, folder := sshBox(t, box.Path())
	dir := filepath.Dir(folder)
	sh := func(ns *netns.Namespace, script string) {
		t.Helper()
		if _, err := (&host.Local{Netns: ns.Path()}).Run(t.Context(), script, "sh", "-eu"); err != nil {
			t.Fatal(err)
		}
	}
	err := netns.Do(tester.Path(), func() error {
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "c0"}, PeerName: "c1", PeerNamespace: netlink.NsFd(box.Fd())})
	})
	if err != nil {
		t.Fatal(err)
	}
	sh(tester, "ip link set c0 up; ip address add 192.0.2.2/24 dev c0")
	sh(box, "ip link set c1 up; ip address add 192.0.2.1/24 dev c1")
	for _, port := range []string{"i0", "i1"} {
		takesXDP(t, box, port)
	}
	sshd, err := host.Program("sshd")
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("mkdir -p /run/sshd %s; exec unshare -m sh -c 'mount --bind %[1]s /var/lib; exec %s -D -f %s/sshd_config -o ListenAddress=192.0.2.1 2>>%[3]s/log'", folder, sshd, dir)
	daemon := exec.Command("nsenter", "--net="+box.Path(), "sh", "-c", script)
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = daemon.Process.Kill(); _ = daemon.Wait() })
	proxy := fmt.Sprintf("exec nsenter --net=%s bash -c 'exec 3<>/dev/tcp/192.0.2.1/22; cat <&3 & exec cat >&3'", tester.Path())
	if err := os.WriteFile(filepath.Join(dir, "proxy"), []byte(proxy), 0o700); err != nil {
		t.Fatal(err)
	}
	know()
	var out bytes.Buffer
	begin := time.Now()
	for Main(t.Context(), []string{"box", "add", "box", "--ssh", "testbox", "--agent", builtAgent(t, runtime.GOARCH), "--cable", "e0=i0", "--cable", "e1=i1"}, &out, &out) != exitOK {
		if time.Since(begin) > time.Minute {
			t.Fatal(out.String())
		}
		out.Reset()
		time.Sleep(100 * time.Millisecond)
	}
	return tester, box
}

// What ssh carries to a box is in no account, of any procedure that offers frames.
func TestBoxBooksClose(t *testing.T) {
	testutil.Long(t)
	testutil.Alone(t)
	tester, _ := controlled(t)
	for _, words := range [][]string{{"forward", "--budget", "15s"}, {"flood", "--set", "rate=5k", "--set", "benign=1k", "--set", "duration=500ms"}} {
		trials := 0
		for _, r := range runBox(t, tester, words...) {
			a := r.Account
			if a == nil || r.Procedure != words[0] || r.Parent == "" {
				continue
			}
			trials++
			if a.Unexplained != 0 || !a.Settled || a.DroppedAt(result.Routing) != 0 {
				t.Errorf("%s: %+v", r.ID, a)
			}
		}
		if trials == 0 {
			t.Errorf("%s: no trials", words[0])
		}
	}
}
