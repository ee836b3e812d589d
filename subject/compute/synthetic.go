// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/subject"
	"boxdyno/subject/internal/made"
)

// A Synthetic is a benchmark of statements that are mixed as programs had them once. It
// is compiled on the machine.
type Synthetic struct {
	For      time.Duration // how long it runs
	Optimise string        // one of OptimiseLevels

	of benchmark
}

// OptimiseLevels are the compiler's options that a Synthetic is made with.
func OptimiseLevels() []string { return []string{"O0", "O1", "O2", "O3"} }

// A benchmark is a row: what is compiled, the values that its variables must have at
// the end, and its figures.
type benchmark struct {
	name    string
	sources []string
	libs    []string
	right   string
	figures func(r made.Ran) []result.Value
}

func newSynthetic(b benchmark) *Synthetic {
	return &Synthetic{For: time.Second, Optimise: "O2", of: b}
}

// Flags implements Subject.
func (s *Synthetic) Flags(fs *flag.FlagSet) {
	fs.DurationVar(&s.For, "for", s.For, "how `long` it runs")
	fs.StringVar(&s.Optimise, "optimise", s.Optimise, "`level` of the compiler: O0 to O3")
}

func (s *Synthetic) made() made.Program {
	return made.Program{Name: s.of.name, Sources: s.of.sources, Libs: s.of.libs, Flags: []string{"-" + s.Optimise}}
}

// Check implements Subject. It compiles.
func (s *Synthetic) Check(ctx context.Context, h *host.Local) error {
	if !slices.Contains(OptimiseLevels(), s.Optimise) {
		return fmt.Errorf("optimise %q: want one of %s", s.Optimise, strings.Join(OptimiseLevels(), ", "))
	}
	if s.For <= 0 || s.For > time.Hour {
		return fmt.Errorf("%s for %v: want up to 1h", s.of.name, s.For)
	}
	_, err := s.made().Program(ctx, h)
	return err
}

// Identify implements Worker.
func (s *Synthetic) Identify(ctx context.Context, h *host.Local) ([]result.Pair, error) {
	return s.made().Identify(ctx, h)
}

// Prove implements Worker: the variables hold the published values.
func (s *Synthetic) Prove(ctx context.Context, h *host.Local) error {
	program, err := s.made().Program(ctx, h)
	if err != nil {
		return err
	}
	out, err := h.Run(ctx, "", program, "0.01")
	if err != nil {
		return err
	}
	_, err = s.read(string(out))
	return err
}

func (s *Synthetic) read(text string) ([]result.Value, error) {
	r, err := made.ParseRan(text)
	if err != nil {
		return nil, err
	}
	if r.Values != s.of.right {
		return nil, fmt.Errorf("%s computed something else than it should: %s, and not %s", s.of.name, r.Values, s.of.right)
	}
	return s.of.figures(r), nil
}

// Start implements Subject.
func (s *Synthetic) Start(ctx context.Context, e subject.Env) (subject.Running, error) {
	program, err := s.made().Program(ctx, e.Machine())
	if err != nil {
		return nil, err
	}
	return subject.Command{
		Name: s.of.name, Argv: []string{program, fmt.Sprint(s.For.Seconds())},
		Read: func(w subject.Worked) ([]result.Value, error) { return s.read(w.Stdout) },
	}.Start(ctx, e)
}
