// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"boxdyno/ledger"
	"boxdyno/runner"
)

// counters lists the ledger's dictionary of ports: of every port, and of one driver
// or all.
func (a *app) counters(driver string, asJSON bool) error {
	all := ledger.Drivers()
	if driver != "" {
		at := slices.IndexFunc(all, func(d ledger.Driver) bool { return slices.Contains(d.Names, driver) })
		if at < 0 {
			var names []string
			for _, d := range all[1:] {
				names = append(names, d.Names...)
			}
			return &runner.PlanError{Err: fmt.Errorf("--driver: %s is not in the dictionary, so that only what every port counts is used; there are %s", driver, strings.Join(names, ", "))}
		}
		all = []ledger.Driver{all[0], all[at]}
	}
	if asJSON {
		return encode(a.out, all)
	}
	for i, d := range all {
		if i > 0 {
			fmt.Fprintln(a.out)
		}
		fmt.Fprintln(a.out, strings.Join(d.Names, ", "))
		if d.Note != "" {
			fmt.Fprintln(a.out, "  "+d.Note)
		}
		w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
		for _, c := range d.Counters {
			what := c.Name
			switch {
			case c.In != "":
				what = "counted by " + c.In
			case c.Name == "":
				what = "not used"
			}
			if c.Name != "" {
				what = cmp.Or(string(c.Place), "the port's") + ": " + what
			}
			if c.Use == "checkpoint" {
				what += " (a checkpoint)"
			}
			if c.Why != "" {
				what += ": " + c.Why
			}
			fmt.Fprintf(w, "  %s\t%s\n", c.Counter, what)
		}
		if err := w.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(a.out, "  Read from "+d.Source+".")
	}
	return nil
}
