// SPDX-License-Identifier: Apache-2.0

package subject

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"boxdyno/host"
)

// Install supplies what a subject lacks on this machine: by the remedies of its Check,
// one after the other, and by what it makes for itself in boxdyno's cache folder. It
// ends with nil once Check does, and with an error where a remedy did not help.
func Install(ctx context.Context, s Spec, run Runner) error {
	sub := s.New()
	var tried []string
	for {
		err := sub.Check(ctx, &host.Local{})
		var missing *host.Missing
		if !errors.As(err, &missing) || len(missing.Remedy) == 0 {
			return err
		}
		if slices.Contains(tried, missing.What) {
			return fmt.Errorf("%s is installed, and still not found: %w", s.Name, missing)
		}
		tried = append(tried, missing.What)
		for _, argv := range missing.Remedy {
			if err := install(ctx, sub, argv, run); err != nil {
				return err
			}
		}
	}
}

// install runs a remedy, or what stands behind it where it is boxdyno itself. What
// that needs from the distribution comes first.
func install(ctx context.Context, s Subject, argv []string, run Runner) error {
	var own func(context.Context, Runner) error
	if s, ok := s.(Installer); ok {
		own = s.Installs(argv)
	}
	if own == nil {
		return run(ctx, argv)
	}
	err := own(ctx, run)
	var missing *host.Missing
	if !errors.As(err, &missing) || len(missing.Remedy) == 0 {
		return err
	}
	for _, argv := range missing.Remedy {
		if err := run(ctx, argv); err != nil {
			return err
		}
	}
	return own(ctx, run)
}
