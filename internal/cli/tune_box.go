// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"boxdyno/agent"
	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/link"
	"boxdyno/link/hub"
	"boxdyno/result"
	"boxdyno/runner"
	"boxdyno/tune"
)

func boxFlag(cmd *cobra.Command, box *string) {
	cmd.Flags().StringVar(box, "box", "", "`NAME` of the box whose settings are meant (boxdyno box ls; default: this machine), or group=NAME: each box of a group")
	_ = cmd.RegisterFlagCompletionFunc("box", boxNames)
}

// onBox has {port} stand for the box's ports with a cable, unless others are given.
func (f *tuneFlags) onBox() error {
	if f.box == "" {
		return nil
	}
	if f.netns != "" {
		return &runner.PlanError{At: "--netns", Err: errors.New("a box's agent acts in the box's first namespace: leave out --netns or --box")}
	}
	b, err := findBox(f.box)
	if err != nil {
		return err
	}
	if len(f.ports) > 0 {
		return nil
	}
	for _, c := range b.Cables {
		_, there, _ := strings.Cut(c, "=")
		f.ports = append(f.ports, there)
	}
	return nil
}

// withBox calls f with a connection to a box. With hold nobody else may measure there
// meanwhile.
func withBox(ctx context.Context, name string, hold bool, f func(*link.Conn) error) (err error) {
	b, err := findBox(name)
	if err != nil {
		return err
	}
	c, err := hub.Dial(ctx, b.Reach())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if hold {
		if _, err := agent.Hold.Call(ctx, c, agent.HoldArgs{Boot: (&host.Local{}).Identify().BootID}); err != nil {
			return err
		}
	}
	return f(c)
}

func (f *tuneFlags) show(ctx context.Context, r tune.Recipe, on tune.On) (changes []tune.Change, err error) {
	if f.box == "" {
		if err := on.Check(); err != nil {
			return nil, err
		}
		return tune.New().Show(ctx, r, on)
	}
	err = withBox(ctx, f.box, false, func(c *link.Conn) error {
		changes, err = agent.TuneShow.Call(ctx, c, agent.TuneArgs{Recipe: r, Ports: f.ports})
		return err
	})
	return changes, err
}

func (f *tuneFlags) apply(ctx context.Context, a *app, r tune.Recipe, on tune.On, strict bool) (settings []result.Setting, err error) {
	unlock, err := a.measuringLock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if f.box == "" {
		if err := on.Check(); err != nil {
			return nil, err
		}
		_, settings, err = tune.New().Apply(ctx, r, on, tune.Options{By: "hand", Strict: strict, Hold: true})
		return settings, err
	}
	err = withBox(ctx, f.box, true, func(c *link.Conn) error {
		done, err := agent.TuneApply.Call(ctx, c, agent.TuneArgs{Recipe: r, Ports: f.ports, By: "hand", Strict: strict, Hold: true})
		if err == nil && done.Refused != nil {
			err = fmt.Errorf("%s: %w", c.Name, &tune.StrictError{Problems: done.Refused})
		}
		settings = done.Settings
		return err
	})
	return settings, err
}

// revertHeld puts back what was applied by hand, here or on a box.
func (a *app) revertHeld(ctx context.Context, box string, how tune.Revert) (notes []string, err error) {
	unlock, err := a.measuringLock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if box != "" {
		err = withBox(ctx, box, true, func(c *link.Conn) error {
			notes, err = lab.RevertBox(ctx, c, agent.TuneRevertArgs{How: how})
			return err
		})
		return notes, err
	}
	n, notes, err := tune.New().Held(ctx, how)
	if err == nil && n == 0 {
		notes = append(notes, "nothing is applied")
	}
	return notes, err
}

// standing is what journals have yet to put back, here or on a box.
func standing(ctx context.Context, box string) (all []tune.Standing, notes []string, err error) {
	if box == "" {
		return tune.New().Status(ctx)
	}
	err = withBox(ctx, box, false, func(c *link.Conn) error {
		s, err := agent.TuneStatus.Call(ctx, c, agent.None{})
		all, notes = s.Standing, s.Notes
		return err
	})
	return all, notes, err
}
