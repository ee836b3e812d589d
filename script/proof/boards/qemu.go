// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/script/proof/boards/job"
)

// boot starts a board, waits for its end and returns what it sent. What it says on its
// console goes to console, too. QEMU ends with this process, and after limit.
func (b board) boot(k kernel, files []entry, commands []job.Command, limit time.Duration, console io.Writer) (results, error) {
	var r results
	dir, err := os.MkdirTemp("", "boxdyno-board-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	d := drive{kernel: k.image, dtb: k.dtb, initramfs: filepath.Join(dir, "initramfs"), results: filepath.Join(dir, "results")}
	if err := b.initramfs(d.initramfs, k, files, commands); err != nil {
		return r, err
	}
	if b.card {
		if err := blank(d.results); err != nil {
			return r, err
		}
	}
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWNET}
	if d.has, err = devices(b.qemu, attr); errors.Is(err, unix.EPERM) { // no network namespace for ordinary users
		attr.Cloneflags = 0
		d.has, err = devices(b.qemu, attr)
	}
	if err != nil {
		return r, err
	}
	d.queues = attr.Cloneflags != 0 && unix.Access("/dev/net/tun", unix.R_OK|unix.W_OK) == nil

	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.qemu, b.arguments(d)...)
	var said, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&said, console), &errs
	cmd.SysProcAttr = attr
	err = cmd.Run()
	r, rerr := readResults(d.results)
	switch {
	case rerr != nil:
		return r, fmt.Errorf("read what board %s sent: %w", b.name, rerr)
	case ctx.Err() != nil:
		err = fmt.Errorf("it was stopped after %v", limit)
	case err != nil:
		err = fmt.Errorf("%s: %w: %s", b.qemu, err, strings.TrimSpace(errs.String()))
	case !r.whole:
		err = errors.New("it ended before its job did")
	}
	if err != nil {
		return r, fmt.Errorf("board %s: %w; its console ends with:\n%s", b.name, err, tail(said.String(), 20))
	}
	return r, nil
}

func (b board) initramfs(name string, k kernel, files []entry, commands []job.Command) error {
	j := job.Job{Board: b.name + "-board", Results: b.results, Commands: commands}
	for _, m := range k.modules {
		to := "modules/" + filepath.Base(m)
		j.Modules = append(j.Modules, "/"+to)
		files = append(files, entry{name: to, mode: 0o644, from: m})
	}
	data, err := json.Marshal(j)
	if err != nil {
		return err
	}
	files = append(files, entry{name: strings.TrimPrefix(job.Path, "/"), mode: 0o644, data: data})
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(writeInitramfs(f, files), f.Close())
}

// cardSize is a power of two, as QEMU wants it.
const cardSize = 64 << 20

// blank makes an empty SD card. What was never written takes no room on the disk.
func blank(name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(cardSize), f.Close())
}

// devices are the names that QEMU has models for.
func devices(qemu string, attr *syscall.SysProcAttr) (names []string, err error) {
	cmd := exec.Command(qemu, "-machine", "none", "-device", "help")
	cmd.SysProcAttr = attr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("ask %s for its devices: %w", qemu, err)
	}
	for line := range strings.Lines(string(out)) { // name "e1000e", bus PCI, desc "..."
		if rest, ok := strings.CutPrefix(line, `name "`); ok {
			name, _, _ := strings.Cut(rest, `"`)
			names = append(names, name)
		}
	}
	return names, nil
}

// tail is the last n lines.
func tail(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
