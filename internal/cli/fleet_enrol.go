// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"boxdyno/fleet/hub"
	"boxdyno/host"
	"boxdyno/internal/guard"
	"boxdyno/lab"
	"boxdyno/runner"
)

// An enrolment is what fleet enrol was asked for.
type enrolment struct {
	inventory, agent string
	groups, allow    []string
	atOnce           int
}

func (a *app) fleetEnrol() *cobra.Command {
	var f fleetFlag
	var e enrolment
	cmd := &cobra.Command{
		Use:   "enrol [BOX...]",
		Short: "Bring boxes into the fleet, by ssh",
		Long: `Enrol installs the agent of this version where it is not, has it join the fleet, and
starts it: as a service of systemd with bounded capabilities where it is root's, else in
the background. Boxes are those of boxdyno box ls, or of an Ansible inventory in INI or
YAML, whose groups become the boards'. A box that is in the fleet stays in it, so enrol may
be repeated.`,
		Example: `  boxdyno fleet enrol
  boxdyno fleet enrol pi1 pi2 --group rack1
  boxdyno fleet enrol --inventory hosts.ini`,
		Args: cobra.ArbitraryArgs, ValidArgsFunction: boxNames,
	}
	cmd.RunE = do(func(ctx context.Context, args []string) error {
		if e.atOnce < 1 {
			return &runner.PlanError{At: "--at-once", Err: errors.New("want 1 or more")}
		}
		all, err := e.boxes(args)
		if err != nil {
			return err
		}
		return f.with(func(fl *hub.Fleet) error { return a.enrol(ctx, fl, e, all) })
	})
	f.add(cmd)
	fs := cmd.Flags()
	fs.StringVar(&e.inventory, "inventory", "", "`FILE` of an Ansible inventory, in place of boxdyno box ls")
	fs.StringVar(&e.agent, "agent", "", "`FILE` of the agent, where it is elsewhere")
	fs.StringSliceVar(&e.groups, "group", nil, "`GROUP` that the boards are in, too; more with commas between them")
	fs.StringSliceVar(&e.allow, "allow", nil, "`KINDS` of what the hub may do beside measuring: subjects, tune, services, network, update")
	fs.IntVar(&e.atOnce, "at-once", 16, "`N` boxes that are enrolled side by side")
	return cmd
}

// boxes are those to enrol: all, or those of names or groups.
func (e enrolment) boxes(names []string) (all []lab.Box, err error) {
	if e.inventory != "" {
		if all, err = lab.Inventory(e.inventory); err != nil {
			return nil, &runner.PlanError{At: "--inventory", Err: err}
		}
	} else {
		if all, err = boxes(); err != nil {
			return nil, err
		}
	}
	if len(names) > 0 {
		names = slices.Clone(names)
		for i, n := range names {
			n = strings.TrimPrefix(n, groupPrefix)
			names[i] = n
			if !slices.ContainsFunc(all, func(b lab.Box) bool { return b.Name == n || slices.Contains(b.Groups, n) }) {
				return nil, &runner.PlanError{Err: fmt.Errorf("there is no box %q", n)}
			}
		}
		all = slices.DeleteFunc(all, func(b lab.Box) bool {
			return !slices.Contains(names, b.Name) && !slices.ContainsFunc(b.Groups, func(g string) bool { return slices.Contains(names, g) })
		})
	}
	if len(all) == 0 {
		return nil, &runner.PlanError{Err: errors.New("there are no boxes: add them with boxdyno box add, or name an --inventory")}
	}
	return all, nil
}

// enrol enrols boxes side by side, and prints what became of each.
func (a *app) enrol(ctx context.Context, fl *hub.Fleet, e enrolment, all []lab.Box) error {
	said, errs := make([]string, len(all)), make([]error, len(all))
	var done atomic.Int64
	var group guard.Group
	turn := make(chan struct{}, e.atOnce)
	for i, b := range all {
		group.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			if errs[i] = ctx.Err(); errs[i] != nil {
				return
			}
			if said[i], errs[i] = e.one(ctx, fl, b); errs[i] != nil {
				said[i] = sentence(errs[i])
			}
			if !a.quiet {
				a.note("%d of %d: %s: %s", done.Add(1), len(all), b.Name, said[i])
			}
		})
	}
	group.Wait()
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	failed := 0
	for i, b := range all {
		fmt.Fprintf(w, "%s\t%s\n", b.Name, said[i])
		if errs[i] != nil {
			failed++
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if failed > 0 {
		return &host.Missing{What: fmt.Sprintf("%d of %d boxes in the fleet", failed, len(all)), Hint: "see the lines above, then run the command again"}
	}
	return nil
}

const (
	tokenLasts = 10 * time.Minute
	// appearing is how long a board may take until the hub hears it.
	appearing = 30 * time.Second
)

// one enrols a box, and says how.
func (e enrolment) one(ctx context.Context, fl *hub.Fleet, b lab.Box) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, installing)
	defer cancel()
	if err := b.Find(ctx); err != nil {
		return "", err
	}
	had, err := b.HasAgent(ctx)
	if err != nil {
		return "", err
	}
	if !had {
		file := e.agent
		if file == "" {
			if file, err = lab.AgentFile(b.Arch); err != nil {
				return "", err
			}
		}
		if err := b.Install(ctx, file); err != nil {
			return "", err
		}
	}
	url, tokens, err := fl.Token(ctx, hub.TokenArgs{Names: []string{b.Name}, Groups: append(slices.Clone(b.Groups), e.groups...), SSH: []string{b.SSH}, Lasts: tokenLasts})
	if err != nil {
		return "", err
	}
	joined, err := b.JoinFleet(ctx, url, tokens[0], b.Name, e.allow)
	if err != nil {
		return "", err
	}
	words := strings.Fields(joined)
	if len(words) < 2 {
		return "", fmt.Errorf("the agent on %s said %q where its key was asked for", b.SSH, joined)
	}
	if was, err := e.board(ctx, fl, words[1]); err == nil && had && strings.Contains(joined, "already") && (was.State == "ready" || was.State == "busy") {
		return "was in the fleet already, as " + was.Name, nil
	}
	lasts, err := b.ConnectFleet(ctx)
	if err != nil {
		return "", err
	}
	for begin := time.Now(); ; {
		was, err := e.board(ctx, fl, words[1])
		if err != nil {
			return "", err
		}
		if was.State == "ready" || was.State == "busy" {
			how := "in the background, until it is started anew"
			if lasts {
				how = "as a service"
			}
			return fmt.Sprintf("is in the fleet as %s, %s", was.Name, how), nil
		}
		if time.Since(begin) > appearing {
			return "", &host.Missing{What: fmt.Sprintf("a way from %s to the hub at %s (nothing was heard for %v)", b.SSH, url, appearing), Hint: "see that the board reaches that address, or give the hub another one with --boards"}
		}
		if err := host.Pause(ctx, time.Second); err != nil {
			return "", err
		}
	}
}

// board is the board of a key.
func (enrolment) board(ctx context.Context, fl *hub.Fleet, key string) (hub.Entry, error) {
	all, _, err := fl.List(ctx)
	for _, e := range all {
		if e.Key == key {
			return e, nil
		}
	}
	if err == nil {
		err = fmt.Errorf("the hub knows no board of key %q", key)
	}
	return hub.Entry{}, err
}
