// SPDX-License-Identifier: Apache-2.0

package procedure

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/result"
)

// Programs that are not there skip the point with the command that makes them.
func TestUserlandIsMissing(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	w := newWork()
	if err := w.userland.Set("32-bit"); err != nil {
		t.Fatal(err)
	}
	var recs []result.Record
	_, err := w.run(t.Context(), soakEnv(&recs, nil), job{name: "script", limit: time.Minute, worker: shellWorker{script: "echo 21"}})
	var missing *host.Missing
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "programs of 32 bit") || len(recs) > 0 {
		t.Errorf("%d trials, %v", len(recs), err)
	}
	for _, p := range []Procedure{newCPU(), newHash(), newMemory(), newCodec(), newStream(), newVPN()} {
		assign(t, p.Flags, map[string]string{"userland": "32-bit"})
		if _, err := p.Run(t.Context(), soakEnv(&recs, nil)); !errors.As(err, &missing) || !strings.Contains(err.Error(), "programs of 32 bit") {
			t.Errorf("%T: %v", p, err)
		}
	}
}

// Gateways get the userland's programs and trials its name; the testbed keeps its own.
func TestUserlandEnv(t *testing.T) {
	var recs []result.Record
	env := soakEnv(&recs, nil)
	env.Bed.Gateways = &lab.GatewayPair{Ends: [2]lab.Gateway{{Host: &host.Local{Netns: "left"}}, {Host: &host.Local{Netns: "right"}}}}
	u := newUserland()
	if same := u.env(env, &host.Local{}); same != env {
		t.Error("the machine's own programs change where they run")
	}
	of := &host.Userland{Name: "i386", Root: t.TempDir()}
	in := u.env(env, &host.Local{Userland: of})
	if _, err := in.Trial(t.Context(), []result.Pair{{Key: "trial", Value: "1"}}, func(context.Context) (Outcome, error) { return Outcome{Status: result.Passed}, nil }); err != nil {
		t.Fatal(err)
	}
	if got := result.Get(recs[0].Config, "programs"); got != "i386" {
		t.Errorf("the trial's programs are %q", got)
	}
	for i, g := range in.Bed.Gateways.Ends {
		if g.Host.Userland != of || g.Host.Netns != []string{"left", "right"}[i] || env.Bed.Gateways.Ends[i].Host.Userland != nil {
			t.Errorf("gateway %d: %+v", i, g.Host)
		}
	}
}
