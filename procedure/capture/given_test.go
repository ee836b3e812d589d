// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"flag"
	"testing"
	"time"

	"boxdyno/engine"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/subject/catalog"
	"boxdyno/unit"
)

// An invalid trial is replaced, but not one that others carry out together.
func TestInvalidTrialIsReplaced(t *testing.T) {
	for _, c := range []struct {
		together bool
		want     int
	}{{false, mostAt}, {true, 1}} {
		trials := 0
		m := &capturePoint{Capture: newGivenOf(catalog.Captures), env: &procedure.Env{Bed: &lab.Testbed{}}}
		m.env.Trial = func(context.Context, []result.Pair, func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
			trials++
			return result.Record{Status: result.Invalid}, nil
		}
		if c.together {
			m.env.Together = func(context.Context) (unit.Instant, error) { return 0, nil }
		}
		if err := m.at(t.Context(), "rate", engine.Load{Rate: 1, Count: 1}); err != nil || trials != c.want || m.out.Status != result.Invalid {
			t.Errorf("together %v: %d trials, %s, %v", c.together, trials, m.out.Status, err)
		}
	}
}

// The one trial is asked to be as long as its frames take, or as the preset has it.
func TestGivenShortest(t *testing.T) {
	for packets, want := range map[string]time.Duration{"0": time.Second, "50": 50 * time.Millisecond} {
		p := newGiven().(*given)
		fs := flag.NewFlagSet("", flag.ContinueOnError)
		p.Flags(fs)
		for name, value := range map[string]string{"rate": "1k", "packets": packets} {
			if err := fs.Set(name, value); err != nil {
				t.Fatal(err)
			}
		}
		if got := p.Shortest(); got != want {
			t.Errorf("%s packets: %v, want %v", packets, got, want)
		}
	}
}
