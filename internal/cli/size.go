// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"boxdyno/reference/sizing"
	"boxdyno/result"
	"boxdyno/runner"
)

// A sizeRequest is what size was asked.
type sizeRequest struct {
	job            sizing.Job
	load           string
	shared, whatIf []string
	boards         []string
	against        []string
	spare          int
	seed           uint64
	published      bool
	asJSON, asCSV  bool
	at             place
}

func (a *app) size() *cobra.Command {
	var q sizeRequest
	cmd := &cobra.Command{
		Use:   "size --for JOB --load LOAD",
		Short: "How many of which board carry a load, at what price and power",
		Long: `Size says how many of each box carry a load together, what they cost and draw, and from
how many on a cluster of one box passes another. Own runs come first: the newest valid
figure of each box among the runs that boxdyno runs lists. Published figures are second, and
marked; price and power are of the catalogue of boards. What is not known is left out.

Each box is taken to do as much beside others as alone (linear). What several boxes did
together, where that was measured, stands apart. Where a box was measured hot, that
figure decides. The jobs and their loads:

  ids       inspect traffic                        --load 1Gbps --rules 10000
  firewall  forward frames of 64 octets, filtered  --load 1.488Mframe/s
  crypto    encrypt or decrypt                     --load 250MiB/s --cipher twofish-cbc-256
  hpl       solve linear equations                 --load 50GFLOPS

Without --load there are crossovers alone. What several boxes share is counted once,
with more than one box: --shared 'switch=60USD,8W', or once for all under shared in
$XDG_CONFIG_HOME/boxdyno/boxes.yaml. --what-if multiplies one figure of
one board, before all else: ` + sizing.WhatIfHelp + `.`,
		Example: `  boxdyno size --for crypto --cipher twofish-cbc-256 --load 250MiB/s
  boxdyno size --for firewall --load 1.488Mframe/s --spare 1
  boxdyno size --for hpl --load 50GFLOPS --shared 'switch=60USD,8W' --json
  boxdyno size --for crypto --cipher aes-cbc-128 --board rpi-3-b-plus --what-if aes=5x`,
		Args: cobra.NoArgs,
		RunE: do(func(ctx context.Context, _ []string) error {
			r, err := a.sized(ctx, q)
			if err != nil {
				return err
			}
			switch {
			case q.asJSON:
				return encode(a.out, r)
			case q.asCSV:
				return sizeCSV(a.out, r)
			}
			return sizeText(a.out, terminalWidth(a.out), r)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&q.job.Kind, "for", "", "`JOB`: "+strings.Join(sizing.Jobs, ", "))
	f.StringVar(&q.load, "load", "", "`LOAD` that all boxes carry together")
	f.IntVar(&q.job.Rules, "rules", 0, "`number` of rules, at least; ids and firewall")
	f.StringVar(&q.job.Cipher, "cipher", "", "`CIPHER` with its key; crypto")
	f.StringVar(&q.job.Direction, "direction", "", "`DIRECTION`: encrypt or decrypt; crypto (default encrypt)")
	f.IntVar(&q.spare, "spare", 0, "`number` of boxes that may fail")
	f.StringArrayVar(&q.shared, "shared", nil, "`NAME=60USD,8W` that all boxes share, in the place of what a run, or the file of boxes, says of that name; may be repeated; none: nothing but what runs had")
	f.StringSliceVar(&q.boards, "board", nil, "only these `BOARDS`, by ID or name")
	f.StringSliceVar(&q.against, "against", nil, "`BOARDS` that clusters are compared with (default the NUC and the desktop of the cluster study, where they have figures)")
	f.StringArrayVar(&q.whatIf, "what-if", nil, "`FIGURE[@BOARD]=5x`: multiply a figure of a board; may be repeated")
	f.BoolVar(&q.published, "published", false, "published figures alone, no own runs")
	f.Uint64Var(&q.seed, "seed", 1, "`seed` of the Monte Carlo that carries intervals through")
	f.BoolVar(&q.asJSON, "json", false, "print JSON: rows, crossovers, curves")
	f.BoolVar(&q.asCSV, "csv", false, "print rows as CSV")
	placeFlags(cmd, &q.at)
	exclusive(cmd, "json", "csv")
	for _, name := range []string{"board", "against"} {
		_ = cmd.RegisterFlagCompletionFunc(name, a.completing(cobra.ShellCompDirectiveNoFileComp, "boards")) // the flag exists
	}
	_ = cmd.RegisterFlagCompletionFunc("for", cobra.FixedCompletions(sizing.Jobs, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	return cmd
}

// sized makes the plan.
func (a *app) sized(ctx context.Context, q sizeRequest) (r sizing.Result, err error) {
	at := func(flag string, err error) error { return &runner.PlanError{At: flag, Err: err} }
	j := q.job
	if j.Kind == "" {
		return r, at("--for", fmt.Errorf("name the job: %s; for example boxdyno size --for ids --load 1Gbps", strings.Join(sizing.Jobs, ", ")))
	}
	if j.Kind == sizing.Crypto && j.Direction == "" {
		j.Direction = "encrypt"
	}
	if err := j.Check(); err != nil {
		return r, at("--for "+j.Kind, err)
	}
	if q.load != "" {
		if j.Load, err = j.ParseLoad(q.load); err != nil {
			return r, at("--load", err)
		}
	}
	o := sizing.Options{Spare: q.spare, Boards: q.boards, Against: q.against, Seed: q.seed}
	parts, err := sharedFlag(q.shared)
	for _, p := range parts {
		if err == nil && (p.Meter != "" || p.Inside) {
			err = fmt.Errorf("%q: meters stand at parts in a run: boxdyno fleet run --shared", p)
		}
	}
	if err != nil {
		return r, at("--shared", err)
	}
	o.Shared = sizing.Parts(parts)
	if !slices.Equal(q.shared, []string{"none"}) {
		declared, err := declaredParts()
		if err != nil {
			return r, at("the file of boxes", err)
		}
		o.Declared = sizing.Parts(declared)
	}
	candidates := sizing.Published(j)
	if !q.published {
		runs, err := a.ownRuns(ctx, j, q.at)
		if err != nil {
			return r, err
		}
		candidates = append(sizing.Own(j, runs), candidates...)
	}
	for _, s := range q.whatIf {
		w, err := sizing.ParseWhatIf(s)
		if err != nil {
			return r, at("--what-if", err)
		}
		if w.Board == "" {
			if len(q.boards) != 1 {
				return r, at("--what-if", fmt.Errorf("%s: of which board? Write %s@BOARD=..., or name one --board", s, w.Figure))
			}
			w.Board = q.boards[0]
		}
		if err := w.Apply(j, candidates); err != nil {
			return r, at("--what-if", err)
		}
	}
	if o.Against == nil {
		o.Against = usual(candidates)
	}
	if r, err = sizing.Plan(j, candidates, o); err != nil {
		return r, at("size", err)
	}
	nobody := !slices.ContainsFunc(q.boards, func(name string) bool { return !slices.Contains(r.Missing, name) })
	if len(r.Rows) == 0 || len(q.boards) > 0 && nobody {
		return r, fmt.Errorf("no figure of %s is known of %s: measure it (boxdyno run %s), or leave out --board", j.Words(), orAny(q.boards), procedureOf(j.Kind))
	}
	return r, nil
}

// usual are the boxes that clusters are compared with, if none is asked for.
func usual(candidates []sizing.Candidate) (names []string) {
	for _, id := range []string{"nuc-i5-8500t", "desktop-ryzen-2700"} {
		if slices.ContainsFunc(candidates, func(c sizing.Candidate) bool { return c.Is(id) }) {
			names = append(names, id)
		}
	}
	return names
}

func orAny(names []string) string {
	if len(names) == 0 {
		return "any box"
	}
	return strings.Join(names, ", ")
}

// procedureOf is what measures a job.
func procedureOf(kind string) string {
	if kind == sizing.Firewall {
		return "forward"
	}
	return kind
}

// ownRuns are the runs on which the own figures of a job depend, with their points of the job,
// as the index finds them. One that cannot be read is named, and left out.
func (a *app) ownRuns(ctx context.Context, j sizing.Job, at place) (out []sizing.Run, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("read your own runs: %w; --published leaves them out", err)
		}
	}()
	l, err := at.open(ctx, a)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	a.left(l.update)
	all, err := l.Holders(ctx, j.Metric(), func(s []result.Pair) bool { return j.Does(result.Get(s, "procedure"), s) })
	if err != nil {
		return nil, err
	}
	var heads []sizing.Head
	var dirs []string
	for _, r := range all {
		if !sizing.Counts(r.Kind) {
			continue
		}
		if !l.Here(r.Run) {
			a.note("! left out %s: it is on %s, not here", r.Dir, r.Host)
			continue
		}
		heads = append(heads, sizing.Head{Box: strings.Join([]string{r.Topology, r.Box, r.Machines}, "\n"), Start: r.Start, Fleet: r.Topology == sizing.Fleet, Settings: r.Settings})
		dirs = append(dirs, r.Dir)
	}
	return j.Needed(heads, func(n int) (sizing.Run, bool) {
		run, recs, err := result.Open(dirs[n])
		if err != nil {
			a.note("! left out %s: %s", dirs[n], sentence(err))
		}
		return sizing.Run{Run: run, Records: recs}, err == nil
	}), nil
}

// against are the boxes that clusters were compared with.
func against(xs []sizing.Crossover) (names []string) {
	for _, x := range xs {
		if !slices.Contains(names, x.Against) {
			names = append(names, x.Against)
		}
	}
	return names
}
