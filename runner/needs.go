// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"cmp"
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
	facts, err := t.Sketch()
	var missing *host.Missing
	if err != nil && !errors.As(err, &missing) {
		return nil, &PlanError{At: e.at, Err: fmt.Errorf("topology %s: %w", e.Use, err)}
	}
	return &lab.Testbed{Facts: facts}, err
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

// Offered leaves out of a resolved plan what its topologies cannot do, and says why: one
// sentence for each procedure and service. A box that does what it was configured for is
// measured with the first service that the plan names. Where nothing would be left, the plan
// stays as it is, so that it is refused with the reason.
func (p Plan) Offered(c Catalogue) (_ Plan, left []string, err error) {
	var kept []Entry
	first := ""
	for _, e := range p.Procedures {
		services := []Word{{}}
		if s := e.Get("service"); s != nil {
			services = s.Values
		}
		var here []Word
		for _, w := range services {
			why, err := p.lacking(c, e.serving(w), w.Text != "" && w.Text != cmp.Or(first, w.Text))
			switch {
			case err != nil:
				return p, nil, err
			case why == "":
				here, first = append(here, w), cmp.Or(first, w.Text)
			case !slices.Contains(left, why):
				left = append(left, why)
			}
		}
		if len(here) > 0 {
			kept = append(kept, e.serving(here...))
		}
	}
	if len(kept) == 0 {
		return p, nil, nil
	}
	p.Procedures = kept
	return p, left, nil
}

// serving is e with these services; one without a name is no service.
func (e Entry) serving(services ...Word) Entry {
	if s := e.Get("service"); s != nil {
		with := *s
		with.Values = services
		e.Set = slices.Clone(e.Set)
		e.put(with)
	}
	return e
}

// lacking says in a sentence what e's topology has not that e needs; "" if it has all.
// another is set where e asks for another service than those before it.
func (p Plan) lacking(c Catalogue, e Entry, another bool) (string, error) {
	p.Procedures = []Entry{e}
	points, err := p.Points(c)
	if err != nil {
		return "", err
	}
	pt := points[0]
	proc, err := pt.procedure(c)
	if err != nil {
		return "", err
	}
	spec, err := c.procedure(pt.Procedure, pt.at)
	if err != nil {
		return "", err
	}
	bed, err := c.sketch(pt.lab)
	if err != nil {
		return "", err
	}
	var refused *PlanError
	err = c.runsOn(pt, spec, proc)
	if err == nil {
		err = served(pt, proc, bed)
	}
	if errors.As(err, &refused) {
		return refused.Err.Error(), nil
	}
	if another && bed.AsIs {
		_, service := needs(spec, proc)
		return fmt.Sprintf("%s with service %s: the box of topology %s is measured as it is configured", pt.Procedure, service, bed.Topology), nil
	}
	return "", err
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
