// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// lockChild makes the test binary a process that holds the lock until it is killed.
const lockChild = "BOXDYNO_TEST_LOCK"

func TestMain(m *testing.M) {
	KeepMain()
	if len(os.Args) == 3 && os.Args[1] == "start-and-hang" {
		startAndHang(os.Args[2])
	}
	if path := os.Getenv(lockChild); path != "" {
		if _, err := LockFile(context.Background(), path, nil); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("held")
		time.Sleep(time.Minute)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// holder starts a process that holds the lock.
func holder(t *testing.T, path string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), lockChild+"="+path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(cmd) })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("the holder said %q: %v", line, err)
	}
	return cmd
}

func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill() // it may be dead already
	_ = cmd.Wait()         // "signal: killed"
}

func brief(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func TestLockContention(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := LockFile(context.Background(), path, func(string) { t.Error("the first waits") })
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan string, 10)
	second := make(chan error, 1)
	go func() {
		unlock, err := LockFile(context.Background(), path, func(holder string) { told <- holder })
		if err == nil {
			unlock()
		}
		second <- err
	}()
	select {
	case who := <-told:
		if want := fmt.Sprintf("pid %d", os.Getpid()); who != want {
			t.Errorf("told %q, want %q", who, want)
		}
	case <-time.After(time.Minute):
		t.Fatal("the second is not told to wait")
	}
	select {
	case err := <-second:
		t.Fatalf("two hold the lock: %v", err)
	case <-time.After(250 * time.Millisecond):
	}
	unlock()
	if err := <-second; err != nil {
		t.Error(err)
	}
	if len(told) != 0 {
		t.Errorf("told again: %q", <-told)
	}
}

func TestLockObeysContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := LockFile(context.Background(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	start := time.Now()
	if _, err := LockFile(brief(t), path, nil); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 30*time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
}

// A second unlock must not take the lock from who got it in between.
func TestUnlockTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := LockFile(context.Background(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	first()
	second, err := LockFile(brief(t), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer second()
	first()
	if _, err := LockFile(brief(t), path, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the second unlock freed another's lock: %v", err)
	}
}

func TestLockOfTheKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	cmd := holder(t, path)
	who := ""
	if _, err := LockFile(brief(t), path, func(holder string) { who = holder }); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("two processes hold the lock: %v", err)
	}
	if want := fmt.Sprintf("pid %d", cmd.Process.Pid); who != want {
		t.Errorf("told %q, want %q", who, want)
	}
	kill(cmd)
	unlock, err := LockFile(brief(t), path, nil)
	if err != nil {
		t.Fatalf("the killed still holds it: %v", err)
	}
	unlock()
}

// shared is a directory like /run/lock, which all users can reach.
func shared(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "boxdyno-lock-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	return dir
}

// The file of another user is root's to lock. Where fs.protected_regular is not
// 0, as on Debian, it would not be with O_CREATE.
func TestLockOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to be another user: run script/test with sudo")
	}
	dir := shared(t)
	path := filepath.Join(dir, "lock")
	if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chown(path, 65534, 65534)); err != nil {
		t.Fatal(err)
	}
	// In a folder that everybody writes to, anybody could have put it there, and hold it.
	var missing *Missing
	if _, err := LockFile(brief(t), path, nil); !errors.As(err, &missing) || !strings.Contains(err.Error(), path) {
		t.Errorf("a file that another user put into a folder of everybody's: %v", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	unlock, err := LockFile(brief(t), path, nil)
	if err != nil {
		t.Fatalf("root cannot lock it: %v", err)
	}
	unlock()
}

// Who may not measure can neither hold the lock nor learn that by a riddle.
func TestLockIsPrivate(t *testing.T) {
	path := filepath.Join(shared(t), "lock")
	unlock, err := LockFile(brief(t), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode(); mode.Perm() != 0o600 {
		t.Errorf("mode %v: others can hold the lock", mode)
	}
	t.Run("another user", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("needs root to be another user: run script/test with sudo")
		}
		cmd := exec.Command("/bin/sh", "-c", "exec 9<"+path)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		if err := cmd.Run(); err == nil {
			t.Error("nobody can open the lock")
		}
	})
	if os.Geteuid() == 0 { // root opens everything
		return
	}
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	var missing *Missing
	if _, err := LockFile(brief(t), path, nil); !errors.As(err, &missing) || !strings.Contains(err.Error(), path) {
		t.Errorf("a lock that cannot be opened: %v", err)
	}
}

func TestLockPath(t *testing.T) {
	there, gone := t.TempDir(), filepath.Join(t.TempDir(), "gone")
	want := filepath.Join(there, "boxdyno.lock")
	if got := lockPath(there, "/tmp"); got != want {
		t.Error(got)
	}
	if got := lockPath(gone, there); got != want {
		t.Error(got)
	}
	if info, err := os.Stat("/run"); err == nil && (lockPath("/run", "/tmp") != LockPath || info.Mode()&0o002 != 0) {
		t.Errorf("%s is not LockPath, or everybody writes to its folder (%v)", lockPath("/run", "/tmp"), info.Mode())
	}
	if _, err := LockFile(brief(t), filepath.Join(gone, "lock"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a lock in no directory: %v", err)
	}
}
