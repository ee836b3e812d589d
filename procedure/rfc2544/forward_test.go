// SPDX-License-Identifier: Apache-2.0

package rfc2544

import (
	"context"
	"flag"
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"

	"boxdyno/internal/testutil"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/roomtest"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
	"boxdyno/verdict"
)

// bench builds topology name and runs one procedure on it, as runner would.
func bench(t *testing.T, topology string, bedSet, set map[string]string) (procedure.Outcome, []result.Record) {
	t.Helper()
	if topology != "mem" {
		testutil.Privileged(t)
		testutil.Alone(t)
	}
	return benchOn(t, roomtest.Build(t, topology, bedSet), set)
}

// benchOn runs forward on bed.
func benchOn(t *testing.T, bed *lab.Testbed, set map[string]string) (procedure.Outcome, []result.Record) {
	t.Helper()
	return carry(t, newForward(), bed, set)
}

// carry runs one procedure on bed.
func carry(t *testing.T, p procedure.Procedure, bed *lab.Testbed, set map[string]string) (procedure.Outcome, []result.Record) {
	t.Helper()
	roomtest.Assign(t, p.Flags, set)
	if err := p.Check(bed); err != nil {
		t.Fatal(err)
	}
	var recs []result.Record
	do := func(ctx context.Context, of string, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		o, err := f(ctx)
		if err != nil {
			return result.Record{}, err
		}
		r := result.Record{Parent: "point", Procedure: of, Config: cfg, Status: o.Status, Reason: o.Reason, Load: o.Load, Account: o.Account, Phases: o.Phases}
		r.Status, r.Reason = verdict.Validity(r, o.Ceiling)
		recs = append(recs, r)
		return r, nil
	}
	env := &procedure.Env{Bed: bed, Pause: roomtest.GoOn, Trial: func(ctx context.Context, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		return do(ctx, "forward", cfg, f)
	}, Once: func(ctx context.Context, _ string, cfg []result.Pair, f func(context.Context) (procedure.Outcome, error)) (result.Record, error) {
		return do(ctx, result.SelfTest, cfg, f)
	}}
	out, err := p.Run(context.Background(), env)
	if err != nil {
		t.Fatal(err)
	}
	return out, recs
}

// A box in memory with a known limit is measured right.
func TestForwardFindsTheLimit(t *testing.T) {
	testutil.Computed(t)
	for _, limit := range []float64{20e3, 150e3, 400e3} {
		out, recs := bench(t, "mem", map[string]string{"capacity": fmt.Sprint(limit), "queue": "16"}, nil)
		if out.Status != result.Passed {
			t.Errorf("limit %v: %s: %s", limit, out.Status, out.Reason)
		}
		// A queue of q frames lets q/T more through in a trial of T.
		v := roomtest.Figure(t, out, "throughput_fps")
		most := limit + 16/0.15
		if v.Lo == nil || v.Hi == nil || *v.Lo > most || *v.Hi < limit || *v.Hi > most*1.1 || *v.Lo < limit*0.9 {
			t.Errorf("limit %v: throughput %+v %v", limit, v, out.Warnings)
		}
		if f := roomtest.Figure(t, out, "forwarding_rate_fps"); math.Abs(f.Value/limit-1) > 0.01 {
			t.Errorf("limit %v: forwarding rate %v", limit, f.Value)
		}
		for _, r := range recs {
			if r.Account.Unexplained != 0 {
				t.Errorf("limit %v: %v: %d unexplained", limit, r.Config, r.Account.Unexplained)
			}
		}
	}
}

// One frame makes no rate.
func TestLinkTooSlowForARate(t *testing.T) {
	for _, direction := range []string{trial.LanToWAN, trial.BothWays} {
		out, recs := bench(t, "mem", map[string]string{"link_rate": "1bps"}, map[string]string{"direction": direction})
		if out.Status != result.Invalid || !strings.Contains(out.Reason, "needs 2 frames") {
			t.Errorf("%s: %s: %s", direction, out.Status, out.Reason)
		}
		for _, r := range recs {
			if kind := result.Get(r.Config, "trial"); kind == "overload" && r.Load.Forwarded != 0 {
				t.Errorf("%s: forwarded %v of %d frames", direction, r.Load.Forwarded, r.Account.Accepted)
			}
		}
	}
}

// Without a search there is the rate under overload, of one visit, and nothing beside.
func TestForwardWithoutSearch(t *testing.T) {
	o, recs := bench(t, "mem", map[string]string{"capacity": "20k", "ceiling": "60k"}, map[string]string{"search": procedure.NoSearch})
	if v := roomtest.Figure(t, o, "forwarding_rate_fps"); v.Value < 19e3 || v.Value > 21e3 || v.N != 3 {
		t.Errorf("forwarding rate %+v, want 20 kframe/s of 3 trials: two overloads from rest, for its queue is long, and one other as long", v)
	}
	if len(o.Values) != 9 {
		t.Errorf("%d figures", len(o.Values))
	}
	for _, r := range recs {
		if k := result.Get(r.Config, "trial"); k == "search" || k == "latency" {
			t.Errorf("there is a trial %s", r.ID)
		}
	}
}

func TestForwardOfALossyBox(t *testing.T) {
	testutil.Computed(t)
	out, _ := bench(t, "mem", map[string]string{"capacity": "1000000", "ceiling": "200000", "loss": "0.01"}, nil)
	if out.Status != result.Failed || roomtest.Figure(t, out, "throughput_fps").Value != 0 {
		t.Errorf("%s %s %+v: a box that loses at every load has no throughput", out.Status, out.Reason, out.Values)
	}
}

func TestForwardAtTheTestersCeiling(t *testing.T) {
	testutil.Computed(t)
	out, _ := bench(t, "mem", map[string]string{"capacity": "900000", "ceiling": "200000"}, nil)
	for _, metric := range []string{"throughput_fps", "forwarding_rate_fps"} {
		if v := roomtest.Figure(t, out, metric); v.Bound != result.AtLeast {
			t.Errorf("%s %+v is the tester's, not the box's, and does not say so", metric, v)
		}
	}
}

func TestForwardAtLineRate(t *testing.T) {
	testutil.Computed(t)
	out, recs := bench(t, "mem", map[string]string{"capacity": "900000", "link_rate": "100Mbps"}, nil)
	v := roomtest.Figure(t, out, "line_rate_share")
	if math.Abs(v.Value-1) > 0.001 || v.Bound != result.AtLeast {
		t.Errorf("a box faster than its link has %+v of line rate", v)
	}
	for _, r := range recs[1:] {
		if r.Load.Offered > 149e3 {
			t.Errorf("%v: %v offered on a link of 100 Mbit/s", r.Config, r.Load.Offered)
		}
	}
}

func TestForwardLatency(t *testing.T) {
	testutil.Computed(t)
	out, _ := bench(t, "mem", map[string]string{"capacity": "200000", "ceiling": "300000", "delay": "150us"}, nil)
	// The queue's service time of 5 us comes on top; buckets are a sixteenth wide.
	if v := roomtest.Figure(t, out, "latency_p50_s").Value; v < 150e-6 || v > 155e-6*17/16 {
		t.Errorf("latency %v of a box that delays by 150 us", v)
	}
}

func TestForwardChecks(t *testing.T) {
	for name, c := range map[string]struct {
		set  map[string]string
		want string
	}{
		"ipv6 64":           {map[string]string{"ip": "6"}, "84"},
		"rules of route":    {map[string]string{"rules": "5"}, "filter"},
		"nat flows":         {map[string]string{"service": "nat", "flows": "10001"}, "10000"},
		"nat ipv6":          {map[string]string{"service": "nat", "ip": "6", "frame_size": "84"}, "IPv4"},
		"senders' networks": {map[string]string{"senders": "2", "networks": "256"}, "use networks=1"},
		"nat networks":      {map[string]string{"service": "nat", "networks": "256"}, "masquerades"},
		"drop both":         {map[string]string{"service": "drop-tc", "direction": "both"}, "one way"},
		"over the MTU":      {map[string]string{"frame_size": "1522"}, "MTU of 1504"},
	} {
		p := newForward()
		roomtest.Assign(t, p.Flags, c.set)
		err := p.Check(&lab.Testbed{Facts: lab.Facts{Services: lab.Services, Ports: []lab.Port{{MTU: 1500}}}})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want a sentence with %q", name, err, c.want)
		}
	}
	for k, v := range map[string]string{"service": "bridge", "direction": "up", "frame_size": "63", "rules": "-1", "flows": "0", "networks": "2", "ip": "5", "preset": "slow"} {
		fs := flag.NewFlagSet("", flag.ContinueOnError)
		newForward().Flags(fs)
		if fs.Set(k, v) == nil {
			t.Errorf("%s=%s was taken", k, v)
		}
	}
}

// A box that cannot be told its routes must have those to 256 networks, and the
// sides' networks must not be each other's.
func TestForwardToNetworksOfAnotherBox(t *testing.T) {
	port := func(v4, v6 string) lab.Port {
		return lab.Port{MTU: 1500, Addr4: netip.MustParseAddr(v4), Addr6: netip.MustParseAddr(v6)}
	}
	bed := &lab.Testbed{Facts: lab.Facts{Topology: "wire2", Services: lab.Services, Ports: []lab.Port{port("10.0.1.2", "2001:2:0:1::2"), port("10.0.2.2", "2001:2:0:101::2")}}}
	for _, ip := range []string{"4", "6"} {
		for networks, many := range map[string]bool{"1": false, "256": true} {
			p := newForward().(*Forward)
			roomtest.Assign(t, p.Flags, map[string]string{"networks": networks, "ip": ip, "frame_size": "84"})
			if err := p.Check(bed); (err != nil) != many {
				t.Errorf("IPv%s, networks %s, among the same: %v", ip, networks, err)
			}
			other := *bed
			other.Ports = []lab.Port{bed.Ports[0], port("10.1.2.2", "2001:2:0:2::2")}
			if err := p.Check(&other); err != nil {
				t.Errorf("IPv%s, networks %s: %v", ip, networks, err)
			}
			if w := trial.NewPoint(&p.Traffic, &procedure.Env{Bed: &other}, nil).Out.Warnings; (len(w) > 0) != many {
				t.Errorf("networks %s, and nobody sets routes: warnings %q", networks, w)
			}
			other.Means = struct{ lab.Server }{}
			if w := trial.NewPoint(&p.Traffic, &procedure.Env{Bed: &other}, nil).Out.Warnings; len(w) > 0 {
				t.Errorf("networks %s: warnings %q", networks, w)
			}
		}
	}
}

// Where the DUT shares the tester's CPU, no throughput is claimed.
func TestSharedPlacementClaimsNoThroughput(t *testing.T) {
	testutil.Computed(t)
	bed := roomtest.Build(t, "mem", nil)
	bed.Placement = "shared"
	claimsNoThroughput(t, bed)
}

func TestSandboxSharedClaimsNoThroughput(t *testing.T) {
	testutil.Long(t)
	testutil.Privileged(t)
	testutil.Alone(t)
	claimsNoThroughput(t, roomtest.Build(t, "sandbox", map[string]string{"placement": "shared"}))
}

func claimsNoThroughput(t *testing.T, bed *lab.Testbed) {
	t.Helper()
	out, recs := benchOn(t, bed, nil)
	for _, v := range out.Values {
		if strings.HasPrefix(v.Metric, "throughput") || strings.HasPrefix(v.Metric, "latency") {
			t.Errorf("placement shared reports %s", v.Metric)
		}
	}
	if roomtest.Figure(t, out, "forwarding_rate_fps").Value == 0 || len(out.Warnings) == 0 {
		t.Errorf("%+v", out)
	}
	for _, r := range recs {
		if r.Account.Unexplained != 0 {
			t.Errorf("%v: %d unexplained", r.Config, r.Account.Unexplained)
		}
	}
}
