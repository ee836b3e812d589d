// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"boxdyno/internal/testutil"
	"boxdyno/service"
)

// noGC keeps finalizers from closing what was forgotten.
func noGC(t *testing.T) {
	percent := debug.SetGCPercent(-1)
	t.Cleanup(func() { debug.SetGCPercent(percent) })
}

func TestNothingIsLeft(t *testing.T) {
	testutil.Privileged(t)
	// The poller that netlink sockets make stays for good: have it first.
	warm, err := (&loop{mtu: defaultMTU}).build()
	if err != nil {
		t.Fatal(err)
	}
	warm.Close()
	noGC(t)
	testutil.NoLeaks(t)
	left := leftovers(t)

	tb, err := (&sandbox{mtu: defaultMTU}).build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if seen := leftovers(t); slices.Equal(seen, left) {
		t.Fatal("a sandbox that stands is not seen: this test could not fail")
	}
	for _, kind := range Services {
		if err := tb.Serve(t.Context(), Service{Kind: kind, Rules: 10, Flows: 10}); err != nil {
			t.Error(err)
		}
	}
	for range 2 {
		if err := tb.Close(); err != nil {
			t.Error(err)
		}
	}
	same(t, left)
}

func TestCancelledBuildLeavesNothing(t *testing.T) {
	testutil.Privileged(t)
	noGC(t)
	testutil.NoLeaks(t)
	left := leftovers(t)
	for _, after := range []time.Duration{0, 20 * time.Millisecond, 60 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		tb, err := (&sandbox{mtu: defaultMTU}).build(ctx)
		cancel()
		if err == nil {
			t.Logf("the sandbox was built within %v", after)
			tb.Close()
		} else if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	}
	same(t, left)
}

// A process that is killed leaves nothing, for its namespaces have no name.
func TestKilled(t *testing.T) {
	if os.Getenv("LAB_TEST_CHILD") != "" {
		_, err := (&sandbox{mtu: defaultMTU}).build(context.Background())
		fmt.Println("built", err)
		time.Sleep(time.Minute)
	}
	testutil.Privileged(t)
	left := leftovers(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), "LAB_TEST_CHILD=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 200)
	n, _ := out.Read(buf)
	if !strings.HasPrefix(string(buf[:n]), "built <nil>") {
		t.Errorf("the child says %q", buf[:n])
	}
	if slices.Equal(leftovers(t), left) {
		t.Error("the child's sandbox is not seen: this test could not fail")
	}
	cmd.Process.Kill()
	cmd.Wait()
	same(t, left)
}

// leftovers are the machine's links, named namespaces, the DUT's BPF programs
// and NAPI threads: what a lab could leave.
func leftovers(t *testing.T) (all []string) {
	t.Helper()
	all = append(all, links(t)...)
	names, _ := os.ReadDir("/run/netns")
	for _, n := range names {
		all = append(all, "netns "+n.Name())
	}
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		id = next
		p, err := ebpf.NewProgramFromID(id)
		if err != nil {
			continue // gone since
		}
		if info, err := p.Info(); err == nil && slices.Contains([]string{dutProgPass, service.DropXDPName, service.DropTCName}, info.Name) {
			all = append(all, fmt.Sprintf("program %s %d", info.Name, id))
		}
		p.Close()
	}
	for _, sd := range sides {
		threads, err := napiThreads(sd.dut)
		if err != nil {
			t.Fatal(err)
		}
		for tid := range threads {
			all = append(all, fmt.Sprintf("thread %d of %s", tid, sd.dut))
		}
	}
	slices.Sort(all)
	return all
}

// same waits for the kernel to have removed all but left: it is in no hurry. What was being
// removed at first may be gone, and what others put up meanwhile is not ours.
func same(t *testing.T, left []string) {
	t.Helper()
	ours := leftovers(t)
	for range 1200 { // a minute
		now := leftovers(t)
		ours = slices.DeleteFunc(ours, func(s string) bool { return slices.Contains(left, s) || !slices.Contains(now, s) })
		if len(ours) == 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("left behind:\n%v\nbefore:\n%v", ours, left)
}
