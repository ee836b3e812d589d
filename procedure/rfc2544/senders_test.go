// SPDX-License-Identifier: Apache-2.0

package rfc2544

import (
	"strings"
	"testing"

	"boxdyno/lab"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/result"
)

// A box that one sender cannot fill is found by two, which offer one load: their ceiling is
// the sum, and so is every figure. The books of every trial close.
func TestSenders(t *testing.T) {
	for senders, want := range map[string]struct {
		rate  float64
		bound result.Bound
	}{"1": {100e3, result.AtLeast}, "2": {150e3, result.Exactly}} {
		b := roomtest.NewBench(t, "mem", map[string]string{"capacity": "150000", "ceiling": "100000"})
		o := b.Run(ThroughputSpec, map[string]string{"senders": senders, "flows": "4", "preset": "quick", "direction": "lan-to-wan"})
		v := roomtest.Figure(t, o, "throughput_fps")
		if v.Value < want.rate*0.98 || v.Value > want.rate*1.01 || v.Bound != want.bound {
			t.Errorf("%s: found %v (%q), want %v (%q)", senders, v.Value, v.Bound, want.rate, want.bound)
		}
		for _, r := range b.Recs {
			if r.Account.Unexplained != 0 || r.Load.Streams != 1 || r.Load.Duplicate != 0 || r.Load.Reordered != 0 {
				t.Errorf("%s: %v: %+v, %+v", senders, r.Config, r.Account, r.Load)
			}
		}
	}
}

// Senders with unequal parts of the flows are taken for less than with equal ones: one of
// them is at its ceiling first.
func TestUnevenSenders(t *testing.T) {
	b := roomtest.NewBench(t, "mem", map[string]string{"capacity": "1000000", "ceiling": "100000"})
	o := b.Run(ThroughputSpec, map[string]string{"senders": "2", "flows": "3", "preset": "quick", "direction": "lan-to-wan"})
	if v := roomtest.Figure(t, o, "throughput_fps"); v.Value < 140e3 || v.Value > 152e3 || v.Bound != result.AtLeast {
		t.Errorf("found %v (%q), want at least 150000", v.Value, v.Bound)
	}
}

// Both directions, a ramp and latency go with it.
func TestSendersBothWays(t *testing.T) {
	b := roomtest.NewBench(t, "mem", map[string]string{"capacity": "150000", "ceiling": "100000", "delay": "1ms"})
	set := map[string]string{"senders": "3", "flows": "2", "direction": "both", "ramp": "50ms", "preset": "quick"}
	if v := roomtest.Figure(t, b.Run(ThroughputSpec, set), "throughput_fps").Value; v < 145e3 || v > 151e3 {
		t.Errorf("found %v of 150000", v)
	}
	if v := roomtest.Figure(t, b.Run(LatencySpec, set), "latency_p50_s").Value; v < 0.9e-3 || v > 1.2e-3 {
		t.Errorf("a latency of %v s", v)
	}
	for _, r := range b.Recs {
		if r.Account.Unexplained != 0 {
			t.Errorf("%v: %+v", r.Config, r.Account)
		}
	}
}

// Where the tester has fewer CPUs, the figure says so.
func TestFewSenders(t *testing.T) {
	p := newSelfTest().(*SelfTest)
	roomtest.Assign(t, p.Flags, map[string]string{"senders": "4"})
	for n, want := range map[int]string{0: "senders=4 is senders=1 here: the tester has 1 CPU to send from", 1: "senders=4 is senders=2 here: the tester has 2 CPUs to send from", 3: ""} {
		bed := &lab.Testbed{Facts: lab.Facts{TesterCPU: 7, Senders: make([]int, n)}}
		if got := p.few(bed); strings.Join(got, "") != want {
			t.Errorf("%d more CPUs: %q, want %q", n, got, want)
		}
	}
	bed := &lab.Testbed{Facts: lab.Facts{TesterCPU: 7, Senders: make([]int, 1), Narrow: "port e0 is narrow"}}
	if got, want := strings.Join(p.few(bed), ""), "senders=4 is senders=2 here: port e0 is narrow"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
