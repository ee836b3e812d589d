// SPDX-License-Identifier: Apache-2.0

// Package lab builds testbeds:
//
//	Topology --Sketch--> Facts          ports, CPUs, services: data, before anything is built
//	    |                  |
//	    +-----Build----> Testbed        the same facts, the engine, the DUT
//	                       |
//	                     Means          Server  Tuner  Watcher  Observer  Far ...: what the
//	                                    topology can do; who needs one asks for it
//
// A topology is one file and a line of All. What it can do once it stands are methods of one
// type in that file.
package lab

import (
	"context"
	"flag"
	"net/netip"
	"slices"

	"boxdyno/engine"
	"boxdyno/engine/catalog"
	"boxdyno/host"
	"boxdyno/ledger"
	"boxdyno/link"
	"boxdyno/result"
	"boxdyno/service"
	"boxdyno/subject"
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

// Facts are what is known of a testbed before it is built: plain data.
type Facts struct {
	Topology  string
	Kind      string   // real, sandbox, memory
	Placement string   // shared, split; "" where tester and DUT share no CPU
	Ports     []Port   // 0 is lan, 1 is wan
	Loop      []Port   // two tester ports wired to each other, for the self-test; may be Ports themselves; nil: there are none
	TesterCPU int      // for the sender; -1: any
	Senders   []int    // CPUs for further senders, the best first
	Narrow    string   // why there are no more of them, in words, where CPUs are not why
	CPUs      []int    // of this machine that tester and DUT are bound to
	DUTCPUs   []int    // of this machine that do the DUT's work; nil: not known, or another machine's
	MoreCPUs  []int    // that the DUT's work can be spread over beside DUTCPUs (Service.AllCPUs)
	FarCPUs   int      // of a DUT that is another machine, where it is known
	Spreads   bool     // a Server can be asked for that, even where there are none
	DUTPorts  []string // of the DUT on the paths, as it calls them
	Services  []string // those that the DUT can be set up for, or is
	Bridge    bool     // the box is none's gateway
	AsIs      bool     // nobody sets the box up: it does what it was configured for
	Station   [6]byte  // MAC address of frames for software that listens on the DUT; zero: any that no port has
	Apart     bool     // its gateways are two machines, and no frames of the engine come to them
	Arm       bool     // both Ports are one, and the box has one: it sends frames back
	Planted   []string // limits that the DUT has on purpose, in words
}

// SenderCPUs are those of as many of n senders as there are CPUs for; in memory, of all.
func (f *Facts) SenderCPUs(n int) []int {
	if f.Kind == result.KindMemory {
		return slices.Repeat([]int{f.TesterCPU}, n)
	}
	return append([]int{f.TesterCPU}, f.Senders[:min(n-1, len(f.Senders))]...)
}

// BoxCPUs are those of this machine that do the DUT's work while it does s: with s.AllCPUs
// DUTCPUs and MoreCPUs, without those that further senders have.
func (f *Facts) BoxCPUs(s Service) []int {
	if !s.AllCPUs {
		return f.DUTCPUs
	}
	return boxCPUs(f.DUTCPUs, f.MoreCPUs, f.Senders, s.Senders)
}

// boxCPUs are the DUT's own and more, without those of n senders beside the first.
func boxCPUs(own, more, senders []int, n int) []int {
	sends := senders[:min(n, len(senders))]
	return slices.DeleteFunc(slices.Concat(own, more), func(cpu int) bool { return slices.Contains(sends, cpu) })
}

// A Testbed is ports, the DUT between them, and the paths through it: facts, and Means.
type Testbed struct {
	Facts
	Engine   engine.Backend
	Tried    []catalog.Tried
	Threads  []int            // ids of the threads that receive the DUT's frames (threaded NAPI); nil: softirq does
	DUT      *host.Local      // nil: a black box, or a machine that is not this one
	Subjects subject.Machine  // that subjects run on; nil: DUT, or this machine
	Gateways []Gateway        // two, whose cable a Joiner switches; nil: there are none
	Sources  []ledger.Source  // counters of the testbed that are no kernel's
	Settings []result.Pair    // how it was built, for the record
	Warnings []string         // what limits every figure of it, in sentences, for the record
	Machines []result.Machine // further ones that take part, for the record

	// Fixed are settings of the DUT's ports that the testbed itself needs as they are:
	// the name of a knob of package tune, and why.
	Fixed []result.Pair

	// Means is what the topology built. It implements the interfaces of means.go whose
	// question the topology can answer: a procedure asks for one by a type assertion. nil: a
	// sketch, or a topology without any.
	Means any

	serves Service // what Serve asked for last
}

// A Topology is its parameters; Flags declares them with their defaults, Build
// makes the testbed or leaves nothing behind.
type Topology interface {
	Flags(fs *flag.FlagSet)
	// Sketch is the testbed that Build would make, as far as it is known before anything
	// is built. It looks at the machine at most, and refuses parameters of which no testbed
	// can be made. What is not known is zero.
	Sketch() (Facts, error)
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
