// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"

	"boxdyno/procedure"
)

// PauseClosed is env.Pause with what a point has open closed meanwhile; a *leftError where
// the run does not come back.
func PauseClosed(ctx context.Context, env *procedure.Env, found procedure.Outcome, close func() error, open func(context.Context) error) error {
	if err := close(); err != nil {
		return err
	}
	if !env.Pause(found) {
		return &LeftError{found}
	}
	return open(ctx)
}

// A LeftError ends a procedure that the run does not come back to, with what it was told.
type LeftError struct{ Found procedure.Outcome }

func (*LeftError) Error() string { return "the run does not come back to the point" }
