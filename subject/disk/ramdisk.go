// SPDX-License-Identifier: Apache-2.0

// Package disk holds disks in memory, volumes that are encrypted, and what reads and
// writes them.
package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/host"
)

// A Disk is a block device that was made for a measurement.
type Disk struct {
	Path  string
	close func() error
}

// Close removes the device. It may be called again.
func (d *Disk) Close() error {
	f := d.close
	d.close = nil
	if f == nil {
		return nil
	}
	return f()
}

// zramLocks is where a file for every zram device of boxdyno's is, locked for as long
// as the process lives: what one that was killed together with the disk's keeper left is
// found by it. In it is the device's sequence number, for its name may be another's by
// then.
const zramLocks = "/run/boxdyno-zram-"

// NewZram makes a compressed disk in memory (the kernel's zram; root). It is removed
// when boxdyno is gone, however that ended. Where the kernel has none it is a
// *host.Missing.
func NewZram(size uint64) (*Disk, error) {
	if err := sweepZram(); err != nil {
		return nil, err
	}
	text, err := os.ReadFile("/sys/class/zram-control/hot_add")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &host.Missing{What: "the kernel's zram", Hint: "run modprobe zram, take a kernel with CONFIG_ZRAM, or --set device=loop"}
	}
	if err != nil {
		return nil, fmt.Errorf("add a zram device: %w", err)
	}
	n := strings.TrimSpace(string(text))
	name := "zram" + n
	keeper, err := keepDisk(name)
	var lock *os.File
	if err == nil {
		lock, err = os.OpenFile(zramLocks+n, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	}
	if err == nil {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err == nil {
		_, err = lock.WriteString(sequence(name))
	}
	d := &Disk{Path: "/dev/" + name, close: func() error {
		err := removeZram(n)
		if err == nil {
			err = os.Remove(zramLocks + n)
		}
		if lock != nil {
			err = errors.Join(err, lock.Close())
		}
		if keeper != nil {
			keeper.end()
		}
		return err
	}}
	if err == nil {
		err = os.WriteFile("/sys/block/"+name+"/disksize", []byte(strconv.FormatUint(size, 10)), 0)
	}
	if err == nil {
		err = appears(d.Path)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a zram device of %d octets: %w", size, err), d.Close())
	}
	return d, nil
}

// sequence is the number that the kernel gives a disk once (Linux 5.15 and later).
func sequence(name string) string {
	text, _ := os.ReadFile("/sys/block/" + name + "/diskseq")
	return strings.TrimSpace(string(text))
}

func sweepZram() error {
	names, err := filepath.Glob(zramLocks + "*")
	for _, file := range names {
		f, oerr := os.Open(file)
		if errors.Is(oerr, fs.ErrNotExist) {
			continue
		}
		if oerr != nil {
			err = errors.Join(err, oerr)
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil { // its process is gone
			name := "zram" + strings.TrimPrefix(file, zramLocks)
			was, rerr := io.ReadAll(f)
			switch {
			case rerr != nil:
				err = errors.Join(err, rerr)
			case string(was) == sequence(name):
				err = errors.Join(err, releaseDisk(name))
			default:
				err = errors.Join(err, os.Remove(file))
			}
		}
		err = errors.Join(err, f.Close())
	}
	return err
}

// appears waits for a device's node, which udev or devtmpfs makes.
func appears(path string) error {
	for range 100 {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("there is no %s after 2 s", path)
}

// NewLoop makes a disk of a file in $TMPDIR (root), which has no name any more then.
// The kernel removes both with the process, however that ends.
func NewLoop(size uint64) (_ *Disk, err error) {
	if room, rerr := host.Free(os.TempDir()); rerr == nil && room < size+64<<20 {
		return nil, &host.Missing{What: fmt.Sprintf("room for a file of %d octets in %s, which has %d", size, os.TempDir(), room), Hint: "name a folder of another file system in the environment variable TMPDIR"}
	}
	file, err := os.CreateTemp("", "boxdyno-disk-")
	if err != nil {
		return nil, err
	}
	defer file.Close() // the loop device holds it
	if err := errors.Join(os.Remove(file.Name()), file.Truncate(int64(size))); err != nil {
		return nil, err
	}
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &host.Missing{What: "the kernel's loop devices", Hint: "run modprobe loop, take a kernel with CONFIG_BLK_DEV_LOOP, or --set device=zram"}
	}
	if err != nil {
		return nil, fmt.Errorf("make a loop device: %w", err)
	}
	defer control.Close()
	for range 20 {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("find a free loop device: %w", err)
		}
		path := "/dev/loop" + strconv.Itoa(n)
		if err := appears(path); err != nil {
			return nil, err
		}
		loop, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		err = unix.IoctlLoopConfigure(int(loop.Fd()), &unix.LoopConfig{Fd: uint32(file.Fd()), Size: 4096, Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR | unix.LO_FLAGS_DIRECT_IO}})
		if errors.Is(err, unix.EINVAL) { // a file system without direct I/O, such as tmpfs
			err = unix.IoctlLoopConfigure(int(loop.Fd()), &unix.LoopConfig{Fd: uint32(file.Fd()), Size: 4096, Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}})
		}
		if err == nil {
			keeper, err := keepDisk(filepath.Base(path))
			if err != nil {
				return nil, errors.Join(err, loop.Close())
			}
			return &Disk{Path: path, close: func() error { defer keeper.end(); return loop.Close() }}, nil
		}
		_ = loop.Close()
		if !errors.Is(err, unix.EBUSY) { // another process took it meanwhile
			return nil, fmt.Errorf("configure %s: %w", path, err)
		}
	}
	return nil, errors.New("every free loop device was taken by others at once")
}

// Fill writes random octets to all of the device, for what was never written costs
// nothing to read.
func (d *Disk) Fill(ctx context.Context, size uint64, cpus []int) error {
	_, err := Fio{Device: d.Path, Pattern: "write", Block: 1 << 20, Depth: 4, Jobs: 1, Size: size, Fill: true, CPUs: cpus}.Run(ctx, 2*time.Minute)
	return err
}
