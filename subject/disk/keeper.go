// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/subject/internal/program"
)

// A disk keeper is this binary once more. It removes a Disk, and a Volume that lies on
// it, once boxdyno is gone, however that ended:
//
//	boxdyno ==pipe, nothing is ever written==> keeper: end of the pipe -> volumes closed -> zram removed
type diskKeeper struct {
	process *exec.Cmd
	pipe    io.WriteCloser
}

// diskKeeperWord is the first argument of a disk keeper; the device's name follows.
const diskKeeperWord = "keep-a-disk"

// keepDisk starts the keeper of the device of a name such as zram1.
func keepDisk(name string) (*diskKeeper, error) {
	k := &diskKeeper{process: exec.Command("/proc/self/exe", diskKeeperWord, name)}
	k.process.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a Ctrl-C is boxdyno's to answer
	var err error
	if k.pipe, err = k.process.StdinPipe(); err == nil {
		err = k.process.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start what removes %s when boxdyno is killed: %w", name, err)
	}
	return k, nil
}

// end ends the keeper, which has nothing to remove any more.
func (k *diskKeeper) end() {
	_ = k.process.Process.Kill()
	_ = k.process.Wait() // it was killed; this closes the pipe
}

// KeeperMain is the keeper where this process is one, and then does not return.
func KeeperMain() {
	if len(os.Args) != 3 || os.Args[1] != diskKeeperWord {
		return
	}
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT)
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := releaseDisk(os.Args[2]); err != nil {
		os.Exit(1) // nobody listens any more
	}
	os.Exit(0)
}

// releaseDisk closes the volumes of boxdyno that lie on a device, and removes it where
// it is of zram; a loop device goes by itself then.
func releaseDisk(name string) error {
	var errs []error
	found, _ := filepath.Glob("/sys/block/" + name + "/holders/dm-*/dm/name")
	for _, file := range found {
		text, err := os.ReadFile(file)
		volume := strings.TrimSpace(string(text))
		if err != nil || !strings.HasPrefix(volume, volumePrefix) {
			continue
		}
		_, err = program.Within(context.Background(), &host.Local{}, program.CryptsetupPatience, "", cryptsetupProgram, "close", "--deferred", volume)
		errs = append(errs, err)
	}
	if n, ok := strings.CutPrefix(name, "zram"); ok {
		errs = append(errs, removeZram(n))
		if errors.Join(errs...) == nil {
			errs = append(errs, os.Remove(zramLocks+n))
		}
	}
	return errors.Join(errs...)
}

// removeZram tries for a while: who looks at new devices, or a program that is being
// killed, may still have it open.
func removeZram(n string) (err error) {
	for range 500 {
		err = os.WriteFile("/sys/block/zram"+n+"/reset", []byte("1"), 0)
		if err == nil {
			err = os.WriteFile("/sys/class/zram-control/hot_remove", []byte(n), 0)
		}
		if err == nil || os.IsNotExist(err) {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("remove zram device %s: %w", n, err)
}
