// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"boxdyno/result"
	"boxdyno/tune"
)

const recipeFile = "/run/recipe.yaml"

func (t *tester) command(args ...string) (cmd *exec.Cmd, out, errs *bytes.Buffer) {
	cmd = exec.Command("boxdyno", args...)
	out, errs = &bytes.Buffer{}, &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr, cmd.Env = out, errs, append(os.Environ(), "XDG_STATE_HOME="+t.state)
	return cmd, out, errs
}

// boxdyno returns the exit code, and what was said to standard error.
func (t *tester) boxdyno(args ...string) (code int, said string) {
	cmd, _, errs := t.command(args...)
	err := cmd.Run()
	if cmd.ProcessState == nil {
		return -1, err.Error()
	}
	return cmd.ProcessState.ExitCode(), strings.TrimSpace(errs.String())
}

// applying is the command that applies steps to a NIC.
func (t *tester) applying(n nic, steps []step, more ...string) (cmd *exec.Cmd, out, errs *bytes.Buffer, err error) {
	text := "name: board\nsteps:\n"
	for _, s := range steps {
		text += fmt.Sprintf("- {knob: %q, value: %q}\n", s.knob, s.value)
	}
	if err := os.WriteFile(recipeFile, []byte(text), 0o644); err != nil {
		return nil, nil, nil, err
	}
	cmd, out, errs = t.command(append([]string{"tune", "apply", recipeFile, "--port", n.port, "--json"}, more...)...)
	return cmd, out, errs, nil
}

// apply is tune apply, which must succeed.
func (t *tester) apply(n nic, steps []step) (settings []result.Setting, err error) {
	cmd, out, errs, err := t.applying(n, steps)
	if err != nil {
		return nil, err
	}
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("tune apply: %w: %s", err, errs)
	}
	if err := json.Unmarshal(out.Bytes(), &settings); err != nil || len(settings) != len(steps) {
		return nil, fmt.Errorf("tune apply: %d settings for %d steps: %v: %s", len(settings), len(steps), err, out)
	}
	return settings, nil
}

// tune is tune apply, whatever becomes of it.
func (t *tester) tune(n nic, steps []step, more ...string) (code int, said string) {
	cmd, _, errs, err := t.applying(n, steps, more...)
	if err == nil {
		err = cmd.Run()
	}
	if cmd == nil || cmd.ProcessState == nil {
		return -1, err.Error()
	}
	return cmd.ProcessState.ExitCode(), strings.TrimSpace(errs.String())
}

func (t *tester) revert() error {
	if code, said := t.boxdyno("tune", "revert"); code != 0 {
		return fmt.Errorf("tune revert: exit code %d: %s", code, said)
	}
	return nil
}

func (t *tester) status() (standing []tune.Standing, err error) {
	cmd, out, errs := t.command("tune", "status", "--json")
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("tune status: %w: %s", err, errs)
	}
	return standing, json.Unmarshal(out.Bytes(), &standing)
}

// killAt kills tune apply once k knobs are in its journal, and says whether it was
// still at work.
func (t *tester) killAt(n nic, steps []step, k int) (met bool, err error) {
	cmd, _, errs, err := t.applying(n, steps)
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			if err != nil {
				return false, fmt.Errorf("tune apply: %w: %s", err, errs)
			}
			return false, t.revert()
		case <-time.After(200 * time.Microsecond):
		}
		if t.turned() >= k {
			if err := cmd.Process.Kill(); err != nil {
				continue // it ended just now
			}
			if <-ended; t.held() {
				return false, t.revert()
			}
			return true, nil
		}
	}
}

// journal is what of boxdyno's lies there now.
func (t *tester) journal() string {
	var all []byte
	names, _ := filepath.Glob(filepath.Join(t.state, "boxdyno", "tune", "*"))
	for _, n := range names {
		data, _ := os.ReadFile(n)
		all = append(all, data...)
	}
	return string(all)
}

// turned is how many knobs a journal names, without those beside them.
func (t *tester) turned() (n int) {
	for line := range strings.Lines(t.journal()) {
		if strings.HasPrefix(line, `{"set"`) && !strings.Contains(line, `"beside":true`) {
			n++
		}
	}
	return n
}

func (t *tester) held() bool { return strings.Contains(t.journal(), `{"hold"`) }
