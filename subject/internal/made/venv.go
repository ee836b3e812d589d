// SPDX-License-Identifier: Apache-2.0

package made

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"boxdyno/host"
	"boxdyno/subject"
)

//go:embed programs/*.py programs/*.lock programs/*.c programs/*.h
var programs embed.FS

// Embedded is a source or lock of the folder programs.
func Embedded(name string) string {
	text, _ := programs.ReadFile("programs/" + name) // embedded: always there
	return string(text)
}

// InstallCommand installs one subject.
func InstallCommand(name string) []string { return []string{"boxdyno", "doctor", "--install", name} }

// A Venv is a virtual environment with the packages that its locks name, by version and
// digest, and with no others. It is in the store under their digest, so that another
// lock makes another one. pip takes its index from its own configuration.
type Venv struct {
	Name  string // of the lock: "scapy"
	Built bool   // a package of it is compiled against libpcap
}

// complete is the file that tells a finished environment from a broken one.
const complete = "complete"

// buildTools is the lock of what compiles a package: pip would take any version of it.
const buildTools = "build"

func (v Venv) dir() (string, error) {
	dir, err := Store()
	text := Embedded(v.Name + ".lock")
	if v.Built {
		text += Embedded(buildTools + ".lock")
	}
	return filepath.Join(dir, v.Name+"-"+Digest(text)), err
}

// Python is the environment's interpreter; a *host.Missing where there is none.
func (v Venv) Python() (string, error) {
	dir, err := v.dir()
	if err != nil {
		return "", err
	}
	python := filepath.Join(dir, "bin", "python")
	_, err = os.Stat(filepath.Join(dir, complete))
	_, gone := os.Stat(python) // the interpreter may have been removed from the machine
	if err != nil || gone != nil {
		return "", &host.Missing{What: "the virtual environment of " + v.Name, Remedy: [][]string{InstallCommand(v.Name)}}
	}
	return python, nil
}

// Make makes the environment. What it needs from the distribution is a *host.Missing.
func (v Venv) Make(ctx context.Context, run subject.Runner) error {
	if err := v.needs(ctx); err != nil {
		return err
	}
	dir, err := v.dir()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("make the virtual environment of %s: %w", v.Name, err)
	}
	if err := run(ctx, []string{"python3", "-m", "venv", "--clear", dir}); err != nil {
		return err
	}
	pip := func(lock string, options ...string) error {
		file := filepath.Join(dir, lock+".txt")
		if err := os.WriteFile(file, []byte(Embedded(lock+".lock")), 0o644); err != nil {
			return fmt.Errorf("make the virtual environment of %s: %w", v.Name, err)
		}
		argv := []string{filepath.Join(dir, "bin", "python"), "-m", "pip", "install", "--no-input", "--no-deps", "--require-hashes"}
		return run(ctx, append(append(argv, options...), "-r", file))
	}
	var options []string
	if v.Built {
		if err := pip(buildTools); err != nil {
			return err
		}
		options = []string{"--no-build-isolation"}
	}
	if err := pip(v.Name, options...); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, complete), nil, 0o644)
}

// needs looks for what the distribution's packages bring.
func (v Venv) needs(ctx context.Context) error {
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
	if !v.Built {
		return nil
	}
	_, err := os.Stat("/usr/include/pcap.h")
	header := !errors.Is(err, os.ErrNotExist)
	if host.Has("cc") != nil || !header || !has("import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path('include') + '/Python.h'))") {
		return apt("what "+v.Name+" is compiled with", "gcc", "libc6-dev", "libpcap-dev", "python3-dev")
	}
	return nil
}
