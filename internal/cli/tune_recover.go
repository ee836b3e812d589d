// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"boxdyno/host"
	"boxdyno/tune"
)

// recovering are the commands that change or measure this machine: what a process
// that died had tuned is put back before they begin.
var recovering = []string{"run", "qualify", "send", "replay", "meter", "doctor", "watch", "cables", "apply", "revert", "ablate"}

// recoverTuning does that. What cannot be put back is said, and the command goes on: the
// next one tries again.
func (a *app) recoverTuning(cmd *cobra.Command, _ []string) error {
	if dry, _ := cmd.Flags().GetBool("dry-run"); dry || !slices.Contains(recovering, cmd.Name()) {
		return nil
	}
	notes, err := tune.New().Recover(cmd.Context(), a.measuringLock)
	for _, n := range notes {
		a.note("tuning: %s", n)
	}
	if cmd.Context().Err() != nil {
		return &failure{exitInterrupted, errors.New("interrupted before anything was measured")}
	}
	if err != nil {
		a.note("tuning: %s", sentence(err))
	}
	return nil
}

// measuringLock waits for whoever measures.
func (a *app) measuringLock(ctx context.Context) (func(), error) {
	return host.Lock(ctx, func(holder string) { a.note("waiting for another boxdyno to finish measuring (%s)", holder) })
}
