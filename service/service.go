// SPDX-License-Identifier: Apache-2.0

// Package service is what a DUT does to frames: which kinds there are, their rules, and
// how a machine with ports of its own is set up for them and put back.
package service

import (
	"fmt"

	"boxdyno/frame"
)

// A Service is what the DUT does to frames: plain data.
type Service struct {
	Kind  string // one of Kinds
	Rules int    // filter: rules before the one that matches
	Flows int    // nat: flows to expect
	Block bool   // filter: throw known-bad frames away (frame.BadPort)

	// Networks is how many networks of each side the DUT has a route of its own to
	// (frame.Network), 2 to frame.MaxNetworks; 0 or 1: the connected one alone.
	Networks int

	// AllCPUs spreads flows over all CPUs that the tester leaves the DUT; else one does its
	// work. Another machine has all of its own; else it does as it is tuned.
	AllCPUs bool

	// Senders is how many more than one CPU send; AllCPUs leaves them theirs.
	Senders int

	// Connections are TCP connections from lan that are let through, each anew: the
	// connection table is empty. filter tracks them; nil: frames of UDP.
	Connections *Connections
}

// Connections are to so many TCP ports from Port on.
type Connections struct{ Port, Ports int }

// Kinds are all: plain routing; nft rules before the match; masquerade
// towards wan; and throwing every test frame away in XDP, tc or nft.
var Kinds = []string{"route", "filter", "nat", "drop-xdp", "drop-tc", "drop-nft"}

const (
	// MaxRules is the most of a filter.
	MaxRules = 100_000
	// MaxNATFlows is what one address of the DUT takes with room to spare; up to
	// frame.FlowPorts flows have ports of their own.
	MaxNATFlows = 10_000
)

// Check says what is wrong with the numbers of s, whatever machine serves it.
func (s Service) Check() error {
	switch {
	case s.Kind == "filter" && (s.Rules < 0 || s.Rules > MaxRules):
		return fmt.Errorf("service filter: rules %d: want 0 to %d", s.Rules, MaxRules)
	case s.Kind == "nat" && (s.Flows < 1 || s.Flows > MaxNATFlows):
		return fmt.Errorf("service nat: flows %d: want 1 to %d", s.Flows, MaxNATFlows)
	case s.Networks < 0 || s.Networks > frame.MaxNetworks:
		return fmt.Errorf("service %s: networks %d: want 0 to %d", s.Kind, s.Networks, frame.MaxNetworks)
	}
	return nil
}
