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
	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/link"
	"boxdyno/link/hub"
	"boxdyno/result"
	"boxdyno/runner"
)

// boxesFile is where boxes are kept: under sudo its caller's.
func boxesFile() (string, error) {
	config, err := userFolder("XDG_CONFIG_HOME", ".config")
	if err != nil {
		return "", fmt.Errorf("find the file of boxes: %w; set XDG_CONFIG_HOME", err)
	}
	return filepath.Join(config, "boxdyno", "boxes.yaml"), nil
}

// ownBoxes is boxesFile, of which a stranger's is refused: it says where ssh connects, and
// as what.
func ownBoxes() (string, error) {
	path, err := boxesFile()
	if uid, strange := foreign(path); err == nil && strange {
		err = &runner.PlanError{Err: fmt.Errorf("%s belongs to user %d, who would say where ssh connects: make it your own, or set XDG_CONFIG_HOME", path, uid)}
	}
	return path, err
}

func boxes() ([]lab.Box, error) {
	path, err := ownBoxes()
	if err != nil {
		return nil, err
	}
	return lab.Boxes(path)
}

func editBoxes(edit func([]lab.Box) []lab.Box) error {
	path, err := ownBoxes()
	if err != nil {
		return err
	}
	return lab.EditBoxes(path, sudoer(), edit)
}

// findBox is the box of that name, or the only one of group=NAME. One that is not there is
// a usage error.
func findBox(name string) (lab.Box, error) {
	if group, several := groupOf(name); several {
		in, err := grouped(group)
		if err != nil {
			return lab.Box{}, err
		}
		if len(in) > 1 {
			return lab.Box{}, &runner.PlanError{Err: fmt.Errorf("one box is meant here, and group %s has %s: name one of them", group, strings.Join(in, ", "))}
		}
		name = in[0]
	}
	all, err := boxes()
	if err != nil {
		return lab.Box{}, err
	}
	var names []string
	for _, b := range all {
		if b.Name == name {
			return b, nil
		}
		names = append(names, b.Name)
	}
	there := "no box is known yet, and boxdyno box add NAME --ssh HOST adds one"
	if names != nil {
		there = "there are " + strings.Join(names, ", ")
	}
	return lab.Box{}, &runner.PlanError{Err: fmt.Errorf("there is no box %q: %s", name, there)}
}

// plugins are those of boxdyno, which know how the agent of a known box is put right.
func plugins() runner.Catalogue {
	c := runner.Plugins()
	dial := c.Dial
	c.Dial = func(ctx context.Context, a link.Agent) (*link.Conn, error) {
		all, _ := boxes() // of an unreadable file the commands for boxes tell
		for _, b := range all {
			if known := b.Reach(); slices.Equal(known.Argv, a.Argv) {
				a.Remedy = known.Remedy
			}
		}
		return dial(ctx, a)
	}
	return c
}

// boxNames completes names of boxes, and of groups where a flag takes one.
func boxNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	all, _ := boxes()
	var names []string
	for _, b := range all {
		names = append(names, b.Name+"\t"+b.SSH)
		for _, g := range b.Groups {
			if !slices.Contains(names, groupPrefix+g) {
				names = append(names, groupPrefix+g)
			}
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) box() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "box",
		Short: "Add, check and remove boxes at the other end of a cable",
		Long: `A box runs boxdyno-agent, which boxdyno reaches with the program ssh. Your ssh
configuration, keys and jump hosts count. ssh must need no password, and the host key
must be known. Boxes are kept in $XDG_CONFIG_HOME/boxdyno/boxes.yaml.`,
		Example: `  boxdyno box add pi5 --ssh pi@pi5.lan --become "sudo -n"
  sudo boxdyno box cables pi5
  sudo boxdyno run forward --box pi5`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(a.boxAdd(), a.boxList(), a.boxCheck(), a.boxCables(), a.boxUpdate(), a.boxRemove())
	return cmd
}

// installing is how long ssh and a slow box may take for the agent.
const installing = 3 * time.Minute

// installAgent brings the agent to b and asks it what it may do there.
func (a *app) installAgent(ctx context.Context, b *lab.Box, file string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, installing)
	defer cancel()
	if err := b.Find(ctx); err != nil {
		return err
	}
	if file == "" {
		if file, err = lab.AgentFile(b.Arch); err != nil {
			return err
		}
	}
	a.note("installing %s on %s as %s", file, b.SSH, b.Agent)
	return b.Install(ctx, file)
}

// bring installs the agent on b, has edit change the boxes if it answers, and prints it.
func (a *app) bring(ctx context.Context, b *lab.Box, file string, json bool, edit func([]lab.Box) []lab.Box) error {
	if err := a.installAgent(ctx, b, file); err != nil {
		return err
	}
	s, err := a.stateOf(ctx, *b)
	if err == nil {
		err = editBoxes(edit)
	}
	if err != nil {
		return err
	}
	return a.show(s, json)
}

// changing is an edit of the box of that name.
func changing(name string, change func(*lab.Box)) func([]lab.Box) []lab.Box {
	return func(all []lab.Box) []lab.Box {
		for i := range all {
			if all[i].Name == name {
				change(&all[i])
			}
		}
		return all
	}
}

// A boxState is what box check prints.
type boxState struct {
	lab.Box
	Version   string        `json:"version"`
	Machine   string        `json:"machine"`
	Kernel    string        `json:"kernel"`
	CPUs      int           `json:"cpus"`
	RoundTrip time.Duration `json:"round_trip_ns"`
	Missing   []string      `json:"missing"`
}

func (a *app) stateOf(ctx context.Context, b lab.Box) (s boxState, err error) {
	s.Box = b
	c, err := hub.Dial(ctx, b.Reach())
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	id, err := agent.Identify.Call(ctx, c, agent.IdentifyArgs{})
	if err != nil {
		return s, err
	}
	checked, err := agent.Check.Call(ctx, c, agent.None{})
	if err != nil {
		return s, err
	}
	clock, err := c.Clock(ctx, 16)
	if err != nil {
		return s, err
	}
	s.Version, s.Machine, s.Kernel, s.CPUs = c.Hello.Version, cmp.Or(id.Machine.Board, id.Machine.CPU), id.Machine.Kernel, id.Machine.CPUs
	s.RoundTrip, s.Missing = 2*clock.Error, append([]string{}, checked.Missing...)
	return s, nil
}

// show prints a box; what is missing there is exit code 3.
func (a *app) show(s boxState, json bool) error {
	if json {
		if err := encode(a.out, s); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(a.out, "%s: %s, %s, %d CPUs, Linux %s\nagent %s at %s, %v a round trip\n", s.Name, s.SSH, s.Machine, s.CPUs, s.Kernel, s.Version, s.Agent, s.RoundTrip.Round(time.Microsecond))
		for _, m := range s.Missing {
			fmt.Fprintln(a.out, m)
		}
	}
	if len(s.Missing) > 0 {
		hint := `add the box anew with --become "sudo -n", or as root`
		return &host.Missing{What: fmt.Sprintf("privileges of the agent on %s", s.Name), Hint: hint}
	}
	return nil
}

func (a *app) boxAdd() *cobra.Command {
	var b lab.Box
	var file string
	var json bool
	cmd := &cobra.Command{
		Use:   "add NAME --ssh DEST",
		Short: "Install the agent on a box and remember the box",
		Long: `Add asks the box for its architecture, installs boxdyno-agent of this version there,
starts it, and says what it lacks. The agent is looked for beside boxdyno and in
dist, where script/release puts it. A box of that name is replaced.`,
		Example: `  boxdyno box add pi5 --ssh pi@pi5.lan --become "sudo -n"
  boxdyno box add nuc --ssh root@192.168.1.9 --cable eth1=enp1s0 --cable eth2=enp2s0`,
		Args: needs("NAME", "any name for the box"),
	}
	cmd.RunE = do(func(ctx context.Context, args []string) error {
		b.Name = args[0]
		try := b
		try.Agent = "/" // the box's architecture and user decide
		if err := try.Check(); err != nil {
			return &runner.PlanError{Err: err}
		}
		return a.bring(ctx, &b, file, json, func(all []lab.Box) []lab.Box {
			return append(slices.DeleteFunc(all, func(x lab.Box) bool { return x.Name == b.Name }), b)
		})
	})
	fs := cmd.Flags()
	fs.StringVar(&b.SSH, "ssh", "", "the box as ssh takes it: `user@host`, or a Host of its configuration")
	fs.StringVar(&b.Become, "become", "", "`words` before the agent's name that make it root there, such as \"sudo -n\"")
	fs.StringArrayVar(&b.Cables, "cable", nil, "`PORT=PORT`: a port of this machine, and the box's at the cable's other end; at most twice")
	fs.StringSliceVar(&b.Groups, "group", nil, "`GROUP` that the box is in; more with commas between them")
	fs.StringVar(&file, "agent", "", "`FILE` of the agent, where it is elsewhere")
	fs.BoolVar(&json, "json", false, "print one JSON document instead of text")
	_ = cmd.MarkFlagRequired("ssh")
	return cmd
}

func (a *app) boxList() *cobra.Command {
	var json bool
	cmd := &cobra.Command{
		Use: "ls", Short: "List the boxes", Args: cobra.NoArgs,
		Example: "  boxdyno box ls --json",
		RunE: do(func(context.Context, []string) error {
			all, err := boxes()
			if err != nil {
				return err
			}
			if json {
				return encode(a.out, append([]lab.Box{}, all...))
			}
			if len(all) == 0 {
				a.note("no box is known yet: boxdyno box add NAME --ssh HOST adds one")
			}
			w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
			for _, b := range all {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", b.Name, b.SSH, b.Arch, strings.Join(b.Cables, " "), strings.Join(b.Groups, ","))
			}
			return w.Flush()
		}),
	}
	cmd.Flags().BoolVar(&json, "json", false, "print one JSON document instead of text")
	return cmd
}

func (a *app) boxCheck() *cobra.Command {
	var json bool
	cmd := &cobra.Command{
		Use: "check NAME", Short: "Start a box's agent and show what it may do there", Args: needs("NAME", "see boxdyno box ls"),
		Example: "  boxdyno box check pi5", ValidArgsFunction: boxNames,
		RunE: do(func(ctx context.Context, args []string) error {
			b, err := findBox(args[0])
			if err != nil {
				return err
			}
			s, err := a.stateOf(ctx, b)
			if err != nil {
				return err
			}
			return a.show(s, json)
		}),
	}
	cmd.Flags().BoolVar(&json, "json", false, "print one JSON document instead of text")
	return cmd
}

func (a *app) boxUpdate() *cobra.Command {
	var file string
	var json bool
	cmd := &cobra.Command{
		Use: "update NAME", Short: "Install this version's agent on a box", Args: needs("NAME", "see boxdyno box ls"),
		Example: "  boxdyno box update pi5", ValidArgsFunction: boxNames,
		RunE: do(func(ctx context.Context, args []string) error {
			b, err := findBox(args[0])
			if err != nil {
				return err
			}
			return a.bring(ctx, &b, file, json, changing(b.Name, func(x *lab.Box) { x.Agent, x.Arch = b.Agent, b.Arch }))
		}),
	}
	cmd.Flags().StringVar(&file, "agent", "", "`FILE` of the agent, where it is elsewhere")
	cmd.Flags().BoolVar(&json, "json", false, "print one JSON document instead of text")
	return cmd
}

func (a *app) boxRemove() *cobra.Command {
	var keep bool
	cmd := &cobra.Command{
		Use: "rm NAME", Short: "Remove the agent from a box and forget the box", Args: needs("NAME", "see boxdyno box ls"),
		Example: "  boxdyno box rm pi5\n  boxdyno box rm pi5 --keep", ValidArgsFunction: boxNames,
		RunE: do(func(ctx context.Context, args []string) error {
			b, err := findBox(args[0])
			if err != nil {
				return err
			}
			if !keep {
				ctx, cancel := context.WithTimeout(ctx, installing)
				defer cancel()
				if err := b.Uninstall(ctx); err != nil {
					return fmt.Errorf("%w; --keep forgets the box alone", err)
				}
			}
			return editBoxes(func(all []lab.Box) []lab.Box {
				return slices.DeleteFunc(all, func(x lab.Box) bool { return x.Name == b.Name })
			})
		}),
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "leave the agent on the box")
	return cmd
}

// measure has the plan measure the box, or the two boxes of which the first is in this
// machine's place.
func (f *measureFlags) measure(a *app, p *runner.Plan) error {
	first, last, two := strings.Cut(f.box, ",")
	if !two {
		last = first
	}
	b, err := findBox(last)
	if err != nil {
		return err
	}
	name, settings := lab.Pair, slices.Concat(b.Settings(), b.Wired())
	switch {
	case p.WithoutFrames(a.plugins, f.set):
		name, settings = lab.There, b.Settings()
	case p.Needs(a.plugins, lab.TwoGateways):
		name, settings = lab.Peers, slices.Concat(b.Settings(), b.Wired()[:min(2, len(b.Wired()))])
	}
	if f.lab != "" && f.lab != name {
		return &runner.PlanError{At: "--box", Err: fmt.Errorf("the box is measured in topology %s: leave out --lab %s", name, f.lab)}
	}
	sets := func(key string) bool {
		return slices.ContainsFunc(f.set, func(s string) bool { return strings.HasPrefix(s, key+"=") })
	}
	switch {
	case two && name != lab.Peers:
		return &runner.PlanError{At: "--box", Err: errors.New("two boxes are measured by what goes between them alone: vpn and stream")}
	case two && !(sets("port_a") && sets("dut_a")):
		return &runner.PlanError{At: "--box", Err: fmt.Errorf("no cable between %s and %s is known: name its ports with --set port_a=PORT (of %[1]s) --set dut_a=PORT (of %[2]s)", first, last)}
	case two:
		one, err := findBox(first)
		if err != nil {
			return err
		}
		settings = append(b.Settings(), result.Pair{Key: "ssh_a", Value: one.SSH}, result.Pair{Key: "program_a", Value: one.Program()})
	case name != lab.There && len(b.Cables) == 0 && !sets("port_a"):
		return &runner.PlanError{At: "--box", Err: fmt.Errorf("no cable to %s is known: run boxdyno box cables %[1]s, or name the ports with --set port_a=PORT --set dut_a=PORT", b.Name)}
	}
	p.SetLab(name, "--box")
	for _, s := range settings {
		if err := p.Set(a.plugins, s.Key+"="+s.Value); err != nil {
			return err
		}
	}
	return nil
}
