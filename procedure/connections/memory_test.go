// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"boxdyno/procedure"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/result"
)

// The trial that confirms a limit is longer than all of the search without a failure.
func TestConnectionsAreConfirmedForLonger(t *testing.T) {
	box := roomtest.Swallower{Rate: 200, Memory: 0, Ceiling: 4000} // the slower, the longer are the trials of a search
	env := box.Env()
	trial, clean, confirmed := env.Trial, time.Duration(0), time.Duration(0)
	env.Trial = func(ctx context.Context, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		r, err := trial(ctx, cfg, f)
		d, _ := time.ParseDuration(result.Get(cfg, "duration"))
		switch kind := result.Get(cfg, "trial"); {
		case kind == "limit":
			confirmed = d
		case kind == "search" && r.Status == result.Passed:
			clean = max(clean, d)
		}
		return r, err
	}
	m := &connPoint{Connections: newConnections().(*Connections), env: env, effort: connEffortOf("quick"), ceiling: box.Ceiling, out: procedure.Outcome{Status: result.Passed}}
	if err := m.highest(t.Context()); err != nil {
		t.Fatal(err)
	}
	if clean <= m.effort.trial || confirmed <= clean {
		t.Errorf("confirmed in %v, and a trial of the search was clean for %v", confirmed, clean)
	}
}

// Connections a second are those that a box takes without end, whatever its buckets and
// queues swallow at first.
func TestConnectionsBeyondMemory(t *testing.T) {
	for _, rate := range []float64{2e3, 20e3, 150e3} {
		for _, seconds := range []float64{0, 0.001, 0.01, 0.1, 0.25} {
			t.Run(fmt.Sprintf("%v with %v s", rate, seconds), func(t *testing.T) {
				box := roomtest.Swallower{Rate: rate, Memory: rate * seconds, Ceiling: 400e3}
				m := &connPoint{Connections: newConnections().(*Connections), env: box.Env(), effort: connEffortOf("quick"), ceiling: box.Ceiling, out: procedure.Outcome{Status: result.Passed}}
				if err := m.highest(t.Context()); err != nil {
					t.Fatal(err)
				}
				v := roomtest.Figure(t, m.out, "connections_cps")
				if math.Abs(v.Value/rate-1) > 0.01 || v.Hi == nil || *v.Hi < rate*0.999 {
					t.Errorf("found %v to %v: %v", v.Value, v.Hi, m.out.Warnings)
				}
				if told := strings.Contains(strings.Join(m.out.Warnings, ";"), "bursts of"); told && seconds == 0 || !told && seconds >= 0.01 {
					t.Errorf("memory of %v s: %v", seconds, m.out.Warnings)
				}
			})
		}
	}
}
