// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"boxdyno/lab"
	"boxdyno/procedure/internal/trial"
)

// halfSpread are gateways one of which fails after the other is spread.
type halfSpread struct {
	fails  error
	spread bool
}

func (h *halfSpread) Serve(_ context.Context, s lab.Service) error {
	h.spread = s.AllCPUs
	if s.AllCPUs {
		return h.fails
	}
	return nil
}

// Gateways that could not all be spread are put back, and so are those that something before a
// point of one CPU has left spread.
func TestSpreadIsTakenBack(t *testing.T) {
	fails := errors.New("the second box is busy")
	h := &halfSpread{fails: fails}
	bed := &lab.Testbed{Facts: lab.Facts{FarCPUs: 4, Spreads: true}, Means: h}
	if _, _, err := spread(t.Context(), bed, trial.AllCPUs, flowsOf(1)); !errors.Is(err, fails) || h.spread {
		t.Errorf("%v; spread: %v", err, h.spread)
	}
	h.spread = true
	if leave, _, err := spread(t.Context(), bed, "1", flowsOf(1)); err != nil || h.spread || leave() != nil {
		t.Errorf("%v; spread: %v", err, h.spread)
	}
	h.fails = nil
	leave, _, err := spread(t.Context(), bed, trial.AllCPUs, flowsOf(1))
	if err != nil || !h.spread || leave() != nil || h.spread {
		t.Errorf("%v; spread: %v", err, h.spread)
	}
}

// A stream of few connections says that they do not use all CPUs, and how many do.
func TestSpreadNeedsFlows(t *testing.T) {
	for _, c := range []struct {
		cpus  int
		flows trial.Flows
		said  []string
	}{
		{4, flowsOf(1), []string{"dut_cpus=all: one flow uses one of 4 CPUs: give connections=32 or more"}},
		{4, flowsOf(31), []string{"dut_cpus=all: 31 flows spread unevenly over 4 CPUs: give connections=32 or more"}},
		{4, flowsOf(32), nil},
		{64, flowsOf(mostConnections - 1), []string{"dut_cpus=all: 127 flows spread unevenly over 64 CPUs: give connections=128 or more"}},
		{64, flowsOf(mostConnections), nil},
		{4, trial.Flows{N: 1}, []string{"dut_cpus=all: one flow uses one of 4 CPUs"}},
	} {
		bed := &lab.Testbed{Facts: lab.Facts{FarCPUs: c.cpus, Spreads: true}}
		if _, few, err := spread(t.Context(), bed, trial.AllCPUs, c.flows); err != nil || !slices.Equal(few, c.said) {
			t.Errorf("%d CPUs, %+v: %v, %q", c.cpus, c.flows, err, strings.Join(few, "; "))
		}
	}
}
