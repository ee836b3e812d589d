// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/link"
	"boxdyno/link/hub"
	"boxdyno/subject/catalog"
)

// The agent of the tests below.
func TestAgentChild(t *testing.T) {
	folder := os.Getenv("AGENT_TEST")
	if folder == "" {
		return // it is a child of others
	}
	in, out := link.Streams()
	if err := Serve(context.Background(), in, out, folder, "test", catalog.All, func(string) {}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func dial(t *testing.T, folder string) *link.Conn {
	t.Helper()
	c, err := hub.Dial(t.Context(), link.Agent{Name: "box", Version: "test", Argv: []string{"env", "AGENT_TEST=" + folder, os.Args[0], "-test.run=^TestAgentChild$"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func left(t *testing.T, folder string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestIdentity(t *testing.T) {
	testutil.NoLeaks(t)
	c := dial(t, t.TempDir())
	id, err := Identify.Call(t.Context(), c, IdentifyArgs{Ports: []string{"lo"}})
	if err != nil || id.Machine.BootID != (&host.Local{}).Identify().BootID || len(id.Ports) != 1 || id.Ports[0].Name != "lo" || id.Ports[0].MTU == 0 {
		t.Errorf("%+v, %v", id, err)
	}
	if _, err := Identify.Call(t.Context(), c, IdentifyArgs{Ports: []string{"none9"}}); !errors.As(err, new(*host.Missing)) {
		t.Errorf("%v", err)
	}
	checked, err := Check.Call(t.Context(), c, None{})
	if err != nil || checked.UID != os.Geteuid() || checked.UID != 0 && len(checked.Missing) == 0 {
		t.Errorf("%+v, %v", checked, err)
	}
}

// Files arrive whole, and go with the connection.
func TestFiles(t *testing.T) {
	testutil.NoLeaks(t)
	folder := filepath.Join(t.TempDir(), "agent")
	c := dial(t, folder)
	for _, size := range []int{0, 1, chunk, 2*chunk + 17} {
		data := bytes.Repeat([]byte{byte(size), 7, 9}, size)[:size]
		for range 2 { // the second time it is there
			path, err := Put(t.Context(), c, bytes.NewReader(data))
			if err != nil || filepath.Dir(filepath.Dir(path)) != folder {
				t.Fatalf("%s, %v", path, err)
			}
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d octets of %d, %v", len(got), size, err)
			}
		}
	}
	ctx := t.Context()
	sum := strings.Repeat("ab", 32)
	for what, part := range map[string]FileChunk{
		"a digest that is a path": {SHA256: "../../../etc/passwd", Size: 1, Data: []byte("x")},
		"a wrong digest":          {SHA256: sum, Size: 1, Data: []byte("x")},
		"a gap":                   {SHA256: sum, Size: 9, Offset: 4, Data: []byte("x")},
		"too long":                {SHA256: sum, Size: 1, Data: []byte("xy")},
		"no size":                 {SHA256: sum, Size: -1},
		"too large":               {SHA256: sum, Size: 1 << 60},
	} {
		if state, err := FilePut.Call(ctx, c, part); err == nil || state.Path != "" {
			t.Errorf("%s: %+v, %v", what, state, err)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if names := left(t, folder); len(names) != 0 {
		t.Errorf("%q stay", names)
	}
}

// One tester at a time has a box; the next may have it once the first is gone.
func TestHold(t *testing.T) {
	testutil.NoLeaks(t)
	folder := filepath.Join(t.TempDir(), "agent")
	args := HoldArgs{Boot: (&host.Local{}).Identify().BootID}
	first, second := dial(t, folder), dial(t, folder)
	for range 2 {
		if _, err := Hold.Call(t.Context(), first, args); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	if _, err := Hold.Call(t.Context(), second, args); !errors.As(err, new(*host.Missing)) || !strings.Contains(err.Error(), "another run holds it (pid ") {
		t.Errorf("%v", err)
	}
	if took := time.Since(begin); took > 3*patience {
		t.Errorf("it took %v", took)
	}
	first.Close()
	if _, err := Hold.Call(t.Context(), second, args); err != nil {
		t.Errorf("%v", err)
	}
}

// A tester of the test below: it holds a box and sends it a file, and then does nothing.
func TestTesterChild(t *testing.T) {
	folder := os.Getenv("AGENT_TEST_TESTER")
	if folder == "" {
		return // it is a child of others
	}
	c := dial(t, folder)
	if _, err := Hold.Call(t.Context(), c, HoldArgs{Boot: (&host.Local{}).Identify().BootID}); err != nil {
		t.Fatal(err)
	}
	if _, err := Put(t.Context(), c, strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	fmt.Println("ready")
	select {}
}

// A tester that is killed leaves nothing on the box but the lock's file, and an agent that
// is killed leaves nothing past its next start.
func TestKilled(t *testing.T) {
	testutil.NoLeaks(t)
	folder := filepath.Join(t.TempDir(), "agent")
	tester := exec.Command(os.Args[0], "-test.run=^TestTesterChild$")
	tester.Env = append(os.Environ(), "AGENT_TEST_TESTER="+folder)
	out, err := tester.StdoutPipe()
	if err == nil {
		err = tester.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if names := left(t, folder); len(names) != 2 {
		t.Fatalf("%q, want a lock and the files of one agent", names)
	}
	if err := tester.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = tester.Wait() // it was killed
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if names := left(t, folder); len(names) == 1 && names[0] == "lock" {
			break
		} else if time.Since(begin) > time.Minute {
			t.Fatalf("%q stay", names)
		}
	}
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(folder, filesPrefix()+strconv.Itoa(gone.Process.Pid)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := dial(t, folder).Close(); err != nil {
		t.Error(err)
	}
	if names := left(t, folder); len(names) != 1 {
		t.Errorf("%q stay", names)
	}
}

func TestMethodsAreNamedOnce(t *testing.T) {
	var names []string
	for _, m := range Methods() {
		if m.Doc == "" || slices.Contains(names, m.Name) {
			t.Errorf("%q: %q", m.Name, m.Doc)
		}
		names = append(names, m.Name)
	}
}

// FuzzMethods is an agent that anybody asks anything: nothing panics, and no file is
// written outside its folder.
func FuzzMethods(f *testing.F) {
	for _, args := range []string{
		`{"ports":["lo","nowhere",""]}`, `null`, `-9223372036854775808`, `[[]]`, `1`,
		`{"paths":[{"name":"x","hops":[{"place":"dut nic","port":"lo","mine":true},{"place":"meter"}]}],"bare":true}`,
		`{"paths":[{"hops":[{"mine":true},{"mine":true},{"mine":true}]}]}`,
		`{"sha256":"../x","size":1,"data":"eA=="}`,
		`{"sha256":"2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881","size":1,"data":"eA=="}`,
	} {
		for n := range Methods() {
			f.Add(n, args)
		}
	}
	f.Fuzz(func(t *testing.T, n int, args string) {
		all := Methods()
		if n < 0 || n >= len(all) || all[n].Name == string(Hold) || all[n].Name == string(Check) { // they take locks and make namespaces
			return
		}
		parent := t.TempDir()
		s := newSession(t.Context(), filepath.Join(parent, "agent"), "test", catalog.All)
		h := all[n].bind(s)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // some wait as long as the tester does
		defer cancel()
		if reply, err := h(ctx, &link.Request{Args: json.RawMessage(args)}); err == nil {
			if _, err := json.Marshal(reply); err != nil {
				t.Errorf("%s: %v", all[n].Name, err)
			}
		}
		if err := s.end(); err != nil {
			t.Errorf("%s: %v", all[n].Name, err)
		}
		if names := left(t, parent); len(names) > 1 || len(left(t, s.Folder)) > 0 {
			t.Errorf("%s left %q", all[n].Name, names)
		}
	})
}

// Calls that come at once open no more than may be, and a call that failed leaves nothing.
func TestCallsAtOnce(t *testing.T) {
	s := newSession(t.Context(), filepath.Join(t.TempDir(), "agent"), "test", catalog.All)
	var all sync.WaitGroup
	var opened atomic.Int64
	for range 4 * mostBooks {
		all.Go(func() {
			if _, err := s.openLedger(t.Context(), LedgerArgs{}); err == nil {
				opened.Add(1)
			}
		})
	}
	all.Wait()
	if n := opened.Load(); n != mostBooks || len(s.books) != mostBooks {
		t.Errorf("%d ledgers are open, %d in the table", n, len(s.books))
	}
	for id := range s.books {
		if _, err := s.closeLedger(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	if len(s.ends) > 0 {
		t.Errorf("%d ledgers that were closed are kept until the connection ends", len(s.ends))
	}
	for range 2 * mostBooks {
		if _, err := s.openLedger(t.Context(), LedgerArgs{Paths: []Path{{Hops: []Hop{{Mine: true, Port: "none9"}}}}}); err == nil {
			t.Fatal("a ledger of no port is open")
		}
		if _, err := s.startSubject(t.Context(), SubjectArgs{Name: "af_packet", Port: "none9"}); err == nil || strings.Contains(err.Error(), "too many") {
			t.Fatal(err)
		}
	}
	var held atomic.Int64
	for range 8 {
		all.Go(func() {
			if _, err := s.hold(t.Context(), HoldArgs{Boot: (&host.Local{}).Identify().BootID}); err == nil {
				held.Add(1)
			}
		})
	}
	all.Wait()
	if held.Load() != 8 || len(s.ends) == 0 {
		t.Errorf("%d of 8 calls hold the agent", held.Load())
	}
	if err := s.end(); err != nil {
		t.Error(err)
	}
}
