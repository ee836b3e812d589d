// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/internal/testutil"
	"boxdyno/result"
)

// A lockedBuffer is written to while it is read.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// freePort is one of the loopback that nobody listens at.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// A fleeted is a hub, and boxes of an inventory, which an ssh that is this machine's shell
// reaches.
type fleeted struct {
	t        *testing.T
	dir, url string
	out      bytes.Buffer
	notes    *lockedBuffer
}

func newFleeted(t *testing.T, inventory string) *fleeted {
	t.Helper()
	f := &fleeted{t: t, dir: t.TempDir(), notes: new(lockedBuffer)}
	t.Setenv("XDG_STATE_HOME", filepath.Join(f.dir, "state"))
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(f.dir, "config"))
	t.Setenv("SUDO_UID", "")
	t.Setenv("PATH", filepath.Join(f.dir, "bin")+":"+os.Getenv("PATH"))
	for name, text := range map[string]string{
		"bin/ssh":  fmt.Sprintf("#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nexport HOME=%s/home-$2 PATH=%[1]s/their:$PATH\nunset XDG_STATE_HOME\nmkdir -p $HOME\nexec sh -c \"$3\"\n", f.dir),
		"their/id": "#!/bin/sh\necho 1000\n", // a user's folder, whoever runs the test
		"hosts":    inventory,
	} {
		path := filepath.Join(f.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// onCPUs has each of these boxes work on a CPU of its own.
func (f *fleeted) onCPUs(cpus map[string]int) {
	f.t.Helper()
	name := filepath.Join(f.dir, "bin/ssh")
	text, err := os.ReadFile(name)
	if err != nil {
		f.t.Fatal(err)
	}
	choose := "case $2 in "
	for box, cpu := range cpus {
		choose += fmt.Sprintf("%s) cpu=%d;; ", box, cpu)
	}
	script, last, _ := strings.Cut(string(text), "exec sh -c")
	if err := os.WriteFile(name, []byte(script+choose+"esac\nexec taskset -c $cpu sh -c"+last), 0o755); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleeted) call(want int, words ...string) {
	f.t.Helper()
	f.out.Reset()
	if code := Main(f.t.Context(), append(words, "--quiet"), &f.out, &f.out); code != want {
		f.t.Fatalf("%q: exit code %d, want %d: %s", words, code, want, f.out.Bytes())
	}
}

func (f *fleeted) says(parts ...string) {
	f.t.Helper()
	for _, part := range parts {
		if !strings.Contains(f.out.String(), part) {
			f.t.Errorf("nothing says %q: %s", part, f.out.Bytes())
		}
	}
}

// hub runs the hub until the test ends, and ends agents of boxes.
func (f *fleeted) hub(boxes ...string) {
	t := f.t
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int)
	port := freePort(t)
	f.url = "tls://127.0.0.1:" + port
	go func() {
		ended <- Main(ctx, []string{"fleet", "hub", "--listen", "127.0.0.1:" + port, "--boards", f.url}, f.notes, f.notes)
	}()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != exitOK {
			t.Errorf("the hub ends with %d", code)
		}
		if t.Failed() {
			logs, _ := filepath.Glob(filepath.Join(f.dir, "home-*/.local/state/boxdyno-agent/connect.log"))
			for _, name := range logs {
				text, _ := os.ReadFile(name)
				t.Logf("%s: %s", name, text)
			}
			t.Log(f.notes)
		}
	})
	for begin := time.Now(); !strings.Contains(f.notes.String(), "the hub is at"); time.Sleep(10 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatal(f.notes)
		}
	}
	t.Cleanup(func() { // agents in the background
		for _, name := range boxes {
			pid := f.pid(name)
			if pid == 0 || unix.Kill(pid, unix.SIGTERM) != nil {
				t.Errorf("no agent of %s", name)
			}
			for begin := time.Now(); unix.Kill(pid, 0) == nil && time.Since(begin) < time.Minute; time.Sleep(10 * time.Millisecond) {
				var status unix.WaitStatus
				_, _ = unix.Wait4(pid, &status, unix.WNOHANG, nil)
			}
		}
	})
}

// pid is that of a box's agent; 0: there is none.
func (f *fleeted) pid(box string) (pid int) {
	text, _ := os.ReadFile(f.file(box, "connect.lock"))
	_, _ = fmt.Sscan(string(text), &pid)
	return pid
}

// file is one of a box's agent.
func (f *fleeted) file(box, name string) string {
	return filepath.Join(f.dir, "home-"+box, ".local/state/boxdyno-agent", name)
}

// Two boxes of an inventory are enrolled, by an ssh that is this machine's shell, measured
// together, and one of them is revoked.
func TestFleetCommands(t *testing.T) {
	testutil.Long(t)
	testutil.Alone(t)
	f := newFleeted(t, "[rack1]\npi[1:2]\n")
	dir, call, says := f.dir, f.call, f.says
	call(exitMissing, "fleet", "ls")
	says("start one with boxdyno fleet hub")
	call(exitUsage, "fleet", "hub", "--url", "tls://x", "--listen", "y:1")
	call(exitOK, "fleet", "hub", "--rules")
	says("auth_callout")
	call(exitMissing, "fleet", "hub", "--listen", "256.0.0.1:0")

	f.hub("pi1", "pi2")
	enrol := []string{"fleet", "enrol", "--inventory", filepath.Join(dir, "hosts"), "--group", "shelf", "--agent", builtAgent(t, runtime.GOARCH)}
	call(exitOK, enrol...)
	says("pi1  is in the fleet as pi1", "pi2  is in the fleet as pi2")
	call(exitOK, enrol...)
	says("pi1  was in the fleet already, as pi1", "pi2  was in the fleet already, as pi2")
	call(exitOK, "fleet", "check", "group=rack1")
	says("pi1: ", "pi2: ", "a round trip")
	call(exitUsage, "fleet", "run", "crypto", "--boxes", "pi3")
	call(exitUsage, "fleet", "run", "crypto", "--nodes", "1..3")
	call(exitOK, "fleet", "run", "forward", "--nodes", "2", "--dry-run")
	call(exitUsage, "fleet", "run", "throughput")
	says("boards do not carry out throughput")
	call(exitOK, "fleet", "run", "hash", "--nodes", "1..2", "--dry-run")

	run := filepath.Join(dir, "run")
	f.out.Reset()
	// Beside other work its rounds are invalid.
	code := Main(t.Context(), []string{"fleet", "run", "hash", "--boxes", "group=shelf", "--nodes", "2", "--quiet", "--set", "most_skew=1", "--out", run}, &f.out, &f.out)
	if code != exitOK && code != exitInvalid {
		t.Fatalf("exit code %d: %s", code, f.out.Bytes())
	}
	header, recs, err := result.Open(run)
	if err != nil || header.Topology != "fleet" || len(header.Machines) != 2 {
		t.Fatalf("%+v, %v", header, err)
	}
	for _, r := range recs {
		if len(r.Boards) != 2 || r.Parent != "" && !strings.Contains(r.ID, "boards=pi") {
			t.Errorf("%s: boards %+v", r.ID, r.Boards)
		}
	}
	call(code, "fleet", "run", "--resume", run) // nothing is left
	call(exitOK, "fleet", "revoke", "pi2")
	call(exitUsage, "fleet", "revoke", "pi2")
	call(exitOK, "fleet", "ls")
	says("revoked")
	call(exitInvalid, "fleet", "run", "hash", "--boxes", "pi1", "--nodes", "1", "--set", "hot=1", "--set", "most_skew=0.000001", "--out", filepath.Join(dir, "late"))
}
