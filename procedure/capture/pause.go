// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"

	"boxdyno/procedure"
)

// pauseClosed is env.Pause with what a point has open closed meanwhile; a *leftError where
// the run does not come back.
func pauseClosed(ctx context.Context, env *procedure.Env, found procedure.Outcome, close func() error, open func(context.Context) error) error {
	if err := close(); err != nil {
		return err
	}
	if !env.Pause(found) {
		return &leftError{found}
	}
	return open(ctx)
}

// A leftError ends a procedure that the run does not come back to, with what it was told.
type leftError struct{ found procedure.Outcome }

func (*leftError) Error() string { return "the run does not come back to the point" }
