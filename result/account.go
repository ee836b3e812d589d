// SPDX-License-Identifier: Apache-2.0

package result

// A Place is where a counter stands on a path: one closed vocabulary for
// ledger, telemetry, verdict and report.
type Place string

// The places in the order in which a frame meets them.
const (
	Tester    Place = "tester"    // the tester's sender and its port
	Link      Place = "link"      // a cable or veth pair
	DUTNIC    Place = "dut nic"   // receive ring and driver of the DUT's port
	XDP       Place = "xdp"       // XDP program on the DUT's port
	Softnet   Place = "softnet"   // per-CPU backlog
	TC        Place = "tc"        // clsact ingress and egress
	Conntrack Place = "conntrack" // connection tracking and NAT
	NFT       Place = "nft"       // nftables rules
	Routing   Place = "routing"   // IP layer: route lookup, TTL, MTU, reverse path
	Neighbour Place = "neighbour" // address resolution queue
	Qdisc     Place = "qdisc"     // egress queueing discipline
	Socket    Place = "socket"    // socket or packet ring of a subject
	SubjectAt Place = "subject"   // the subject itself
	BlackBox  Place = "black box" // a DUT that nobody can look into
	MeterAt   Place = "meter"     // the tester's receiving port and meter
)

// Places lists all places in path order.
var Places = []Place{Tester, Link, DUTNIC, XDP, Softnet, TC, Conntrack, NFT, Routing, Neighbour, Qdisc, Socket, SubjectAt, BlackBox, MeterAt}

// A Term is one named counter's growth over a trial at one place.
type Term struct {
	Place Place  `json:"place"`
	Host  string `json:"host"`           // "tester", "dut"
	Name  string `json:"name"`           // what happened, in a reader's words: "receive ring full"
	From  string `json:"from"`           // the counter that was read: "lan rx_queue_0_drops"
	N     int64  `json:"n"`              // frames; negative is an anomaly to show
	Link  string `json:"link,omitempty"` // port; "" where the counter is of the whole host, not of one direction
}

// An Unread is a counter of a port that looks like lost frames, moved during a
// trial, and is no term: nobody knows for certain where its frames ended, or
// whether a term counts them too. One with N 0 is a term that stood still, although
// frames ended where it should count them.
type Unread struct {
	Host    string `json:"host"`
	Port    string `json:"port"`    // "": of the whole stack
	Counter string `json:"counter"` // "rx_dropped" of ip -s, "ethtool rx_fifo_errors" of ethtool -S
	N       int64  `json:"n"`       // growth
	Why     string `json:"why"`
}

// An Account is the books of one trial over all its paths at once (a host's IP
// counters cannot be split by direction):
//
//	intended = accepted + refused + not_sent
//	accepted = received + sum of drops + in_flight + unexplained
//
// Every term is read from a counter; only Unexplained is what the equation
// leaves, of either sign, and it is never hidden.
type Account struct {
	Intended    int64  `json:"intended"`            // 0 for a flat-out load, which intends no number
	Accepted    int64  `json:"accepted"`            // handed to the tester's port and taken
	Refused     int64  `json:"refused"`             // the tester's kernel or port did not take them
	NotSent     int64  `json:"not_sent"`            // due but not sent in time
	Received    int64  `json:"received"`            // counted by the meters, duplicates included
	Duplicate   int64  `json:"duplicate,omitempty"` // of them, those that had come before
	Drops       []Term `json:"terms"`               // each frame that ended elsewhere, under its own name; path order, only N != 0
	Passed      []Term `json:"passed"`              // checkpoints: frames that went by, path order; they localise what is unexplained
	InFlight    int64  `json:"in_flight"`
	Unexplained int64  `json:"unexplained"`
	Settled     bool   `json:"settled"` // counters stood still before they were read

	Unread []Unread `json:"unread,omitempty"` // where to look next when Unexplained is not 0
}

// Dropped is the sum of the named drops.
func (a *Account) Dropped() (n int64) {
	for _, t := range a.Drops {
		n += t.N
	}
	return n
}

// DroppedAt is the sum of the named drops at place.
func (a *Account) DroppedAt(p Place) (n int64) {
	for _, t := range a.Drops {
		if t.Place == p {
			n += t.N
		}
	}
	return n
}

// LostOf returns how many frames of a trial's own load were lost, and how many were
// accepted: those of its account without its ramp's.
func LostOf(l *Load, a *Account) (lost, accepted int64) {
	lost, accepted = a.Lost(), a.Accepted
	if l != nil && l.Ramp != nil {
		lost, accepted = lost-l.Ramp.Lost, accepted-l.Ramp.Sent
	}
	return lost, accepted
}

// Lost is what was offered and did not arrive, by the tester's ends alone; a
// frame that arrives twice makes up for no other.
func (a *Account) Lost() int64 { return a.Accepted - a.Received + a.Duplicate }
