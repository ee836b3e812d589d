// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"errors"
	"strings"
	"testing"

	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/result"
)

// atOnce runs trials at once, on a testbed of nothing.
func atOnce(recs *[]result.Record) *procedure.Env {
	return &procedure.Env{Bed: &lab.Testbed{}, Trial: func(ctx context.Context, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		o, err := f(ctx)
		*recs = append(*recs, result.Record{Config: cfg, Status: o.Status})
		return (*recs)[len(*recs)-1], err
	}}
}

// Programs that are not there skip the point with the command that makes them.
func TestUserlandIsMissing(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	var recs []result.Record
	for _, p := range []procedure.Procedure{newStream(), newVPN()} {
		roomtest.Assign(t, p.Flags, map[string]string{"userland": "32-bit"})
		var missing *host.Missing
		if _, err := p.Run(t.Context(), atOnce(&recs)); !errors.As(err, &missing) || !strings.Contains(err.Error(), "programs of 32 bit") || len(recs) > 0 {
			t.Errorf("%T: %v", p, err)
		}
	}
}

// Gateways get the userland's programs and trials its name; the testbed keeps its own.
func TestUserlandEnv(t *testing.T) {
	var recs []result.Record
	env := atOnce(&recs)
	env.Bed.Gateways = []lab.Gateway{{Host: &host.Local{Netns: "left"}}, {Host: &host.Local{Netns: "right"}}}
	if same := atGateways(env, &host.Local{}); same != env {
		t.Error("the machine's own programs change where they run")
	}
	of := &host.Userland{Name: "i386", Root: t.TempDir()}
	in := atGateways(env, &host.Local{Userland: of})
	if _, err := in.Trial(t.Context(), []result.Pair{{Key: "trial", Value: "1"}}, func(context.Context) (procedure.Outcome, error) { return procedure.Outcome{Status: result.Passed}, nil }); err != nil {
		t.Fatal(err)
	}
	if got := result.Get(recs[0].Config, "programs"); got != "i386" {
		t.Errorf("the trial's programs are %q", got)
	}
	for i, g := range in.Bed.Gateways {
		if g.Host.Userland != of || g.Host.Netns != []string{"left", "right"}[i] || env.Bed.Gateways[i].Host.Userland != nil {
			t.Errorf("gateway %d: %+v", i, g.Host)
		}
	}
}
