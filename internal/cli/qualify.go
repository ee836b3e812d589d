// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"boxdyno/result"
	"boxdyno/runner"
	"boxdyno/unit"
)

func (a *app) qualify() *cobra.Command {
	var f measureFlags
	var linkRate string
	cmd := &cobra.Command{
		Use:   "qualify ROLE",
		Short: "Measure a box in its role and judge it",
		Long: `Qualify measures what a role asks for and holds the box against the role's
criteria; the exit code says how it ended. The text report goes to standard
output, a page is written beside the run. ROLE is one of boxdyno list roles, or a
file of your own like those in runner/roles.

Criteria that speak of the link's rate ask for 1 Gbit/s; --link-rate asks for
another one. Of role firewall it changes what is asked, not what is measured. To
keep the tester itself below a rate, use --set link_rate=100Mbps. Role probe measures at that rate. Of software that is compared,
what is not installed is left out, and named.

Exit codes:
` + exitCodes,
		Example: `  sudo boxdyno qualify firewall --quick
  sudo boxdyno qualify firewall --quick --link-rate 100Mbps --report box.html
  sudo boxdyno qualify probe-100m --quick
  boxdyno qualify firewall --standard --dry-run`,
		Args: needs("ROLE", "see boxdyno list roles"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			roles, _ := runner.Roles()
			var names []string
			for _, r := range roles {
				names = append(names, r.Name+"\t"+r.Description)
				for _, n := range r.Also {
					names = append(names, n.Name+"\t"+r.Description)
				}
			}
			return names, cobra.ShellCompDirectiveDefault
		},
		RunE: do(func(ctx context.Context, args []string) error {
			return a.onBoxes(ctx, f, func(f measureFlags) error { return a.qualifyBox(ctx, args[0], linkRate, f) })
		}),
	}
	f.add(a, cmd)
	f.addTune(cmd)
	cmd.Flags().StringVar(&linkRate, "link-rate", "", "bit `rate` that the criteria ask for (default the role's)")
	cmd.Flags().StringVar(&f.report, "report", "", "`FILE.html` for the page (default report.html in the run's folder)")
	return cmd
}

// linkRateOf is the value of --link-rate: with a unit, since 1000 alone is meant as Mbit/s
// and would be read as bit/s.
func linkRateOf(s string) (unit.BitRate, error) {
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return 0, fmt.Errorf("bit rate %q has no unit: write %sMbps for %s Mbit/s", s, s, s)
	}
	return unit.ParseBitRate(s)
}

// qualifyBox measures a box, or this machine, in a role.
func (a *app) qualifyBox(ctx context.Context, name, linkRate string, f measureFlags) error {
	role, err := runner.FindRole(name)
	if err != nil {
		return err
	}
	if strings.ContainsAny(name, "./") {
		f.source = name
	}
	if linkRate != "" {
		if role.LinkRate, err = linkRateOf(linkRate); err != nil {
			return &runner.PlanError{At: "--link-rate", Err: err}
		}
	}
	preset := runner.DefaultPreset
	if f.standard {
		preset = "standard"
	}
	p, notMeasured, deviations, err := role.Plan(preset)
	if err != nil {
		return err
	}
	if n, err := strconv.Atoi(f.repeat); err == nil { // the role's time is for one pass
		p.Budget *= time.Duration(n)
	}
	p, missing := p.Installed(ctx)
	notMeasured = append(notMeasured, missing...)
	return a.begin(ctx, p, role.Name, f, result.Run{
		Role: role.Name, Criteria: role.Criteria(preset), NotMeasured: notMeasured, Deviations: deviations,
	})
}
