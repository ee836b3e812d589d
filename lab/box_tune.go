// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"

	"boxdyno/agent"
	"boxdyno/link"
	"boxdyno/result"
	"boxdyno/tune"
)

// TuneLocal is the Tuner of a DUT on this machine.
func TuneLocal(on tune.On) Tuner { return tuneLocal(on) }

type tuneLocal tune.On

func (on tuneLocal) Tune(ctx context.Context, r tune.Recipe, by string) (func(context.Context) ([]string, error), []result.Setting, error) {
	applied, settings, err := tune.New().Apply(ctx, r, tune.On(on), tune.Options{By: by})
	if err != nil {
		return nil, settings, err
	}
	return func(ctx context.Context) ([]string, error) { return applied.Revert(ctx, tune.Revert{}) }, settings, nil
}

// A tuneBox is the Tuner of the box behind conn; its journal is there.
type tuneBox struct {
	conn  *link.Conn
	ports []string
}

func (b tuneBox) Tune(ctx context.Context, r tune.Recipe, by string) (func(context.Context) ([]string, error), []result.Setting, error) {
	done, err := agent.TuneApply.Call(ctx, b.conn, agent.TuneArgs{Recipe: r, Ports: b.ports, By: by})
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context) ([]string, error) {
		return RevertBox(context.WithoutCancel(ctx), b.conn, agent.TuneRevertArgs{ID: done.ID})
	}, done.Settings, nil
}

// RevertBox puts back what was applied to the box behind c. What somebody else has changed
// since is a tune.ErrChanged.
func RevertBox(ctx context.Context, c *link.Conn, a agent.TuneRevertArgs) (notes []string, err error) {
	done, err := agent.TuneRevert.Call(ctx, c, a)
	switch {
	case err != nil:
		return nil, err
	case done.Changed != "":
		return done.Notes, errors.Join(fmt.Errorf("%s: %s", c.Name, done.Changed), tune.ErrChanged)
	case done.Journals == 0:
		done.Notes = append(done.Notes, "nothing is applied")
	}
	return done.Notes, nil
}
