// SPDX-License-Identifier: Apache-2.0

package made

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
	"boxdyno/subject/internal/program"
)

// A Program is a program whose source is in this binary, in C. It is made on the machine, by
// its own compiler, and kept in the store under the digest of source, compiler and
// flags.
type Program struct {
	Name     string   // of the program
	Sources  []string // in programs/, those that are compiled before those that are included
	Libs     []string // "-lm"
	Flags    []string // "-O2"
	Packages []string // of the distribution, beside the compiler and the C library's headers
}

// needs is what the distribution's packages bring.
func (c Program) needs(h *host.Local, what string) error {
	return &host.Missing{What: what, Remedy: [][]string{program.InUserland(h, append([]string{"apt-get", "install", "-y", "gcc", "libc6-dev"}, c.Packages...)...)}}
}

// compiler is how it calls itself: "gcc (Debian 12.2.0-14) 12.2.0"; a *host.Missing
// where there is none.
func (c Program) compiler(ctx context.Context, h *host.Local) (string, error) {
	if err := h.Has("cc"); err != nil {
		return "", c.needs(h, "a C compiler, which makes "+c.Name)
	}
	out, err := program.Within(ctx, h, program.VersionPatience, "", "cc", "--version")
	first, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(first), err
}

// Identify is what a figure of it is of.
func (c Program) Identify(ctx context.Context, h *host.Local) ([]result.Pair, error) {
	compiler, err := c.compiler(ctx, h)
	return []result.Pair{{Key: "compiler", Value: compiler}, {Key: "flags", Value: strings.Join(slices.Concat(c.Flags, c.Libs), " ")}}, err
}

// Program is the compiled program's path.
func (c Program) Program(ctx context.Context, h *host.Local) (path string, err error) {
	compiler, err := c.compiler(ctx, h)
	if err != nil {
		return "", err
	}
	dir, err := Store()
	if err != nil {
		return "", err
	}
	text := compiler + strings.Join(c.Flags, " ")
	for _, s := range c.Sources {
		text += Embedded(s)
	}
	path = filepath.Join(dir, c.Name+"-"+Digest(text))
	if h.Userland != nil {
		path += "-" + h.Userland.Name
	}
	return path, c.Make(ctx, h, path)
}

// compiling is how long a slow board's compiler may take.
const compiling = 5 * time.Minute

// Make compiles it to a path in the store, unless it is there.
func (c Program) Make(ctx context.Context, h *host.Local, path string) (err error) {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := h.Has("cc"); err != nil {
		return c.needs(h, "a C compiler, which makes "+c.Name)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("keep %s: %w", c.Name, err)
	}
	made, err := host.MakeScratchIn(dir)
	if err != nil {
		return fmt.Errorf("keep %s: %w", c.Name, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(made)) }()
	out := filepath.Join(made, c.Name)
	argv := slices.Concat([]string{"cc"}, c.Flags, []string{"-o", out})
	for _, s := range c.Sources {
		file := filepath.Join(made, s)
		if err := os.WriteFile(file, []byte(Embedded(s)), 0o644); err != nil {
			return fmt.Errorf("compile %s: %w", c.Name, err)
		}
		if strings.HasSuffix(s, ".c") {
			argv = append(argv, file)
		}
	}
	if _, err := program.Within(ctx, h, compiling, "", append(argv, c.Libs...)...); err != nil {
		for _, lacks := range []string{"stdio.h", "crt1.o", "pcap/pcap.h", "lpcap", "pmix.h", "lpmix"} {
			if strings.Contains(err.Error(), lacks) {
				return c.needs(h, "headers or libraries that "+c.Name+" is made with ("+lacks+")")
			}
		}
		return fmt.Errorf("compile %s: %w", c.Name, err)
	}
	if err := errors.Join(os.Chmod(out, 0o755), os.Rename(out, path)); err != nil {
		return fmt.Errorf("keep %s: %w", c.Name, err)
	}
	return nil
}

// A Ran is what such a program prints: how often it did its work, in which time, and
// what came out at the end.
type Ran struct {
	Runs    float64
	Seconds float64
	Values  string
}

// ParseRan reads what such a program prints.
func ParseRan(text string) (r Ran, err error) {
	if err := json.Unmarshal([]byte(text), &r); err != nil || r.Runs <= 0 || r.Seconds <= 0 {
		return r, fmt.Errorf("it printed what is no figure: %.80q", text)
	}
	return r, nil
}
