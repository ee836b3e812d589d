// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"slices"
	"strings"
	"testing"

	"boxdyno/result"
	"boxdyno/unit"
)

// trial is a clean one: a million frames at 1 Mframe/s.
func trial(change func(*result.Record, *result.Load, *result.Account)) result.Record {
	r := result.Record{
		Procedure: "forward",
		Load:      &result.Load{Intended: 1e6, Offered: 1e6, Forwarded: 1e6, Streams: 1},
		Account:   &result.Account{Intended: 1e6, Accepted: 1e6, Received: 1e6, Settled: true},
	}
	if change != nil {
		change(&r, r.Load, r.Account)
	}
	return r
}

func drop(a *result.Account, p result.Place, name string, n int64) {
	a.Received -= n
	a.Drops = append(a.Drops, result.Term{Place: p, Host: "dut", Name: name, N: n, Link: "lan"})
}

func TestValidity(t *testing.T) {
	type change = func(*result.Record, *result.Load, *result.Account)
	for _, c := range []struct {
		name   string
		change change
		want   result.Status
		reason string // part of it
	}{
		{"clean", nil, result.Passed, ""},
		{"the box lost frames", func(_ *result.Record, _ *result.Load, a *result.Account) {
			drop(a, result.DUTNIC, "receive ring full", 4100)
		}, result.Failed, "4100 of 1000000 frames were lost (0.41 %)"},
		{"one frame of a million", func(_ *result.Record, _ *result.Load, a *result.Account) { a.Received-- }, result.Failed, "1 of 1000000 frames were lost (0.0001 %)"},
		{"damaged", func(_ *result.Record, l *result.Load, _ *result.Account) { l.Broken = 3 }, result.Failed, "3 of 1000000 frames arrived damaged"},
		{"99 % offered", func(_ *result.Record, l *result.Load, _ *result.Account) { l.Offered = 0.99e6 }, result.Passed, ""},
		{"below 99 % offered", func(_ *result.Record, l *result.Load, _ *result.Account) { l.Offered = 0.9899e6 }, result.Invalid, "offered 990 kframe/s of 1.00 Mframe/s (98.99 %"},
		{"below 99 % offered and lost", func(_ *result.Record, l *result.Load, a *result.Account) {
			l.Offered = 0.5e6
			a.Received -= 5
		}, result.Invalid, "50.00 %, and 99 % is the least"},
		{"above the ceiling", func(_ *result.Record, l *result.Load, _ *result.Account) { l.Intended, l.Offered = 4e6, 1e6 }, result.Invalid, "its ceiling is 3.00 Mframe/s"},
		{"nothing offered", func(_ *result.Record, l *result.Load, _ *result.Account) { l.Offered = 0 }, result.Invalid, "0.00 %"},
		{"refused", func(_ *result.Record, _ *result.Load, a *result.Account) { a.Refused = 7 }, result.Invalid, "refused 7"},
		{"dropped by the tester's own port", func(_ *result.Record, _ *result.Load, a *result.Account) { drop(a, result.Tester, "x", 8) }, result.Invalid, "own port dropped 8"},
		{"lost by the meter", func(_ *result.Record, l *result.Load, _ *result.Account) { l.MeterDrops = 9 }, result.Invalid, "meter lost 9"},
		{"lost at the meter's port", func(_ *result.Record, _ *result.Load, a *result.Account) {
			drop(a, result.MeterAt, "meter ring full", 2)
		}, result.Invalid, "meter lost 2"},
		{"flat out, refused and late", func(_ *result.Record, l *result.Load, a *result.Account) {
			l.Intended, a.Intended, a.Refused, l.Late = 0, 0, 5, 99
			a.Received--
		}, result.Failed, "1 of"},
		{"flat out, lost by the meter", func(_ *result.Record, l *result.Load, a *result.Account) { l.Intended, l.MeterDrops = 0, 1 }, result.Invalid, "meter lost 1"},
		{"a veth's full ring is the box's", func(_ *result.Record, l *result.Load, a *result.Account) {
			l.Intended = 0
			drop(a, result.DUTNIC, "receive ring full", 3)
		}, result.Failed, "3 of"},
		{"a drop service that is right", func(r *result.Record, _ *result.Load, a *result.Account) {
			r.Status, a.Received = result.Passed, 0
		}, result.Passed, ""},
		{"a drop service that is wrong", func(r *result.Record, _ *result.Load, _ *result.Account) {
			r.Status, r.Reason = result.Failed, "5 frames came through"
		}, result.Failed, "5 frames came through"},
		{"a drop service and a tester too slow", func(r *result.Record, l *result.Load, _ *result.Account) {
			r.Status, l.Offered = result.Passed, 0.5e6
		}, result.Invalid, "50.00 %"},
		{"skipped stays", func(r *result.Record, l *result.Load, _ *result.Account) {
			r.Status, r.Reason, l.Offered = result.Skipped, "no nft", 0
		}, result.Skipped, "no nft"},
		{"aborted stays", func(r *result.Record, l *result.Load, _ *result.Account) { r.Status, l.Offered = result.Aborted, 0 }, result.Aborted, ""},
		{"no load", func(r *result.Record, _ *result.Load, _ *result.Account) { r.Load, r.Account = nil, nil }, result.Passed, ""},
		{"no ledger", func(r *result.Record, _ *result.Load, _ *result.Account) { r.Account = nil }, result.Invalid, "no ledger"},
		{"unexplained keeps its verdict", func(_ *result.Record, _ *result.Load, a *result.Account) { a.Unexplained = 3 }, result.Passed, ""},
		{"more received than sent", func(_ *result.Record, _ *result.Load, a *result.Account) { a.Received++ }, result.Passed, ""},
		{"a self-test is what gets through", func(r *result.Record, l *result.Load, a *result.Account) {
			r.Procedure, l.Intended = selfTest, 0
			drop(a, result.MeterAt, "meter ring full", 1000)
		}, result.Passed, ""},
		{"a self-test without frames", func(r *result.Record, l *result.Load, a *result.Account) {
			r.Procedure, l.Intended, a.Received = selfTest, 0, 0
		}, result.Invalid, "none arrived"},
	} {
		status, reason := Validity(trial(c.change), 3e6)
		if status != c.want || !strings.Contains(reason, c.reason) || c.reason == "" && reason != "" {
			t.Errorf("%s: %s %q, want %s %q", c.name, status, reason, c.want, c.reason)
		}
	}
}

func TestWarnings(t *testing.T) {
	if ws := Warnings(trial(nil), 3e6); len(ws) != 0 {
		t.Errorf("a clean trial warns: %q", ws)
	}
	for want, change := range map[string]func(*result.Record, *result.Load, *result.Account){
		"3 frames are unexplained": func(_ *result.Record, _ *result.Load, a *result.Account) { a.Unexplained = 3 },
		"ended; ethtool rx_fifo of the dut's eth0 grew by 7 (no place); b of the dut's eth0 grew by 2 (x)": func(_ *result.Record, _ *result.Load, a *result.Account) {
			a.Unexplained = 3
			a.Unread = []result.Unread{{Host: "dut", Port: "eth0", Counter: "b", N: 2, Why: "x"}, {Host: "dut", Port: "eth0", Counter: "ethtool rx_fifo", N: 7, Why: "no place"}}
		},
		"3 frames more than were sent":                        func(_ *result.Record, _ *result.Load, a *result.Account) { a.Unexplained = -3 },
		"2 frames were still under way":                       func(_ *result.Record, _ *result.Load, a *result.Account) { a.InFlight = 2 },
		"counters still moved":                                func(_ *result.Record, _ *result.Load, a *result.Account) { a.Settled = false },
		"refused 4 frames of a flat-out load":                 func(_ *result.Record, l *result.Load, a *result.Account) { l.Intended, a.Refused = 0, 4 },
		"5 frames arrived more than once":                     func(_ *result.Record, l *result.Load, _ *result.Account) { l.Duplicate = 5 },
		"stalled for up to 5.20 ms":                           func(_ *result.Record, l *result.Load, _ *result.Account) { l.LongestStall = 5_200_000 },
		"a CPU ran at 66 % of its speed":                      func(_ *result.Record, l *result.Load, _ *result.Account) { l.CPUSpeed = 0.66 },
		"took 1.1 % of the CPU time":                          func(_ *result.Record, l *result.Load, _ *result.Account) { l.StealRatio = 0.011 },
		"more than the tester's ceiling of 3.00 Mframe/s / 1": func(_ *result.Record, l *result.Load, _ *result.Account) { l.Forwarded = 2.51e6 },
		"2.90 M connections/s is more than the tester's ceiling of 3.00 M connections/s / 1": func(r *result.Record, l *result.Load, _ *result.Account) {
			r.Procedure, l.Forwarded = "connections", 2.9e6
		},
	} {
		if ws := Warnings(trial(change), 3e6); len(ws) != 1 || !strings.Contains(ws[0], want) {
			t.Errorf("%q, want one with %q", ws, want)
		}
	}
	quiet := trial(func(r *result.Record, l *result.Load, _ *result.Account) {
		l.LongestStall, l.StealRatio, l.Forwarded, l.CPUSpeed = 999_999, 0.01, 2.5e6, 0.9
	})
	if ws := Warnings(quiet, 3e6); len(ws) != 0 {
		t.Errorf("below the limits it warns: %q", ws)
	}
	if ws := Warnings(quiet, 0); len(ws) != 0 {
		t.Errorf("without a ceiling it warns: %q", ws)
	}
}

func TestWorst(t *testing.T) {
	order := []result.Status{result.Passed, result.Skipped, result.Failed, result.Invalid, result.Running, result.Aborted}
	for i := range order {
		down := slices.Clone(order[:i+1])
		slices.Reverse(down)
		if up, got := Worst(order[:i+1]...), Worst(down...); up != order[i] || got != order[i] {
			t.Errorf("worst of %v is %s and %s", order[:i+1], up, got)
		}
	}
	if got := Worst(); got != result.Skipped {
		t.Errorf("worst of none is %s", got)
	}
}

func TestPercent(t *testing.T) {
	for v, want := range map[float64]string{0: "0 %", 0.5: "50 %", 1: "100 %", 0.12345: "12.3 %", 1e-6: "0.0001 %", 12: "1200 %", 0.0041: "0.41 %", 1.0 / 3e8: "0.0000003 %"} {
		if got := percent(v); got != want {
			t.Errorf("percent(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestQuantity(t *testing.T) {
	for _, c := range []struct {
		v    float64
		u    unit.Symbol
		want string
	}{{1e9, "bit/s", "1.00 Gbit/s"}, {2.9e-7, "s", "290 ns"}, {0.75, "1", "0.75"}, {12, "", "12"}} {
		if got := quantity(c.v, c.u); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
