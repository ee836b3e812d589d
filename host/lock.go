// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// LockPath is the machine-wide lock of whoever measures: /proc/net/softnet_stat
// and the CPUs are everybody's. A machine without /run/lock has it in /tmp.
const LockPath = "/run/lock/boxdyno.lock"

// Lock waits for the machine-wide lock and holds it until unlock is called or
// the process ends, however it ends. wait is told once, before waiting, who
// holds it ("pid 123").
func Lock(ctx context.Context, wait func(holder string)) (unlock func(), err error) {
	return lockFile(ctx, lockPath("/run/lock", "/tmp"), wait)
}

// lockPath is the lock in the first of dirs that exists. They are fixed, because
// all users must come to the same answer.
func lockPath(dirs ...string) string {
	last := len(dirs) - 1
	for _, dir := range dirs[:last] {
		if _, err := os.Stat(dir); err == nil {
			return filepath.Join(dir, filepath.Base(LockPath))
		}
	}
	return filepath.Join(dirs[last], filepath.Base(LockPath))
}

// openLock makes the file for its owner alone: whoever can open it can hold it,
// and Capabilities, which whoever measures has, opens it whose ever it is. The
// kernel refuses O_CREATE on another user's file in a sticky directory, to root
// too (fs.protected_regular), so an existing one is opened without it.
func openLock(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
		if errors.Is(err, fs.ErrNotExist) {
			f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
			if errors.Is(err, fs.ErrExist) {
				continue // another made it just now
			}
		}
		return f, err
	}
}

func lockFile(ctx context.Context, path string, wait func(holder string)) (func(), error) {
	f, err := openLock(path)
	if errors.Is(err, fs.ErrPermission) {
		return nil, Privilege("open " + path + ", the lock of whoever measures")
	}
	if err != nil {
		return nil, fmt.Errorf("open the measuring lock: %w", err)
	}
	told := false
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			break
		}
		if err != unix.EWOULDBLOCK && err != unix.EINTR {
			f.Close()
			return nil, fmt.Errorf("take the measuring lock: %w", err)
		}
		if !told && wait != nil {
			holder, _ := os.ReadFile(path)
			wait(strings.TrimSpace(string(holder)))
			told = true
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	// The text only tells others who to wait for.
	_ = f.Truncate(0)
	_, _ = f.WriteAt(fmt.Appendf(nil, "pid %d\n", os.Getpid()), 0)
	return func() { f.Close() }, nil
}
