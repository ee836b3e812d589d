// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"flag"
	"strings"

	"boxdyno/agent"
	"boxdyno/host"
	"boxdyno/internal/version"
	"boxdyno/link"
)

// A reached is what topologies have whose DUT runs our agent.
type reached struct {
	ssh, command, program string
	dial                  link.Dial
}

// Commands are the parameters of topologies whose words are run, here or on a box.
var Commands = []string{"ssh", "ssh_command", "program", "ssh_a", "ssh_command_a", "program_a"}

func newReached() reached { return reached{program: link.Name} }

func (p *reached) DialBy(dial link.Dial) { p.dial = dial }

func (p *reached) Flags(fs *flag.FlagSet) {
	fs.StringVar(&p.ssh, "ssh", "", "DUT as the program ssh takes it, such as root@box or a Host of its configuration")
	fs.StringVar(&p.command, "ssh_command", "", "words of a command that runs a program on the DUT, in place of ssh")
	fs.StringVar(&p.program, "program", p.program, "the agent on the DUT, as its shell takes it, such as sudo -n boxdyno-agent")
}

// hold reaches the DUT's agent, which keeps others off until undo.
func (p *reached) hold(ctx context.Context, at link.Agent, undo *cleanup) (*link.Conn, error) {
	remote, err := p.dial(ctx, at)
	if err != nil {
		return nil, err
	}
	undo.add(remote.Close)
	_, err = agent.Hold.Call(ctx, remote, agent.HoldArgs{Boot: (&host.Local{}).Identify().BootID})
	return remote, err
}

// agent is how the agent on the DUT is reached.
func (p *reached) agent() (link.Agent, error) {
	switch {
	case p.command != "":
		return link.Agent{Name: "the DUT", Version: version.Version(), Argv: append(append(strings.Fields(p.command), strings.Fields(p.program)...), "serve")}, nil
	case p.ssh != "":
		return reach(p.ssh, p.program), nil
	}
	return link.Agent{}, errors.New("the DUT is not named: add --box NAME, or --set ssh=user@box")
}

// reach is the agent that program starts on the box at dest.
func reach(dest, program string) link.Agent {
	return link.Agent{Name: dest, Version: version.Version(), Argv: SSH(dest, program+" serve")}
}

// Reach is how the box's agent is reached, for a link.Dial.
func (b Box) Reach() link.Agent {
	a := reach(b.SSH, b.Program())
	a.Remedy = []string{"boxdyno", "box", "update", b.Name}
	return a
}
