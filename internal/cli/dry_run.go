// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"boxdyno/runner"
)

// A dryRun is what --dry-run --json prints.
type dryRun struct {
	Plan    runner.Plan `json:"plan"`
	Points  []dryPoint  `json:"points"`
	Trials  int         `json:"trials"`
	Seconds float64     `json:"seconds"`
}

type dryPoint struct {
	ID      string  `json:"id"`
	Trials  int     `json:"trials"`
	Seconds float64 `json:"seconds"`
}

func (a *app) dryRun(p runner.Plan, points []runner.Point, asJSON bool) error {
	d := dryRun{Plan: p}
	var total time.Duration
	costs, err := runner.Costs(a.plugins, points, nil)
	if err != nil {
		return err
	}
	for i, e := range costs {
		d.Points = append(d.Points, dryPoint{points[i].ID, e.Trials, e.Time.Seconds()})
		d.Trials += e.Trials
		total += e.Time
	}
	d.Seconds = total.Seconds()
	if asJSON {
		return encode(a.out, d)
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "trials\tabout\t  point")
	for _, pt := range d.Points {
		fmt.Fprintf(w, "%d\t%s\t  %s\n", pt.Trials, about(time.Duration(pt.Seconds*1e9)), pt.ID)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	limit := ""
	if p.Budget > 0 && total > p.Budget {
		limit = ", of which the budget has room for " + about(p.Budget)
	}
	_, err = fmt.Fprintf(a.out, "\n%s, about %d trials and %s%s, in topology %s, preset %s, seed %d\n",
		plural(len(d.Points), "point"), d.Trials, about(total), limit, strings.Join(p.Labs(), ", "), p.PresetsUsed(), p.Seed)
	return err
}

func plural[N int | uint64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// about is a duration as people say it.
func about(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.1f h", d.Hours())
}
