// SPDX-License-Identifier: Apache-2.0

// Package subject holds the programs that are put under load on a DUT, or that load
// it: each runs in a process tree of its own (host.Process) that is accounted, and
// that ends with boxdyno, however boxdyno ends.
//
//	Spec.New -> Subject (its parameters) -> Check -> Start -> Running: Ready, Usage ..., Stop
package subject

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/unit"
)

// An Env is where a subject runs.
type Env struct {
	Host *host.Local    // its namespace is entered; nil: this machine
	Port host.Port      // that it listens to; zero: it needs none
	CPUs []int          // that it may use; nil: all of this process's
	Dir  string         // for its files, which exists and is empty; ""; none
	Rate unit.FrameRate // that it will be offered; 0: not known
	Ends [2]End         // that a tunnel joins; zero: it is none

	Foreign bool // the frames that come are not the engine's, so that no signature tells them
}

// Machine is where it runs: Host, or this machine.
func (e Env) Machine() *host.Local {
	if e.Host == nil {
		return &host.Local{}
	}
	return e.Host
}

// An End is one of the two gateways that a tunnel joins.
type End struct {
	Host  *host.Local
	Port  string       // towards the other one
	Outer netip.Addr   // its own on that port
	Net   netip.Prefix // behind it; the address is the gateway's own there
}

// A Subject is its parameters, which Flags declares with their defaults and ranges.
type Subject interface {
	Flags(fs *flag.FlagSet)
	// Check says whether it can run on h: a *host.Missing carries the remedy.
	Check(ctx context.Context, h *host.Local) error
	// Start leaves nothing behind where it fails. Until Stop or Wait the caller owns
	// what was started.
	Start(ctx context.Context, e Env) (Running, error)
}

// A Reader has parameters that name files, which it reads where it runs.
type Reader interface {
	// Files are the names of those parameters; empty values name none.
	Files() []string
}

// A Running is a subject's process tree. Where it has counters of its own it is a Counter.
type Running interface {
	// Ready waits until it does its work, so that a trial may begin.
	Ready(ctx context.Context) error
	// Usage is what the whole tree used since its start: the difference of two calls
	// is that of the time between. It can be called after the end, too.
	Usage() (result.Usage, error)
	// Stop ends it in order, or by force where it does not obey, and returns once
	// nothing of it is left. It may be called again, and after the end.
	Stop(ctx context.Context) error
}

// A Counter's terms stand in the ledger (ledger.Source): what the subject itself says
// that it lost.
type Counter interface {
	Count(ctx context.Context) ([]result.Term, error)
}

// A Progresser counts frames, ten times a second while it runs.
type Progresser interface {
	// Progress is how many frames it has counted since its start, as it said at an
	// instant; ok is false where it has not said anything yet. It may be called after
	// the end, too.
	Progress() (counted int64, at unit.Instant, ok bool)
}

// A Distant subject runs on a machine with a clock of its own.
type Distant interface {
	// ClockError is how far off the instants that it tells (Progress) may be at most.
	ClockError() time.Duration
}

// An Ender may end by itself, or do what it must not.
type Ender interface {
	// Ended is one sentence on what went wrong with it; nil where it runs, or has
	// ended because it was stopped.
	Ended() error
}

// A Runner runs a command, and shows what it prints.
type Runner func(ctx context.Context, argv []string) error

// An Installer makes for itself what no package brings.
type Installer interface {
	// Installs is what stands behind a remedy that is boxdyno's own; nil: the remedy is
	// none of these.
	Installs(remedy []string) func(ctx context.Context, run Runner) error
}

// A Spec is a row of a list of subjects.
type Spec struct {
	Name, Doc string
	Work      string // what it does, in a word for people; of a capture how much with each frame: Count to Application
	Metrics   []result.Metric
	New       func() Subject
}

// Specs are subjects of one kind, or of all.
type Specs []Spec

// Names are theirs, in their order.
func (all Specs) Names() (names []string) {
	for _, s := range all {
		names = append(names, s.Name)
	}
	return names
}

// Find is the row that has the name; an error names those that there are.
func (all Specs) Find(name string) (Spec, error) {
	i := slices.IndexFunc(all, func(s Spec) bool { return s.Name == name })
	if i < 0 {
		return Spec{}, fmt.Errorf("there is no subject %q: the subjects are %s", name, strings.Join(all.Names(), ", "))
	}
	return all[i], nil
}

// Main does the work of this process where it was started as the keeper of a
// subject or as a Command's gate, and then does not return.
func Main() {
	host.KeepMain()
	gateMain()
}
