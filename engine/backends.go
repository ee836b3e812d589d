// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"boxdyno/host"
)

// All is every backend that needs only a port, best first. Mem needs a wire and
// is made by New.
var All = []Spec{}

// A Tried is one backend and what its probe said.
type Tried struct {
	Name string
	Err  error // nil: it works, and was taken
}

// Best probes All on every port and takes the first that works on all of them.
func Best(ctx context.Context, ports ...host.Port) (Backend, []Tried, error) {
	return nil, nil, host.ErrNotSupported
}
