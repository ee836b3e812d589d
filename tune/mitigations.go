// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"context"
	"fmt"
	"os"
	"strings"

	"boxdyno/host"
)

// mitigations is only reported: what they cost is part of what a box carries, and
// they are set where the kernel is started.
var mitigations = Spec{
	Name: "mitigations", Doc: "the kernel's mitigations of flaws of CPUs; reported only: they are set on its command line",
	Values: "auto, off... of mitigations= on the kernel's command line", Scope: PerMachine, Check: word,
	Read: func(_ context.Context, at Site) (v string, err error) {
		v = "auto"
		err = at.proc(func(proc *os.Root) error {
			line, err := readFile(proc, "cmdline")
			for _, w := range strings.Fields(line) {
				if set, ok := strings.CutPrefix(w, "mitigations="); ok {
					v = set
				}
			}
			return err
		})
		return v, err
	},
	Write: func(context.Context, Site, string) error {
		return fmt.Errorf("%w while the kernel runs: put mitigations= on its command line", host.ErrNotSupported)
	},
}
