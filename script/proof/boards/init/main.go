// SPDX-License-Identifier: Apache-2.0

// Command init is the first process of an emulated board, and its only own one: it
// mounts what programs expect, loads modules, runs the commands of its job and sends
// back what they said.
//
// It ends by a restart, which QEMU is told to end by: that works on boards that cannot
// switch themselves off, too.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/script/proof/boards/job"
)

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "init: this is the first process of an emulated board, and nothing else")
		os.Exit(2)
	}
	if err := live(); err != nil {
		fmt.Println("init:", err) // on the console, which the host shows where results are missing
	}
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	select {} // the kernel panics when its first process ends
}

func live() error {
	os.Clearenv() // the kernel makes variables of parameters that it does not know
	for _, v := range [][2]string{{"PATH", "/bin"}, {"HOME", "/root"}} {
		if err := os.Setenv(v[0], v[1]); err != nil {
			return err
		}
	}
	problems := mounts()
	data, err := os.ReadFile(job.Path)
	if err != nil {
		return fmt.Errorf("read the job: %w", err)
	}
	var j job.Job
	if err := json.Unmarshal(data, &j); err != nil {
		return fmt.Errorf("read the job: %s: %w", job.Path, err)
	}
	if err := unix.Sethostname([]byte(j.Board)); err != nil {
		problems = append(problems, fmt.Sprintf("set the host name: %v", err))
	}
	for _, m := range j.Modules {
		if err := load(m); err != nil {
			problems = append(problems, fmt.Sprintf("load module %s: %v", filepath.Base(m), err))
		}
	}
	if err := loopback(); err != nil {
		problems = append(problems, fmt.Sprintf("set lo up: %v", err))
	}
	if j.Root != "" {
		for _, p := range problems {
			fmt.Println("init:", p)
		}
		return handOver(j.Root)
	}
	s, err := openStream(j.Results)
	if err != nil {
		return err
	}
	boot := job.Boot{Kernel: kernel(), Seconds: uptime(), Problems: problems}
	fmt.Printf("init: %s up after %.1f s\n", boot.Kernel, boot.Seconds)
	if err := s.object(job.BootEntry, boot); err != nil {
		return err
	}
	for i, c := range j.Commands {
		fmt.Printf("init: $ %s\n", strings.Join(c.Argv, " "))
		stdout, stderr, o := run(c)
		fmt.Printf("init: exit code %d after %.1f s %s\n", o.Exit, o.Seconds, o.Problem)
		dir := strconv.Itoa(i) + "/"
		err := errors.Join(s.file(dir+job.StdoutEntry, stdout), s.file(dir+job.StderrEntry, stderr), s.object(dir+job.OutcomeEntry, o))
		if err != nil {
			return fmt.Errorf("send results: %w", err)
		}
	}
	return s.end()
}

// mounts makes the file systems that programs look for. Their folders are in the
// initramfs.
func mounts() (problems []string) {
	for _, m := range []struct{ kind, at string }{
		{"devtmpfs", "/dev"}, {"proc", "/proc"}, {"sysfs", "/sys"}, {"tmpfs", "/run"}, {"tmpfs", "/tmp"},
		{"cgroup2", "/sys/fs/cgroup"}, {"bpf", "/sys/fs/bpf"}, {"tracefs", "/sys/kernel/tracing"},
	} {
		if err := unix.Mount(m.kind, m.at, m.kind, 0, ""); err != nil {
			problems = append(problems, fmt.Sprintf("mount %s on %s: %v", m.kind, m.at, err))
		}
	}
	for _, dir := range []string{"/run/lock", "/run/netns"} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			problems = append(problems, err.Error())
		}
	}
	return problems
}

// load is insmod. A module that is there already is none of a problem.
func load(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

// loopback sets lo up, which is down in an initramfs.
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r)
}

func kernel() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:]) + " " + unix.ByteSliceToString(u.Machine[:])
}

func uptime() float64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0
	}
	return time.Duration(now.Nano()).Seconds()
}
