// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"boxdyno/runner"
)

// measureFlags are those that run and qualify share.
type measureFlags struct {
	set             []string
	lab, box        string
	quick, standard bool
	repeat, seed    string
	budget          string
	out, report     string
	tune            string
	allow           bool   // commands of others' files
	source          string // the file of the plan or role; "": it is none
	dryRun, json    bool
	telemetry       string
	ask             telemetryFlags
}

func (f *measureFlags) add(a *app, cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringArrayVar(&f.set, "set", nil, "`key=value[,value...]`: a parameter of the procedure, else of the lab, else a key of the plan; several values are an axis")
	fs.StringVar(&f.lab, "lab", "", "`topology` to measure in (boxdyno list topologies)")
	fs.StringVar(&f.box, "box", "", "`NAME` of the box to measure (boxdyno box ls); A,B are two boxes, the ends of a tunnel; group=NAME is each box of a group, one run after another")
	fs.BoolVar(&f.quick, "quick", false, "short trials, with their deviations stated (the default)")
	fs.BoolVar(&f.standard, "standard", false, "trials as long as the standards ask")
	exclusive(cmd, "quick", "standard")
	fs.StringVar(&f.repeat, "repeat", "", "measure every point `N` times")
	fs.StringVar(&f.seed, "seed", "", "`number` that decides the order of points")
	fs.StringVar(&f.budget, "budget", "", "`time` that the run may take (90s, 10m; 0: as long as it needs); what is worth least is left out, and named")
	fs.StringVar(&f.out, "out", "", "`folder` for the run (default $XDG_STATE_HOME/boxdyno/runs/<time>-<what>)")
	fs.StringVar(&f.telemetry, "telemetry", "", "off, on, or samples a second, 1 to 50 `Hz` (default 10)")
	f.ask.add(a, cmd)
	fs.BoolVar(&f.dryRun, "dry-run", false, "print the points to come and how long they take; measure nothing")
	f.addAllow(fs)
	fs.BoolVar(&f.json, "json", false, "print one JSON document instead of text")
	_ = cmd.RegisterFlagCompletionFunc("set", func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if key, name, ok := strings.Cut(typed, "="); ok && slices.Contains(captureKeys, key) {
			return captureFiles(key+"=", name), cobra.ShellCompDirectiveNoSpace
		}
		var keys []string
		for _, s := range a.plugins.Procedures {
			for _, p := range runner.Params(s.New()) {
				keys = append(keys, p.Name+"=\t"+p.Help)
			}
		}
		return keys, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
	})
	_ = cmd.RegisterFlagCompletionFunc("box", boxNames)
	_ = cmd.RegisterFlagCompletionFunc("lab", a.completing(cobra.ShellCompDirectiveNoFileComp, "topologies"))
}

// addTune is of run and qualify alone: tune ablate has its recipe.
func (f *measureFlags) addTune(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.tune, "tune", "", "`RECIPE` applied to the DUT while the run lasts (boxdyno list recipes, or a file)")
}

// apply changes the plan as the flags say.
func (f *measureFlags) apply(a *app, p *runner.Plan) error {
	if f.lab != "" {
		p.SetLab(f.lab, "--lab")
	}
	if f.box != "" {
		if err := f.measure(a, p); err != nil {
			return err
		}
	}
	preset := map[bool]string{f.quick: "quick", f.standard: "standard"}[true]
	if preset != "" {
		if err := p.SetPreset(preset); err != nil {
			return err
		}
	}
	for _, s := range f.set {
		if err := p.Set(a.plugins, s); err != nil {
			return err
		}
	}
	for key, v := range map[string]string{"repeat": f.repeat, "seed": f.seed, "budget": f.budget, "telemetry": f.telemetry} {
		if v == "" {
			continue
		}
		if err := p.SetKey(key, v, "--"+key); err != nil {
			return err
		}
	}
	return f.ask.apply(p.SetKey)
}

// outputs refuses what could not be written, before anything is measured for it.
func (f *measureFlags) outputs() error {
	if f.out != "" {
		if holdsRun(f.out) {
			return &runner.PlanError{At: "--out", Err: fmt.Errorf("%s already has a run: name another folder, or continue with run --resume %s", f.out, f.out)}
		}
		if err := outputFolder("--out", f.out); err != nil {
			return err
		}
	}
	if f.report == "" {
		return nil
	}
	if _, err := formatOf(f.report); err != nil {
		return err
	}
	return outputFile("--report", f.report, f.out)
}

// addAllow adds what runs commands of strangers.
func (f *measureFlags) addAllow(fs *pflag.FlagSet) {
	fs.BoolVar(&f.allow, "allow-commands", false, "run commands that a file of another user asks for: meter, ssh, ssh_command, program, and subject own")
}
