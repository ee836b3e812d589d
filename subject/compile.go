// SPDX-License-Identifier: Apache-2.0

package subject

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"boxdyno/host"
	"boxdyno/result"
)

// A madeHere is a program whose source is in this binary, in C. It is made on the machine, by
// its own compiler, and kept in the store under the digest of source, compiler and
// flags.
type madeHere struct {
	name     string   // of the program
	sources  []string // in programs/, those that are compiled before those that are included
	libs     []string // "-lm"
	flags    []string // "-O2"
	packages []string // of the distribution, beside the compiler and the C library's headers
}

// needs is what the distribution's packages bring.
func (c madeHere) needs(h *host.Local, what string) error {
	return &host.Missing{What: what, Remedy: [][]string{inUserland(h, append([]string{"apt-get", "install", "-y", "gcc", "libc6-dev"}, c.packages...)...)}}
}

// compiler is how it calls itself: "gcc (Debian 12.2.0-14) 12.2.0"; a *host.Missing
// where there is none.
func (c madeHere) compiler(ctx context.Context, h *host.Local) (string, error) {
	if err := h.Has("cc"); err != nil {
		return "", c.needs(h, "a C compiler, which makes "+c.name)
	}
	out, err := within(ctx, h, versionPatience, "", "cc", "--version")
	first, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(first), err
}

// identify is what a figure of it is of.
func (c madeHere) identify(ctx context.Context, h *host.Local) ([]result.Pair, error) {
	compiler, err := c.compiler(ctx, h)
	return []result.Pair{{Key: "compiler", Value: compiler}, {Key: "flags", Value: strings.Join(slices.Concat(c.flags, c.libs), " ")}}, err
}

// program is the compiled program's path.
func (c madeHere) program(ctx context.Context, h *host.Local) (program string, err error) {
	compiler, err := c.compiler(ctx, h)
	if err != nil {
		return "", err
	}
	dir, err := store()
	if err != nil {
		return "", err
	}
	text := compiler + strings.Join(c.flags, " ")
	for _, s := range c.sources {
		text += embedded(s)
	}
	program = filepath.Join(dir, c.name+"-"+digest(text))
	if h.Userland != nil {
		program += "-" + h.Userland.Name
	}
	return program, c.make(ctx, h, program)
}

// make compiles it to the path program in the store, unless it is there.
func (c madeHere) make(ctx context.Context, h *host.Local, program string) (err error) {
	if _, err := os.Stat(program); err == nil {
		return nil
	}
	if err := h.Has("cc"); err != nil {
		return c.needs(h, "a C compiler, which makes "+c.name)
	}
	dir := filepath.Dir(program)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("keep %s: %w", c.name, err)
	}
	made, err := host.MakeScratchIn(dir)
	if err != nil {
		return fmt.Errorf("keep %s: %w", c.name, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(made)) }()
	out := filepath.Join(made, c.name)
	argv := slices.Concat([]string{"cc"}, c.flags, []string{"-o", out})
	for _, s := range c.sources {
		file := filepath.Join(made, s)
		if err := os.WriteFile(file, []byte(embedded(s)), 0o644); err != nil {
			return fmt.Errorf("compile %s: %w", c.name, err)
		}
		if strings.HasSuffix(s, ".c") {
			argv = append(argv, file)
		}
	}
	if _, err := within(ctx, h, time.Minute, "", append(argv, c.libs...)...); err != nil {
		for _, lacks := range []string{"stdio.h", "crt1.o", "pcap/pcap.h", "lpcap"} {
			if strings.Contains(err.Error(), lacks) {
				return c.needs(h, "headers or libraries that "+c.name+" is made with ("+lacks+")")
			}
		}
		return fmt.Errorf("compile %s: %w", c.name, err)
	}
	if err := errors.Join(os.Chmod(out, 0o755), os.Rename(out, program)); err != nil {
		return fmt.Errorf("keep %s: %w", c.name, err)
	}
	return nil
}

// A ran is what such a program prints: how often it did its work, in which time, and
// what came out at the end.
type ran struct {
	Runs    float64
	Seconds float64
	Values  string
}

func parseRan(text string) (r ran, err error) {
	if err := json.Unmarshal([]byte(text), &r); err != nil || r.Runs <= 0 || r.Seconds <= 0 {
		return r, fmt.Errorf("it printed what is no figure: %.80q", text)
	}
	return r, nil
}
