// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"boxdyno/report"
	"boxdyno/result"
	"boxdyno/runner"
	"boxdyno/tune"
)

func (a *app) tuneAblate() *cobra.Command {
	var f measureFlags
	var procedure, metric, resume string
	cmd := &cobra.Command{
		Use: "ablate RECIPE", Short: "Find out which knobs of a recipe help, and by how much",
		Long: `Ablate measures with the whole recipe, with nothing of it, with all but each knob, and
with each knob alone. The order is shuffled, and repeats tell an effect from chance. It
prints the effect of each knob with its interval, ~ where there is none, and
the best subset, which it also keeps as a recipe; the page has the plot. Every part is
applied through the journal and put back after each visit to a point. A knob that
cannot be turned here is named and not tested.

It is a run: it is kept, and --resume goes on with one that broke off.

Exit codes:
` + exitCodes,
		Example: `  sudo boxdyno tune ablate router --procedure forward
  sudo boxdyno tune ablate ./mine.yaml --set service=route,nat --repeat 20
  sudo boxdyno tune ablate router --metric throughput_fps
  boxdyno tune ablate router --dry-run
  sudo boxdyno tune ablate --resume ~/.local/state/boxdyno/runs/20260101-120000-ablate-router`,
		Args: cobra.MaximumNArgs(1),
	}
	f.add(a, cmd)
	fs := cmd.Flags()
	fs.StringVar(&procedure, "procedure", "forward", "`NAME` of the procedure that measures, or of a plan")
	fs.StringVar(&metric, "metric", "", "`figure` that knobs are judged by (default the forwarding rate under overload)")
	fs.StringVar(&f.report, "report", "", "`FILE.html` for the page (default report.html in the run's folder)")
	fs.StringVar(&resume, "resume", "", "go on with the run in `folder`; finished points are not measured again")
	cmd.ValidArgsFunction = a.completing(cobra.ShellCompDirectiveDefault, "recipes")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if resume != "" && len(args) > 0 {
			return fmt.Errorf("--resume takes the recipe from the run in %s: leave out %s", resume, args[0])
		}
		if resume == "" && len(args) == 0 {
			return errors.New("ablate needs RECIPE: " + recipeNeed)
		}
		return do(func(ctx context.Context, args []string) error {
			if resume != "" {
				return a.resume(ctx, resume, f)
			}
			return a.ablate(ctx, args[0], procedure, metric, f)
		})(cmd, args)
	}
	return cmd
}

// ablate begins a new run that takes a recipe apart.
func (a *app) ablate(ctx context.Context, recipe, procedure, metric string, f measureFlags) error {
	if err := f.outputs(); err != nil {
		return err
	}
	r, err := tune.FindRecipe(recipe)
	if err != nil {
		return &runner.PlanError{Err: err}
	}
	if len(r.Steps) == 0 {
		return &runner.PlanError{Err: fmt.Errorf("recipe %s has no steps", r.Name)}
	}
	p, _, err := a.plan(procedure)
	if err != nil {
		return err
	}
	if err := f.apply(a, &p); err != nil {
		return err
	}
	if metric, err = runner.AblatedMetric(a.plugins, p, metric); err != nil {
		return err
	}
	p.Hasten(a.plugins, metric)
	often := p.Repeat
	if p.Repeat == 0 {
		p.Repeat = 1
	}
	if p, err = p.Resolve(a.plugins); err != nil {
		return err
	}
	if often == 0 {
		once, err := p.Points(a.plugins)
		if err != nil {
			return err
		}
		p.Repeat = runner.AblationRepeats(len(r.Steps), len(once))
	}
	points, err := p.Ablated(a.plugins, r)
	if err != nil {
		return err
	}
	if err := p.TuneRunsOn(a.plugins, r, "tune ablate"); err != nil {
		return err
	}
	if f.dryRun {
		return a.dryRun(p, points, f.json)
	}
	return a.fresh(ctx, p, "ablate-"+r.Name, f, runner.Options{Ablate: &runner.Ablation{Recipe: r, Metric: metric}})
}

// bestFile is the best subset of an ablation, beside its run.
const bestFile = "best.yaml"

// keepBest writes the best subset as a recipe, where one was found.
func (a *app) keepBest(s *sink, run result.Run, d report.Document) error {
	if d.Ablation == nil || len(d.Ablation.Best) == 0 {
		return nil
	}
	var b strings.Builder
	quote := func(s string) string {
		text, _ := json.Marshal(s) // a string always encodes
		return string(text)
	}
	name, _, _ := strings.Cut(filepath.Base(s.dir), ".")
	fmt.Fprintf(&b, "name: best\ndoc: %s\nsteps:\n", quote(fmt.Sprintf("the knobs that helped in run %s", name)))
	for _, k := range d.Ablation.Best {
		fmt.Fprintf(&b, "- {knob: %s, target: %s, value: %s, source: %s}\n", quote(k.Knob), quote(k.Target), quote(k.Value), quote("run "+run.ID))
	}
	file := filepath.Join(s.dir, bestFile)
	if err := writeFile(file, s.owner, []byte(b.String())); err != nil {
		return err
	}
	a.note("best subset: %s", file)
	return nil
}
