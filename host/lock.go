// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// LockPath is the machine-wide lock of whoever measures: /proc/net/softnet_stat
// and the CPUs are everybody's.
const LockPath = "/run/lock/boxdyno.lock"

// Lock waits for the machine-wide lock and holds it until unlock is called or
// the process ends, however it ends. wait is told once, before waiting, who
// holds it ("pid 123").
func Lock(ctx context.Context, wait func(holder string)) (unlock func(), err error) {
	return lockFile(ctx, LockPath, wait)
}

func lockFile(ctx context.Context, path string, wait func(holder string)) (func(), error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o644)
	if errors.Is(err, os.ErrPermission) {
		return nil, Privilege("write " + path + ", the lock of whoever measures")
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
