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
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/internal/caps"
)

// LockPath is the machine-wide lock of whoever measures: /proc/net/softnet_stat
// and the CPUs are everybody's. Its folder is root's, where nobody else can make a file
// of that name and hold it. A machine without /run has it in /var/run or in /tmp.
const LockPath = "/run/boxdyno.lock"

// Lock waits for the machine-wide lock and holds it until unlock is called or
// the process ends, however it ends. wait is told once, before waiting, who
// holds it ("pid 123").
func Lock(ctx context.Context, wait func(holder string)) (unlock func(), err error) {
	return LockFile(ctx, lockPath("/run", "/var/run", "/tmp"), wait)
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
func openLock(path string) (f *os.File, err error) {
	err = caps.Override(func() (err error) {
		for {
			f, err = os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
			if errors.Is(err, fs.ErrNotExist) {
				f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
				if errors.Is(err, fs.ErrExist) {
					continue // another made it just now
				}
			}
			return err
		}
	})
	if err != nil {
		return nil, err
	}
	if err := squatted(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// squatted is an error where somebody else may have put the lock's file there to hold
// it: in a folder that everybody writes to, a file of neither root nor this user.
func squatted(f *os.File) error {
	dir, derr := os.Stat(filepath.Dir(f.Name()))
	info, err := f.Stat()
	if err := errors.Join(derr, err); err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if info.Mode().IsRegular() && (dir.Mode()&0o002 == 0 || ok && (st.Uid == 0 || int(st.Uid) == os.Geteuid())) {
		return nil
	}
	return &Missing{What: "the lock of whoever measures", Hint: fmt.Sprintf("%s is not a file of root or of this user: remove it", f.Name())}
}

// LockFile is Lock for another file, which is made where it does not exist.
func LockFile(ctx context.Context, path string, wait func(holder string)) (func(), error) {
	f, err := openLock(path)
	if errors.As(err, new(*Missing)) {
		return nil, err
	}
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
			holder := make([]byte, 64)
			n, _ := f.ReadAt(holder, 0)
			wait(strings.TrimSpace(string(holder[:n])))
			told = true
		}
		if err := Pause(ctx, 100*time.Millisecond); err != nil {
			f.Close()
			return nil, err
		}
	}
	// The text only tells others who to wait for.
	_ = f.Truncate(0)
	_, _ = f.WriteAt(fmt.Appendf(nil, "pid %d\n", os.Getpid()), 0)
	return func() { f.Close() }, nil
}
