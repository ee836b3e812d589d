// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"context"
	"errors"
	"fmt"

	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/link"
	"boxdyno/procedure/far"
)

// boxOf is the box that carries procedures out by itself; nil: this machine does.
func boxOf(bed *lab.Testbed) lab.Far {
	box, _ := bed.Means.(lab.Far)
	return box
}

// fits asks a box that carries the points out whether their parameters fit it.
func (x *execution) fits(ctx context.Context, points []Point) error {
	box := boxOf(x.bed)
	if box == nil || box.Conn() == nil {
		return nil
	}
	for _, pt := range points {
		var missing *host.Missing
		switch err := x.fitting(ctx, box.Conn(), pt); {
		case err == nil:
		case errors.As(err, &missing), box.Conn().Err() != nil, ctx.Err() != nil:
			return fmt.Errorf("%s: %w", pt.ID, err)
		default:
			return &PlanError{At: pt.at, Err: fmt.Errorf("%s: %w", pt.ID, err)}
		}
	}
	return nil
}

// fitting checks a point against the box behind c.
func (x *execution) fitting(ctx context.Context, c *link.Conn, pt Point) error {
	if far.Carries(pt.Procedure) {
		return far.Check(ctx, c, pt.Procedure, pt.Params)
	}
	p, err := pt.procedure(x.o.Catalogue)
	if err != nil {
		return err
	}
	return p.Check(x.bed)
}
