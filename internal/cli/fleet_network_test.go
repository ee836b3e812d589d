// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/result"
)

// A rack is boards that are namespaces of this machine behind a bridge, each with the real
// agent, and a hub at an address of the bridge:
//
//	hub, 10.213.77.1 --veth-- [ bridge ] --veth-- b1, 10.213.77.11
//	                                     --veth-- b2, 10.213.77.12 ...
type rack struct {
	dir    string
	agents map[string]*exec.Cmd
	space  func(board string) string // its namespace
}

// newRack starts a board for each of allows, the kinds of work beside measuring that it
// lets its hub do.
func newRack(t *testing.T, allows ...string) *rack {
	t.Helper()
	n := len(allows)
	testutil.Privileged(t)
	bin := builtAgent(t, runtime.GOARCH) // with Go's cache, which follows XDG_CACHE_HOME
	r := &rack{dir: t.TempDir(), agents: map[string]*exec.Cmd{}}
	t.Setenv("XDG_STATE_HOME", filepath.Join(r.dir, "state"))
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(r.dir, "config"))
	t.Setenv("XDG_CACHE_HOME", filepath.Join(r.dir, "cache"))
	t.Setenv("SUDO_UID", "")
	ip := func(words ...string) {
		t.Helper()
		if out, err := exec.Command("ip", words...).CombinedOutput(); err != nil {
			t.Fatalf("ip %q: %v: %s", words, err, out)
		}
	}
	space := func(name string) string { return fmt.Sprintf("bdyrack%d-%s", os.Getpid(), name) }
	r.space = space
	add := func(name string) {
		ip("netns", "add", space(name))
		t.Cleanup(func() {
			if out, err := exec.Command("ip", "netns", "del", space(name)).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
		ip("-n", space(name), "link", "set", "lo", "up")
	}
	add("sw")
	ip("-n", space("sw"), "link", "add", "br0", "type", "bridge")
	ip("-n", space("sw"), "link", "set", "br0", "up")
	plug := func(port string) { ip("-n", space("sw"), "link", "set", port, "master", "br0", "up") }
	tester := fmt.Sprintf("bdyr%d", os.Getpid()%100000)
	ip("link", "add", tester, "type", "veth", "peer", "name", "tester", "netns", space("sw"))
	t.Cleanup(func() { // a namespace goes some time after it was deleted
		if out, err := exec.Command("ip", "link", "del", tester).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	plug("tester")
	ip("addr", "add", "10.213.77.1/24", "dev", tester)
	ip("link", "set", tester, "up")
	for i := range n {
		name := fmt.Sprintf("b%d", i+1)
		add(name)
		ip("-n", space(name), "link", "add", "eth0", "type", "veth", "peer", "name", name, "netns", space("sw"))
		plug(name)
		ip("-n", space(name), "addr", "add", fmt.Sprintf("10.213.77.%d/24", 11+i), "dev", "eth0")
		ip("-n", space(name), "link", "set", "eth0", "up")
	}
	r.hub(t)
	var out bytes.Buffer
	for i := range n {
		name := fmt.Sprintf("b%d", i+1)
		out.Reset()
		if code := Main(t.Context(), []string{"fleet", "token", name}, &out, &out); code != exitOK {
			t.Fatal(out.String())
		}
		words := strings.Fields(out.String())[1:] // join URL TOKEN
		folder := filepath.Join(r.dir, name)
		join := append([]string{"netns", "exec", space(name), bin}, append(words, "--name", name, "--folder", folder)...)
		if allows[i] != "" {
			join = append(join, "--allow", allows[i])
		}
		if said, err := exec.Command("ip", join...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v", said, err)
		}
		log, err := os.Create(filepath.Join(r.dir, name+".log"))
		if err != nil {
			t.Fatal(err)
		}
		c := exec.Command("ip", "netns", "exec", space(name), bin, "connect", "--folder", folder)
		c.Stdout, c.Stderr = log, log
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		r.agents[name] = c
		t.Cleanup(func() {
			_ = c.Process.Signal(unix.SIGTERM) // it may be gone
			_ = c.Wait()
			if text, _ := os.ReadFile(log.Name()); t.Failed() && len(text) > 0 {
				t.Logf("%s: %s", name, text)
			}
			_ = log.Close()
		})
	}
	for begin := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		out.Reset()
		Main(t.Context(), []string{"fleet", "ls"}, &out, &out)
		if strings.Count(out.String(), " ready ") == n {
			return r
		}
		if time.Since(begin) > time.Minute {
			t.Fatal(out.String())
		}
	}
}

// hub starts the rack's hub.
func (r *rack) hub(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended, notes := make(chan int), new(lockedBuffer)
	const at = "10.213.77.1:4222"
	go func() {
		ended <- Main(ctx, []string{"fleet", "hub", "--listen", at, "--boards", "tls://" + at}, notes, notes)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		if t.Failed() {
			t.Log(notes)
		}
	})
	for begin := time.Now(); !strings.Contains(notes.String(), "the hub is at"); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatal(notes)
		}
	}
}

// run is fleet run, and the records of what it measured.
func (r *rack) run(t *testing.T, words ...string) (code int, said string, recs []result.Record) {
	t.Helper()
	var out bytes.Buffer
	dir := filepath.Join(r.dir, fmt.Sprintf("run%d", time.Now().UnixNano()))
	code = Main(t.Context(), append([]string{"fleet", "run", "--quiet", "--out", dir}, words...), &out, &out)
	if _, found, err := result.Open(dir); err == nil {
		recs = found
	}
	return code, out.String(), recs
}

// leftovers are processes of hpcc and iperf3, and scratch folders in memory.
func leftovers(t *testing.T) (found []string) {
	t.Helper()
	out, _ := exec.Command("pgrep", "-a", "-x", "hpcc.*|iperf3").Output()
	found = strings.Split(strings.TrimSpace(string(out)), "\n")
	folders, _ := filepath.Glob("/dev/shm/boxdyno-*")
	found = append(found, folders...)
	if found[0] == "" {
		found = found[1:]
	}
	return found
}

// Boards stream to each other, and the one whose cable is slow is named. They solve one system
// together over each MPI that is here, without a launcher. A board that does not allow it is
// named. One that is killed leaves nothing, and its name says why.
func TestFleetNetwork(t *testing.T) {
	testutil.Long(t)
	testutil.Alone(t)
	for _, p := range []string{"hpcc", "cc", "iperf3", "tc"} {
		if err := host.Has(p); err != nil {
			t.Skip(err)
		}
	}
	r := newRack(t, "network", "network", "network", "")
	code, said, _ := r.run(t, "hpl-mpi", "--boxes", "b1,b4", "--nodes", "2")
	if code != exitInvalid || !strings.Contains(said, "board b4: ") || !strings.Contains(said, "does not allow network.run") {
		t.Errorf("exit code %d: %s", code, said)
	}
	if out, err := exec.Command("ip", "netns", "exec", r.space("b3"), "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", "20mbit", "burst", "20kb", "latency", "50ms").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	code, said, _ = r.run(t, "stream", "--boxes", "b1,b2,b3", "--nodes", "3", "--set", "trials=1")
	if code != exitOK || !strings.Contains(said, "the slowest pair is b3 to b") || !strings.Contains(said, "all streams from b3 are slow") || strings.Contains(said, "streams to b") {
		t.Errorf("exit code %d: %s", code, said)
	}
	t.Log(said)
	kinds := []string{"openmpi"}
	if host.Has("hpcc.mpich") == nil {
		kinds = append(kinds, "mpich")
	}
	small := []string{"--set", "most_skew=1", "--set", "parallel=1", "--set", "order=512", "--set", "block=64"}
	for _, kind := range kinds {
		code, said, recs := r.run(t, append(small, "hpl-mpi", "--boxes", "b1,b2", "--nodes", "1,2", "--set", "mpi="+kind)...)
		if code != exitOK {
			t.Fatalf("exit code %d: %s", code, said)
		}
		points := 0
		for _, rec := range recs {
			if rec.Parent != "" || rec.Procedure != "fleet-hpl-mpi" {
				continue
			}
			points++
			two := result.Get(rec.Config, "nodes") == "2"
			if v := rec.Value("hpl_rate"); v == nil || v.Value <= 0 || rec.Value("hpl_residual") == nil || (rec.Value("mpi_latency_s") != nil) != two {
				t.Errorf("%s: %+v", rec.ID, rec.Values)
			}
		}
		if points != 2 {
			t.Errorf("%d points: %s", points, said)
		}
	}
	if found := leftovers(t); len(found) > 0 {
		t.Errorf("left: %q", found)
	}
	killed := make(chan struct{})
	go func() { // while both work on a system that takes long
		defer close(killed)
		for range 600 {
			if out, _ := exec.Command("pgrep", "-c", "-x", "hpcc").Output(); strings.TrimSpace(string(out)) == "2" {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		_ = r.agents["b2"].Process.Kill() // that of ip, which has become the agent
	}()
	code, said, _ = r.run(t, "hpl-mpi", "--boxes", "b1,b2", "--nodes", "2", "--set", "most_skew=1", "--set", "parallel=1", "--set", "order=9000", "--set", "block=64")
	<-killed
	if code != exitInvalid && code != exitFailed || !strings.Contains(said, "board b2: ") {
		t.Errorf("exit code %d: %s", code, said)
	}
	for begin := time.Now(); len(leftovers(t)) > 0; time.Sleep(100 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatalf("left: %q", leftovers(t))
		}
	}
}
