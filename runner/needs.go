// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"fmt"
	"slices"
	"strings"

	"boxdyno/lab"
	"boxdyno/procedure"
)

// runsOn refuses a point whose topology does not offer what its procedure needs, and says
// which topologies do. It needs no testbed.
func (c Catalogue) runsOn(pt Point, spec procedure.Spec, p procedure.Procedure) error {
	need, service := spec.Needs, ""
	if n, ok := p.(procedure.Needing); ok {
		more, s := n.Needs()
		need, service = need|more, s
	}
	return c.offered(pt.topology, pt.at, pt.Procedure, need, service)
}

// TuneRunsOn refuses a recipe for a plan with a topology whose DUT is not this machine's.
func (p Plan) TuneRunsOn(c Catalogue) error {
	for _, e := range p.Procedures {
		name := e.Lab
		if name == "" {
			name = p.labName(c)
		}
		if err := c.offered(name, "--tune", "tuning", lab.Tunable, ""); err != nil {
			return err
		}
	}
	return nil
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
	var others []string
	for _, s := range c.Labs {
		if lacks(s, need, service) == "" {
			others = append(others, s.Name)
		}
	}
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
