// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"boxdyno/procedure/catalog"
	"boxdyno/result"
	"boxdyno/unit"
)

// A bench makes a run that looks as one on a small virtual machine does: a
// CPU-bound router whose limit without loss is soft, far below its forwarding
// rate under overload. Its numbers are made up, and always the same.
type bench struct {
	rng  *rand.Rand
	run  result.Run
	recs []result.Record
	now  unit.Instant
}

type dut struct {
	service, direction, size string
	rules, flows             int
	ndr, limit               float64 // frame/s of all directions: soft limit without loss, capacity
}

var Origin = time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)

func mean(size string) float64 {
	if size == "imix" {
		return (7*64 + 4*594 + 1518) / 12.0
	}
	v, _ := strconv.ParseFloat(size, 64)
	return v
}

var ceilings = map[string]float64{"64": 4_771_000, "imix": 3_905_000, "1518": 3_420_000}

func Firewall() (result.Run, []result.Record) {
	b := &bench{rng: rand.New(rand.NewPCG(1, 2))}
	floor := 1e9
	var criteria []result.Criterion
	criteria = append(criteria, result.Criterion{
		Text: "IMIX without loss at 1.00 Gbit/s each way", Metric: "throughput_l1_bps", Min: &floor,
		Where: []result.Pair{{Key: "service", Value: "route"}, {Key: "frame_size", Value: "imix"}, {Key: "direction", Value: "both"}},
	})
	b.run = result.Run{
		Schema: result.Schema, Version: "0.1.0", ID: "20260314T092653Z-firewall", Start: Origin,
		Command: []string{"boxdyno", "qualify", "firewall", "--quick", "--seed", "7"},
		Plan:    json.RawMessage(`{"procedure":"forward","topology":"sandbox","placement":"split","link_rate":"1Gbps","service":["route","filter","nat","drop-xdp","drop-tc","drop-nft"],"frame_size":["64","imix","1518"]}`),
		Seed:    7, Topology: "sandbox", Kind: "sandbox", Role: "firewall", Preset: "quick", Criteria: criteria,
		NotMeasured: []string{"frame sizes 128, 256, 512, 1024 and 1280", "IPv6", "back-to-back (RFC 2544 26.4)", "recovery from overload (RFC 2544 26.5)"},
		Deviations:  []string{"RFC 2544 24: the final trials last 1 s, not 60 s", "RFC 2544 26.2: one latency trial instead of 20"},
		Machines: []result.Machine{{Name: "bench-1", Board: "Standard PC (Q35 + ICH9)", CPU: "AMD EPYC", CPUs: 2, Memory: 8 << 30, Kernel: "6.18.5", Machine: "x86_64", Userland: "amd64",
			OS: "Debian GNU/Linux 12 (bookworm)", Virtual: "kvm", BootID: "00000000-0000-4000-8000-000000000000", Kind: "sandbox"}},
		Environments: [][]result.Pair{
			{{Key: "placement", Value: "split"}, {Key: "clocksource", Value: "kvm-clock"}, {Key: "governor", Value: "none"}, {Key: "link_rate", Value: "1 Gbit/s"}, {Key: "offloads", Value: "gro off, tso off"}, {Key: "load average", Value: "0.04"}},
			{{Key: "placement", Value: "split"}, {Key: "clocksource", Value: "kvm-clock"}, {Key: "governor", Value: "none"}, {Key: "link_rate", Value: "1 Gbit/s"}, {Key: "offloads", Value: "gro off, tso off"}, {Key: "load average", Value: "1.71"}},
		},
		Metrics: []result.Metric{
			{Name: "throughput_fps", Unit: "frame/s", Better: 1, Help: "highest load without loss, all directions"},
			{Name: "forwarding_rate_fps", Unit: "frame/s", Better: 1, Help: "what came out under overload"},
			{Name: "drop_rate_fps", Unit: "frame/s", Better: 1, Help: "frames thrown away at the place meant for it"},
		},
		Backend:  []result.Pair{{Key: "lan", Value: "xdp/native"}, {Key: "wan", Value: "xdp/native"}},
		Warnings: []string{"The box was not idle before the run: 4.1 % of the CPU time was in use."},
	}
	for _, size := range []string{"64", "imix", "1518"} {
		b.trial(SelfTestProcedure, SelfTestProcedure, []result.Pair{{Key: "frame_size", Value: size}, {Key: "ip", Value: "4"}, {Key: "streams", Value: "1"}}, dut{size: size, limit: ceilings[size]}, 0, time.Second, false)
	}
	for _, p := range []dut{
		{"route", "lan-to-wan", "64", 0, 1, 312_000, 1_184_000},
		{"route", "lan-to-wan", "imix", 0, 1, 341_000, 1_141_000},
		{"route", "lan-to-wan", "1518", 0, 1, 298_000, 1_066_000},
		{"route", "wan-to-lan", "64", 0, 1, 287_000, 1_171_000},
		{"route", "wan-to-lan", "imix", 0, 1, 356_000, 1_128_000},
		{"route", "wan-to-lan", "1518", 0, 1, 311_000, 1_052_000},
		{"route", "both", "64", 0, 1, 402_000, 1_122_000},
		{"route", "both", "imix", 0, 1, 418_000, 1_090_000},
		{"route", "both", "1518", 0, 1, 389_000, 1_013_000},
		{"filter", "lan-to-wan", "64", 100, 1, 241_000, 611_000},
		{"filter", "lan-to-wan", "64", 1000, 1, 71_300, 104_000},
		{"nat", "lan-to-wan", "64", 0, 1000, 268_000, 803_000},
		{"drop-xdp", "lan-to-wan", "64", 0, 1, 0, 4_690_000},
		{"drop-tc", "lan-to-wan", "64", 0, 1, 0, 2_870_000},
		{"drop-nft", "lan-to-wan", "64", 0, 1, 0, 1_920_000},
	} {
		b.point(p)
	}
	return b.run, b.recs
}

func (b *bench) jitter(v, share float64) float64 { return v * (1 + share*(2*b.rng.Float64()-1)) }

func (b *bench) point(p dut) {
	cfg := []result.Pair{{Key: "service", Value: p.service}, {Key: "direction", Value: p.direction}, {Key: "frame_size", Value: p.size},
		{Key: "rules", Value: strconv.Itoa(p.rules)}, {Key: "flows", Value: strconv.Itoa(p.flows)}, {Key: "ip", Value: "4"}}
	id := fmt.Sprintf("p%02d", len(b.recs))
	begin := b.now
	drop := p.service[:min(4, len(p.service))] == "drop"
	count := map[string]int{}
	run := func(kind string, rate float64, d time.Duration, timing bool) *result.Record {
		defer func() { count[kind]++ }()
		b.trial(id, "forward", append(append([]result.Pair{}, cfg...), result.Pair{Key: "trial", Value: kind}, result.Pair{Key: "n", Value: strconv.Itoa(count[kind])},
			result.Pair{Key: "rate", Value: strconv.FormatFloat(math.Round(rate), 'f', 0, 64)}, result.Pair{Key: "duration", Value: d.String()}), p, rate, d, timing)
		return &b.recs[len(b.recs)-1]
	}
	run("warm-up", 10_000, 100*time.Millisecond, false)
	var rates []float64
	var last result.Record
	for range 3 {
		last = *run("overload", 0, 300*time.Millisecond, false)
		if drop {
			rates = append(rates, float64(last.Account.DroppedAt(result.XDP)+last.Account.DroppedAt(result.TC)+last.Account.DroppedAt(result.NFT))/0.3)
		} else {
			rates = append(rates, float64(last.Load.Forwarded))
		}
	}
	lo, mid, hi := min(rates[0], rates[1], rates[2]), 0.0, max(rates[0], rates[1], rates[2])
	mid = rates[0] + rates[1] + rates[2] - lo - hi
	value := func(metric string, u unit.Symbol, v float64) result.Value {
		return result.Value{Metric: metric, Unit: u, Value: v}
	}
	between := func(metric string, u unit.Symbol, lo, hi, factor float64) result.Value {
		l, h := lo*factor, hi*factor
		return result.Value{Metric: metric, Unit: u, Value: l, Lo: &l, Hi: &h}
	}
	var vs []result.Value
	warnings := []string{"the governor is not known: the clock may have changed"}
	m := mean(p.size)
	each := streams(p.direction)
	if drop {
		vs = append(vs, value("forwarding_rate_fps", "frame/s", 0), result.Value{Metric: "drop_rate_fps", Unit: "frame/s", Value: mid, Lo: &lo, Hi: &hi, N: 3})
		if p.service == "drop-xdp" {
			vs[1].Bound = result.AtLeast
			warnings = append(warnings, "within 1.2 of the tester's ceiling: the box may throw away more")
		}
	} else {
		vs = append(vs, result.Value{Metric: "forwarding_rate_fps", Unit: "frame/s", Value: mid, Lo: &lo, Hi: &hi, N: 3}, value("forwarding_rate_bps", "bit/s", mid*8*m))
		low, high := 0.0, float64(last.Load.Offered)
		trials := 0
		for i, rate := 0, p.limit/2; i < 9 && high-low > 0.02*high; i, rate = i+1, (low+high)/2 {
			r := run("search", rate, 200*time.Millisecond, false)
			if p.service == "route" && p.direction == "both" && p.size == "64" && i == 3 {
				r.Status, r.Reason = result.Invalid, "offered 81.4 % of the intended load: limited by the tester"
				continue
			}
			if trials++; r.Account.Lost() > 0 {
				high = float64(r.Load.Offered)
			} else {
				low = float64(r.Load.Offered)
			}
		}
		for i := range 3 {
			r := run("confirm", low*math.Pow(0.96, float64(i)), 500*time.Millisecond, false)
			if trials++; r.Account.Lost() == 0 {
				low = float64(r.Load.Offered)
				break
			}
			high = min(high, float64(r.Load.Offered))
			low *= 0.96
		}
		high = max(high, low*1.01)
		if p.rules == 100 {
			high = low * 1.4
		}
		lat := run("latency", low/2, 500*time.Millisecond, true)
		h := lat.Load.Latency
		vs = append(vs, result.Value{Metric: "throughput_fps", Unit: "frame/s", Value: low, Lo: &low, Hi: &high, N: trials},
			between("throughput_bps", "bit/s", low, high, 8*m), between("throughput_l1_bps", "bit/s", low, high, 8*(m+20)/each),
			between("line_rate_share", "1", low, high, 1/each/float64(unit.LineRate(1e9, m))),
			value("latency_p50_s", "s", h.Quantile(.5)), value("latency_p99_s", "s", h.Quantile(.99)), value("latency_max_s", "s", h.Quantile(1)), value("latency_load_fps", "frame/s", float64(lat.Load.Offered)))
		if high/low > 1.25 {
			warnings = append(warnings, fmt.Sprintf("no sharp limit: frames were lost in %d trials at or below the highest load that another trial carried without loss", 2))
		}
	}
	vs = append(vs, value("offered_fps", "frame/s", float64(last.Load.Offered)), value("ceiling_fps", "frame/s", ceilings[p.size]),
		value("stalls", "1", float64(3+b.rng.IntN(9))), value("longest_stall_s", "s", 1e-6*float64(60+b.rng.IntN(900))), value("steal_ratio", "1", 0.004*b.rng.Float64()))
	b.recs = append(b.recs, result.Record{Schema: result.Schema, ID: id, Procedure: "forward", Config: cfg, Start: Origin.Add(time.Duration(begin)), Begin: begin, End: b.now,
		Status: result.Passed, Values: vs, Account: last.Account, Warnings: warnings})
}

// trial adds one trial at rate (0: flat out) to the run; its books close.
func (b *bench) trial(parent, procedure string, cfg []result.Pair, p dut, rate float64, d time.Duration, timing bool) {
	secs, each := d.Seconds(), int(streams(p.direction))
	offered := rate
	if rate == 0 {
		offered = b.jitter(ceilings[p.size], 0.01)
	}
	a := &result.Account{Accepted: int64(offered * secs), Settled: true}
	if rate > 0 {
		a.Intended = a.Accepted
	}
	soft := p.ndr > 0 && offered > b.jitter(p.ndr, 0.12)
	capacity := b.jitter(p.limit, 0.02)
	lost := int64(max(0, offered-capacity) * secs)
	if soft && lost == 0 {
		lost = 1 + b.rng.Int64N(400)
	}
	if procedure == SelfTestProcedure {
		lost = 0
	}
	in := a.Accepted - lost
	pass := func(place result.Place, name, from string, n int64) {
		a.Passed = append(a.Passed, result.Term{Place: place, Host: "dut", Name: name, From: from, N: n, Link: "lan"})
	}
	if procedure != SelfTestProcedure {
		if lost > 0 {
			a.Drops = append(a.Drops, result.Term{Place: result.DUTNIC, Host: "dut", Name: "receive ring full", From: "lan rx_queue_0_drops", N: lost, Link: "lan"})
		}
		pass(result.DUTNIC, "received by the port", "lan rx_packets", in)
		switch p.service {
		case "drop-xdp":
			a.Drops = append(a.Drops, result.Term{Place: result.XDP, Host: "dut", Name: "thrown away in XDP", From: "lan rx_queue_0_xdp_drops", N: in, Link: "lan"})
			in = 0
		case "drop-tc":
			a.Drops = append(a.Drops, result.Term{Place: result.TC, Host: "dut", Name: "thrown away in tc", From: "clsact drops of lan", N: in, Link: "lan"})
			in = 0
		case "drop-nft":
			a.Drops = append(a.Drops, result.Term{Place: result.NFT, Host: "dut", Name: "rule drop", From: "nft counter prerouting/drop", N: in})
			in = 0
		default:
			if p.service == "filter" && lost > 1000 {
				a.Drops = append(a.Drops, result.Term{Place: result.Softnet, Host: "dut", Name: "backlog full", From: "softnet_stat dropped", N: 812})
				in -= 812
			}
			pass(result.Routing, "taken by IP", "Ip.InReceives", in)
			pass(result.NFT, "through the rules", "nft counter forward", in)
			pass(result.Routing, "sent on by IP", "Ip.OutTransmits", in)
			pass(result.Qdisc, "given to the port", "wan tx_packets", in)
		}
	}
	a.Received = in
	a.Unexplained = a.Accepted - a.Received - a.Dropped() - a.InFlight
	l := &result.Load{MeanSize: mean(p.size), Streams: each, Intended: unit.FrameRate(rate), Offered: unit.FrameRate(offered), Forwarded: unit.FrameRate(float64(in) / secs),
		Backend: "xdp/native", Batch: map[bool]int{true: 1, false: 64}[rate > 0], Stalls: int64(b.rng.IntN(4)), StealRatio: 0.004 * b.rng.Float64(), ObserverCPU: 3 * time.Millisecond}
	if l.Stalls > 0 {
		l.LongestStall = 60_000 + b.rng.Int64N(900_000)
	}
	if timing {
		l.Latency = latencies(1.9e-6*(1+mean(p.size)/3000), float64(a.Received))
		l.Gaps = latencies(1/offered, float64(a.Received))
	}
	r := result.Record{Schema: result.Schema, ID: fmt.Sprintf("t%03d", len(b.recs)), Parent: parent, Procedure: procedure, Config: cfg, Start: Origin.Add(time.Duration(b.now)), Begin: b.now, End: b.now + unit.Instant(d),
		Status: result.Passed, Load: l, Account: a}
	b.now += unit.Instant(d) + 100_000_000
	if procedure != SelfTestProcedure && a.Received+a.DroppedAt(result.XDP)+a.DroppedAt(result.TC)+a.DroppedAt(result.NFT) < a.Accepted {
		r.Status, r.Reason = result.Failed, "the box lost frames"
	}
	b.recs = append(b.recs, r)
}

// latencies is log-normal around mid with a tail of stalls.
func latencies(mid, n float64) *result.Histogram {
	h := &result.Histogram{}
	for i := -12; i < 130; i++ {
		x := math.Pow(2, float64(i)/16)
		bell := math.Exp(-math.Pow(math.Log(x)/0.22, 2) / 2)
		tail := 2e-5 * math.Pow(x, -0.6)
		if x < 1 {
			tail = 0
		}
		if c := uint64(n * (bell*0.07 + tail)); c > 0 {
			h.Upper, h.Count = append(h.Upper, mid*x), append(h.Count, c)
		}
	}
	return h
}

// SharedRun is the same box with tester and box on one CPU: no throughput.
func SharedRun() (result.Run, []result.Record) {
	run, recs := Firewall()
	for i := range run.Environments {
		run.Environments[i][0].Value = "shared"
	}
	for i := range recs {
		if recs[i].Parent != "" || recs[i].Procedure == SelfTestProcedure {
			continue
		}
		var vs []result.Value
		for _, v := range recs[i].Values {
			switch v.Metric {
			case "throughput_fps", "throughput_bps", "throughput_l1_bps", "line_rate_share", "latency_p50_s", "latency_p99_s", "latency_max_s", "latency_load_fps":
			default:
				vs = append(vs, v)
			}
		}
		recs[i].Values = vs
		recs[i].Warnings = append(recs[i].Warnings, "no throughput: tester and box share a CPU (placement shared)")
	}
	return run, recs
}

const Nasty = `</script><script>document.title="pwned"</script><img src=x onerror="document.title='pwned'">` + "\u2028\u2029\x1b[31m|`*_&amp;'\"\u202e"

// Hostile has markup in every string that a machine or a user can name.
func Hostile() (result.Run, []result.Record) {
	run, recs := Firewall()
	run.ID, run.Command = Nasty, []string{"boxdyno", Nasty}
	run.Warnings = append(run.Warnings, Nasty)
	run.Machines[0].Name, run.Machines[0].CPU = Nasty, Nasty
	run.NotMeasured = append(run.NotMeasured, Nasty)
	run.Environments[0][1].Value = Nasty
	run.Plan, _ = json.Marshal(map[string]string{"note": Nasty})
	run.Procedures = append(run.Procedures, result.Procedure{Name: "spin", Axes: []result.Axis{{Name: "a|b"}, {Name: Nasty}}, Metrics: []result.Metric{
		{Name: "turns", Label: "c|*d*", Group: "e|f", Interval: "<g>|"}, {Name: "slips", Label: Nasty, Group: Nasty, Interval: Nasty},
	}})
	recs = append(recs, result.Record{Schema: result.Schema, ID: "spin", Procedure: "spin", Repeat: 1, Status: result.Passed, Config: []result.Pair{{Key: "a|b", Value: "h|i"}, {Key: Nasty, Value: Nasty}},
		Warnings: slices.Clone(recs[len(recs)-1].Warnings), Values: []result.Value{{Metric: "turns", Value: 1, Lo: new(1.0), Hi: new(2.0)}, {Metric: "slips", Value: 1, Lo: new(1.0), Hi: new(2.0)}}})
	for i := range recs {
		recs[i].Warnings = append(recs[i].Warnings, Nasty)
		recs[i].Reason = Nasty
		if a := recs[i].Account; a != nil {
			for j := range a.Drops {
				a.Drops[j].Name = "=" + Nasty
			}
			a.Unexplained, a.Received = -3, a.Received+3
		}
	}
	return run, recs
}

// Summarized is a run's document, with what this binary's procedures declare.
func Summarized(run result.Run, recs []result.Record) Document {
	for _, s := range catalog.All {
		run.Procedures = append(run.Procedures, s.Declaration())
	}
	return Summarize(run, recs)
}
