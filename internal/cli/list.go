// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"boxdyno/engine"
	"boxdyno/examples"
	"boxdyno/lab"
	"boxdyno/runner"
	"boxdyno/tune"
)

// A listed is one line of list.
type listed struct {
	Name   string         `json:"name"`
	Doc    string         `json:"doc"`
	Params []runner.Param `json:"parameters,omitempty"`
}

var kinds = []string{"procedures", "topologies", "backends", "roles", "plans", "services", "collectors", "knobs", "recipes", "counters"}

func (a *app) listed(kind string) (out []listed, err error) {
	switch kind {
	case "procedures":
		for _, s := range a.plugins.Procedures {
			out = append(out, listed{s.Name, s.Doc + " (" + s.Standard + ")", runner.Params(s.New())})
		}
	case "topologies":
		for _, s := range a.plugins.Labs {
			out = append(out, listed{s.Name, s.Doc, runner.Params(s.New())})
		}
	case "backends":
		for _, s := range engine.All {
			out = append(out, listed{Name: s.Name, Doc: s.Doc})
			for _, m := range s.Modes {
				out = append(out, listed{Name: s.Name + "/" + m.Name, Doc: m.Doc})
			}
		}
	case "roles":
		roles, err := runner.Roles()
		if err != nil {
			return nil, err
		}
		for _, r := range roles {
			l := listed{Name: r.Name, Doc: r.Description}
			for _, c := range r.Criteria() {
				l.Doc += "; asks for " + c.Text
			}
			out = append(out, l)
		}
	case "plans":
		for _, p := range examples.All() {
			out = append(out, listed{Name: p.Name, Doc: p.Doc})
		}
	case "services":
		for _, s := range lab.Services {
			out = append(out, listed{Name: s, Doc: services[s]})
		}
	case "collectors":
		for _, s := range a.plugins.Collectors {
			l := listed{Name: s.Name, Doc: s.Doc}
			if !s.Default {
				l.Doc += " (optional: only when asked for)"
			}
			out = append(out, l)
		}
	case "knobs":
		for _, k := range tune.All {
			out = append(out, listed{Name: k.Name, Doc: fmt.Sprintf("%s (%s; %s)", k.Doc, map[tune.Scope]string{tune.PerPort: "of a port", tune.PerNetns: "of a namespace", tune.PerMachine: "of the machine"}[k.Scope], k.Values)})
		}
	case "recipes":
		recipes, err := tune.Recipes()
		if err != nil {
			return nil, err
		}
		for _, r := range recipes {
			out = append(out, listed{Name: r.Name, Doc: r.Doc})
		}
	default:
		return nil, &runner.PlanError{Err: fmt.Errorf("there is no list of %s: the kinds are %s", kind, strings.Join(kinds, ", "))}
	}
	return out, nil
}

// services says what the DUT does to frames.
var services = map[string]string{
	"route":    "forwards by its routing table",
	"filter":   "forwards what an nft rule accepts, after `rules` that do not match",
	"nat":      "forwards with masquerade towards the WAN, over `flows` flows",
	"drop-xdp": "throws every test frame away in an XDP program",
	"drop-tc":  "throws every test frame away in tc",
	"drop-nft": "throws every test frame away by an nft rule",
}

func (a *app) list() *cobra.Command {
	var asJSON bool
	var driver string
	cmd := &cobra.Command{
		Use:       "list KIND",
		Short:     "List " + strings.Join(kinds, ", "),
		Long:      "List prints what this program knows of a kind, with its parameters and their\ndefaults. The kinds are " + strings.Join(kinds, ", ") + ".\n\ncounters are the ledger's dictionary: what each counter of a port means, by driver.",
		Example:   "  boxdyno list procedures\n  boxdyno list topologies --json\n  boxdyno list counters --driver macb",
		Args:      needs("KIND", "the kinds are "+strings.Join(kinds, ", ")),
		ValidArgs: slices.Clone(kinds),
		RunE: do(func(_ context.Context, args []string) error {
			if args[0] == "counters" {
				return a.counters(driver, asJSON)
			}
			if driver != "" {
				return &runner.PlanError{Err: fmt.Errorf("--driver: only counters have drivers, not %s", args[0])}
			}
			ls, err := a.listed(args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return encode(a.out, ls)
			}
			w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
			for _, l := range ls {
				fmt.Fprintf(w, "%s\t%s\n", l.Name, l.Doc)
				for _, p := range l.Params {
					help := p.Help
					if p.Values != nil {
						help += ": " + strings.Join(p.Values, ", ")
					}
					fmt.Fprintf(w, "  %s=%s\t  %s\n", p.Name, p.Default, help)
				}
			}
			return w.Flush()
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().StringVar(&driver, "driver", "", "counters: those of `DRIVER` alone, as ethtool -i names it")
	return cmd
}

func (a *app) doctor() *cobra.Command {
	var asJSON bool
	var install string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what this machine can measure, and what is missing",
		Long: `Doctor tries everything that measuring needs, by doing it on throw-away testbeds,
and prints the command that supplies what is missing. A line marked * is needed
for qualify firewall; where one of them fails the exit code is 3.

--install runs those commands: firewall for what is needed, all for everything.`,
		Example: "  sudo boxdyno doctor\n  sudo boxdyno doctor --install firewall",
		Args:    cobra.NoArgs,
		RunE: do(func(ctx context.Context, _ []string) error {
			ds := runner.Doctor(ctx, a.plugins)
			if install != "" {
				cmds, err := runner.Remedies(ds, install)
				if err != nil {
					return err
				}
				for _, argv := range cmds {
					a.note("%s", strings.Join(argv, " "))
					c := exec.CommandContext(ctx, argv[0], argv[1:]...)
					c.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
					c.Stdout, c.Stderr = a.err, a.err
					if err := c.Run(); err != nil {
						return fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
					}
				}
				if len(cmds) > 0 {
					ds = runner.Doctor(ctx, a.plugins)
				}
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if asJSON {
				if err := encode(a.out, ds); err != nil {
					return err
				}
			} else if err := a.diagnosis(ds); err != nil {
				return err
			}
			if !runner.Healthy(ds) {
				return &failure{code: exitMissing}
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().StringVar(&install, "install", "", "run the commands that supply what is missing of `SET`: "+strings.Join(runner.Sets, ", "))
	_ = cmd.RegisterFlagCompletionFunc("install", cobra.FixedCompletions(runner.Sets, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (a *app) diagnosis(ds []runner.Diagnosis) error {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	remedies, heads := sharedRemedies(ds)
	for i, d := range ds {
		mark := " "
		if d.Needed {
			mark = "*"
		}
		fmt.Fprintf(w, "%s %s\t%s\t%s\t%s\n", mark, d.Answer, d.Group, d.Name, heads[i])
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(b.String()) {
		if _, err := fmt.Fprintln(a.out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	for _, r := range remedies {
		if _, err := fmt.Fprintln(a.out, "\nRemedy: "+r+"."); err != nil {
			return err
		}
	}
	say := "Everything that qualify firewall needs is there."
	if !runner.Healthy(ds) {
		say = "Something that qualify firewall needs (*) is missing."
	}
	_, err := fmt.Fprintln(a.out, "\n"+say)
	return err
}

// sharedRemedies takes the remedies that several details end with out of them,
// so that each is said once.
func sharedRemedies(ds []runner.Diagnosis) (remedies, heads []string) {
	tail := func(s string) (string, string) {
		if i := strings.LastIndex(s, ": "); i >= 0 {
			return s[:i], s[i+2:]
		}
		return s, ""
	}
	times := map[string]int{}
	for _, d := range ds {
		_, r := tail(oneLine(d.Detail))
		times[r]++
	}
	for _, d := range ds {
		detail := oneLine(d.Detail)
		head, r := tail(detail)
		if r == "" || times[r] < 2 {
			heads = append(heads, detail)
			continue
		}
		heads = append(heads, head)
		if !slices.Contains(remedies, r) {
			remedies = append(remedies, r)
		}
	}
	return remedies, heads
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
