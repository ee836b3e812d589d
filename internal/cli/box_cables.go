// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"boxdyno/host"
	"boxdyno/internal/cables"
	"boxdyno/lab"
	"boxdyno/link"
)

func (a *app) boxCables() *cobra.Command {
	var asJSON, dry bool
	var netns string
	cmd := &cobra.Command{
		Use: "cables NAME", Short: "Find the cables between this machine and a box, and remember them", Args: needs("NAME", "see boxdyno box ls"),
		Long: `Cables sends marked frames (EtherType 0x88b5) from the free ports of this machine, and
the agent says where each came in; then the other way round. Not used are ports with
an address (but those for benchmarks), a route, a bridge, a capture, or your own or
the agent's connection. Ports that are down are set up meanwhile. The first two
cables found are kept for --box. It needs root here and there.`,
		Example: `  sudo boxdyno box cables pi5
  sudo boxdyno box cables pi5 --dry-run --json`,
		ValidArgsFunction: boxNames,
		RunE: do(func(ctx context.Context, args []string) error {
			b, err := findBox(args[0])
			if err != nil {
				return err
			}
			unlock, err := a.measuringLock(ctx)
			if err != nil {
				return err
			}
			defer unlock()
			var found cables.Found
			err = withBox(ctx, b.Name, false, func(c *link.Conn) (err error) {
				found, err = b.FindCables(ctx, c, netns, dry)
				return err
			})
			if err != nil {
				return err
			}
			if len(found.Cables) > 0 {
				b.Keep(found.Cables)
				if err := editBoxes(changing(b.Name, func(x *lab.Box) { x.Cables = b.Cables })); err != nil {
					return err
				}
			}
			return a.showCables(b, found, asJSON, dry)
		}),
	}
	fs := cmd.Flags()
	fs.StringVar(&netns, "netns", "", "`PATH` of the network namespace that this machine's ports are in (default: this one)")
	fs.BoolVar(&dry, "dry-run", false, "print the ports that would be tried, and send nothing")
	fs.BoolVar(&asJSON, "json", false, "print one JSON document instead of text")
	return cmd
}

// showCables prints what was found. No cable at all is exit code 3.
func (a *app) showCables(b lab.Box, found cables.Found, asJSON, dry bool) error {
	if asJSON {
		doc := struct {
			Box  string   `json:"box"`
			Kept []string `json:"kept"` // by boxes.yaml
			cables.Found
		}{b.Name, append([]string{}, b.Cables...), found}
		if err := encode(a.out, doc); err != nil {
			return err
		}
	} else {
		w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
		for _, c := range found.Cables {
			link := ""
			if i := slices.IndexFunc(found.Here, func(p cables.Port) bool { return p.Name == c.Here }); i >= 0 {
				link = found.Here[i].Link
			}
			fmt.Fprintf(w, "%v\t%s\n", c, link)
		}
		for _, side := range []struct {
			name  string
			ports []cables.Port
		}{{"this machine", found.Here}, {b.Name, found.There}} {
			for _, p := range side.ports {
				if dry {
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", side.name, p.Name, p.Link, p.State())
				}
			}
		}
		if err := w.Flush(); err != nil {
			return err
		}
		for _, f := range found.Faults {
			fmt.Fprintln(a.out, f)
		}
	}
	switch {
	case dry:
		return nil
	case len(found.Cables) == 0:
		return &host.Missing{What: "a cable between this machine and " + b.Name, Hint: "see the ports above: a cable needs a free port at both ends; or name the ports with boxdyno box add " + b.Name + " --cable PORT=PORT"}
	}
	a.note("%s: kept %s", b.Name, strings.Join(b.Cables, ", "))
	return nil
}
