// SPDX-License-Identifier: Apache-2.0

package param

import (
	"context"
	"flag"
	"strings"

	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/subject/userland"
)

// A Userland is whose programs a procedure lets work.
type Userland struct{ Choice }

// NewUserland returns the machine's own.
func NewUserland() Userland {
	return Userland{NewChoice(userland.Native, userland.Names())}
}

// Declare declares the parameter.
func (u *Userland) Declare(fs *flag.FlagSet) {
	fs.Var(&u.Choice, "userland", "whose programs work: native: the machine's; 32-bit: those of 32 bit beside a kernel of 64")
}

// Local is this machine with the userland's programs. A *host.Missing says that they are
// not there.
func (u *Userland) Local(ctx context.Context) (*host.Local, error) {
	of, err := userland.Named(ctx, u.Value)
	return &host.Local{Userland: of}, err
}

// ProgramsOf names the userland's programs, for trials; nothing of the machine's own.
func ProgramsOf(local *host.Local) []result.Pair {
	if local.Userland == nil {
		return nil
	}
	return []result.Pair{{Key: "programs", Value: strings.Join(strings.Fields(local.Userland.Programs()), "_")}}
}
