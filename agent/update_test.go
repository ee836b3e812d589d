// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/internal/testutil"
	"boxdyno/link"
)

// beProgram has this test program be the one that an agent is updated to.
func beProgram() {
	how := os.Getenv("BOXDYNO_TEST_PROGRAM")
	if how == "" || len(os.Args) < 2 {
		return
	}
	switch {
	case os.Args[1] == "--version":
		fmt.Printf("%s 2.0 %s/%s\n", link.Name, runtime.GOOS, runtime.GOARCH)
		os.Exit(0)
	case os.Args[1] != "connect":
		return
	}
	switch how {
	case "crashes":
		panic("boom")
	case "killed":
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		time.Sleep(time.Minute)
	case "hangs":
		time.Sleep(time.Minute)
	case "greeted":
		fmt.Println(Greeted)
	}
	os.Exit(0)
}

// An updated is an agent's program in a folder of its own, and what it may become.
type updated struct {
	*Updater
	t        *testing.T
	old, new []byte
	update   Update
	left     int
}

func newUpdated(t *testing.T, how string) *updated {
	t.Helper()
	testutil.Unraced(t, "copies this program, which is large with it")
	t.Setenv("BOXDYNO_TEST_PROGRAM", how)
	file := "/proc/self/exe"
	if how == "" {
		file = "/bin/true" // a small one
	}
	program, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	x := &updated{t: t, old: []byte("the program before")}
	x.Updater = &Updater{Program: filepath.Join(t.TempDir(), link.Name), Version: "1.9", Leave: func() { x.left++ }}
	x.running = x.Program
	if err := os.WriteFile(x.Program, x.old, 0o755); err != nil {
		t.Fatal(err)
	}
	x.is(append(program, 0))
	return x
}

// is has the update be of a program.
func (x *updated) is(program []byte) {
	sum := sha256.Sum256(program)
	x.new = program
	x.update = Update{Version: "2.0", Arch: runtime.GOARCH, SHA256: hex.EncodeToString(sum[:]), Size: int64(len(program)), Within: 20 * time.Second}
}

// call answers a method as an agent does, in a session whose end it returns.
func (x *updated) call() (call func(method string, args, reply any) error, end func() error) {
	find, end := Open(x.t.Context(), x.t.TempDir(), "1.9", nil, UpdateMethods(x.Updater)...)
	return func(method string, args, reply any) error {
		data, err := json.Marshal(args)
		if err != nil {
			x.t.Fatal(err)
		}
		got, err := find(method)(x.t.Context(), &link.Request{Args: data})
		if s, ok := got.(FileState); ok && reply != nil {
			*reply.(*FileState) = s
		}
		return err
	}, end
}

// send sends the program and has it applied, as far as that goes.
func (x *updated) send() error {
	call, end := x.call()
	err := call("update.check", x.update, nil)
	for at := 0; at < len(x.new) && err == nil; at += 4 << 20 {
		err = call("update.put", FileChunk{SHA256: x.update.SHA256, Size: x.update.Size, Offset: int64(at), Data: x.new[at:min(len(x.new), at+4<<20)]}, nil)
	}
	if err == nil {
		err = call("update.apply", x.update, nil)
	}
	return errors.Join(err, end())
}

// stays fails unless the agent's own program is in its place, and nothing beside it.
func (x *updated) stays() {
	x.t.Helper()
	if data, err := os.ReadFile(x.Program); err != nil || !bytes.Equal(data, x.old) {
		x.t.Errorf("the agent's program is another: %v", err)
	}
	all, _ := os.ReadDir(filepath.Dir(x.Program))
	if len(all) != 1 {
		x.t.Errorf("left behind: %v", all)
	}
}

// A program that the hub greets takes the agent's place; the one before stays until its
// successor was greeted, and comes back where that cannot begin.
func TestUpdate(t *testing.T) {
	x := newUpdated(t, "greeted")
	if err := x.send(); err != nil || x.left != 1 || !x.Taken() {
		t.Fatalf("%v, left %d times", err, x.left)
	}
	became := false
	x.exec = func(path string, argv, _ []string) error {
		became = true
		data, _ := os.ReadFile(path)
		was, _ := os.ReadFile(path + oldSuffix)
		if path != x.Program || !bytes.Equal(data, x.new) || !bytes.Equal(was, x.old) || strings.Join(argv[1:], " ") != "connect --folder x" {
			t.Errorf("%s: %d octets, before %d, %q", path, len(data), len(was), argv)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		return unix.EACCES
	}
	if err := x.Try(t.Context(), []string{"connect", "--folder", "x"}); !became || !strings.Contains(err.Error(), "the update to 2.0 was rolled back: start it in this process: permission denied") {
		t.Errorf("%v", err)
	}
	x.stays()
	if x.Taken() {
		t.Error("it would be tried again")
	}
}

// Whatever the new program does otherwise, the agent goes on with its own.
func TestUpdateFails(t *testing.T) {
	was := slack
	defer func() { slack = was }()
	slack = 0
	for how, want := range map[string]string{
		"crashes": "the update to 2.0 was rolled back: it ended with exit status 2 (panic: boom",
		"killed":  "it ended with signal: killed (it said nothing)",
		"hangs":   "the hub did not greet it within 1s (it said nothing)",
		"silent":  "it ended before the hub had greeted it (it said nothing)",
	} {
		t.Run(how, func(t *testing.T) {
			if how == "killed" || how == "silent" {
				testutil.Long(t)
			}
			x := newUpdated(t, how)
			x.update.Within = time.Second
			if how != "hangs" {
				x.update.Within = 20 * time.Second
			}
			if err := x.send(); err != nil {
				t.Fatal(err)
			}
			x.exec = func(string, []string, []string) error { t.Error("it takes the agent's place"); return nil }
			if err := x.Try(t.Context(), []string{"connect"}); !strings.Contains(err.Error(), want) {
				t.Errorf("%v", err)
			}
			x.stays()
		})
	}
}

// A program that may not take the agent's place is refused in a sentence.
func TestUpdateRefused(t *testing.T) {
	was := lists
	defer func() { lists = was }()
	for name, c := range map[string]struct {
		change func(x *updated)
		want   string
	}{
		"another architecture": {func(x *updated) { x.update.Arch = "mips" }, `the program is for "mips"`},
		"another machine":      {func(x *updated) { x.new[18] ^= 1; x.is(x.new) }, "what was sent is for"},
		"no program":           {func(x *updated) { x.is([]byte("#!/bin/sh\n")) }, "what was sent is no program"},
		"empty":                {func(x *updated) { x.is(nil) }, "a program of 0 octets"},
		"too large":            {func(x *updated) { x.update.Size = mostProgram + 1 }, "a program of 67108865 octets"},
		"older":                {func(x *updated) { x.Version = "2.0.1" }, "version 2.0 is older than 2.0.1 here: --older"},
		"of unknown age":       {func(x *updated) { x.Version = "devel" }, "whether version 2.0 is older than devel here is not known"},
		"another version":      {func(x *updated) {}, `the program says that it is "true (`},
		"truncated":            {func(x *updated) { x.new = x.new[:len(x.new)-1] }, "the program was not sent whole"},
		"another digest":       {func(x *updated) { x.new[len(x.new)-1] ^= 1 }, "its SHA-256 is another than was said"},
		"for ever":             {func(x *updated) { x.update.Within = time.Hour }, "a program that the hub greets within 1h0m0s"},
		"replaced":             {func(x *updated) { x.running = "/proc/self/exe" }, "was replaced since the agent began"},
		"moved":                {func(x *updated) { x.Program += "x" }, "was moved since it began"},
		"a package's": {func(x *updated) {
			lists = x.t.TempDir()
			if err := os.WriteFile(filepath.Join(lists, link.Name+":arm64.list"), []byte("/.\n"+x.Program+"\n"), 0o644); err != nil {
				x.t.Fatal(err)
			}
		}, "belongs to the Debian package boxdyno-agent: update it with apt"},
		"a folder of others": {func(x *updated) {
			if err := os.Chmod(filepath.Dir(x.Program), 0o777); err != nil {
				x.t.Fatal(err)
			}
		}, "others may write to"},
	} {
		t.Run(name, func(t *testing.T) {
			lists = was
			x := newUpdated(t, "")
			program := x.Program
			c.change(x)
			if err := x.send(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
			x.Program = program
			if x.left != 0 || x.Taken() {
				t.Error("the agent leaves the hub")
			}
			x.stays()
		})
	}
}

// A disk without room is found before anything is sent.
func TestUpdateFullDisk(t *testing.T) {
	testutil.Privileged(t)
	x := newUpdated(t, "")
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=60m,mode=700"); err != nil {
		t.Skipf("no file system of a size can be mounted: %v", err)
	}
	defer func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	x.Program = filepath.Join(dir, link.Name)
	x.running = x.Program
	if err := os.WriteFile(x.Program, x.old, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := x.send(); err == nil || !strings.Contains(err.Error(), "room for a program of") {
		t.Errorf("%v", err)
	}
	x.stays()
}

// An agent that was killed in an update removes what it left when it begins.
func TestUpdateKilled(t *testing.T) {
	x := newUpdated(t, "greeted")
	if err := os.WriteFile(x.file(newSuffix), x.new[:1000], 0o755); err != nil {
		t.Fatal(err)
	}
	x.Begin()
	x.stays()
	// The session that asked for it breaks off before the program is whole.
	call, end := x.call()
	if err := call("update.put", FileChunk{SHA256: x.update.SHA256, Size: x.update.Size, Data: x.new[:100]}, nil); err != nil {
		t.Fatal(err)
	}
	if err := end(); err != nil || x.left != 0 {
		t.Errorf("%v, left %d times", err, x.left)
	}
	// The agent is stopped while it would try the program.
	if err := x.send(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := x.Try(ctx, []string{"connect"}); err == nil {
		t.Error("it is tried")
	}
	x.stays()
}

func TestOlderVersion(t *testing.T) {
	for _, c := range []struct {
		a, b         string
		older, known bool
	}{
		{"1.2.0", "1.10.0", true, true}, {"1.10.0", "1.2.0", false, true}, {"1.2.0", "1.2.0", false, true}, {"v1.2.0", "1.2.1", true, true},
		{"1.2.0~rc1", "1.2.0", true, true}, {"1.2.0", "1.2.0~rc1", false, true}, {"1.2.0+changed", "1.2.0", false, true},
		{"0~20261101.100000.abc", "0~20261125.090000.def", true, true}, {"0~20261125.1.x", "0.1.0", true, true}, {"2", "2.0", true, true},
		{"devel", "1.0", false, false}, {"1.0", "devel", false, false}, {"", "1", false, false}, {"00001", "1", false, true},
	} {
		if older, known := olderVersion(c.a, c.b); older != c.older || known != c.known {
			t.Errorf("%q and %q: %v, %v", c.a, c.b, older, known)
		}
	}
}
