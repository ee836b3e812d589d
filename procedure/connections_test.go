// SPDX-License-Identifier: Apache-2.0

package procedure

import (
	"flag"
	"fmt"
	"io"
	"strings"
	"testing"

	"boxdyno/engine"
	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/ledger"
	"boxdyno/result"
)

// connBench has connections offered to the sandbox's DUT, with rules of nft beside
// the service's own; the trials are the answer.
func connBench(t *testing.T, rules string, set map[string]string) (Outcome, result.Record, *lab.Testbed) {
	t.Helper()
	testutil.Privileged(t)
	if err := host.Has("nft"); err != nil {
		t.Skip(err)
	}
	b := newSuiteBench(t, "sandbox", nil)
	if rules != "" {
		if _, err := b.bed.DUT.Run(t.Context(), rules, "nft", "-f", "-"); err != nil {
			t.Fatal(err)
		}
	}
	out := b.run("connections", set)
	return out, b.recs[len(b.recs)-1], b.bed
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
				set := map[string]string{"service": service, "mode": mode, "rate": "2000", "response_size": "5000"}
				want := 1000
				if mode == concurrent {
					set["connections"], want = "1500", 1500
				}
				_, rec, bed := connBench(t, "", set)
				if rec.Status == result.Invalid {
					t.Skipf("the tester was held up: %s", rec.Reason)
				}
				if n := countOf(t, rec, "connections_opened"); n != want || countOf(t, rec, "connections_closed") != n || countOf(t, rec, "syns_at_server") != n {
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
			_, rec, _ := connBench(t, fmt.Sprintf(rules, c.match, c.verdict), map[string]string{"rate": "2000", "response_size": "3000"})
			if rec.Status == result.Invalid {
				t.Skipf("the tester was held up: %s", rec.Reason)
			}
			n := countOf(t, rec, "connections_opened")
			if want := (n + 7) / 8; n != 1000 || countOf(t, rec, c.stage) != want || countOf(t, rec, "connections_failed") != want {
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
		if got := gave(c.c, true, &result.Account{}); got != c.want {
			t.Errorf("%+v: %q, want %q", c.c, got, c.want)
		}
	}
}

func assignOne(p Procedure, name, value string) error {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	p.Flags(fs)
	return fs.Set(name, value)
}

func TestConnectionsRefuse(t *testing.T) {
	b := newSuiteBench(t, "mem", nil)
	p := newConnections()
	if err := p.Check(b.bed); err == nil || !strings.Contains(err.Error(), "sandbox") {
		t.Errorf("mem: %v", err)
	}
	for _, set := range []map[string]string{{"response_size": "-1"}, {"response_size": fmt.Sprint(engine.MaxObject + 1)}, {"rate": "-5"}, {"mode": "x"}, {"connections": "0"}} {
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
