// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	engines "boxdyno/engine/catalog"
	"boxdyno/examples"
	"boxdyno/lab"
	"boxdyno/reference/boards"
	"boxdyno/runner"
	"boxdyno/subject/catalog"
	"boxdyno/tune"
)

// A listed is one line of list.
type listed struct {
	Name     string         `json:"name"`
	Doc      string         `json:"doc"`
	Needs    []string       `json:"needs,omitempty"`    // of a topology, whatever the parameters
	Labs     []string       `json:"labs,omitempty"`     // that it runs in as it is by default
	Offers   []string       `json:"offers,omitempty"`   // to procedures
	Services []string       `json:"services,omitempty"` // of the DUT
	Params   []runner.Param `json:"parameters,omitempty"`
}

// line is what is said of it where there is one line.
func (l listed) line() string {
	doc := l.Doc
	for _, x := range []struct {
		what  string
		words []string
	}{{"needs", l.Needs}, {"offers", l.Offers}, {"services", l.Services}} {
		if x.words != nil {
			doc += "; " + x.what + " " + strings.Join(x.words, ", ")
		}
	}
	return doc
}

var kinds = []string{"procedures", "topologies", "backends", "roles", "plans", "services", "subjects", "collectors", "knobs", "recipes", "counters", "boards"}

func (a *app) listed(kind string) (out []listed, err error) {
	switch kind {
	case "procedures":
		for _, s := range a.plugins.Procedures {
			doc := s.Doc
			if s.Standard != "" {
				doc += " (" + s.Standard + ")"
			}
			out = append(out, listed{Name: s.Name, Doc: doc, Needs: s.Needs.Words(), Labs: a.plugins.RunsIn(s), Params: runner.Params(s.New())})
		}
	case "topologies":
		for _, s := range a.plugins.Labs {
			out = append(out, listed{Name: s.Name, Doc: s.Doc, Offers: s.Offers.Words(), Services: s.Services, Params: runner.Params(s.New())})
		}
	case "backends":
		for _, s := range engines.All {
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
			for _, n := range append([]runner.Namesake{{Name: r.Name, LinkRate: r.LinkRate}}, r.Also...) {
				r.LinkRate = n.LinkRate
				l := listed{Name: n.Name, Doc: r.Description}
				for i, c := range r.Criteria("standard") {
					l.Doc += []string{"; asks for ", "; "}[min(i, 1)] + c.Text
				}
				out = append(out, l)
			}
		}
	case "plans":
		for _, p := range examples.All() {
			out = append(out, listed{Name: p.Name, Doc: p.Doc})
		}
	case "services":
		for _, s := range lab.Services {
			out = append(out, listed{Name: s, Doc: services[s]})
		}
	case "subjects":
		for _, s := range catalog.All {
			out = append(out, listed{Name: s.Name, Doc: s.Doc + " (work: " + s.Work + ")", Params: runner.Params(s.New())})
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
	case "boards":
		for _, b := range boards.All() {
			out = append(out, listed{Name: b.ID, Doc: b.Name})
		}
	default:
		return nil, &runner.PlanError{Err: fmt.Errorf("there is no list of %s: the kinds are %s", kind, strings.Join(kinds, ", "))}
	}
	return out, nil
}

func names(ls []listed) (out []string) {
	for _, l := range ls {
		out = append(out, l.Name)
	}
	return out
}

// completing completes the names in lists of these kinds.
func (a *app) completing(also cobra.ShellCompDirective, kinds ...string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
		for _, kind := range kinds {
			all, _ := a.listed(kind) // of one that cannot be read: nothing
			for _, l := range all {
				names = append(names, l.Name+"\t"+l.Doc)
			}
		}
		return names, also
	}
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

// described prints names and what is said of them, which a terminal folds behind the names.
func (a *app) described(lines [][2]string) error {
	wide := 0
	for _, l := range lines {
		wide = max(wide, utf8.RuneCountInString(l[0])+2)
	}
	width := terminalWidth(a.out)
	for _, l := range lines {
		pad := strings.Repeat(" ", wide-utf8.RuneCountInString(l[0]))
		if width >= 2*wide {
			l[1] = folded(l[1], width-wide, "\n"+strings.Repeat(" ", wide))
		}
		if _, err := fmt.Fprintln(a.out, strings.TrimRight(l[0]+pad+l[1], " ")); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) list() *cobra.Command {
	var asJSON bool
	var driver, need string
	cmd := &cobra.Command{
		Use:       "list KIND [NAME]",
		Short:     "List " + strings.Join(kinds, ", "),
		Long:      "List prints what this program knows of a kind, a line each; with NAME the\nparameters of that one, and their defaults. Of a procedure it says what it needs of a\ntopology, of a topology what it offers; some values of parameters need more. The kinds are " + strings.Join(kinds, ", ") + ".\n\ncounters are the ledger's dictionary: what each counter of a port means, by driver.\nboards are a catalogue of boards and boxes to choose from; each value has its source, and\nwhat no source says is unknown. --need asks for what a board must have:\n\n" + boards.NeedsHelp,
		Example:   "  boxdyno list procedures\n  boxdyno list procedures forward\n  boxdyno list topologies --json\n  boxdyno list counters --driver macb\n  boxdyno list boards --need 'ports>=2 speed>=1G aes'\n  boxdyno list boards rpi-5",
		Args:      needs("KIND [NAME]", "the kinds are "+strings.Join(kinds, ", ")),
		ValidArgs: slices.Clone(kinds),
		RunE: do(func(_ context.Context, args []string) error {
			if need != "" && args[0] != "boards" {
				return &runner.PlanError{Err: fmt.Errorf("--need: only boards have needs, not %s", args[0])}
			}
			if args[0] == "counters" {
				return a.counters(driver, asJSON)
			}
			if driver != "" {
				return &runner.PlanError{Err: fmt.Errorf("--driver: only counters have drivers, not %s", args[0])}
			}
			if args[0] == "boards" {
				return a.boards(strings.Join(args[1:], " "), need, asJSON)
			}
			ls, err := a.listed(args[0])
			if err != nil {
				return err
			}
			if len(args) > 1 {
				i := slices.IndexFunc(ls, func(l listed) bool { return l.Name == args[1] })
				if i < 0 {
					return &runner.PlanError{Err: fmt.Errorf("there is no %s among %s%s: boxdyno list %s names them", args[1], args[0], runner.DidYouMean(args[1], names(ls)), args[0])}
				}
				ls = ls[i : i+1]
			}
			if asJSON {
				return encode(a.out, ls)
			}
			var lines [][2]string
			add := func(name, text string) { lines = append(lines, [2]string{name, text}) }
			for _, l := range ls {
				add(l.Name, l.line())
				if len(args) < 2 {
					continue
				}
				for _, c := range lab.Capabilities {
					switch {
					case slices.Contains(l.Needs, c.Word):
						add("  needs "+c.Word, c.Name)
					case slices.Contains(l.Offers, c.Word):
						add("  offers "+c.Word, c.Name)
					}
				}
				if l.Labs != nil {
					add("  labs", strings.Join(l.Labs, ", "))
				}
				for _, p := range l.Params {
					help := p.Help
					if p.Values != nil {
						help += ": " + strings.Join(p.Values, ", ")
					}
					add("  "+p.Name+"="+p.Default, help)
				}
			}
			return a.described(lines)
		}),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().StringVar(&need, "need", "", "boards: those alone that have `WHAT` is needed")
	cmd.Flags().StringVar(&driver, "driver", "", "counters: those of `DRIVER` alone, as ethtool -i names it")
	return cmd
}
