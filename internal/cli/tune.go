// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"boxdyno/host"
	"boxdyno/internal/files"
	"boxdyno/result"
	"boxdyno/runner"
	"boxdyno/tune"
)

// tuneFlags are those that show, apply and export share.
type tuneFlags struct {
	ports []string
	netns string
	box   string // "": this machine
	json  bool
}

func (f *tuneFlags) add(a *app, cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.ports, "port", nil, "`interface` that {port} in the recipe stands for; may be given again")
	cmd.Flags().StringVar(&f.netns, "netns", "", "network `namespace` of the ports: its name, or a path")
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON")
	cmd.ValidArgsFunction = a.completing(cobra.ShellCompDirectiveDefault, "recipes")
}

// recipe finds what is to be applied, and to what.
func (f *tuneFlags) recipe(name string) (r tune.Recipe, on tune.On, err error) {
	if r, err = tune.FindRecipe(name); err != nil {
		return r, on, &runner.PlanError{Err: err}
	}
	if err := f.onBox(); err != nil {
		return r, on, err
	}
	for _, s := range r.Steps {
		if s.Target == tune.ForPorts && len(f.ports) == 0 {
			return r, on, &runner.PlanError{Err: fmt.Errorf("recipe %s sets %s of ports: say which with --port", r.Name, s.Knob)}
		}
	}
	path := f.netns
	if path != "" && !strings.Contains(path, "/") {
		path = "/run/netns/" + path
	}
	return r, tune.On{Host: &host.Local{Netns: path}, Ports: f.ports}, nil
}

// tuning is the recipe of run --tune; nil: none.
func tuning(name string) (*tune.Recipe, error) {
	if name == "" {
		return nil, nil
	}
	r, err := tune.FindRecipe(name)
	if err != nil {
		return nil, &runner.PlanError{At: "--tune", Err: err}
	}
	return &r, nil
}

const recipeNeed = "see boxdyno list recipes, or give a file"

func (a *app) tune() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tune",
		Short: "Change settings by a recipe, and put them back",
		Long: `Tune turns knobs: rings, offloads, queues, buffers, the CPUs' clocks. A recipe is an
ordered list of them (boxdyno list recipes, boxdyno list knobs, or a YAML file of
your own). Before a knob is turned its old value is written to a journal on the disk.
Revert, or after a crash the next command, puts every value back.`,
		Example: `  boxdyno tune show sensor-pi5 --port eth0
  sudo boxdyno tune apply sensor-pi5 --port eth0
  boxdyno tune status
  sudo boxdyno tune revert
  sudo boxdyno tune ablate sensor-pi5 --procedure forward`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.tuneShow(), a.tuneApply(), a.tuneRevert(), a.tuneStatus(), a.tuneExport(), a.tuneAblate())
	return cmd
}

func (a *app) tuneShow() *cobra.Command {
	var f tuneFlags
	cmd := &cobra.Command{
		Use: "show RECIPE", Short: "Say what a recipe would change, and why", Args: needs("RECIPE", recipeNeed),
		Long:    "Show reads every setting of a recipe and says what it would become, why, and by whose\nadvice. It changes nothing.",
		Example: "  boxdyno tune show sensor-pi5 --port eth0\n  boxdyno tune show ./mine.yaml --port eth0 --json\n  boxdyno tune show sensor-pi5 --box pi5",
		RunE: do(func(ctx context.Context, args []string) error {
			return a.eachBox(ctx, f.box, f.json, func(box string) error {
				f := f
				f.box = box
				r, on, err := f.recipe(args[0])
				if err != nil {
					return err
				}
				changes, err := f.show(ctx, r, on)
				if err != nil {
					return err
				}
				if f.json {
					return encode(a.out, changes)
				}
				for _, c := range changes {
					what := fmt.Sprintf("%s -> %s", c.Before, c.Got)
					switch {
					case c.Problem != "":
						what = "cannot be set: " + oneLine(c.Problem)
					case c.Before == c.Got:
						what = "is " + c.Before + " already"
					}
					if _, err := fmt.Fprintf(a.out, "%s of %s: %s\n    %s (%s)\n", c.Knob, c.Target, what, c.Why, c.Source); err != nil {
						return err
					}
				}
				return nil
			})
		}),
	}
	f.add(a, cmd)
	boxFlag(cmd, &f.box)
	return cmd
}

func (a *app) tuneApply() *cobra.Command {
	var f tuneFlags
	var strict bool
	cmd := &cobra.Command{
		Use: "apply RECIPE", Short: "Apply a recipe until it is reverted or the machine is started anew", Args: needs("RECIPE", recipeNeed),
		Long: `Apply turns the recipe's knobs. It stays until boxdyno tune revert, or until the
machine is started anew. What the machine lacks, refuses or rounds is named, and the
rest goes on; with --strict nothing of the recipe stands then, and the exit code is 1.
If it is killed half-way, the next command that needs privileges puts everything back.`,
		Example: "  sudo boxdyno tune apply sensor-pi5 --port eth0\n  sudo boxdyno tune apply router --port eth0 --port eth1 --strict\n  boxdyno tune apply sensor-pi5 --box pi5",
		RunE: do(func(ctx context.Context, args []string) error {
			return a.eachBox(ctx, f.box, f.json, func(box string) error {
				f := f
				f.box = box
				r, on, err := f.recipe(args[0])
				if err != nil {
					return err
				}
				settings, err := f.apply(ctx, a, r, on, strict)
				if errors.As(err, new(*tune.StrictError)) {
					return &failure{exitFailed, err}
				}
				if err != nil {
					return err
				}
				if f.json {
					return encode(a.out, settings)
				}
				return a.printSettings(settings)
			})
		}),
	}
	f.add(a, cmd)
	boxFlag(cmd, &f.box)
	cmd.Flags().BoolVar(&strict, "strict", false, "all of the recipe or nothing")
	return cmd
}

// printSettings says what became of a recipe's steps.
func (a *app) printSettings(settings []result.Setting) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for _, s := range settings {
		what := fmt.Sprintf("%s -> %s", s.Before, s.Got)
		switch {
		case s.Problem != "":
			what = "not as asked (" + s.Asked + "): " + oneLine(s.Problem)
		case s.Before == s.Got:
			what = "was " + s.Got + " already"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", s.Knob, s.Target, what)
	}
	return w.Flush()
}

func (a *app) tuneRevert() *cobra.Command {
	var how tune.Revert
	var box string
	cmd := &cobra.Command{
		Use: "revert", Short: "Put back what was applied", Args: cobra.NoArgs,
		Long: `Revert puts every old value back, the last first, and goes on after errors. A knob
that somebody else has turned since stays as it is, and is named with exit code 1:
--force puts its old value back all the same, --keep leaves it and forgets the old
value.`,
		Example: "  sudo boxdyno tune revert\n  sudo boxdyno tune revert --force",
		RunE: do(func(ctx context.Context, _ []string) error {
			return a.eachBox(ctx, box, false, func(box string) error {
				notes, err := a.revertHeld(ctx, box, how)
				for _, note := range notes {
					a.note("%s", note)
				}
				if errors.Is(err, tune.ErrChanged) {
					return &failure{exitFailed, err}
				}
				return err
			})
		}),
	}
	boxFlag(cmd, &box)
	cmd.Flags().BoolVar(&how.Force, "force", false, "also what somebody else has set since")
	cmd.Flags().BoolVar(&how.Keep, "keep", false, "leave what somebody else has set since, and forget what it was")
	exclusive(cmd, "force", "keep")
	return cmd
}

func (a *app) tuneStatus() *cobra.Command {
	var asJSON bool
	var box string
	cmd := &cobra.Command{
		Use: "status", Short: "Say what is applied, and whether it still stands", Args: cobra.NoArgs,
		Long:    "Status lists what a journal has yet to put back: by hand, of a run under way, or left by\na process that died. It changes nothing.",
		Example: "  boxdyno tune status\n  boxdyno tune status --json",
		RunE: do(func(ctx context.Context, _ []string) error {
			return a.eachBox(ctx, box, asJSON, func(box string) error {
				all, notes, err := standing(ctx, box)
				if err != nil {
					return err
				}
				for _, n := range notes {
					a.note("%s", n)
				}
				if asJSON {
					return encode(a.out, append([]tune.Standing{}, all...))
				}
				if len(all) == 0 {
					_, err := fmt.Fprintln(a.out, "nothing is applied")
					return err
				}
				w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
				for _, s := range all {
					what := fmt.Sprintf("%s, had been %s", s.Now, s.Before)
					if s.Problem != "" {
						what = oneLine(s.Problem) + ": " + what
					}
					fmt.Fprintf(w, "%s (%s)\t%s\t%s\t%s\n", s.Recipe, map[string]string{"held": "by hand", "running": "a run's", "left": "of a process that died"}[s.State], s.Knob, s.Target, what)
				}
				return w.Flush()
			})
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	boxFlag(cmd, &box)
	return cmd
}

func (a *app) tuneExport() *cobra.Command {
	var f tuneFlags
	var out string
	cmd := &cobra.Command{
		Use: "export RECIPE", Short: "Write the files that keep a recipe over a reboot", Args: needs("RECIPE", recipeNeed),
		Long: `Export prints files that keep a recipe over a reboot of a machine with systemd. They
are one for sysctl.d, a .link file for each port, and a oneshot service. --out DIR
writes them below a folder: look at them, then copy them to /, and run
systemctl enable on the service. A port that is here is known by its permanent MAC
address in them.`,
		Example: "  boxdyno tune export sensor-pi5 --port eth0\n  boxdyno tune export router --port eth0 --port eth1 --out ./files",
		RunE: do(func(_ context.Context, args []string) error {
			if out != "" {
				if err := outputFolder("--out", out); err != nil {
					return err
				}
			}
			r, on, err := f.recipe(args[0])
			if err != nil {
				return err
			}
			var ports []tune.ExportPort
			for _, p := range f.ports {
				ports = append(ports, tune.ExportPort{Name: p, MAC: tune.PermanentMAC(on.Host, p)})
			}
			all, notes, err := tune.Export(r, ports)
			for _, n := range notes {
				a.note("%s", n)
			}
			switch {
			case err != nil:
				return err
			case f.json:
				return encode(a.out, all)
			}
			for _, file := range all {
				if out == "" {
					if _, err := fmt.Fprintf(a.out, "==> %s\n%s\n", file.Path, file.Text); err != nil {
						return err
					}
					continue
				}
				name := filepath.Join(out, file.Path)
				folder, err := files.MakeFolder(filepath.Dir(name), sudoer())
				if err == nil {
					err = errors.Join(folder.Replace(filepath.Base(name), func(f *os.File) error { _, err := f.WriteString(file.Text); return err }), folder.Close())
				}
				if err != nil {
					return fmt.Errorf("export: %w", err)
				}
				a.note("%s", name)
			}
			return nil
		}),
	}
	f.add(a, cmd)
	cmd.Flags().StringVar(&out, "out", "", "`folder` to write them below")
	return cmd
}
