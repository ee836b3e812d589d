// SPDX-License-Identifier: Apache-2.0

package program

import (
	"context"
	"fmt"
	"strings"
	"time"

	"boxdyno/host"
)

const (
	VersionPatience    = 5 * time.Second  // for a program that says its version
	CryptsetupPatience = 60 * time.Second // for one that formats, opens or closes a volume
	// ReadyPatience is how long a program may take to be ready, where the caller sets
	// no limit: Suricata with 1000 rules takes more than a minute on a slow board.
	ReadyPatience = 5 * time.Minute
	// stopGrace is how long a program may take to say its last after it was told to
	// end.
	StopGrace = 5 * time.Second
)

// Within is a program's standard output. One that has not ended within patience is
// killed, and is an error that says so; one that is not installed is a *host.Missing.
func Within(ctx context.Context, h *host.Local, patience time.Duration, stdin string, argv ...string) ([]byte, error) {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	out, err := h.Run(limited, stdin, argv...)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%s hung: it did not end within %v and was killed", strings.Join(argv, " "), patience)
	}
	return out, err
}

// InUserland is a command for the machine, or for the userland whose programs are h's.
func InUserland(h *host.Local, argv ...string) []string {
	if h.Userland == nil {
		return argv
	}
	return append([]string{"chroot", h.Userland.Root}, argv...)
}
