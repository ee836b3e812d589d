// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/tune"
)

// sketch is what would be built for e; a parameter of which nothing can be built is a
// *PlanError.
func (c Catalogue) sketch(e Entry) (*lab.Testbed, error) {
	t, err := c.topology(e)
	if err != nil {
		return nil, err
	}
	bed, err := t.Sketch()
	var missing *host.Missing
	if err != nil && !errors.As(err, &missing) {
		return nil, &PlanError{At: e.at, Err: fmt.Errorf("topology %s: %w", e.Use, err)}
	}
	return bed, err
}

// needs are those of a point, and the service that it asks for.
func needs(spec procedure.Spec, p procedure.Procedure) (need lab.Capability, service string) {
	need = spec.Needs
	if n, ok := p.(procedure.Needing); ok {
		var more lab.Capability
		more, service = n.Needs()
		need |= more
	}
	return need, service
}

// runsOn refuses a point whose topology does not offer what its procedure needs, and says
// which topologies do.
func (c Catalogue) runsOn(pt Point, spec procedure.Spec, p procedure.Procedure) error {
	need, service := needs(spec, p)
	return c.offered(pt.lab.Use, pt.at, pt.Procedure, need, service)
}

// served refuses a service that the topology's parameters leave out.
func served(pt Point, p procedure.Procedure, bed *lab.Testbed) error {
	n, ok := p.(procedure.Needing)
	if !ok {
		return nil
	}
	if _, service := n.Needs(); service != "" && !slices.Contains(bed.Services, service) {
		has := "none as it is set up: give it two ports"
		if len(bed.Services) > 0 {
			has = strings.Join(bed.Services, ", ")
		}
		return planErrorf(pt.at, "%s: service %s: topology %s has %s", pt.Procedure, service, bed.Topology, has)
	}
	return nil
}

// TuneRunsOn refuses a recipe for a plan with a topology whose DUT is not this machine's,
// or has not the ports that the recipe names; given is what asked for it.
func (p Plan) TuneRunsOn(c Catalogue, r tune.Recipe, given string) error {
	for _, e := range p.Procedures {
		at := p.labOf(e, c)
		if err := c.offered(at.Use, given, "tuning", lab.Tunable, ""); err != nil {
			return err
		}
		bed, err := c.sketch(at)
		if err != nil {
			return err
		}
		for _, name := range r.Ports() {
			if !slices.Contains(bed.DUTPorts, name) {
				return planErrorf(given, "recipe %s sets %s, which the DUT of topology %s has not: its ports are %s", r.Name, name, at.Use, strings.Join(bed.DUTPorts, ", "))
			}
		}
	}
	return nil
}

// RunsIn names the topologies that a procedure runs in as it is by default.
func (c Catalogue) RunsIn(spec procedure.Spec) []string {
	return c.offering(needs(spec, spec.New()))
}

func (c Catalogue) offering(need lab.Capability, service string) (names []string) {
	for _, s := range c.Labs {
		if lacks(s, need, service) == "" {
			names = append(names, s.Name)
		}
	}
	return names
}

func (c Catalogue) offered(name, at, what string, need lab.Capability, service string) error {
	has, err := c.lab(name, at)
	if err != nil {
		return err
	}
	lacking := lacks(has, need, service)
	if lacking == "" {
		return nil
	}
	others := c.offering(need, service)
	hint := "no topology has all that it needs"
	if len(others) > 0 {
		hint = "use --lab " + strings.Join(others, ", or ")
	}
	return planErrorf(at, "%s needs %s, and topology %s has none: %s", what, lacking, name, hint)
}

// lacks names the first thing that a topology does not offer; "" if it offers all.
func lacks(s lab.Spec, need lab.Capability, service string) string {
	for _, c := range lab.Capabilities {
		if need&c.Of != 0 && s.Offers&c.Of == 0 {
			return c.Name
		}
	}
	if service != "" && !slices.Contains(s.Services, service) {
		return fmt.Sprintf("service %s", service)
	}
	return ""
}
