// SPDX-License-Identifier: Apache-2.0

package subject

import (
	"context"
	"errors"

	"boxdyno/host"
)

// A Named is a subject with the name of its row, so that another machine knows it, too.
type Named struct {
	Name string
	Subject
}

// A Machine is where subjects run: this one, or a box at the other end of a cable.
type Machine interface {
	// Check is Subject.Check there.
	Check(ctx context.Context, s Named) error
	// Start is Subject.Start there. e.Host is the machine's own to set.
	Start(ctx context.Context, s Named, e Env) (Running, error)
}

// ErrLost is in the chain of errors of a Machine, and of what runs on it, once it is not
// reached any more: nothing is known of the subject then, and it is not its fault.
var ErrLost = errors.New("the machine is not reached")

// Here is this machine, or a namespace of it.
type Here struct{ Host *host.Local }

// Check implements Machine.
func (h Here) Check(ctx context.Context, s Named) error { return s.Subject.Check(ctx, h.Host) }

// Start implements Machine.
func (h Here) Start(ctx context.Context, s Named, e Env) (Running, error) {
	e.Host = h.Host
	return s.Subject.Start(ctx, e)
}
