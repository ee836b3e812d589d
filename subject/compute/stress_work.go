// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/subject"
	"boxdyno/subject/stress"
)

// A StressWork is one worker of one of stress-ng's stressors, which verifies what it
// computes.
type StressWork struct {
	Stressor string
	For      time.Duration // whole seconds
}

// Flags implements Subject.
func (s *StressWork) Flags(fs *flag.FlagSet) {
	fs.DurationVar(&s.For, "for", s.For, "how `long` it runs, in whole seconds")
}

// Check implements Subject.
func (s *StressWork) Check(ctx context.Context, h *host.Local) error {
	if s.For < time.Second || s.For%time.Second != 0 {
		return fmt.Errorf("stressor %s for %v: want whole seconds", s.Stressor, s.For)
	}
	return (&stress.Stress{Stressor: s.Stressor, For: s.For}).Check(ctx, h)
}

// Identify implements Worker.
func (s *StressWork) Identify(ctx context.Context, h *host.Local) ([]result.Pair, error) {
	v, err := stress.Version(ctx, h)
	return []result.Pair{{Key: "stress_ng", Value: v}}, err
}

// argv has it write to dir, for the folder that its user stands in may be read only.
func (s *StressWork) argv(dir string, more ...string) []string {
	return append([]string{stress.Name, "--" + s.Stressor, "1", "--metrics", "--yaml", "/dev/stdout", "--temp-path", dir, "--verify", "--no-rand-seed"}, more...)
}

// Prove implements Worker: some operations, verified by stress-ng.
func (s *StressWork) Prove(ctx context.Context, h *host.Local) (err error) {
	dir, err := host.MakeScratch()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	out, err := h.Run(ctx, "", s.argv(dir, "--"+s.Stressor+"-ops", "4", "--timeout", "20s")...)
	if err != nil {
		return err
	}
	_, err = s.figures(string(out), "")
	return err
}

func (s *StressWork) figures(figures, log string) ([]result.Value, error) {
	end := stress.Judge(s.Stressor, 0, 0, log, figures)
	if end.Status != result.Passed {
		return nil, errors.New(end.Reason)
	}
	return end.Values, nil
}

// Start implements Subject.
func (s *StressWork) Start(ctx context.Context, e subject.Env) (subject.Running, error) {
	dir, err := host.MakeScratch()
	if err != nil {
		return nil, err
	}
	return subject.Command{
		Name: stress.Name + " " + s.Stressor, Argv: s.argv(dir, "--timeout", fmt.Sprintf("%.0fs", s.For.Seconds())), Dir: dir,
		Read: func(w subject.Worked) ([]result.Value, error) { return s.figures(w.Stdout, w.Stderr) },
	}.Start(ctx, e)
}
