// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	"boxdyno/host"
)

// forceFlags say which refusals are passed over.
type forceFlags struct {
	force bool // a port or an address that is somebody's
	own   bool // even a port that carries the caller's own connection
}

func (f *forceFlags) add(cmd *cobra.Command, what string) {
	fs := cmd.Flags()
	fs.BoolVar(&f.force, "force", false, what)
	fs.BoolVar(&f.own, "force-own-connection", false, "even where the port carries your own connection, which then may be cut")
}

// guard refuses a port that others use, and says why and how to go on. doing is what
// would happen to it; else is what the user may do in place of it, such as "choose
// another port".
func (p *trafficPort) guard(f forceFlags, doing, instead string) error {
	if f.own {
		return nil
	}
	use, err := p.Needed()
	if err == nil && !use.Own && !f.force {
		use, err = p.Used()
	}
	switch {
	case err != nil:
		return err
	case use.Own:
		return usage(fmt.Errorf("%s %s: %s (--force-own-connection would %s all the same)", p.Name, use.Why, instead, doing))
	case use.Why == "" || f.force:
		return nil
	}
	return usage(fmt.Errorf("%s %s: %s, or give --force to %s all the same", p.Name, use.Why, instead, doing))
}

// target refuses generated load for an address that may be somebody's on the Internet.
func (f forceFlags) target(flag string, a netip.Addr) error {
	if f.force || f.own || !host.Public(a) {
		return nil
	}
	return fmt.Errorf("--%s: %v is a public address: give one of your lab, such as 198.19.0.2, or --force to send to it all the same", flag, a)
}
