// SPDX-License-Identifier: Apache-2.0

package subject

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/host"
)

// A gate is this binary as the parent of a Command: it stops itself until Begin, and measures
// the program from the nearest place there is. A program of another userland is started in
// its folder as root, which is made ready before the gate stops. It ends with the program's
// exit code. Where it is ended, the keeper ends the program.

// gateWord is the first argument of a gate; a host.Userland in JSON ("null": none), the
// program and its arguments follow.
const gateWord = "work-gate"

// gateMark begins the line that a gate writes to standard error.
const gateMark = "boxdyno work-gate "

type worked struct {
	Elapsed time.Duration `json:"elapsed_ns"`
	User    time.Duration `json:"user_ns"`
	System  time.Duration `json:"system_ns"`
	Signal  int           `json:"signal,omitempty"` // that ended it
}

func parseWorked(line string) (w worked, ok bool) {
	text, ok := strings.CutPrefix(line, gateMark)
	return w, ok && json.Unmarshal([]byte(text), &w) == nil
}

// gateMain is the gate where this process is one, and then does not return.
func gateMain() {
	if len(os.Args) < 4 || os.Args[1] != gateWord {
		return
	}
	var u *host.Userland
	if err := json.Unmarshal([]byte(os.Args[2]), &u); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code, err := gate(u, os.Args[3:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

func gate(u *host.Userland, argv []string) (code int, err error) {
	c, err := gated(u, argv)
	if err != nil {
		return 127, err
	}
	if err := unix.Kill(os.Getpid(), unix.SIGSTOP); err != nil {
		return 1, err
	}
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	began := time.Now()
	err = c.Run()
	took := worked{Elapsed: time.Since(began)}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 1, err
	}
	took.User, took.System = c.ProcessState.UserTime(), c.ProcessState.SystemTime()
	code = c.ProcessState.ExitCode()
	if status, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		code, took.Signal = 1, int(status.Signal())
	}
	text, err := json.Marshal(took)
	if err == nil {
		_, err = fmt.Fprintf(os.Stderr, "\n%s%s\n", gateMark, text)
	}
	return code, err
}

// gated is the program that the gate starts.
func gated(u *host.Userland, argv []string) (*exec.Cmd, error) {
	if u == nil {
		path, err := host.Program(argv[0])
		if err != nil {
			return nil, err
		}
		c := exec.Command(path, argv[1:]...)
		c.Args[0] = argv[0]
		return c, nil
	}
	path, err := u.Lookup(argv[0])
	if err == nil {
		err = u.Arrange()
	}
	if err != nil {
		return nil, err
	}
	c := exec.Command(path, argv[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{Chroot: u.Root}
	if here, err := os.Getwd(); err == nil {
		if _, err := os.Stat(filepath.Join(u.Root, here)); err == nil {
			c.Dir = here
		}
	}
	if c.Dir == "" {
		c.Dir = "/"
	}
	return c, nil
}
