// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The command of --meter ends with boxdyno, however that ends.
func TestKilledMeter(t *testing.T) {
	dir := t.TempDir()
	program, command, pid := filepath.Join(dir, "boxdyno"), filepath.Join(dir, "watts"), filepath.Join(dir, "pid")
	self, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = errors.Join(os.WriteFile(program, self, 0o755), os.WriteFile(command, []byte("#!/bin/sh\necho 5.2\necho $$ >"+pid+"\nexec sleep 600\n"), 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "watch", "--collectors", "meter", "--meter", command)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	n := 0
	for end := time.Now().Add(time.Minute); n == 0 && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		text, _ := os.ReadFile(pid)
		n, _ = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	if err := cmd.Process.Kill(); err != nil || n == 0 {
		t.Fatal(n, err)
	}
	_ = cmd.Wait()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if text, err := os.ReadFile("/proc/" + strconv.Itoa(n) + "/stat"); err != nil || strings.Contains(string(text), ") Z ") {
			return
		}
	}
	_ = syscall.Kill(n, syscall.SIGKILL)
	t.Error("it lives on")
}
