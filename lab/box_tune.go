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

// A Tuning applies a recipe to a DUT, for whom by names; revert takes it back.
type Tuning func(ctx context.Context, r tune.Recipe, by string) (revert func(context.Context) (notes []string, err error), settings []result.Setting, err error)

// TuneLocal is the Tuning of a DUT on this machine.
func TuneLocal(on tune.On) Tuning {
	return func(ctx context.Context, r tune.Recipe, by string) (func(context.Context) ([]string, error), []result.Setting, error) {
		applied, settings, err := tune.New().Apply(ctx, r, on, tune.Options{By: by})
		if err != nil {
			return nil, settings, err
		}
		return func(ctx context.Context) ([]string, error) { return applied.Revert(ctx, tune.Revert{}) }, settings, nil
	}
}

// TuneBox is the Tuning of the box behind c; its journal is there.
func TuneBox(c *link.Conn, ports []string) Tuning {
	return func(ctx context.Context, r tune.Recipe, by string) (func(context.Context) ([]string, error), []result.Setting, error) {
		done, err := agent.TuneApply.Call(ctx, c, agent.TuneArgs{Recipe: r, Ports: ports, By: by})
		if err != nil {
			return nil, nil, err
		}
		return func(ctx context.Context) ([]string, error) {
			return RevertBox(context.WithoutCancel(ctx), c, agent.TuneRevertArgs{ID: done.ID})
		}, done.Settings, nil
	}
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
