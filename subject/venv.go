// SPDX-License-Identifier: Apache-2.0

package subject

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"boxdyno/host"
)

//go:embed programs/*.py programs/*.lock programs/*.c programs/*.h
var programs embed.FS

func embedded(name string) string {
	text, _ := programs.ReadFile("programs/" + name) // embedded: always there
	return string(text)
}

// installCommand installs one subject.
func installCommand(name string) []string { return []string{"boxdyno", "doctor", "--install", name} }

// A venv is a virtual environment with the packages that its locks name, by version and
// digest, and with no others. It is in the store under their digest, so that another
// lock makes another one. pip takes its index from its own configuration.
type venv struct {
	name  string // of the lock: "scapy"
	built bool   // a package of it is compiled against libpcap
}

// complete is the file that tells a finished environment from a broken one.
const complete = "complete"

// buildTools is the lock of what compiles a package: pip would take any version of it.
const buildTools = "build"

func (v venv) dir() (string, error) {
	dir, err := store()
	text := embedded(v.name + ".lock")
	if v.built {
		text += embedded(buildTools + ".lock")
	}
	return filepath.Join(dir, v.name+"-"+digest(text)), err
}

// python is the environment's interpreter; a *host.Missing where there is none.
func (v venv) python() (string, error) {
	dir, err := v.dir()
	if err != nil {
		return "", err
	}
	python := filepath.Join(dir, "bin", "python")
	_, err = os.Stat(filepath.Join(dir, complete))
	_, gone := os.Stat(python) // the interpreter may have been removed from the machine
	if err != nil || gone != nil {
		return "", &host.Missing{What: "the virtual environment of " + v.name, Remedy: [][]string{installCommand(v.name)}}
	}
	return python, nil
}

// make makes the environment. What it needs from the distribution is a *host.Missing.
func (v venv) make(ctx context.Context, run Runner) error {
	if err := v.needs(ctx); err != nil {
		return err
	}
	dir, err := v.dir()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("make the virtual environment of %s: %w", v.name, err)
	}
	if err := run(ctx, []string{"python3", "-m", "venv", "--clear", dir}); err != nil {
		return err
	}
	pip := func(lock string, options ...string) error {
		file := filepath.Join(dir, lock+".txt")
		if err := os.WriteFile(file, []byte(embedded(lock+".lock")), 0o644); err != nil {
			return fmt.Errorf("make the virtual environment of %s: %w", v.name, err)
		}
		argv := []string{filepath.Join(dir, "bin", "python"), "-m", "pip", "install", "--no-input", "--no-deps", "--require-hashes"}
		return run(ctx, append(append(argv, options...), "-r", file))
	}
	var options []string
	if v.built {
		if err := pip(buildTools); err != nil {
			return err
		}
		options = []string{"--no-build-isolation"}
	}
	if err := pip(v.name, options...); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, complete), nil, 0o644)
}

// needs looks for what the distribution's packages bring.
func (v venv) needs(ctx context.Context) error {
	apt := func(what string, packages ...string) error {
		return &host.Missing{What: what, Remedy: [][]string{append([]string{"apt-get", "install", "-y"}, packages...)}}
	}
	if err := host.Has("python3"); err != nil {
		return err
	}
	has := func(code string) bool {
		_, err := (&host.Local{}).Run(ctx, "", "python3", "-c", code)
		return err == nil
	}
	if !has("import ensurepip, venv") {
		return apt("Python's module venv", "python3-venv")
	}
	if !v.built {
		return nil
	}
	_, err := os.Stat("/usr/include/pcap.h")
	header := !errors.Is(err, os.ErrNotExist)
	if host.Has("cc") != nil || !header || !has("import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path('include') + '/Python.h'))") {
		return apt("what "+v.name+" is compiled with", "gcc", "libc6-dev", "libpcap-dev", "python3-dev")
	}
	return nil
}
