// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"boxdyno/script/proof/boards/job"
)

// run is one command of the job, to its end or its limit.
func run(c job.Command) (stdout, stderr []byte, o job.Outcome) {
	ctx, cancel := context.WithTimeout(context.Background(), c.Limit)
	defer cancel()
	var out, errw bytes.Buffer
	cmd := exec.CommandContext(ctx, c.Argv[0], c.Argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = job.Out, &out, &errw
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second // for who else holds its pipes
	begin := time.Now()
	err := cmd.Run()
	o = job.Outcome{Argv: c.Argv, Seconds: time.Since(begin).Seconds()}
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit):
		o.Exit = exit.ExitCode()
		if s, ok := exit.Sys().(syscall.WaitStatus); ok && s.Signaled() {
			o.Exit = 128 + int(s.Signal())
		}
	default:
		o.Exit, o.Problem = 127, err.Error()
	}
	if ctx.Err() != nil {
		o.Problem = fmt.Sprintf("it was killed after its %v", c.Limit)
	}
	return out.Bytes(), errw.Bytes(), o
}
