// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"os"
	"strings"
	"testing"

	"boxdyno/result"
	"boxdyno/unit"
)

// overload is a trial of 50 ms that lost half its frames in the receive ring,
// while the DUT's CPU was busy with receive work for ran of the time.
func overload(ran float64, change func(*result.Record)) Case {
	r := result.Record{
		Procedure: "forward", Status: result.Failed,
		Load:    &result.Load{Offered: 1e6, Forwarded: 5e5, Streams: 1, MeanSize: 64},
		Account: &result.Account{Accepted: 50_000, Received: 50_000, Settled: true},
		Phases:  []result.Phase{{Name: "traffic", Begin: 1e9, End: 1e9 + 50e6}},
		CPUs:    []result.CPU{{CPU: 0, Role: "tester", System: 1}, {CPU: 1, Role: "dut", System: 0.6, Idle: 0.4}},
		DUT: &result.DUTWork{Threads: 2, Ran: ran, State: []result.Pair{
			{Key: "nft rules", Value: "0"}, {Key: "lan rx queues", Value: "1"}, {Key: "lan rps", Value: "off"}, {Key: "wan qdisc", Value: "noqueue"},
		}},
	}
	drop(r.Account, result.DUTNIC, "receive ring full", 25_000)
	if change != nil {
		change(&r)
	}
	return Case{Record: r, Environment: []result.Pair{{Key: "placement", Value: "split"}, {Key: "ring", Value: "256"}}}
}

func set(r *result.Record, key, value string) {
	for i := range r.DUT.State {
		if r.DUT.State[i].Key == key {
			r.DUT.State[i].Value = value
			return
		}
	}
	r.DUT.State = append(r.DUT.State, result.Pair{Key: key, Value: value})
}

// What a full ring means, the evidence decides; each threshold from both sides.
func TestWhatAFullRingMeans(t *testing.T) {
	for _, c := range []struct {
		name   string
		ran    float64
		change func(*result.Record)
		want   Cause
		says   string
	}{
		{"full", 0.98, nil, CauseCPU, "CPU 1 is 98 % busy with receive work, 1.96 µs of it for each frame, and the DUT's port lan has one receive queue and no RPS."},
		{"full and slow", 1.01, func(r *result.Record) { r.Load.CPUSpeed = 0.7 }, CauseCPU, "CPU 1 is 100 % busy with receive work (at 70 % of its speed)"},
		{"more queues", 0.95, func(r *result.Record) { set(r, "lan rx queues", "4") }, CauseCPUs, "CPU 1 is 95 % busy"},
		{"RPS", 0.95, func(r *result.Record) { set(r, "lan rps", "on") }, CauseCPUs, "CPU 1 is 95 % busy"},
		{"queues not known", 0.95, func(r *result.Record) { r.DUT.State = nil }, CauseCPUs, "CPU 1 is 95 % busy"},
		{"99 rules", 0.95, func(r *result.Record) { set(r, "nft rules", "99") }, CauseCPU, "one receive queue"},
		{"100 rules", 0.95, func(r *result.Record) { set(r, "nft rules", "100") }, CauseRules, "the ruleset has 100 nftables rules"},
		{"rules, and time left", 0.5, func(r *result.Record) { set(r, "nft rules", "100") }, CauseStalls, "stalled"},
		{"time left", 0.89, nil, CauseStalls, "the receive ring of the DUT's port lan holds 256 frames, which this load fills in 256 µs, and CPU 1, 89 % busy"},
		{"waits a little", 0.85, func(r *result.Record) { r.DUT.Waited = 0.14 }, CauseStalls, ""},
		{"waits", 0.5, func(r *result.Record) { r.DUT.Waited = 0.48 }, CauseBusyCore, "something else had CPU 1 for 48 % of the time, while the receive work of the DUT's port lan, which had it for 50 %,"},
		{"waits, and many rules", 0.5, func(r *result.Record) { r.DUT.Waited = 0.48; set(r, "nft rules", "1000") }, CauseBusyCore, ""},
		{"stolen", 0.98, func(r *result.Record) { r.CPUs[1].Steal = 0.2 }, CauseStolen, "the hypervisor took 20 % of CPU 1"},
		{"stolen, of several CPUs", 0.98, func(r *result.Record) {
			r.CPUs[1].Steal, r.CPUs[1].Rings, r.CPUs[1].Idle = 0.2, true, 0.5
			r.CPUs = append(r.CPUs, result.CPU{CPU: 2, Role: "dut"})
		}, CauseStolen, "the hypervisor took 20 % of CPU 1"},
		{"stolen from a CPU that flows go to", 0.98, func(r *result.Record) {
			r.CPUs[1].Rings = true
			r.CPUs = append(r.CPUs, result.CPU{CPU: 2, Role: "dut", Steal: 0.2})
		}, CauseCPU, ""},
		{"stolen from the tester", 0.98, func(r *result.Record) { r.CPUs[0].Steal = 0.2 }, CauseCPU, ""},
		{"shared", 0, func(r *result.Record) { r.CPUs[1].Role, r.DUT = "tester and dut", nil }, CauseShared, "the CPU that tester and DUT share"},
		{"nothing known of the CPU", 0, func(r *result.Record) { r.CPUs, r.DUT = nil, nil }, CauseRing, "overflowed: the CPU that empties it"},
		{"no CPU of the DUT's here", 0, func(r *result.Record) { r.CPUs, r.DUT = r.CPUs[:1], nil }, CauseRing, ""},
		{"softirq", 0.97, func(r *result.Record) { r.DUT.Threads = 0 }, CauseCPU, "97 %"},
	} {
		l := Limits(overload(c.ran, c.change))
		if len(l) != 1 || l[0].Cause != c.want || !strings.Contains(l[0].Sentence, c.says) || strings.Contains(l[0].Sentence, "%!") || strings.Contains(l[0].Sentence, "%s") || !strings.HasSuffix(l[0].Next, ".") {
			t.Errorf("%s: %+v, want %s: %q", c.name, l, c.want, c.says)
		}
	}
}

// The last place that takes much of what reaches it binds, however much ended
// before; a place that takes little of it does not.
func TestWhatBinds(t *testing.T) {
	for _, c := range []struct {
		name  string
		place result.Place
		term  string
		n     int64
		want  []Cause
	}{
		{"shaper", result.Qdisc, "shaper queue full", 20_000, []Cause{CauseShaper, CauseCPU}},
		{"a tenth", result.Qdisc, "shaper queue full", 2_500, []Cause{CauseShaper, CauseCPU}},
		{"less than a tenth", result.Qdisc, "shaper queue full", 2_400, []Cause{CauseCPU, CauseShaper}},
		{"hardly any", result.NFT, "nft drop (unwanted)", 200, []Cause{CauseCPU}},
	} {
		got := Limits(overload(0.98, func(r *result.Record) { drop(r.Account, c.place, c.term, c.n) }))
		var causes []Cause
		for _, l := range got {
			causes = append(causes, l.Cause)
		}
		if len(causes) != len(c.want) || causes[0] != c.want[0] || causes[len(causes)-1] != c.want[len(c.want)-1] {
			t.Errorf("%s: %v, want %v", c.name, causes, c.want)
		}
		if c.n == 20_000 && !strings.HasPrefix(got[0].Sentence, "20000 of 25000 frames (80 %) that came as far as qdisc ended there (shaper queue full): the shaper on") {
			t.Errorf("%q", got[0].Sentence)
		}
	}
}

func TestCloserCauses(t *testing.T) {
	table := overload(0.98, func(r *result.Record) {
		r.Account.Drops = nil
		r.Account.Received = 50_000
		drop(r.Account, result.Conntrack, "refused by connection tracking", 25_000)
		set(r, "conntrack entries", "262144")
		set(r, "conntrack most", "262144")
	})
	if l := Limits(table)[0]; l.Cause != CauseTableFull || !strings.Contains(l.Sentence, "it holds 262144 entries, and 262144 are the most") {
		t.Errorf("%+v", l)
	}
	set(&table.Record, "conntrack entries", "100")
	if l := Limits(table)[0]; l.Cause != CauseConntrack {
		t.Errorf("a table with room: %+v", l)
	}
	queue := overload(0.98, func(r *result.Record) {
		r.Account.Drops = []result.Term{{Place: result.Qdisc, Name: "egress queue full", N: 50_000, Link: "wan"}}
	})
	if l := Limits(queue)[0]; l.Cause != CauseQueue {
		t.Errorf("no shaper: %+v", l)
	}
	set(&queue.Record, "wan qdisc", "htb")
	if l := Limits(queue)[0]; l.Cause != CauseShaper || !strings.Contains(l.Sentence, "port wan (htb)") {
		t.Errorf("htb: %+v", l)
	}
}

// Where nothing was lost, or the tester failed, the box is not to blame.
func TestTesterAndLink(t *testing.T) {
	clean := func(change func(*result.Record, *result.Load, *result.Account)) Case {
		return Case{Record: trial(change), Environment: []result.Pair{{Key: "placement", Value: "split"}}}
	}
	slow := clean(func(_ *result.Record, l *result.Load, _ *result.Account) { l.Offered = 0.5e6 })
	flat := clean(func(_ *result.Record, l *result.Load, a *result.Account) { l.Intended, a.Intended = 0, 0 })
	line := clean(func(_ *result.Record, l *result.Load, _ *result.Account) {
		l.MeanSize, l.Offered = 64, 1_488_095
		l.Intended = l.Offered
	})
	line.Environment = append(line.Environment, result.Pair{Key: "link_rate", Value: unit.BitRate(1e9).String()})
	below := line
	below.Record = trial(func(_ *result.Record, l *result.Load, _ *result.Account) {
		l.MeanSize, l.Offered = 64, 1_400_000
		l.Intended = l.Offered
	})
	two := line
	two.Record = trial(func(_ *result.Record, l *result.Load, _ *result.Account) {
		l.MeanSize, l.Offered, l.Streams = 64, 1_488_095, 2
		l.Intended = l.Offered
	})
	in := func(c Case, placement string) Case {
		c.Environment = []result.Pair{{Key: "placement", Value: placement}}
		return c
	}
	for name, c := range map[string]struct {
		of   Case
		want Cause // "": none
	}{
		"paced and whole":           {clean(nil), ""},
		"no load":                   {Case{}, ""},
		"offered too little":        {slow, CauseTester},
		"too little, shared":        {in(slow, "shared"), CauseShared},
		"flat out and whole":        {flat, CauseTester},
		"flat out, shared":          {in(flat, "shared"), CauseShared},
		"line rate":                 {line, CauseLineRate},
		"below line rate":           {below, ""},
		"line rate, two directions": {two, ""},
	} {
		l := Limits(c.of)
		if c.want == "" && len(l) != 0 || c.want != "" && (len(l) != 1 || l[0].Cause != c.want || l[0].Next == "") {
			t.Errorf("%s: %+v, want %q", name, l, c.want)
		}
	}
	both := overload(0.98, func(r *result.Record) { r.Load.Intended = 3e6 })
	if l := Limits(both); len(l) != 2 || l[0].Cause != CauseTester || l[1].Cause != CauseCPU || !strings.Contains(l[0].Sentence, "The tester offered 1.00 Mframe/s of 3.00 Mframe/s") {
		t.Errorf("%+v", l)
	}
}

// Every cause can be reached, is listed, and stands on its page.
func TestCauses(t *testing.T) {
	page, err := os.ReadFile("../docs/bottleneck.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[Cause]bool{}
	for _, c := range Causes {
		if listed[c] {
			t.Errorf("%s is listed twice", c)
		}
		listed[c] = true
		if !strings.Contains(string(page), "\n| `"+string(c)+"` |") {
			t.Errorf("docs/bottleneck.md does not have the cause %q", c)
		}
	}
	used := map[Cause]bool{CauseUnknown: true, CauseLineRate: true}
	for _, r := range rules {
		used[r.cause] = true
	}
	for _, r := range reasons {
		used[r.cause] = true
		for _, of := range r.of {
			if !used[of] {
				t.Errorf("a reason is of %s, which no rule names", of)
			}
		}
	}
	for c := range used {
		if !listed[c] {
			t.Errorf("%q is not listed", c)
		}
	}
	for c := range listed {
		if !used[c] {
			t.Errorf("nothing names %q", c)
		}
	}
}
