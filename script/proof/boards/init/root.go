// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/script/proof/boards/job"
)

// handOver makes the disk the root, with the files of job.Seed on it, and becomes its
// /sbin/init. It returns only if that failed.
func handOver(disk string) error {
	const root = "/root"
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		err := unix.Mount(disk, root, "ext4", unix.MS_NOATIME, "")
		if err == nil {
			break
		}
		if time.Now().After(deadline) { // its driver was loaded a moment ago
			return fmt.Errorf("mount %s: %w", disk, err)
		}
	}
	if err := plant(job.Seed, root); err != nil {
		return err
	}
	for _, dir := range []string{"/dev", "/proc", "/sys", "/run", "/tmp"} {
		if err := unix.Mount(dir, root+dir, "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("move %s to the disk: %w", dir, err)
		}
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("make the disk the root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("make the disk the root: %w", err)
	}
	const next = "/sbin/init"
	return fmt.Errorf("begin %s: %w", next, unix.Exec(next, []string{next}, os.Environ()))
}

// plant copies the files below from to their places below to.
func plant(from, to string) error {
	return filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		at := filepath.Join(to, name[len(from):])
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		_ = os.Remove(at) // a link may stand there
		return os.WriteFile(at, data, info.Mode().Perm())
	})
}
