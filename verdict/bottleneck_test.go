// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"reflect"
	"strings"
	"testing"

	"boxdyno/result"
)

func lossy(service string, drops ...result.Term) result.Record {
	r := trial(nil)
	r.Config = []result.Pair{{Key: "service", Value: service}}
	for _, t := range drops {
		r.Account.Received -= t.N
	}
	r.Account.Drops = drops
	return r
}

func term(p result.Place, name string, n int64) result.Term {
	return result.Term{Place: p, Host: "dut", Name: name, N: n, Link: "lan"}
}

// Every place and every cause that the ledger names has its sentence and advice.
func TestBottleneckOfEachCause(t *testing.T) {
	for _, c := range []struct {
		place             result.Place
		name, means, next string
	}{
		{result.Tester, "port dropped", "the tester, not the box", "faster tester"},
		{result.Link, "lost on the link", "did not reach", "cable"},
		{result.DUTNIC, "receive ring full", "receive ring of the DUT's port lan overflowed", "more CPUs"},
		{result.DUTNIC, "receive failed in the driver", "the DUT's port lan dropped them before", "ethtool -S"},
		{result.XDP, "XDP drop", "XDP program on the DUT's port lan dropped", "bpftool"},
		{result.XDP, "sent back by XDP", "sent them back", "bpftool"},
		{result.Softnet, "CPU backlog full", "backlog of a CPU overflowed", "netdev_max_backlog"},
		{result.TC, "tc drop", "tc filter on the DUT's port lan", "tc -s"},
		{result.Conntrack, "refused by connection tracking", "table is full", "nf_conntrack_max"},
		{result.NFT, "nft drop_unwanted", "nftables rule", "nft list ruleset"},
		{result.Routing, "TTL expired or bad header", "TTL expired", "higher TTL"},
		{result.Routing, "larger than the MTU", "larger than the MTU of the port they should leave by", "Raise the MTU"},
		{result.Routing, "left in fragments", "in fragments", "Raise the MTU"},
		{result.Routing, "reverse path filter", "reverse path filter dropped", "rp_filter"},
		{result.Routing, "no route", "there is no route", "missing route"},
		{result.Routing, "no route, or one that refuses", "there is no route", "missing route"},
		{result.Routing, "address not acceptable, or forwarding off", "forwarding is off", "ip_forward"},
		{result.Routing, "blackhole route", "a route refuses", "Remove the blackhole"},
		{result.Routing, "prohibit route", "a route refuses", "Remove the blackhole"},
		{result.Routing, "unreachable route", "a route refuses", "Remove the blackhole"},
		{result.Routing, "delivered to the DUT itself", "addressed to the DUT itself", "behind the DUT"},
		{result.Routing, "for the DUT itself, of an unknown protocol", "addressed to the DUT itself", "behind the DUT"},
		{result.Routing, "MAC address of another host", "destination MAC address", "gateway's"},
		{result.Routing, "discarded on output", "the IP layer dropped", "nstat"},
		{result.Neighbour, "neighbour queue full", "MAC address is not known", "permanent neighbour"},
		{result.Qdisc, "egress queue full", "egress queue of the DUT's port lan", "faster link"},
		{result.Socket, "ring full", "program takes no more", "larger buffer"},
		{result.SubjectAt, "dropped", "program under load dropped", "own log"},
		{result.BlackBox, "lost inside", "nobody can look into", "console"},
		{result.MeterAt, "meter ring full", "the tester, not the box", "CPU of its own"},
	} {
		r := lossy("route", term(c.place, c.name, 900), term(result.NFT, "other", 100))
		s, evidence := bottleneck(r)
		if c.place == result.NFT {
			r = lossy("route", term(c.place, c.name, 1000))
			s, evidence = bottleneck(r)
		} else if !strings.HasPrefix(s, "900 of 1000 lost frames (90 %) ended in "+string(c.place)+" ("+c.name+"): ") {
			t.Errorf("%s %s: %q", c.place, c.name, s)
		}
		if !strings.Contains(s, c.means) || len(evidence) != 1 || evidence[0].Place != c.place {
			t.Errorf("%s %s: %q %v, want %q", c.place, c.name, s, evidence, c.means)
		}
		if next := whatNext(r); !strings.Contains(next, c.next) || !strings.HasSuffix(next, ".") {
			t.Errorf("%s %s: next %q, want %q", c.place, c.name, next, c.next)
		}
	}
}

// The last rule of every place takes whatever the term is called, and no rule is
// hidden behind an earlier one.
func TestRulesAreWhole(t *testing.T) {
	for _, p := range result.Places {
		if r := ruleOf(result.Term{Place: p, Name: "something new"}); r == nil || r.words != "" {
			t.Errorf("place %q has no rule for an unknown term", p)
		}
	}
	for i, r := range rules {
		if got := ruleOf(result.Term{Place: r.place, Name: r.words}); got != &rules[i] {
			t.Errorf("rule %d (%s, %q) is never taken", i, r.place, r.words)
		}
	}
}

func TestBottleneckEvidence(t *testing.T) {
	r := lossy("route", term(result.Routing, "no route", 300), term(result.DUTNIC, "receive ring full", 350), term(result.Routing, "larger than the MTU", 310))
	s, evidence := bottleneck(r)
	if want := []result.Term{r.Account.Drops[2], r.Account.Drops[0]}; !reflect.DeepEqual(evidence, want) {
		t.Errorf("evidence %v, want the place's terms, largest first: %v", evidence, want)
	}
	if !strings.HasPrefix(s, "610 of 960 lost frames (63.5 %) ended in routing (larger than the MTU)") {
		t.Errorf("%q", s)
	}
	if _, again := bottleneck(r); !reflect.DeepEqual(evidence, again) || r.Account.Drops[0].Name != "no route" {
		t.Error("limitsOf changes the ledger")
	}
	bare := lossy("route", result.Term{Place: result.DUTNIC, Name: "receive ring full", N: 5})
	if s, _ := bottleneck(bare); !strings.Contains(s, "a port of the DUT") {
		t.Errorf("a term without port: %q", s)
	}
}

func TestBottleneckOfNothing(t *testing.T) {
	for name, r := range map[string]result.Record{
		"no ledger":                        {},
		"nothing lost":                     trial(nil),
		"more received than sent":          trial(func(_ *result.Record, _ *result.Load, a *result.Account) { a.Received++ }),
		"a drop service that drops it all": lossy("drop-nft", term(result.NFT, "nft drop_unwanted", 1e6)),
	} {
		s, evidence := bottleneck(r)
		if next := whatNext(r); s != "" || evidence != nil || next != "" {
			t.Errorf("%s: %q %v %q", name, s, evidence, next)
		}
	}
}

// What a drop service throws away in its place is no loss; what ends before it is.
func TestBottleneckOfADropService(t *testing.T) {
	r := lossy("drop-tc", term(result.DUTNIC, "receive ring full", 100), term(result.TC, "tc drop", 999_900))
	if s, _ := bottleneck(r); !strings.HasPrefix(s, "100 of 100 lost frames (100 %) ended in dut nic") {
		t.Errorf("%q", s)
	}
}

func TestBottleneckUnknown(t *testing.T) {
	r := lossy("route", term(result.DUTNIC, "receive ring full", 100))
	r.Account.Received -= 900
	r.Account.Unexplained = 900
	r.Account.Passed = []result.Term{term(result.Routing, "received by IPv4", 5)}
	s, evidence := bottleneck(r)
	if !strings.Contains(s, "is not known: 900 are in no counter") || !reflect.DeepEqual(evidence, r.Account.Passed) || !strings.Contains(whatNext(r), "checkpoints") {
		t.Errorf("%q %v %q", s, evidence, whatNext(r))
	}
	r.Account.Unexplained = 50
	if s, _ := bottleneck(r); strings.Contains(s, "not known") {
		t.Errorf("most is known: %q", s)
	}
}

// Where a ring's counters stood still, the sentence names them, and the CPU that should have
// emptied it.
func TestBottleneckOfASilentRing(t *testing.T) {
	r := lossy("route", term(result.DUTNIC, "receive ring full", 100))
	r.Account.Received -= 900
	r.Account.Unexplained = 900
	r.Account.Unread = []result.Unread{{Host: "dut", Port: "p0", Counter: "rx_dropped", N: 3, Why: "a sum"}, {Host: "dut", Port: "p0", Counter: "rx_queue_*_drops", Why: "driver igb"}}
	r.DUT = &result.DUTWork{Receive: &result.Receive{CPUs: []result.CPU{{CPU: 2, Role: "dut"}}, Ran: 0.95}}
	s, _ := bottleneck(r)
	if !strings.HasSuffix(s, ": 900 are in no counter; rx_queue_*_drops of the dut's p0 did not grow (driver igb); CPU 2 of the box was 95 % busy with receive work.") {
		t.Errorf("%q", s)
	}
	if next := whatNext(r); !strings.Contains(next, "Offer less") {
		t.Errorf("%q", next)
	}
	if ws := strings.Join(Warnings(r, 0), "\n"); !strings.Contains(ws, "rx_dropped of the dut's p0 grew by 3 (a sum); rx_queue_*_drops of the dut's p0 did not grow (driver igb)") {
		t.Error(ws)
	}
	r.DUT.Receive.Ran = 0.5
	if s, _ := bottleneck(r); strings.Contains(s, "CPU 2") {
		t.Errorf("%q", s)
	}
}

// bottleneck is the first limit that a trial's lost frames show.
func bottleneck(r result.Record) (sentence string, evidence []result.Term) {
	if l := limitsOf(Case{Record: r}); len(l) > 0 {
		return l[0].Sentence, l[0].Evidence
	}
	return "", nil
}

func whatNext(r result.Record) string {
	if l := limitsOf(Case{Record: r}); len(l) > 0 {
		return l[0].Next
	}
	return ""
}

// What a far box says of its softirqs explains its full ring as threads of this machine do.
func TestBottleneckOfAFarBox(t *testing.T) {
	r := lossy("route", result.Term{Place: result.DUTNIC, Host: "dut", Link: "eth0", Name: "receive ring full", N: 1000})
	r.CPUs = []result.CPU{{CPU: 0, Role: "tester", System: 1}}
	r.Load.CPUSpeed = 0.4 // the tester's
	r.DUT = &result.DUTWork{
		Receive: &result.Receive{CPUs: []result.CPU{{CPU: 0, Idle: 0.9}, {CPU: 3, Role: "dut", SoftIRQ: 0.97, Squeezed: 1234}}, Ran: 0.97, Ksoftirqd: 0.62},
		State:   []result.Pair{{Key: "eth0 rx queues", Value: "1"}, {Key: "eth0 rps", Value: "off"}},
	}
	s, _ := bottleneck(r)
	for _, want := range []string{"CPU 3 is 97 % busy with receive work (ksoftirqd ran 62 % of the time, 1234 polls ended before their work did)", "the DUT's port eth0 has one receive queue and no RPS"} {
		if !strings.Contains(s, want) {
			t.Errorf("%q lacks %q", s, want)
		}
	}
	r.DUT.Receive.Waited = 0.3
	if s, _ := bottleneck(r); !strings.Contains(s, "something else had CPU 3 for 30 % of the time") {
		t.Errorf("%q", s)
	}
	r.DUT.Receive, r.DUT.State = nil, nil
	if s, _ := bottleneck(r); strings.Contains(s, "CPU 3") {
		t.Errorf("%q", s)
	}
}
