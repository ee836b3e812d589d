// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"io"
	"time"

	"boxdyno/engine"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/ledger"
	"boxdyno/link"
	"boxdyno/result"
	"boxdyno/subject"
	"boxdyno/telemetry"
	"boxdyno/tune"
)

// A Pather has paths of frames.
type Pather interface {
	// Path is the hops from port from to port to (indexes into Ports, or into Loop with
	// loop set).
	Path(from, to int, loop bool) ledger.Path
}

// A Server makes the DUT do s and nothing else.
type Server interface {
	Serve(ctx context.Context, s Service) error
}

// An Inspector reads how the DUT is set up: rules, tables, queues.
type Inspector interface {
	State(ctx context.Context) ([]result.Pair, error)
}

// An Observer has settings that may change by themselves, such as a link's speed: it is
// asked before and after a run.
type Observer interface {
	Observe() []result.Pair
}

// A Talker lets sockets of this machine use the first port with its IPv4 address, until
// leave. Where a testbed is none, the address is all that they lack.
type Talker interface {
	Talk(ctx context.Context) (leave func() error, err error)
}

// A Tuner applies a recipe to the DUT, for whom by names; revert takes it back.
type Tuner interface {
	Tune(ctx context.Context, r tune.Recipe, by string) (revert func(context.Context) (notes []string, err error), settings []result.Setting, err error)
}

// A Watcher has the telemetry of a DUT that is another machine.
type Watcher interface {
	// Watch is that as a collector here: those of its collectors that are named, or those by
	// default.
	Watch(names []string, warn func(string)) telemetry.Spec
}

// A Sender opens the only sender of its first port. A testbed that is none has its Engine's.
type Sender interface {
	OpenSender(ctx context.Context, cpu int) (engine.Transmitter, error)
}

// A Receiver is a DUT that is another machine and says how its CPUs take frames.
type Receiver interface {
	// Receive is that since it was asked before, and how the DUT's ports are set up.
	Receive(ctx context.Context) (result.DUTWork, error)
}

// A Caller is a DUT whose port behind the tester's first one tells the frames of a capture
// apart.
type Caller interface {
	// OpenRoll opens a meter of r's frames there, which keeps them from the stack: see
	// engine.Backend.OpenRoll. Its instants are of this machine's clock.
	OpenRoll(ctx context.Context, r *frame.Roll) (engine.Meter, error)
}

// A Lender is a box that loads can run on, beside what is measured. Where a testbed is
// none, the DUT shares this machine, or is not reached yet.
type Lender interface {
	Resources() (host.Resources, error)
}

// A Rester lets time pass in a testbed whose time is its own. Elsewhere it passes by itself.
type Rester interface {
	Rest(d time.Duration)
}

// A Joiner switches the cable between two gateways.
type Joiner interface {
	Direct(on bool) error   // routes between their networks over the cable itself, or not at all
	Offloads(on bool) error // switches the offloads of its ends
}

// A Far is a box whose agent carries out procedures, or several of them; this machine keeps
// the records. The first of the testbed's Machines is the box, or one of them.
type Far interface {
	Conn() *link.Conn                                           // nil: there are several, which procedures reach themselves
	Allowed() []int                                             // CPUs that the agent may use there
	Environment() []result.Pair                                 // the box's; why it does not answer is dut_state
	Busy(ctx context.Context, d time.Duration) (float64, error) // host.Local.Busy there
}

// Path is the testbed's way from one port to another; without hops where it has none.
func (tb *Testbed) Path(from, to int, loop bool) ledger.Path {
	if p, ok := tb.Means.(Pather); ok {
		return p.Path(from, to, loop)
	}
	return ledger.Path{}
}

// Serve has a Server make the DUT do s. Where the testbed is none, the box does what it was
// configured for.
func (tb *Testbed) Serve(ctx context.Context, s Service) error {
	s.Senders = min(s.Senders, len(tb.Senders))
	if v, ok := tb.Means.(Server); ok {
		if err := v.Serve(ctx, s); err != nil {
			return err
		}
		tb.serves = s
	}
	return nil
}

// Carrying are the CPUs of this machine that do the DUT's work as Serve asked for it last.
func (tb *Testbed) Carrying() []int { return tb.BoxCPUs(tb.serves) }

// Machine is where subjects run.
func (tb *Testbed) Machine() subject.Machine {
	if tb.Subjects != nil {
		return tb.Subjects
	}
	return subject.Here{Host: tb.DUT}
}

// Close takes everything down; it may be called more than once.
func (tb *Testbed) Close() error {
	if c, ok := tb.Means.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// A once takes down at its first Close, and returns the same error at later ones.
type once func() error

func (f once) Close() error { return f() }
