// SPDX-License-Identifier: Apache-2.0

package many

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"boxdyno/agent"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/metrics"
	"boxdyno/procedure/internal/param"
	"boxdyno/procedure/tunnel"
	"boxdyno/result"
	"boxdyno/subject/mpi"
	subject "boxdyno/subject/tunnel"
	"boxdyno/unit"
)

// StreamName is the procedure in which every board streams to every other one.
const StreamName = "stream"

// StreamSpec is the row of stream between boards of the shelf. One pair streams at a time,
// one way:
//
//	board A: iperf3 client ---cable, switch, cable--- board B: iperf3 server      for all A, B
func StreamSpec(shelf Shelf) procedure.Spec {
	goodput := metrics.List(tunnel.StreamMetrics()).Pick("goodput_bps")[0]
	return procedure.Spec{
		Name: Prefix + StreamName, Lab: Lab, Alone: true,
		Doc:   "iperf3 from each of several boards to each other one, one pair at a time: which cable or board is slow",
		Quick: "each pair streams 3 times for 1 s, not 10 times for 10 s",
		Names: []string{"nodes", "protocol"}, Metrics: meshMetrics,
		Trials: &result.Trials{Axis: "from", Across: "to", Title: "from each board (row) to each other one (column)", Metrics: []result.Metric{goodput}},
		New: func() procedure.Procedure {
			return &mesh{
				chosen:   newChosen(shelf, 2, 64),
				protocol: param.NewChoice("tcp", []string{"tcp", "udp"}), connections: param.NewCount(1, 1, 128), payload: param.NewCount(1400, 16, 65507),
				trials: param.NewCount(0, 0, 1000), preset: param.NewPreset(),
			}
		},
	}
}

var meshMetrics = metrics.List{
	{Name: "pairs_worst_bps", Label: "slowest pair bit/s", Group: "Streams between all pairs of boards, one at a time", Heads: true, Unit: "bit/s", Better: 1, Help: "payload bits a second of the slowest pair, one way: median of its trials"},
	{Name: "pairs_median_bps", Label: "median", Unit: "bit/s", Better: 1, Help: "the same of half of the pairs at least"},
	{Name: "pairs_best_bps", Label: "fastest", Unit: "bit/s", Better: 1, Help: "the same of the fastest pair"},
	{Name: "pairs_spread", Label: "spread", Unit: "1", Share: true, Better: -1, Help: "the fastest pair over the slowest one, less 1"},
}

// slowShare is the share of the median below which a pair, or all pairs of a board, is slow.
const slowShare = 0.8

type mesh struct {
	chosen
	protocol    param.Choice
	connections param.Count
	payload     param.Count
	length      time.Duration
	trials      param.Count
	preset      param.Choice
	network     mpi.Network
}

// Flags implements Procedure.
func (p *mesh) Flags(fs *flag.FlagSet) {
	p.flags(fs, "`boards` that stream to each other")
	fs.Var(&p.protocol, "protocol", "what iperf3 sends; udp as fast as it goes")
	fs.Var(&p.connections, "connections", "`how many` at once (udp: flows)")
	fs.Var(&p.payload, "payload_size", "udp: `octets` of a datagram's payload")
	fs.DurationVar(&p.length, "duration", p.length, "how `long` a trial sends, in whole seconds; 0s: as preset says")
	fs.Var(&p.trials, "trials", "how `often` each pair streams each way; 0: as preset says")
	fs.Var(&p.preset, "preset", "quick or standard: how long, how often")
	fs.Var(&p.network, "network", "`PREFIX` of IPv4 between the boards, such as 10.0.0.0/24; auto: the first private one that all are in")
}

func (p *mesh) effort() (trials int, length time.Duration) {
	trials, length = 3, time.Second
	if p.preset.Value == "standard" {
		trials, length = 10, 10*time.Second
	}
	if p.trials.Value > 0 {
		trials = p.trials.Value
	}
	if p.length > 0 {
		length = p.length
	}
	return trials, length
}

// Check implements Procedure.
func (p *mesh) Check(*lab.Testbed) error {
	if p.length != 0 && (p.length < time.Second || p.length > 24*time.Hour || p.length%time.Second != 0) {
		return fmt.Errorf("duration %v: want whole seconds from 1s to 24h, or 0s", p.length)
	}
	return p.check()
}

// Estimate implements Procedure.
func (p *mesh) Estimate() (int, time.Duration) {
	n, d := p.effort()
	n *= p.nodes.Value * (p.nodes.Value - 1)
	return n, time.Duration(n)*(d+300*time.Millisecond) + 2*time.Second
}

// Run implements Procedure.
func (p *mesh) Run(ctx context.Context, env *procedure.Env) (o procedure.Outcome, err error) {
	names := slices.Sorted(slices.Values(p.names(env)))
	members, unfit, err := p.gather(ctx, names)
	if members == nil {
		return unfit, err
	}
	ends, why := p.ends(ctx, members)
	if err := ctx.Err(); err != nil {
		return o, err
	}
	if why != "" {
		return procedure.Outcome{Status: result.Invalid, Reason: why}, nil
	}
	trials, length := p.effort()
	s := tunnel.Streaming{UDP: p.protocol.Value == "udp", Connections: p.connections.Value, Length: length, Payload: p.payload.Value}
	all := map[[2]int][]float64{}
	for n := range trials { // round by round: what changes with time is no pair's
		for i := range members {
			for k := range members {
				if i == k {
					continue
				}
				cfg := []result.Pair{{Key: "from", Value: names[i]}, {Key: "to", Value: names[k]}, {Key: "n", Value: strconv.Itoa(n + 1)}, {Key: "duration", Value: length.String()}, {Key: "over", Value: ends[i].Net.Masked().String()}}
				rec, err := env.Trial(ctx, cfg, func(ctx context.Context) (procedure.Outcome, error) {
					o, err := s.Between(ctx, ends[i], ends[k])
					if err != nil && ctx.Err() == nil { // a board that is gone does not end the run
						o, err = procedure.Outcome{Status: result.Invalid, Reason: procedure.Sentence(err)}, nil
					}
					return o, err
				})
				if err != nil {
					return o, err
				}
				if rec.Status != result.Passed {
					o.Status, o.Reason = rec.Status, fmt.Sprintf("from %s to %s: %s", names[i], names[k], rec.Reason)
					continue
				}
				if v := rec.Value("goodput_bps"); v != nil {
					all[[2]int{i, k}] = append(all[[2]int{i, k}], v.Value)
				}
			}
		}
	}
	if len(all) < len(members)*(len(members)-1) {
		return o, nil // a pair without a figure: its reason stands
	}
	if o.Status != "" {
		o.Warnings = append(o.Warnings, o.Reason)
	}
	o.Status, o.Reason = result.Passed, ""
	p.figures(&o, names, all)
	return o, nil
}

// ends are the boards as ends of streams, or why they cannot be.
func (p *mesh) ends(ctx context.Context, members []*member) ([]lab.Gateway, string) {
	nets, whys := networks(ctx, members, agent.IperfCheck)
	if why := several(whys); why != "" {
		return nil, why
	}
	at, err := mpi.Shared(nets, p.network.Prefix)
	if err != nil {
		return nil, procedure.Sentence(err)
	}
	var ends []lab.Gateway
	for i, m := range members {
		ends = append(ends, lab.Gateway{
			Place:   subject.Place{Port: at[i].Interface, Outer: at[i].Address, Net: netip.PrefixFrom(at[i].Address, at[i].Prefix.Bits())},
			Machine: agent.Machine{Conn: m.conn},
		})
	}
	return ends, ""
}

// figures are those of all pairs, and a sentence on what is slow.
func (p *mesh) figures(o *procedure.Outcome, names []string, all map[[2]int][]float64) {
	var each []float64
	rates := map[[2]int]float64{}
	for pair, vs := range all {
		rates[pair] = middle(vs)
		each = append(each, rates[pair])
	}
	least, best := slices.Min(each), slices.Max(each)
	o.Values = []result.Value{
		meshMetrics.Value("pairs_worst_bps", least), meshMetrics.Value("pairs_median_bps", middle(each)), meshMetrics.Value("pairs_best_bps", best),
	}
	if least > 0 {
		o.Values = append(o.Values, meshMetrics.Value("pairs_spread", best/least-1))
	}
	o.Warnings = append(o.Warnings, slow(names, rates, "bit/s", "streams"))
}

// slow says which pair is the slowest, and of which boards all pairs, one way, are slow. what names
// several pairs.
func slow(names []string, rates map[[2]int]float64, of string, what string) string {
	var each []float64
	var worst [2]int
	for i := range names {
		for k := range names {
			if v, ok := rates[[2]int{i, k}]; ok {
				if each = append(each, v); len(each) == 1 || v < rates[worst] {
					worst = [2]int{i, k}
				}
			}
		}
	}
	median := middle(each)
	said := []string{fmt.Sprintf("the slowest pair is %s to %s: %s", names[worst[0]], names[worst[1]], beside(rates[worst], median, of))}
	for i, name := range names {
		for end, way := range []string{"from", "to"} {
			var vs []float64
			for k := range names {
				pair := [2]int{i, k}
				if end == 1 {
					pair = [2]int{k, i}
				}
				if v, ok := rates[pair]; ok {
					vs = append(vs, v)
				}
			}
			if len(vs) > 1 && slices.Max(vs) < slowShare*median {
				said = append(said, fmt.Sprintf("all %s %s %s are slow: at most %s", what, way, name, beside(slices.Max(vs), median, of)))
			}
		}
	}
	return strings.Join(said, "; ")
}

// beside is a rate and its share of the median.
func beside(v, median float64, of string) string {
	text := unit.SI(v) + of
	if median > 0 {
		share := 100 * v / median
		form := map[bool]string{true: "%.0f", false: "%.2g"}[share >= 10]
		text += ", " + fmt.Sprintf(form, share) + " % of the median"
	}
	return text
}

func middle(vs []float64) float64 {
	s := slices.Sorted(slices.Values(vs))
	if len(s) == 0 {
		return 0
	}
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
