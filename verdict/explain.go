// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"boxdyno/result"
	"boxdyno/unit"
)

// Evidence is what is known of the DUT's work while frames ended at a place; zero
// where it is not known.
type evidence struct {
	cpu      *result.CPU // of the DUT, the busiest
	work     bool        // whether ran and waited are known
	ran      float64     // share of the time that the DUT's receive work had its CPU
	waited   float64     // that it was ready and something else had the CPU
	speed    float64     // of the CPU, a share of its fastest
	rules    int
	queues   int
	rps      string // on, off
	ring     int    // frames
	fill     float64
	perFrame float64 // s of the DUT's CPU for each frame that got past the ring
	entries  int     // of the connection table
	most     int
	qdisc    string
	heat     string  // what held its clock down meanwhile, with evidence
	shared   bool    // tester and DUT are on one CPU, so that its share tells nothing
	thread   float64 // of ran, what ksoftirqd ran; of another machine
}

func evidenceOf(c Case, p placeLoss) (e evidence) {
	r := c.Record
	cpus := r.CPUs
	if r.DUT != nil && r.DUT.Receive != nil {
		cpus = r.DUT.Receive.CPUs
	}
	for i, u := range cpus {
		rings := p.place == result.DUTNIC && u.Rings // who empties a full ring, however busy others are
		switch {
		case u.Role == "tester and dut":
			e.shared = true
		case u.Role == "dut" && (e.cpu == nil || rings || !(p.place == result.DUTNIC && e.cpu.Rings) && u.Idle < e.cpu.Idle):
			e.cpu = &cpus[i]
		}
	}
	number := func(key string) int {
		n, _ := strconv.Atoi(result.Get(stateOf(r), key))
		return n
	}
	link := p.terms[0].Link
	e.rules, e.entries, e.most = number("nft rules"), number("conntrack entries"), number("conntrack most")
	e.queues, e.rps, e.qdisc = number(link+" rx queues"), result.Get(stateOf(r), link+" rps"), result.Get(stateOf(r), link+" qdisc")
	e.ring, _ = strconv.Atoi(result.Get(c.Environment, "ring"))
	if l := r.Load; l != nil {
		if r.DUT == nil || r.DUT.Receive == nil { // it is this machine's
			e.speed = l.CPUSpeed
		}
		if streams := float64(max(l.Streams, 1)); l.Offered > 0 {
			e.fill = float64(e.ring) / (float64(l.Offered) / streams)
		}
	}
	if e.cpu == nil {
		return e
	}
	e.heat = throttled(c.Series, r.Digests)
	if w := r.DUT; w != nil {
		e.work, e.ran, e.waited = true, min(w.Ran, 1), w.Waited
		if v := w.Receive; v != nil {
			e.ran, e.waited, e.thread = min(v.Ran, 1), v.Waited, v.Ksoftirqd
		}
	}
	if past := p.reached - p.n; past > 0 {
		for _, ph := range r.Phases {
			if ph.Name == "traffic" {
				e.perFrame = e.ran * float64(ph.End-ph.Begin) / 1e9 / float64(past)
			}
		}
	}
	return e
}

func stateOf(r result.Record) []result.Pair {
	if r.DUT == nil {
		return nil
	}
	return r.DUT.State
}

// A reason is a closer cause of what a rule names, where there is evidence for it.
type reason struct {
	of    []Cause // of the rule
	cause Cause
	when  func(e evidence) bool
	says  func(e evidence) string // may hold %s: the port
	next  string
}

const (
	full      = 0.9  // of a CPU's time
	starved   = 0.15 // of it, by something else, while the DUT's work was ready
	stolen    = 0.1  // of it, by the hypervisor
	longRules = 100  // of nftables: tried one after another they cost more than the forwarding itself
)

var overflow = []Cause{CauseRing}

// reasons are tried in this order; the first that holds is taken.
var reasons = []reason{
	{overflow, CauseShared, func(e evidence) bool { return e.shared },
		func(e evidence) string {
			return "the ring of %s overflowed on the CPU that tester and DUT share: how much of it either had is not known"
		}, "Give the DUT's receive work a CPU of its own (placement split)."},
	{overflow, CauseStolen, func(e evidence) bool { return e.cpu != nil && e.cpu.Steal >= stolen },
		func(e evidence) string {
			return fmt.Sprintf("the hypervisor took %s of CPU %d, which empties the receive ring of %%s", percent(e.cpu.Steal), e.cpu.CPU)
		}, "Measure when the machine's other guests are quiet, or give this one CPUs of its own."},
	{overflow, CauseBusyCore, func(e evidence) bool { return e.work && e.waited >= starved },
		func(e evidence) string {
			return fmt.Sprintf("something else had CPU %d for %s of the time, while the receive work of %%s, which had it for %s, was ready and waited", e.cpu.CPU, percent(round(e.waited)), percent(round(e.ran)))
		}, "Find the other program (ps -eo psr,pcpu,comm) and move it off that CPU (taskset, isolcpus)."},
	{overflow, CauseThrottled, func(e evidence) bool { return e.work && e.ran >= full && e.heat != "" },
		func(e evidence) string {
			return fmt.Sprintf("CPU %d is %s busy with the receive work of %%s, %s of it for each frame, and was held down meanwhile: %s", e.cpu.CPU, percent(round(e.ran)), cost(e), strings.ReplaceAll(e.heat, "%", "%%"))
		}, "Cool the box better, or give it a stronger power supply where a flag names the voltage, and measure again."},
	{overflow, CauseRules, func(e evidence) bool { return e.work && e.ran >= full && e.rules >= longRules },
		func(e evidence) string {
			return fmt.Sprintf("CPU %d is %s busy with the receive work of %%s, %s for each frame; the ruleset has %d nftables rules to try", e.cpu.CPU, percent(round(e.ran)), cost(e), e.rules)
		}, "Replace long lists of rules by a set or a verdict map, accept established connections first, or use a flowtable."},
	{overflow, CauseCPU, func(e evidence) bool { return e.work && e.ran >= full && e.queues == 1 && e.rps != "on" },
		func(e evidence) string {
			return fmt.Sprintf("CPU %d is %s busy with receive work%s%s, %s of it for each frame, and %%s has one receive queue and no RPS", e.cpu.CPU, percent(round(e.ran)), slow(e), softirqs(e), cost(e))
		}, "Spread the port's receive work over more CPUs (more queues with ethtool -L, or RPS: rps_cpus); else it takes a CPU that does more on one core."},
	{overflow, CauseCPUs, func(e evidence) bool { return e.work && e.ran >= full },
		func(e evidence) string {
			return fmt.Sprintf("CPU %d is %s busy with the receive work of %%s%s%s, %s of it for each frame", e.cpu.CPU, percent(round(e.ran)), slow(e), softirqs(e), cost(e))
		}, "Spread the port's receive work over more CPUs, or lessen the work for each frame."},
	{overflow, CauseStalls, func(e evidence) bool { return e.work && e.ran < full && e.fill > 0 },
		func(e evidence) string {
			return fmt.Sprintf("the receive ring of %%s holds %d frames, which this load fills in %s, and CPU %d, %s busy with receive work, stalled for longer", e.ring, unit.SI(e.fill)+"s", e.cpu.CPU, percent(round(e.ran)))
		}, "Lengthen the ring where it has a length to set (ethtool -G), or find what holds the CPU up (interrupts, power saving, other programs)."},
	{[]Cause{CauseConntrack}, CauseTableFull, func(e evidence) bool { return e.most > 0 && e.entries >= e.most },
		func(e evidence) string {
			return fmt.Sprintf("the connection table is full: it holds %d entries, and %d are the most", e.entries, e.most)
		}, "Raise net.netfilter.nf_conntrack_max, shorten the timeouts of idle connections, or exempt from tracking what needs no state (notrack)."},
	{[]Cause{CauseQueue}, CauseShaper, func(e evidence) bool { return slices.Contains([]string{"tbf", "htb", "cake", "hfsc"}, e.qdisc) },
		func(e evidence) string {
			return "the shaper on %s (" + e.qdisc + ") sends no more than its rate, and its queue is full"
		}, "Raise the shaper's rate; a longer queue only delays the loss."},
}

// explain is the closer reason for what r names; nil where there is none.
func explain(c Case, r *rule, p placeLoss) *reason {
	e := evidenceOf(c, p)
	for i, why := range reasons {
		if slices.Contains(why.of, r.cause) && why.when(e) {
			return &reasons[i]
		}
	}
	return nil
}

// round leaves out what ticks do not tell.
func round(share float64) float64 { return float64(int(share*100+0.5)) / 100 }

func cost(e evidence) string { return unit.SI(e.perFrame) + "s" }

// softirqs says what another machine tells of its CPU's softirqs. A sandbox has threads in
// their place.
func softirqs(e evidence) string {
	if e.thread < 0.01 {
		return ""
	}
	text := fmt.Sprintf("ksoftirqd ran %s of the time", percent(round(e.thread)))
	if e.cpu.Squeezed > 0 {
		text += fmt.Sprintf(", %d polls ended before their work did", e.cpu.Squeezed)
	}
	return " (" + text + ")"
}

func slow(e evidence) string {
	if e.speed > 0 && e.speed < SlowCPU {
		return fmt.Sprintf(" (at %s of its speed)", percent(e.speed))
	}
	return ""
}
