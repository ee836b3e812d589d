// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"boxdyno/result"
)

// A rule says what it means that frames ended at a place, its cause, and what to try.
// The first rule of a place whose words the term's name holds is taken; the
// last one of each place has none and takes all.
type rule struct {
	place result.Place
	words string // in the term's name, in lower case
	cause Cause
	means string // %s: the port, "the DUT's port lan"
	next  string
}

const notTheBox = "that is the tester, not the box"

var rules = []rule{
	{result.Tester, "", CauseTester, "the tester's own port did not send them: " + notTheBox, "Use a faster tester port, or offer less."},
	{result.Link, "", CauseLink, "they were sent and did not reach the other end of the cable", "Check the cable, speed, duplex and pause frames of the link."},
	{result.DUTNIC, "ring full", CauseRing, "the receive ring of %s overflowed: the CPU that empties it takes no more frames, or stalled for longer than the ring holds", "Spread the port's receive work over more CPUs (more queues, or RPS), or lengthen its ring where it has one to set; else it takes a CPU that does more on one core."},
	{result.DUTNIC, "", CauseDriver, "%s dropped them before the network stack saw them", "Read the port's own counters (ethtool -S) and the driver's messages (dmesg)."},
	{result.XDP, "sent back", CauseXDP, "an XDP program on %s sent them back or could not", "Look at the XDP program on that port (bpftool net)."},
	{result.XDP, "policer", CausePolicer, "a policer on %s let no more in: its rate is the limit", "Raise the policer's rate or burst, or take it away; what it lets through says nothing about the box."},
	{result.XDP, "", CauseXDP, "an XDP program on %s dropped them", "Look at the XDP program on that port (bpftool net)."},
	{result.Softnet, "", CauseRing, "the backlog of a CPU overflowed: RPS, or a port without receive queues, handed it frames faster than it takes them", "Raise net.core.netdev_max_backlog, or spread the work over more CPUs (rps_cpus)."},
	{result.TC, "planted loss", CausePlantedLoss, "loss that was planted on %s took them, whatever the load", "Take the planted loss away (dut.loss)."},
	{result.TC, "", CauseTC, "a tc filter on %s dropped them", "Look at the filters of that port (tc -s filter show)."},
	{result.Conntrack, "", CauseConntrack, "connection tracking refused them: its table is full, or it could not add an entry", "Raise net.netfilter.nf_conntrack_max, or exempt from tracking what needs no state (notrack)."},
	{result.NFT, "", CauseRule, "an nftables rule dropped them", "See in the counters of the rules (nft list ruleset) which one matched, and whether it should."},
	{result.Routing, "ttl", CauseTTL, "their TTL expired, or their IP header was bad", "Look for a routing loop, and send with a higher TTL."},
	{result.Routing, "mtu", CauseMTU, "they are larger than the MTU of the port they should leave by", "Raise the MTU of the outgoing port, or send smaller frames."},
	{result.Routing, "fragments", CauseMTU, "they left in fragments, because they are larger than the MTU of the outgoing port", "Raise the MTU of the outgoing port, or send smaller frames."},
	{result.Routing, "reverse path", CauseReversePath, "the reverse path filter dropped them: the way back to their source leads through another port", "Add the missing route to the source, or set rp_filter to 2 (loose) on the receiving port."},
	{result.Routing, "no route", CauseRoute, "there is no route to their destination", "Add the missing route (ip route get shows what is missing)."},
	{result.Routing, "forwarding off", CauseForwardingOff, "their destination address is not acceptable, or forwarding is off", "Set net.ipv4.ip_forward (net.ipv6.conf.all.forwarding) to 1."},
	{result.Routing, "delivered", CauseLocal, "they were addressed to the DUT itself", "Send to an address behind the DUT; under NAT, open the flow from the other side first."},
	{result.Routing, "unknown protocol", CauseLocal, "they were addressed to the DUT itself", "Send to an address behind the DUT; under NAT, open the flow from the other side first."},
	{result.Routing, "another host", CauseMAC, "their destination MAC address is not that of the port they arrived at", "Use the DUT's MAC address as the gateway's."},
	{result.Routing, "route", CauseRoute, "a route refuses their destination", "Remove the blackhole, prohibit or unreachable route (ip route show table all)."},
	{result.Routing, "", CauseIP, "the IP layer dropped them", "Look at the IP layer's counters (nstat -az)."},
	{result.Neighbour, "", CauseNeighbour, "the next hop's MAC address is not known, and the queue that waits for it is full or was given up", "Make the next hop answer ARP or neighbour discovery, or set a permanent neighbour."},
	{result.Qdisc, "shaper", CauseShaper, "the shaper on %s sends no more than its rate, and its queue is full", "Raise the shaper's rate; a longer queue only delays the loss."},
	{result.Qdisc, "", CauseQueue, "the egress queue of %s overflowed: its link takes no more", "Use a faster link, or lengthen the queue (txqueuelen, the qdisc's limit)."},
	{result.Socket, "", CauseSocket, "the ring or socket buffer of the program under load overflowed: the program takes no more", "Give the program a larger buffer or more workers."},
	{result.SubjectAt, "", CauseSubject, "the program under load dropped them itself", "Read the program's own log and counters."},
	{result.BlackBox, "", CauseBlackBox, "they ended inside a box that nobody can look into", "Read the box's own counters on its console or by SNMP."},
	{result.MeterAt, "", CauseTester, "the tester's meter lost them: " + notTheBox, "Give the meter a CPU of its own, or offer less."},
}

// A loss is what a trial's ledger says of the frames that should have arrived.
type loss struct {
	lost   int64
	places []placeLoss // those that took frames, the one that limits first, then by their share
	rule   *rule       // of the first; nil: where most ended is not known
	most   int64       // then: in no counter
	terms  []result.Term
}

// A placeLoss is what ended at one place.
type placeLoss struct {
	place   result.Place
	n       int64
	reached int64         // frames that came as far as the place
	terms   []result.Term // largest first
}

func (p placeLoss) share() float64 {
	if p.reached <= 0 {
		return 1
	}
	return float64(p.n) / float64(p.reached)
}

// limits is the share of what reaches a place from which on that place, being the
// last such one on the path, bounds what comes out: whatever more the places
// before it let through would end there.
const limits = 0.1

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
	var most int64
	reached := a.Accepted
	for _, p := range result.Places {
		at := placeLoss{place: p, reached: reached}
		for _, t := range drops {
			if t.Place == p {
				at.n += t.N
				at.terms = append(at.terms, t)
			}
		}
		reached -= at.n
		if at.n > 0 {
			slices.SortStableFunc(at.terms, func(a, b result.Term) int { return cmp.Compare(b.N, a.N) })
			l.places = append(l.places, at)
			most = max(most, at.n)
		}
	}
	if most <= a.Unexplained || most <= 0 {
		l.places, l.most, l.terms = nil, a.Unexplained, a.Passed
		return l
	}
	main := -1
	for i, p := range l.places {
		if p.share() >= limits {
			main = i
		}
	}
	if main < 0 {
		main = slices.IndexFunc(l.places, func(p placeLoss) bool { return p.n == most })
	}
	first := l.places[main]
	l.places = slices.Delete(l.places, main, main+1)
	slices.SortStableFunc(l.places, func(a, b placeLoss) int { return cmp.Compare(b.n, a.n) })
	l.places = append([]placeLoss{first}, l.places...)
	l.terms = first.terms
	l.rule = ruleOf(first.terms[0])
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

// port names the ports of a place's largest term.
func (p placeLoss) port() string {
	t := p.terms[0]
	var links []string // of all terms of that name: both directions have one
	for _, o := range p.terms {
		if o.Name == t.Name && o.Link != "" {
			links = append(links, o.Link)
		}
	}
	if len(links) == 0 {
		return "a port of the DUT"
	}
	slices.Sort(links)
	return "the DUT's port " + strings.Join(slices.Compact(links), " and port ")
}

// ended says how many frames ended at the place, of all that were lost or, where
// most ended earlier, of those that came as far.
func (p placeLoss) ended(lost, most int64) string {
	if p.n < most {
		return fmt.Sprintf("%d of %d frames (%s) that came as far as %s ended there (%s)", p.n, p.reached, percent(p.share()), p.place, p.terms[0].Name)
	}
	return fmt.Sprintf("%d of %d lost frames (%s) ended in %s (%s)", p.n, lost, percent(float64(p.n)/float64(lost)), p.place, p.terms[0].Name)
}

// unknown is the limit where most lost frames are in no counter: with the counters of rings
// that stood still, and what the box's CPUs did.
func unknown(c Case, l loss) Limit {
	out := Limit{Cause: CauseUnknown, Evidence: l.terms,
		Sentence: fmt.Sprintf("Where most of the %d lost frames ended is not known: %d are in no counter", l.lost, l.most),
		Next:     "Compare the checkpoints of the ledger: the frames ended after the last one that counts them; there, read the port's own counters (ethtool -S)."}
	var still []result.Unread
	for _, u := range c.Record.Account.Unread {
		if u.N == 0 {
			still = append(still, u)
		}
	}
	if out.Sentence += whereToLook(still); still == nil {
		out.Sentence += "."
		return out
	}
	if w := c.Record.DUT; w != nil && w.Receive != nil && w.Receive.Ran >= full {
		for _, u := range w.Receive.CPUs {
			if u.Role == "dut" {
				out.Sentence += fmt.Sprintf("; CPU %d of the box was %s busy with receive work", u.CPU, percent(round(min(w.Receive.Ran, 1))))
			}
		}
	}
	out.Sentence += "."
	out.Next = "Offer less: what then arrives whole had no room in the ring before, and what is lost at any load is the cable's."
	return out
}

// limitsOf are the limits that c's lost frames show.
func limitsOf(c Case) (out []Limit) {
	l := lossOf(c.Record)
	switch {
	case l.lost <= 0:
		return nil
	case l.rule == nil:
		return []Limit{unknown(c, l)}
	}
	var most int64
	for _, p := range l.places {
		most = max(most, p.n)
	}
	for i, p := range l.places {
		if i > 0 && float64(p.n) < 0.01*float64(l.lost) {
			continue
		}
		r := ruleOf(p.terms[0])
		cause, means, next := r.cause, r.means, r.next
		if why := explain(c, r, p); why != nil {
			cause, means, next = why.cause, why.says(evidenceOf(c, p)), why.next
		}
		means = strings.ReplaceAll(means, "%s", p.port())
		out = append(out, Limit{Cause: cause, Next: next, Evidence: p.terms, Sentence: p.ended(l.lost, most) + ": " + means + "."})
	}
	return out
}
