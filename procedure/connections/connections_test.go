// SPDX-License-Identifier: Apache-2.0

package connections

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"boxdyno/engine/conn"
	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/ledger"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
	"boxdyno/search"
	"boxdyno/unit"
)

// connBench has connections offered to the sandbox's DUT, with rules of nft beside
// the service's own; the trials are the answer.
func connBench(t *testing.T, rules string, set map[string]string) (procedure.Outcome, result.Record, *lab.Testbed) {
	t.Helper()
	testutil.Privileged(t)
	testutil.Alone(t)
	if err := host.Has("nft"); err != nil {
		t.Skip(err)
	}
	b := roomtest.NewBench(t, "sandbox", nil)
	if rules != "" {
		if _, err := b.Bed.DUT.Run(t.Context(), rules, "nft", "-f", "-"); err != nil {
			t.Fatal(err)
		}
	}
	out := b.Run(ConnectionsSpec, set)
	return out, b.Recs[len(b.Recs)-1], b.Bed
}

func countOf(t *testing.T, r result.Record, name string) int {
	t.Helper()
	v := r.Value(name)
	if v == nil {
		t.Fatalf("%s has no %s: %s", r.Config, name, r.Reason)
	}
	return int(v.Value)
}

// A firewall that tracks TCP windows takes every segment, with NAT and without,
// and both ends count the same.
func TestConnectionsThroughABox(t *testing.T) {
	for _, service := range []string{"route", "filter", "nat"} {
		for _, mode := range []string{byRate, concurrent} {
			t.Run(service+" "+mode, func(t *testing.T) {
				if service == "filter" || service == "route" && mode == concurrent { // nat has their rules and tables, too
					testutil.Long(t)
				}
				set := map[string]string{"service": service, "mode": mode, "rate": "2000", "response_size": "5000"}
				want := 1000
				if mode == concurrent {
					set["connections"], want = "1500", 1500
				}
				_, rec, bed := connBench(t, "", set)
				if rec.Status == result.Invalid {
					t.Skipf("the tester was held up: %s", rec.Reason)
				}
				n := countOf(t, rec, "connections_opened")
				if mode == byRate && n >= want*99/100 { // a valid trial may lack 1 %
					want = min(n, want)
				}
				if n != want || countOf(t, rec, "connections_closed") != n || countOf(t, rec, "syns_at_server") != n {
					t.Errorf("%d of %d: %s %s", n, want, rec.Status, rec.Reason)
				}
				if rec.Account.Unexplained != 0 || rec.Account.Lost() != 0 || countOf(t, rec, "stray_segments") != 0 || countOf(t, rec, "connections_unexplained") != 0 {
					t.Errorf("the books: %+v", rec.Account)
				}
				if mode == concurrent && countOf(t, rec, "connections_concurrent") != want {
					t.Errorf("%d open at once", countOf(t, rec, "connections_concurrent"))
				}
				if service == "route" {
					return
				}
				if countOf(t, rec, "conntrack_entries") < want || countOf(t, rec, "conntrack_invalid")+countOf(t, rec, "conntrack_drop")+countOf(t, rec, "conntrack_insert_failed") != 0 {
					t.Errorf("connection tracking: %v", rec.Values)
				}
				if _, err := ledger.ReadConntrack(bed.DUT); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// What a rule throws away of every k-th connection is found again, by the stage
// that it never reached.
func TestConnectionsThatABoxBreaks(t *testing.T) {
	const rules = `table inet test {
	counter drop_planted {}
	chain forward {
		type filter hook forward priority -10; policy accept;
		%s counter name drop_planted %s
	}
}
`
	for _, c := range []struct{ match, verdict, stage string }{
		{"tcp flags & (syn|ack) == syn numgen inc mod 8 == 0", "drop", "failed_no_syn_ack"},
		{"tcp flags & (syn|ack) == (syn|ack) numgen inc mod 8 == 0", "drop", "failed_no_syn_ack"},
		{"tcp dport 8000-8255 tcp flags & psh == psh numgen inc mod 8 == 0", "drop", "failed_no_first_byte"},
		{"tcp sport 8000-8255 tcp flags & fin == fin numgen inc mod 8 == 0", "drop", "failed_incomplete"},
		{"tcp dport 8000-8255 tcp flags & fin == fin numgen inc mod 8 == 0", "drop", "failed_unclosed"},
	} {
		t.Run(c.match, func(t *testing.T) {
			if strings.Contains(c.match, "(syn|ack) == (syn|ack)") { // for the client as if its SYN were lost
				testutil.Long(t)
			}
			_, rec, _ := connBench(t, fmt.Sprintf(rules, c.match, c.verdict), map[string]string{"rate": "2000", "response_size": "3000"})
			if rec.Status == result.Invalid {
				t.Skipf("the tester was held up: %s", rec.Reason)
			}
			n := countOf(t, rec, "connections_opened")
			if want := (n + 7) / 8; n < 990 || n > 1000 || countOf(t, rec, c.stage) != want || countOf(t, rec, "connections_failed") != want {
				t.Errorf("%d of %d, want %d: %s", countOf(t, rec, c.stage), n, want, rec.Reason)
			}
			if countOf(t, rec, "connections_unexplained") != 0 || rec.Account.Unexplained != 0 || rec.Status != result.Failed {
				t.Errorf("%s, %+v", rec.Status, rec.Account)
			}
			if !strings.Contains(rec.Reason, "planted") {
				t.Errorf("the reason %q does not name what gave", rec.Reason)
			}
		})
	}
}

func TestWhatGave(t *testing.T) {
	for _, c := range []struct {
		c    ledger.Conntrack
		want string
	}{
		{ledger.Conntrack{Entries: 100, Most: 100, Drop: 7}, "the connection table is full: 100 of 100 entries, and 7 packets were refused"},
		{ledger.Conntrack{Entries: 50, Most: 100, Drop: 3, InsertFailed: 3}, "3 connections found no place in the connection table (insert_failed)"},
		{ledger.Conntrack{Entries: 99, Most: 100, EarlyDrop: 2}, "2 connections were evicted from the table for others (early_drop)"},
		{ledger.Conntrack{}, ""},
	} {
		if got := trial.RefusedBy(c.c, true, &result.Account{}); got != c.want {
			t.Errorf("%+v: %q, want %q", c.c, got, c.want)
		}
	}
}

func assignOne(p procedure.Procedure, name, value string) error {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	p.Flags(fs)
	return fs.Set(name, value)
}

func TestConnectionsRefuse(t *testing.T) {
	b := roomtest.NewBench(t, "mem", nil)
	p := newConnections()
	if err := p.Check(b.Bed); err == nil || !strings.Contains(err.Error(), "native XDP") {
		t.Errorf("mem: %v", err)
	}
	for _, set := range []map[string]string{{"response_size": "-1"}, {"response_size": fmt.Sprint(conn.MaxObject + 1)}, {"rate": "-5"}, {"mode": "x"}, {"connections": "0"}} {
		for k, v := range set {
			if err := assignOne(p, k, v); err == nil {
				t.Errorf("%s=%s is taken", k, v)
			}
		}
	}
	if err := assignOne(p, "rules", "5"); err != nil {
		t.Fatal(err)
	}
	if err := p.Check(nil); err == nil {
		t.Error("rules with service route are taken")
	}
}

// The rate reported is one that a longer trial bore out, and what failed above it
// is said; where none was borne out there is no rate.
func TestConnectionsAreConfirmed(t *testing.T) {
	const passed, failed, invalid = result.Passed, result.Failed, result.Invalid
	for _, c := range []struct {
		trials []result.Status
		status result.Status
		rate   float64 // of connections_cps; 0: none
		n      int
		doubt  bool
	}{
		{[]result.Status{passed}, passed, 100_000, 11, false},
		{[]result.Status{invalid, passed}, passed, 100_000, 11, false},
		{[]result.Status{failed, invalid, failed, passed}, passed, 64_000, 13, true},
		{[]result.Status{failed, failed, failed, failed, failed}, failed, 0, 0, true},
		{[]result.Status{failed, invalid, invalid, invalid, invalid}, invalid, 0, 0, true},
	} {
		var offered []float64
		env := &procedure.Env{Bed: &lab.Testbed{}, Trial: func(_ context.Context, cfg []result.Pair, _ func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
			rate, err := strconv.ParseFloat(result.Get(cfg, "rate"), 64)
			status := c.trials[len(offered)]
			offered = append(offered, rate)
			r := result.Record{Status: status, Load: &result.Load{Offered: unit.FrameRate(rate)}}
			if status != passed {
				r.Reason = fmt.Sprintf("%s at %.0f", status, rate)
			}
			return r, err
		}}
		p := newConnections().(*Connections)
		m := &connPoint{Connections: p, env: env, effort: connEffortOf("quick"), ceiling: 1e6, out: procedure.Outcome{Status: passed}}
		if err := m.limit(t.Context(), search.Limit{Lower: 100_000, Upper: 110_000, Clean: 6, Lossy: 4}, ""); err != nil {
			t.Fatal(err)
		}
		if len(offered) != len(c.trials) || m.out.Status != c.status {
			t.Errorf("%v: %v offered, %s: %s", c.trials, offered, m.out.Status, m.out.Reason)
		}
		var got result.Value
		for _, v := range m.out.Values {
			if v.Metric == "connections_cps" {
				got = v
			}
		}
		if got.Value != c.rate || got.N != c.n || got.Lo != nil && (*got.Lo != c.rate || *got.Hi != 110_000) {
			t.Errorf("%v: %+v, want %v of %d trials", c.trials, got, c.rate, c.n)
		}
		warned := strings.Join(m.out.Warnings, "; ")
		if doubt := strings.Contains(warned, "ended at 100 k connections/s") && strings.Contains(warned, "failed at 100000"); doubt != c.doubt {
			t.Errorf("%v: warnings %q", c.trials, warned)
		}
	}
}
