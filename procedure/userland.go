// SPDX-License-Identifier: Apache-2.0

package procedure

import (
	"context"
	"flag"
	"slices"
	"strings"

	"boxdyno/host"
	"boxdyno/procedure/internal/param"
	"boxdyno/result"
	"boxdyno/subject/userland"
)

// A userlandChoice is whose programs a procedure lets work.
type userlandChoice struct{ param.Choice }

func newUserland() userlandChoice {
	return userlandChoice{param.NewChoice(userland.Native, userland.Names())}
}

// flag declares the parameter.
func (u *userlandChoice) flag(fs *flag.FlagSet) {
	fs.Var(&u.Choice, "userland", "whose programs work: native: the machine's; 32-bit: those of 32 bit beside a kernel of 64")
}

// local is this machine with the userland's programs.
func (u *userlandChoice) local(ctx context.Context) (*host.Local, error) {
	of, err := userland.Named(ctx, u.Value)
	return &host.Local{Userland: of}, err
}

// programsOf names the userland's programs, for trials; nothing of the machine's own.
func programsOf(local *host.Local) []result.Pair {
	if local.Userland == nil {
		return nil
	}
	return []result.Pair{{Key: "programs", Value: strings.Join(strings.Fields(local.Userland.Programs()), "_")}}
}

// env is e with the userland's programs at its gateways, and their name in every trial.
func (u *userlandChoice) env(e *Env, local *host.Local) *Env {
	if local.Userland == nil {
		return e
	}
	in, bed := *e, *e.Bed
	pair := *bed.Gateways
	for i, g := range pair.Ends {
		at := *g.Host
		at.Userland = local.Userland
		pair.Ends[i].Host = &at
	}
	bed.Gateways = &pair
	in.Bed = &bed
	in.Trial = func(ctx context.Context, cfg []result.Pair, f func(context.Context) (Outcome, error)) (result.Record, error) {
		return e.Trial(ctx, slices.Concat(cfg, programsOf(local)), f)
	}
	return &in
}
