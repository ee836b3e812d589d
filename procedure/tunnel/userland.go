// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"slices"

	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/param"
	"boxdyno/result"
)

// atGateways is e with local's userland at its gateways, and the name of its programs in
// every trial.
func atGateways(e *procedure.Env, local *host.Local) *procedure.Env {
	if local.Userland == nil {
		return e
	}
	in, bed := *e, *e.Bed
	bed.Gateways = slices.Clone(bed.Gateways)
	for i, g := range bed.Gateways {
		if g.Host == nil {
			continue // Check refuses it
		}
		at := *g.Host
		at.Userland = local.Userland
		bed.Gateways[i] = lab.LocalGateway(&at, g.Place)
	}
	in.Bed = &bed
	in.Trial = func(ctx context.Context, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		return e.Trial(ctx, slices.Concat(cfg, param.ProgramsOf(local)), f)
	}
	return &in
}
