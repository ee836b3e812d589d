// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"boxdyno/result"
)

// A rule says what it means that frames ended at a place, and what to try.
// The first rule of a place whose words the term's name holds is taken; the
// last one of each place has none and takes all.
type rule struct {
	place result.Place
	words string // in the term's name, in lower case
	means string // %s: the port, "the DUT's port lan"
	next  string
}

const notTheBox = "that is the tester, not the box"

var rules = []rule{
	{result.Tester, "", "the tester's own port did not send them: " + notTheBox, "Use a faster tester port, or offer less."},
	{result.Link, "", "they were sent and did not reach the other end of the cable", "Check the cable, speed, duplex and pause frames of the link."},
	{result.DUTNIC, "ring full", "the receive ring of %s overflowed: the CPU that empties it takes no more frames, or stood still for longer than the ring holds", "Spread the port's receive work over more CPUs (more queues, or RPS), or lengthen its ring where it has one to set; else it takes a CPU that does more on one core."},
	{result.DUTNIC, "", "%s dropped them before the network stack saw them", "Read the port's own counters (ethtool -S) and the driver's messages (dmesg)."},
	{result.XDP, "sent back", "an XDP program on %s sent them back or could not", "Look at the XDP program on that port (bpftool net)."},
	{result.XDP, "", "an XDP program on %s dropped them", "Look at the XDP program on that port (bpftool net)."},
	{result.Softnet, "", "the backlog of a CPU overflowed: frames were handed to it (by RPS, or by a port without receive queues of its own) faster than it takes them", "Raise net.core.netdev_max_backlog, or spread the work over more CPUs (rps_cpus)."},
	{result.TC, "", "a tc filter on %s dropped them", "Look at the filters of that port (tc -s filter show)."},
	{result.Conntrack, "", "connection tracking refused them: its table is full, or it could not add an entry", "Raise net.netfilter.nf_conntrack_max, or exempt from tracking what needs no state (notrack)."},
	{result.NFT, "", "an nftables rule dropped them", "See in the counters of the rules (nft list ruleset) which one matched, and whether it should."},
	{result.Routing, "ttl", "their TTL expired, or their IP header was bad", "Look for a routing loop, and send with a higher TTL."},
	{result.Routing, "mtu", "they are larger than the MTU of the port they should leave by", "Raise the MTU of the outgoing port, or send smaller frames."},
	{result.Routing, "fragments", "they left in fragments, because they are larger than the MTU of the outgoing port", "Raise the MTU of the outgoing port, or send smaller frames."},
	{result.Routing, "reverse path", "the reverse path filter dropped them: the way back to their source leads through another port", "Add the missing route to the source, or set rp_filter to 2 (loose) on the receiving port."},
	{result.Routing, "no route", "there is no route to their destination", "Add the missing route (ip route get shows what is missing)."},
	{result.Routing, "forwarding off", "their destination address is not acceptable, or forwarding is off", "Set net.ipv4.ip_forward (net.ipv6.conf.all.forwarding) to 1."},
	{result.Routing, "delivered", "they were addressed to the DUT itself", "Send to an address behind the DUT; under NAT, open the flow from the other side first."},
	{result.Routing, "unknown protocol", "they were addressed to the DUT itself", "Send to an address behind the DUT; under NAT, open the flow from the other side first."},
	{result.Routing, "another host", "their destination MAC address is not that of the port they arrived at", "Use the DUT's MAC address as the gateway's."},
	{result.Routing, "route", "a route refuses their destination", "Remove the blackhole, prohibit or unreachable route (ip route show table all)."},
	{result.Routing, "", "the IP layer dropped them", "Look at the IP layer's counters (nstat -az)."},
	{result.Neighbour, "", "the next hop's MAC address is not known, and the queue that waits for it is full or was given up", "Make the next hop answer ARP or neighbour discovery, or set a permanent neighbour."},
	{result.Qdisc, "", "the egress queue of %s overflowed: its link takes no more", "Use a faster link, or lengthen the queue (txqueuelen, the qdisc's limit)."},
	{result.Socket, "", "the ring or socket buffer of the program under load overflowed: the program takes no more", "Give the program a larger buffer or more workers."},
	{result.SubjectAt, "", "the program under load dropped them itself", "Read the program's own log and counters."},
	{result.BlackBox, "", "they ended inside a box that nobody can look into", "Read the box's own counters on its console or by SNMP."},
	{result.MeterAt, "", "the tester's meter lost them: " + notTheBox, "Give the meter a CPU of its own, or offer less."},
}

// A loss is what a trial's ledger says of the frames that should have arrived.
type loss struct {
	lost  int64
	most  int64 // at the place where most ended
	terms []result.Term
	rule  *rule // nil: most have no counter
}

// lossOf reads a ledger. Frames that a drop service ends where it should are not
// lost.
func lossOf(r result.Record) (l loss) {
	a := r.Account
	if a == nil {
		return l
	}
	drops := slices.Clone(a.Drops)
	l.lost = a.Lost()
	if place, ok := strings.CutPrefix(result.Get(r.Config, "service"), "drop-"); ok {
		l.lost -= a.DroppedAt(result.Place(place))
		drops = slices.DeleteFunc(drops, func(t result.Term) bool { return t.Place == result.Place(place) })
	}
	if l.lost <= 0 {
		return l
	}
	at := map[result.Place]int64{}
	for _, t := range drops {
		at[t.Place] += t.N
	}
	var worst result.Place
	for _, p := range result.Places { // in path order: the same answer each time
		if at[p] > l.most {
			worst, l.most = p, at[p]
		}
	}
	if l.most <= a.Unexplained || l.most <= 0 {
		l.most, l.terms = a.Unexplained, a.Passed
		return l
	}
	l.terms = slices.DeleteFunc(drops, func(t result.Term) bool { return t.Place != worst })
	slices.SortStableFunc(l.terms, func(a, b result.Term) int { return cmp.Compare(b.N, a.N) })
	l.rule = ruleOf(l.terms[0])
	return l
}

func ruleOf(t result.Term) *rule {
	for i, r := range rules {
		if r.place == t.Place && strings.Contains(strings.ToLower(t.Name), r.words) {
			return &rules[i]
		}
	}
	return nil
}

// Bottleneck names what gave in one trial, from its ledger, in a sentence, with
// the terms that show it, largest first; "" where nothing was lost, and a
// sentence that says so where the cause is not known (then the terms are the
// checkpoints that frames went by).
func Bottleneck(r result.Record) (sentence string, evidence []result.Term) {
	l := lossOf(r)
	switch {
	case l.lost <= 0:
		return "", nil
	case l.rule == nil:
		return fmt.Sprintf("Where most of the %d lost frames ended is not known: %d are in no counter.", l.lost, l.most), l.terms
	}
	t := l.terms[0]
	means := l.rule.means
	if strings.Contains(means, "%s") {
		port := "a port of the DUT"
		var links []string // of all terms of that name: both directions have one
		for _, o := range l.terms {
			if o.Place == t.Place && o.Name == t.Name && o.Link != "" {
				links = append(links, o.Link)
			}
		}
		if len(links) > 0 {
			slices.Sort(links)
			port = "the DUT's port " + strings.Join(links, " and port ")
		}
		means = fmt.Sprintf(means, port)
	}
	return fmt.Sprintf("%d of %d lost frames (%s) ended in %s (%s): %s.", l.most, l.lost, percent(float64(l.most)/float64(l.lost)), t.Place, t.Name, means), l.terms
}

// Next is what to try about Bottleneck, in a sentence; "" where nothing was lost.
func Next(r result.Record) string {
	l := lossOf(r)
	switch {
	case l.lost <= 0:
		return ""
	case l.rule == nil:
		return "Compare the checkpoints of the ledger: the frames ended after the last one that counts them; there, read the port's own counters (ethtool -S)."
	}
	return l.rule.next
}
