// SPDX-License-Identifier: Apache-2.0

package procedure

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"testing"

	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/result"
	"boxdyno/verdict"
)

// bench builds topology name and runs one procedure on it, as runner would.
func bench(t *testing.T, topology string, bedSet, set map[string]string) (Outcome, []result.Record) {
	t.Helper()
	if topology != "mem" {
		testutil.Privileged(t)
	}
	var bed *lab.Testbed
	for _, s := range lab.All {
		if s.Name == topology {
			top := s.New()
			assign(t, top.Flags, bedSet)
			var err error
			if bed, err = top.Build(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
	}
	defer bed.Close()
	p := newForward()
	assign(t, p.Flags, set)
	if err := p.Check(bed); err != nil {
		t.Fatal(err)
	}
	var recs []result.Record
	one := func(ctx context.Context, cfg []result.Pair, f func(context.Context) (Outcome, error)) (result.Record, error) {
		o, err := f(ctx)
		if err != nil {
			return result.Record{}, err
		}
		r := result.Record{Config: cfg, Status: o.Status, Reason: o.Reason, Load: o.Load, Account: o.Account, Phases: o.Phases}
		r.Status, r.Reason = verdict.Validity(r, o.Ceiling)
		recs = append(recs, r)
		return r, nil
	}
	env := &Env{Bed: bed, Log: slog.New(slog.DiscardHandler), Trial: one, Once: func(ctx context.Context, key string, cfg []result.Pair, f func(context.Context) (Outcome, error)) (result.Record, error) {
		return one(ctx, cfg, f)
	}}
	out, err := p.Run(context.Background(), env)
	if err != nil {
		t.Fatal(err)
	}
	return out, recs
}

func assign(t *testing.T, flags func(*flag.FlagSet), set map[string]string) {
	t.Helper()
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	flags(fs)
	for k, v := range set {
		if err := fs.Set(k, v); err != nil {
			t.Fatal(k, err)
		}
	}
}

func TestShow(t *testing.T) {
	for _, set := range []map[string]string{
		{"service": "route"}, {"service": "route", "direction": "both"}, {"service": "nat", "flows": "1000"},
		{"service": "nat", "flows": "100", "direction": "wan-to-lan"},
		{"service": "filter", "rules": "100"}, {"service": "drop-xdp"}, {"service": "drop-tc"}, {"service": "drop-nft"},
		{"service": "route", "ip": "6", "frame_size": "84"},
	} {
		t.Run(fmt.Sprint(set), func(t *testing.T) {
			out, recs := bench(t, "sandbox", nil, set)
			t.Log(out.Status, out.Reason, out.Warnings)
			for _, v := range out.Values {
				lo, hi := 0.0, 0.0
				if v.Lo != nil {
					lo = *v.Lo
				}
				if v.Hi != nil {
					hi = *v.Hi
				}
				t.Logf("%-22s %s %.4g [%.4g %.4g] n=%d", v.Metric, v.Bound, v.Value, lo, hi, v.N)
			}
			for _, r := range recs {
				t.Logf("%v %s %s off %.0f fwd %.0f lost %d unexplained %d drops %v stalls %d/%d", r.Config, r.Status, r.Reason, r.Load.Offered, r.Load.Forwarded, r.Account.Lost(), r.Account.Unexplained, r.Account.Drops, r.Load.Stalls, r.Load.LongestStall)
			}
		})
	}
}
