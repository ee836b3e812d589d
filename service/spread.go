// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"fmt"
	"strings"

	"boxdyno/host"
	"boxdyno/tune"
)

// A spread is how a port's flows come to all CPUs of the machine.
type spread struct {
	port   string
	queues string // value of knob channels; "": it has one queue
	n      int    // of them
	rps    bool   // the kernel deals flows, too, for queues alone do not reach every CPU
}

// A spreading has flows that ports of a namespace receive go to all CPUs of the machine, or
// leaves the ports as they were found.
type spreading struct {
	netns string
	names []string      // of the ports
	dealt *tune.Applied // nil: they are as they were found
}

// plan plans it: as many queues as there are CPUs, and RPS where the port has fewer, or does
// not deal flows itself.
func (g *spreading) plan() (plan []spread, cpus int, err error) {
	allowed, err := host.AllowedCPUs()
	if err != nil {
		return nil, 0, err
	}
	for _, p := range g.names {
		q, err := host.Port{Netns: g.netns, Name: p}.Queues()
		if err != nil {
			return nil, 0, err
		}
		s := spread{port: p, n: min(q.Most, len(allowed))}
		s.rps = s.n < len(allowed) || !q.RSS
		switch {
		case s.n == 1:
		case q.Combined:
			s.queues = fmt.Sprintf("combined=%d", s.n)
		default:
			s.queues = fmt.Sprintf("rx=%d", s.n)
		}
		plan = append(plan, s)
	}
	return plan, len(allowed), nil
}

// AllCPUs is how flows would come to all CPUs, in words: "4 CPUs: eth0 by 4 queues, eth1 by RPS".
func (g *spreading) AllCPUs() (string, error) {
	plan, cpus, err := g.plan()
	if err != nil {
		return "", err
	}
	var ways []string
	for _, s := range plan {
		var by []string
		if s.queues != "" {
			by = append(by, fmt.Sprintf("%d queues", s.n))
		}
		if s.rps {
			by = append(by, "RPS")
		}
		ways = append(ways, s.port+" by "+strings.Join(by, " and "))
	}
	return cpuText(cpus) + ": " + strings.Join(ways, ", "), nil
}

func cpuText(n int) string {
	if n == 1 {
		return "1 CPU"
	}
	return fmt.Sprintf("%d CPUs", n)
}

// spread has flows go to all CPUs, or leaves the ports as they were found. It changes what
// differs alone, for most drivers reset a port whose queues change.
func (g *spreading) spread(ctx context.Context, all bool) error {
	if all == (g.dealt != nil) {
		return nil
	}
	if !all {
		_, err := g.dealt.Revert(ctx, tune.Revert{})
		g.dealt = nil
		return err
	}
	plan, _, err := g.plan()
	if err != nil {
		return err
	}
	r := tune.Recipe{Name: "all-cpus"}
	for _, s := range plan {
		if s.queues != "" {
			r.Steps = append(r.Steps, tune.Step{Knob: "channels", Target: s.port, Value: s.queues})
		}
		if s.rps {
			r.Steps = append(r.Steps, tune.Step{Knob: "rps", Target: s.port, Value: "all"})
		}
	}
	applied, settings, err := tune.New().Apply(ctx, r, tune.On{Host: &host.Local{Netns: g.netns}, Ports: g.names}, tune.Options{By: "service"})
	if err != nil {
		return err
	}
	g.dealt = applied
	for _, s := range settings {
		if s.Problem != "" {
			return fmt.Errorf("spread flows over all CPUs: %s of %s: %s", s.Knob, s.Target, s.Problem)
		}
	}
	return nil
}
