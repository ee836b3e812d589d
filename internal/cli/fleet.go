// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"boxdyno/agent"
	"boxdyno/fleet/hub"
	"boxdyno/host"
	"boxdyno/runner"
)

// fleetFolder is where a hub keeps its keys and boards, unless another is given.
func fleetFolder(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	state, err := userFolder("XDG_STATE_HOME", ".local/state")
	if err != nil {
		return "", fmt.Errorf("find the hub's folder: %w; give --folder", err)
	}
	folder := filepath.Join(state, "boxdyno", "fleet")
	if uid, strange := foreign(folder); strange {
		return "", &runner.PlanError{Err: fmt.Errorf("%s belongs to user %d: make it your own, or give --folder", folder, uid)}
	}
	return folder, nil
}

// A fleetFlag is the hub's folder, as commands of a fleet take it.
type fleetFlag struct{ folder string }

func (f *fleetFlag) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.folder, "folder", "", "`FOLDER` of the hub's keys and boards (default $XDG_STATE_HOME/boxdyno/fleet)")
}

// open reaches the hub.
func (f *fleetFlag) open() (*hub.Fleet, error) {
	folder, err := fleetFolder(f.folder)
	if err != nil {
		return nil, err
	}
	return hub.Open(folder)
}

// with reaches the hub for do.
func (f *fleetFlag) with(do func(*hub.Fleet) error) error {
	fl, err := f.open()
	if err != nil {
		return err
	}
	defer fl.Close()
	return do(fl)
}

// boardNames completes names of boards and groups.
func (f *fleetFlag) boardNames(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
	_ = f.with(func(fl *hub.Fleet) error {
		all, _, err := fl.List(context.Background())
		for _, e := range all {
			names = append(names, e.Name+"\t"+e.State)
			for _, g := range e.Groups {
				if !slices.Contains(names, "group="+g) {
					names = append(names, "group="+g)
				}
			}
		}
		return err
	})
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) fleet() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Measure many boards at once, as one",
		Long: `A fleet is boards that connect to a hub on this machine, or to a NATS server of your
own. They connect outbound only, with TLS and a key that each made itself. A board obeys
what the hub's key has signed for it, and nothing else.`,
		Example: `  boxdyno fleet hub --listen 0.0.0.0:4222
  boxdyno fleet token --group rack1
  boxdyno fleet ls
  boxdyno fleet run crypto --boxes group=rack1 --nodes 1..4`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(a.fleetHub(), a.fleetToken(), a.fleetEnrol(), a.fleetList(), a.fleetCheck(), a.fleetRun(), a.fleetUpdate(), a.fleetRevoke())
	return cmd
}

func (a *app) fleetHub() *cobra.Command {
	var o hub.Options
	var rules bool
	cmd := &cobra.Command{
		Use: "hub", Short: "Run the hub that boards connect to", Args: cobra.NoArgs,
		Long: `Hub runs until it is interrupted. It has a NATS server in itself, or uses another one
(--url), whose configuration then holds what --rules prints. Every board that joins, is
refused, revoked or cut off is a sentence on standard error.`,
		Example: `  boxdyno fleet hub --listen 0.0.0.0:4222 --boards tls://hub.lan:4222
  boxdyno fleet hub --rules
  boxdyno fleet hub --url tls://nats1.lan:4222,tls://nats2.lan:4222 --ca ca.pem`,
		RunE: do(func(ctx context.Context, _ []string) (err error) {
			if o.Folder, err = fleetFolder(o.Folder); err != nil {
				return err
			}
			if rules {
				text, err := hub.Rules(o.Folder, sudoer())
				if err == nil {
					_, err = fmt.Fprint(a.out, text)
				}
				return err
			}
			h, err := a.StartHub(ctx, o)
			if err != nil {
				return err
			}
			a.note("the hub is at %s", h.URL)
			<-ctx.Done()
			h.Close()
			return nil // it has no end of its own
		}),
	}
	fs := cmd.Flags()
	fs.StringVar(&o.Listen, "listen", "127.0.0.1:4222", "`HOST:PORT` that the server listens at; port 0 is any")
	fs.StringVar(&o.URL, "url", "", "`URL` of another NATS server, or several with commas between them")
	fs.StringVar(&o.CA, "ca", "", "`FILE` of the certificate of that server, or of its authority (default: the system's authorities)")
	fs.StringVar(&o.Boards, "boards", "", "`URL` that boards are given (default: this machine's name and the port)")
	fs.StringVar(&o.Folder, "folder", "", "`FOLDER` of the hub's keys and boards (default $XDG_STATE_HOME/boxdyno/fleet)")
	fs.BoolVar(&rules, "rules", false, "print what a NATS server of your own needs in its configuration, and end")
	exclusive(cmd, "listen", "url")
	return cmd
}

// StartHub starts a hub that says on standard error what a person should know.
func (a *app) StartHub(ctx context.Context, o hub.Options) (*hub.Hub, error) {
	o.Note, o.Owner = a.hubNote, sudoer()
	return hub.Start(ctx, o)
}

// hubNote prints what a hub notes. Part of it may be a board's words.
func (a *app) hubNote(s string) { a.note("%s %s", time.Now().Format(time.TimeOnly), cell(s)) }

func (a *app) fleetToken() *cobra.Command {
	var f fleetFlag
	var t hub.TokenArgs
	cmd := &cobra.Command{
		Use: "token [NAME...]", Short: "Let boards join by boxdyno-agent join", Args: cobra.ArbitraryArgs,
		Long: `Token prints a command for each NAME, which lets one board join under it; without one,
under the board's own name. It works once, and for as long as --lasts says.`,
		Example: "  boxdyno fleet token pi1 pi2 --group rack1\n  boxdyno fleet token --lasts 10m",
		RunE: do(func(ctx context.Context, args []string) error {
			t.Names = args
			return f.with(func(fl *hub.Fleet) error {
				url, tokens, err := fl.Token(ctx, t)
				for _, token := range tokens {
					fmt.Fprintf(a.out, "boxdyno-agent join %s %s\n", url, token)
				}
				return err
			})
		}),
	}
	f.add(cmd)
	cmd.Flags().StringSliceVar(&t.Groups, "group", nil, "`GROUP` that the boards are in; more with commas between them")
	cmd.Flags().DurationVar(&t.Lasts, "lasts", time.Hour, "`time` after which the token does not count")
	return cmd
}

func (a *app) fleetList() *cobra.Command {
	var f fleetFlag
	var json bool
	cmd := &cobra.Command{
		Use: "ls", Short: "List the fleet's boards", Args: cobra.NoArgs,
		Long: `Ls prints a line a board: its name, state, version, how far its clock is from the hub's
and how well that is known, when it was heard last, its groups, and the last sentence on
it. Clients that were refused follow. States: ready, busy, silent (nothing was heard for
8 s), new (joined, not seen), cut off, revoked.`,
		Example: "  boxdyno fleet ls --json",
		RunE: do(func(ctx context.Context, _ []string) error {
			return f.with(func(fl *hub.Fleet) error {
				all, strange, err := fl.List(ctx)
				if err != nil {
					return err
				}
				if json {
					return encode(a.out, struct {
						Boards    []hub.Entry    `json:"boards"`
						Strangers []hub.Stranger `json:"strangers"`
					}{append([]hub.Entry{}, all...), append([]hub.Stranger{}, strange...)})
				}
				return a.printBoards(all, strange, time.Now())
			})
		}),
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&json, "json", false, "print one JSON document instead of text")
	return cmd
}

func (a *app) printBoards(all []hub.Entry, strange []hub.Stranger, now time.Time) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tSTATE\tVERSION\tARCH\tCLOCK\tSEEN\tGROUPS\tLAST")
	for _, e := range all {
		clock, seen := "-", "-"
		if e.ClockError > 0 {
			clock = fmt.Sprintf("%+v, at most %v off", e.Clock.Round(10*time.Microsecond), e.ClockError.Round(10*time.Microsecond))
		}
		if !e.Seen.IsZero() {
			seen = now.Sub(e.Seen).Round(time.Second).String() + " ago"
		}
		row(w, e.Name, e.State, cmp.Or(e.Version, "-"), cmp.Or(e.Arch, "-"), clock, seen, cmp.Or(strings.Join(e.Groups, ","), "-"), cmp.Or(e.Why, "-"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, s := range strange {
		fmt.Fprintf(a.out, "refused: a client from %s, %d times, last at %s: %s\n", cell(s.From), s.Times, s.Last.Format(time.DateTime), cell(s.Why))
	}
	return nil
}

func (a *app) fleetCheck() *cobra.Command {
	var f fleetFlag
	cmd := &cobra.Command{
		Use: "check BOARD...", Short: "Ask boards what they are and what they may do", Args: needs("BOARD...", "names, group=NAME, or all"),
		Example: "  boxdyno fleet check all\n  boxdyno fleet check group=rack1",
	}
	cmd.ValidArgsFunction = f.boardNames
	cmd.RunE = do(func(ctx context.Context, args []string) error {
		return f.with(func(fl *hub.Fleet) error {
			s, err := newShelf(ctx, fl, args)
			if err != nil {
				return err
			}
			lines, errs := make([]string, len(s.names)), make([]error, len(s.names))
			s.each(func(i int, name string) { lines[i], errs[i] = s.look(ctx, name) })
			for i, name := range s.names {
				if errs[i] != nil {
					lines[i] = fmt.Sprintf("%s: %s", name, sentence(errs[i]))
				}
				fmt.Fprintln(a.out, lines[i])
			}
			if err := errors.Join(errs...); err != nil {
				return &host.Missing{What: "all of these boards as they should be", Hint: "see the lines above"}
			}
			return ctx.Err()
		})
	})
	f.add(cmd)
	return cmd
}

// look is a line on a board that answers.
func (s *shelf) look(ctx context.Context, name string) (string, error) {
	c, err := s.reach(ctx, name)
	if err != nil {
		return "", err
	}
	id, err := agent.Identify.Call(ctx, c, agent.IdentifyArgs{})
	if err != nil {
		return "", err
	}
	checked, err := agent.Check.Call(ctx, c, agent.None{})
	if err != nil {
		return "", err
	}
	clock, err := c.Clock(ctx, 8)
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("%s: %s, %d CPUs, Linux %s, agent %s, %v a round trip", name, cell(cmp.Or(id.Machine.Board, id.Machine.CPU)), id.Machine.CPUs, cell(id.Machine.Kernel), cell(c.Hello.Version), (2 * clock.Error).Round(time.Microsecond))
	for _, m := range checked.Missing {
		text += "\n  " + cell(m)
	}
	return text, nil
}

func (a *app) fleetRevoke() *cobra.Command {
	var f fleetFlag
	cmd := &cobra.Command{
		Use: "revoke BOARD...", Short: "Take boards out of the fleet, at once", Args: needs("BOARD...", "see boxdyno fleet ls"),
		Long: `Revoke ends the board's connection and what it does for the fleet, in the midst of a
run, too. Its key is not taken again.`,
		Example: "  boxdyno fleet revoke pi3",
	}
	cmd.ValidArgsFunction = f.boardNames
	cmd.RunE = do(func(ctx context.Context, args []string) error {
		return f.with(func(fl *hub.Fleet) error {
			for _, name := range args {
				if err := fl.Revoke(ctx, name); err != nil {
					return &runner.PlanError{Err: err}
				}
			}
			return nil
		})
	})
	f.add(cmd)
	return cmd
}
