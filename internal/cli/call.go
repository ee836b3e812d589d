// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"boxdyno/lab"
)

// call is what a tester runs on the DUT of topology pair.
func (a *app) call() *cobra.Command {
	return &cobra.Command{
		Use:    "call",
		Hidden: true,
		Short:  "Answer a tester's questions on standard input",
		Long: `Call stands on the DUT of topology pair: a tester starts it, by ssh, and asks it for
counters, a line of JSON each. It changes nothing, and ends with its standard input.`,
		Example: "  ssh root@box boxdyno call",
		Args:    cobra.NoArgs,
		RunE: do(func(ctx context.Context, _ []string) error {
			return lab.ServeCalls(ctx, os.Stdin, a.out, Version())
		}),
	}
}
