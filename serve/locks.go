// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"boxdyno/internal/files"
	"boxdyno/result"
)

// A run goes on while a process holds the lock (flock) of its trials. Who does stands in
// /proc/locks, so that asking takes no lock itself: a run could fail to begin by that.

// A lock is one that is held.
type lock struct {
	pid          int
	major, minor uint32
}

// locks returns the locks that are held, by inode. nil where the kernel does not say.
func locks() map[uint64][]lock {
	data, err := os.ReadFile("/proc/locks")
	if err != nil {
		return nil
	}
	held := map[uint64][]lock{}
	for line := range bytes.Lines(data) {
		// 1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF; "->" is one that waits
		f := strings.Fields(string(line))
		if len(f) < 6 || f[1] != "FLOCK" || f[3] != "WRITE" {
			continue
		}
		at := strings.Split(f[5], ":")
		pid, err := strconv.Atoi(f[4])
		if err != nil || len(at) != 3 {
			continue
		}
		major, err1 := strconv.ParseUint(at[0], 16, 32)
		minor, err2 := strconv.ParseUint(at[1], 16, 32)
		inode, err3 := strconv.ParseUint(at[2], 10, 64)
		if errors.Join(err1, err2, err3) == nil {
			held[inode] = append(held[inode], lock{pid, uint32(major), uint32(minor)})
		}
	}
	return held
}

// holder returns the process that writes to the run in dir; 0: none does. Where a file
// system has other numbers for its device than the kernel's lists (overlay, btrfs), the
// process's own files decide, and where nobody may look into those, the inode.
func holder(held map[uint64][]lock, dir string) (pid int) {
	var st unix.Stat_t
	if unix.Lstat(filepath.Join(dir, result.TrialsFile), &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0
	}
	for _, l := range held[st.Ino] {
		if l.major == unix.Major(uint64(st.Dev)) && l.minor == unix.Minor(uint64(st.Dev)) {
			return l.pid
		}
	}
	for _, l := range held[st.Ino] {
		if opened, err := opens(l.pid, st); opened || errors.Is(err, fs.ErrPermission) {
			return l.pid
		}
	}
	return 0
}

// opens says whether a process has a file open.
func opens(pid int, file unix.Stat_t) (bool, error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	fds, err := os.ReadDir(dir)
	if err != nil {
		return false, err
	}
	for _, fd := range fds {
		var st unix.Stat_t
		if unix.Stat(filepath.Join(dir, fd.Name()), &st) == nil && st.Ino == file.Ino && st.Dev == file.Dev {
			return true, nil
		}
	}
	return false, nil
}

// interrupt sends SIGINT to the process that writes to the run in dir, as Ctrl-C does.
// A process that has its number by now is not meant: it is held (pidfd) before it is
// looked at.
func interrupt(dir string) (pid int, err error) {
	if pid = holder(locks(), dir); pid == 0 {
		return 0, answer{409, "the run does not go on"}
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return 0, answer{409, fmt.Sprintf("hold process %d: %v", pid, err)}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Lstat(filepath.Join(dir, result.TrialsFile), &st); err != nil {
		return 0, err
	}
	others := answer{403, fmt.Sprintf("process %d, which measures, belongs to another user: stop it there, or run boxdyno serve as that user", pid)}
	switch opened, err := opens(pid, st); {
	case errors.Is(err, fs.ErrPermission):
		return 0, others
	case err != nil:
		return 0, answer{409, "the run has just ended"}
	case !opened || holder(locks(), dir) != pid:
		return 0, answer{409, "the run has just ended"}
	}
	switch err := unix.PidfdSendSignal(fd, unix.SIGINT, nil, 0); {
	case errors.Is(err, unix.EPERM):
		return 0, others
	case err != nil:
		return 0, answer{409, fmt.Sprintf("interrupt process %d: %v", pid, err)}
	}
	return pid, nil
}

// plain opens a file of a run's folder that is no link: a user may plant one before the
// eyes of root.
func plain(dir, name string) (*os.File, error) {
	path := filepath.Join(dir, name)
	if info, err := os.Lstat(path); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: path, Err: files.ErrNotRegular}
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// isPlain says whether all files of a bundle are files and no links.
func isPlain(dir string) error {
	for _, name := range []string{result.RunFile, result.TrialsFile, result.TelemetryFile, result.LogFile} {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err == nil && !info.Mode().IsRegular() {
			return &fs.PathError{Op: "open", Path: filepath.Join(dir, name), Err: files.ErrNotRegular}
		}
	}
	return nil
}
