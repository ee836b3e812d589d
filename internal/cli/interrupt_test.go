// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// One signal, SIGHUP too, ends a command in order, whoever reads what it prints.
func TestOneSignal(t *testing.T) {
	program := filepath.Join(t.TempDir(), "boxdyno")
	self, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(program, self, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT} {
		t.Run(s.String(), func(t *testing.T) {
			if signal.Ignored(s) {
				t.Skipf("%v is ignored: run this in the foreground, without nohup", s)
			}
			dir := filepath.Join(t.TempDir(), "run")
			cmd := exec.Command(program, "run", "forward", "--lab", "mem", "--standard", "--repeat", "100", "--out", dir)
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(time.Minute); !holdsRun(dir) && time.Now().Before(end); {
				time.Sleep(10 * time.Millisecond)
			}
			if err := cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			late := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
			err := cmd.Wait()
			late.Stop()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
				t.Errorf("%v, want exit code %d", err, exitInterrupted)
			}
		})
	}
}

// An interrupted command does not wait for a reader that does not read.
func TestPatientWriter(t *testing.T) {
	r, w := io.Pipe()
	defer r.Close()
	ctx, cancel := context.WithCancel(t.Context())
	p := &patient{ctx: ctx, w: w}
	go func() { _, _ = io.ReadFull(r, make([]byte, 5)) }()
	if n, err := p.Write([]byte("hello")); n != 5 || err != nil {
		t.Fatal(n, err)
	}
	time.AfterFunc(50*time.Millisecond, cancel)
	began := time.Now()
	for range 10 {
		if _, err := p.Write([]byte("nobody")); !errors.Is(err, errUnread) {
			t.Error(err)
		}
	}
	if took := time.Since(began); took > 5*writePatience {
		t.Errorf("it waited for %v", took)
	}
}
