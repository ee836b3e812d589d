// SPDX-License-Identifier: Apache-2.0

// Package lab builds testbeds.
package lab

import (
	"context"
	"flag"
	"net/netip"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/catalog"
	"boxdyno/host"
	"boxdyno/ledger"
	"boxdyno/link"
	"boxdyno/result"
	"boxdyno/service"
	"boxdyno/subject"
	"boxdyno/telemetry"
	"boxdyno/unit"
)

// Pair is the name of the topology whose DUT is a box with the agent, behind cables.
const Pair = "pair"

// A Port is an end that the tester drives, and what stands at the other end of
// its cable.
type Port struct {
	host.Port
	MAC, GatewayMAC [6]byte
	Addr4, Gateway4 netip.Addr   // in 198.18.0.0/15
	Addr6, Gateway6 netip.Addr   // in 2001:2::/48
	MTU             int          // of the port; a frame's buffer may be 14 longer
	Link            unit.BitRate // 0: no stated rate; the tester's ceiling limits
}

// A Service is what the DUT does to frames: plain data.
type Service = service.Service

// Connections are to so many TCP ports from Port on.
type Connections = service.Connections

// Services are the kinds.
var Services = service.Kinds

// wiredServices are those that a box behind cables may be configured for; memServices are
// those of the DUT in memory.
var (
	wiredServices = []string{"route", "filter", "nat"}
	memServices   = []string{"route", "filter", "drop-xdp", "drop-tc", "drop-nft"}
)

// A Testbed is ports, the DUT between them, and the paths through it.
type Testbed struct {
	Topology  string
	Kind      string // real, sandbox, memory
	Placement string // shared, split; "" where tester and DUT share no CPU
	Ports     []Port // 0 is lan, 1 is wan
	Loop      []Port // two tester ports wired to each other, for the self-test; may be Ports themselves; nil: there are none
	TesterCPU int    // for the sender; -1: any
	CPUs      []int  // of this machine that tester and DUT are bound to
	DUTCPUs   []int  // of this machine that do the DUT's work; nil: not known, or another machine's
	MoreCPUs  []int  // that the DUT's work can be spread over beside DUTCPUs (Service.AllCPUs)
	Spreads   bool   // Serve can be asked for that, even where there are none
	Threads   []int  // ids of the threads that receive the DUT's frames (threaded NAPI); nil: softirq does
	Engine    engine.Backend
	Tried     []catalog.Tried
	DUT       *host.Local      // nil: a black box, or a machine that is not this one
	Subjects  subject.Machine  // that subjects run on; nil: DUT, or this machine
	DUTPorts  []string         // of DUT on the paths, as it calls them
	Services  []string         // those that Serve can set up
	Bridge    bool             // the box is none's gateway
	AsIs      bool             // Serve sets nothing up: the box does what it was configured for
	Settings  []result.Pair    // how it was built, for the record
	Warnings  []string         // what limits every figure of it, in sentences, for the record
	Machines  []result.Machine // further ones that take part, for the record

	// Observe is settings that may change by themselves, such as a link's speed: it
	// is asked before and after a run; nil: there are none.
	Observe func() []result.Pair
	Planted []string // limits that the DUT has on purpose, in words

	// Fixed are settings of the DUT's ports that the testbed itself needs as they are:
	// the name of a knob of package tune, and why.
	Fixed []result.Pair

	Gateways *GatewayPair // nil: there are none

	// Path is the hops from port from to port to (indexes into Ports, or into
	// Loop with loop set).
	Path func(from, to int, loop bool) ledger.Path
	// Sources are counters of the testbed that are no kernel's.
	Sources []ledger.Source
	// Serve makes the DUT do s and nothing else; nil where it cannot be told.
	Serve func(ctx context.Context, s Service) error
	// State reads how the DUT is set up: rules, tables, queues; nil where nobody can
	// look into it.
	State func(ctx context.Context) ([]result.Pair, error)
	// Talk lets sockets of this machine use the first port with its IPv4 address, until leave;
	// nil: the address is all that they lack.
	Talk func(ctx context.Context) (leave func() error, err error)
	// Tune applies recipes to the DUT; nil where it is on this machine (DUT), or nobody can.
	Tune Tuning
	// Far is the DUT where that carries out procedures itself; nil: this machine does.
	Far *Far
	// Watch is the DUT's telemetry as a collector here: those of its collectors that are
	// named, or those by default; nil where the DUT is this machine, or tells nothing.
	Watch func(names []string, warn func(string)) telemetry.Spec
	// Resources are the DUT's where that is a box which loads can run on; nil: the DUT shares
	// this machine, or is not reached yet.
	Resources func() (host.Resources, error)
	// Rest lets time pass in a testbed whose time is its own; nil: it passes by itself.
	Rest func(d time.Duration)
	// Close takes everything down; it may be called more than once.
	Close func() error
}

// A Far is a box whose agent carries out procedures, or several of them; this machine keeps
// the records. The first of the testbed's Machines is the box, or one of them.
type Far struct {
	Conn        *link.Conn                                                  // nil: there are several, which procedures reach themselves
	CPUs        []int                                                       // that the agent may use there
	Environment func() []result.Pair                                        // the box's; why it does not answer is dut_state
	Busy        func(ctx context.Context, d time.Duration) (float64, error) // host.Local.Busy there
}

// Machine is where subjects run.
func (tb *Testbed) Machine() subject.Machine {
	if tb.Subjects != nil {
		return tb.Subjects
	}
	return subject.Here{Host: tb.DUT}
}

// A Topology is its parameters; Flags declares them with their defaults, Build
// makes the testbed or leaves nothing behind.
type Topology interface {
	Flags(fs *flag.FlagSet)
	// Sketch is the testbed that Build would make, as far as it is known before anything
	// is built: name, ports, services, CPUs. It looks at the machine at most, and refuses
	// parameters of which no testbed can be made. Functions are nil, and what is not known
	// is zero.
	Sketch() (*Testbed, error)
	Build(ctx context.Context) (*Testbed, error)
}

// A Dialling topology reaches an agent by a link.Dial, which it is given before Build.
type Dialling interface{ DialBy(dial link.Dial) }

// A Spec is a row of All.
type Spec struct {
	Name, Doc string
	Offers    Capability // of a testbed that it builds
	Services  []string   // those that its DUT may be asked for; parameters may leave fewer (Testbed.Services)
	New       func() Topology
}
