// SPDX-License-Identifier: Apache-2.0

package caps

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if secret := os.Getenv("HOME"); strings.HasSuffix(os.Args[0], "confined") {
		confinedMain(secret)
	}
	os.Exit(m.Run())
}

// opens says whether any of several threads may write to a file.
func opens(name string) bool {
	const threads = 8
	var wait, begun sync.WaitGroup
	var mu sync.Mutex
	n := 0
	begun.Add(threads)
	for range threads {
		wait.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			begun.Done()
			begun.Wait() // so that they are different ones
			f, err := os.OpenFile(name, os.O_WRONLY, 0)
			if err != nil {
				return
			}
			f.Close()
			mu.Lock()
			defer mu.Unlock()
			n++
		})
	}
	wait.Wait()
	return n > 0
}

// confinedMain is a program that has capabilities.
func confinedMain(secret string) {
	fail := func(what string, args ...any) {
		fmt.Printf(what+"\n", args...)
		os.Exit(1)
	}
	if err := Confine(); err != nil {
		fail("%v", err)
	}
	if opens(secret) {
		fail("it opens root's file")
	}
	err := Override(func() error {
		f, err := os.OpenFile(secret, os.O_WRONLY, 0)
		if err == nil {
			err = f.Close()
		}
		if opens(secret) {
			err = errors.Join(err, errors.New("other threads open it meanwhile"))
		}
		return err
	})
	if err != nil {
		fail("Override: %v", err)
	}
	failed := errors.New("of f")
	if err := Override(func() error { return failed }); err != failed {
		fail("Override returns %v", err)
	}
	for range 20 {
		if opens(secret) {
			fail("it still opens root's file after Override")
		}
	}
	if a := Inherit("sh"); a != nil {
		fail("sh inherits %v", a.AmbientCaps)
	}
	if a := Inherit("nft"); a == nil || len(a.AmbientCaps) != 2 {
		fail("nft inherits %+v", a)
	}
	if path := os.Getenv("PATH"); path != Path || os.Getenv("LD_PRELOAD") != "" {
		fail("PATH is %s and LD_PRELOAD %s", path, os.Getenv("LD_PRELOAD"))
	}
	os.Exit(0)
}

// Of a program with file capabilities only single files of the kernel are opened with
// them, on one thread, and the network's tools alone inherit some. A program that is
// set-user-ID does not run at all.
func TestConfined(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to give a file capabilities: run script/test with sudo")
	}
	dir, err := os.MkdirTemp("/tmp", "boxdyno-caps-") // that others can reach
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program, secret := filepath.Join(dir, "confined"), filepath.Join(dir, "secret")
	self, err := os.ReadFile("/proc/self/exe")
	if err := errors.Join(err, os.Chmod(dir, 0o755), os.WriteFile(program, self, 0o755), os.Chmod(program, 0o755), os.WriteFile(secret, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	asNobody := func() (string, error) {
		cmd := exec.Command(program)
		cmd.Dir, cmd.Env = dir, []string{"PATH=" + dir, "LD_PRELOAD=/tmp/evil.so", "HOME=" + secret}
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, Pdeathsig: syscall.SIGKILL}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	xattr := binary.LittleEndian.AppendUint32(nil, 0x02000001) // VFS_CAP_REVISION_2, effective
	for _, v := range []uint32{1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_NET_RAW | 1<<unix.CAP_DAC_OVERRIDE, 0, 0, 0} {
		xattr = binary.LittleEndian.AppendUint32(xattr, v)
	}
	if err := unix.Setxattr(program, "security.capability", xattr, 0); errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EPERM) {
		t.Skip("needs a file system with capabilities in /tmp")
	} else if err != nil {
		t.Fatal(err)
	}
	if out, err := asNobody(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if err := errors.Join(unix.Removexattr(program, "security.capability"), os.Chmod(program, 0o755|os.ModeSetuid)); err != nil {
		t.Fatal(err)
	}
	if out, err := asNobody(); err == nil || !strings.Contains(out, "set-user-ID") {
		t.Errorf("set-user-ID: %v: %s", err, out)
	}
}
