// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"time"

	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/procedure/internal/param"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
	"boxdyno/subject/userland"
)

// StreamSpec is the row of stream.
var StreamSpec = procedure.Spec{
	Name: "stream", Needs: lab.TwoGateways, Lab: lab.Gateways, Alone: true,
	Quick: "a stream is sent 3 times for 1 s, not 10 times for 10 s",
	Doc:   "iperf3 over TCP or UDP between two gateways: namespaces of this machine, or this machine and a box, with the offloads of the cable between them off or on",
	Names: []string{"protocol", "offloads", "connections"}, Metrics: streamMetrics, Joules: streamJoules, New: newStream,
}

// Stream measures iperf3 between two gateways, with the offloads of the cable between them
// off or on:
//
//	offloads set -> [iperf3 server at right | client at left] x trials
type Stream struct {
	protocol    param.Choice
	offloads    param.Choice
	connections param.Count
	payload     param.Count
	length      time.Duration
	trials      param.Count
	preset      param.Choice
	userland    param.Userland
	dutCPUs     param.Choice
}

var offOn = []string{"off", "on"}

const (
	mostConnections = 128
	streamPayload   = 1400 // octets of a datagram where none are given: they fit into every tunnel
)

func newStream() procedure.Procedure {
	return &Stream{protocol: param.NewChoice("tcp", []string{"tcp", "udp"}), offloads: param.NewChoice("off", offOn), connections: param.NewCount(1, 1, mostConnections),
		payload: param.NewCount(streamPayload, 16, 65507), trials: param.NewCount(0, 0, 1000), preset: param.NewPreset(), userland: param.NewUserland(), dutCPUs: trial.NewDUTCPUs()}
}

// Flags implements Procedure.
func (p *Stream) Flags(fs *flag.FlagSet) {
	fs.Var(&p.protocol, "protocol", "what iperf3 sends; udp as fast as it goes")
	fs.Var(&p.offloads, "offloads", "of the cable between the gateways: segmentation, checksums, merging on receipt")
	fs.Var(&p.connections, "connections", "`how many` at once (udp: flows)")
	fs.Var(&p.payload, "payload_size", "udp: `octets` of a datagram's payload")
	fs.DurationVar(&p.length, "duration", p.length, "how `long` a trial sends, in whole seconds; 0s: as preset says")
	fs.Var(&p.trials, "trials", "how `often`; 0: as preset says")
	fs.Var(&p.preset, "preset", "quick or standard: how long, how often")
	p.userland.Declare(fs)
	fs.Var(&p.dutCPUs, "dut_cpus", trial.DUTCPUsUsage)
}

// streamEffort is how often a preset streams, and how long.
func streamEffort(preset string) (trials int, length time.Duration) {
	if preset == "standard" {
		return 10, 10 * time.Second
	}
	return 3, time.Second
}

func (p *Stream) effort() (trials int, length time.Duration) {
	trials, length = streamEffort(p.preset.Value)
	if p.trials.Value > 0 {
		trials = p.trials.Value
	}
	if p.length > 0 {
		length = p.length
	}
	return trials, length
}

// Check implements Procedure.
func (p *Stream) Check(bed *lab.Testbed) error {
	if p.length != 0 && (p.length < time.Second || p.length > 24*time.Hour || p.length%time.Second != 0) {
		return fmt.Errorf("duration %v: want whole seconds from 1s to 24h, or 0s", p.length)
	}
	return checkGateways(bed, &p.userland, p.dutCPUs.Value)
}

// checkGateways refuses what a box at one end cannot do; bed may be nil.
func checkGateways(bed *lab.Testbed, programs *param.Userland, dutCPUs string) error {
	if bed == nil {
		return nil
	}
	if err := trial.Spreads(bed, dutCPUs); err != nil {
		return err
	}
	if bed.Apart && programs.Value != userland.Native {
		return fmt.Errorf("userland %s: a box runs its own programs: leave userland out", programs.Value)
	}
	return nil
}

// spread has the gateways work on as many CPUs as asked, until leave; few says where that
// is no more than one, or where flows are too few.
func spread(ctx context.Context, bed *lab.Testbed, dutCPUs string, flows trial.Flows) (leave func() error, few []string, err error) {
	all := dutCPUs == trial.AllCPUs
	if said := trial.Crowded(bed, dutCPUs, flows, 1); said != "" {
		few = []string{said}
	}
	serve := func(ctx context.Context, all bool) error {
		return bed.Serve(ctx, lab.Service{Kind: "route", Flows: 1, AllCPUs: all})
	}
	leave = func() error {
		if !all {
			return nil
		}
		return serve(context.WithoutCancel(ctx), false)
	}
	if err := serve(ctx, all); err != nil { // for one CPU, too: what came before may have been left spread
		return nil, few, errors.Join(err, leave())
	}
	return leave, few, nil
}

// flowsOf are the flows of so many connections.
func flowsOf(connections int) trial.Flows {
	return trial.Flows{N: connections, By: "connections", Most: mostConnections}
}

// cableOf is the cable between bed's gateways: it has two (lab.TwoGateways).
func cableOf(bed *lab.Testbed) lab.Joiner { return bed.Means.(lab.Joiner) }

// withIperf is a *host.Missing where a gateway has no iperf3.
func withIperf(ctx context.Context, bed *lab.Testbed) error {
	for _, g := range bed.Gateways {
		if err := g.Machine.HasIperf(ctx); err != nil {
			return err
		}
	}
	return nil
}

// streamAround is what a stream takes beside its time: two programs' starts.
const streamAround = 300 * time.Millisecond

// Estimate implements Procedure.
func (p *Stream) Estimate() (int, time.Duration) {
	n, d := p.effort()
	return n, time.Duration(n) * (d + streamAround)
}

// Run implements Procedure.
func (p *Stream) Run(ctx context.Context, env *procedure.Env) (o procedure.Outcome, err error) {
	local, err := p.userland.Local(ctx)
	if err != nil {
		return o, err
	}
	env = atGateways(env, local)
	bed := env.Bed
	if err := withIperf(ctx, bed); err != nil {
		return o, err
	}
	cable := cableOf(bed)
	if err := cable.Offloads(p.offloads.Value == "on"); err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, cable.Offloads(false)) }()
	leave, few, err := spread(ctx, bed, p.dutCPUs.Value, flowsOf(p.connections.Value))
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, leave()) }()
	if err := cable.Direct(true); err != nil {
		return o, err
	}
	trials, length := p.effort()
	s := stream{from: bed.Gateways[0], to: bed.Gateways[1], apart: bed.Apart, udp: p.protocol.Value == "udp", connections: p.connections.Value,
		length: length, payload: p.payload.Value}
	var told streamsTold
	for n := range trials {
		if err := told.next(ctx, env.Trial, "stream", n, s, nil); err != nil {
			return o, err
		}
	}
	o.Values, o.Warnings = told.all.values(streamMetrics), addNew(told.notes, few)
	if o.Status = result.Passed; told.failed != "" {
		o.Status, o.Reason = result.Failed, told.failed
	}
	return o, nil
}

// spreads are figures of several trials by metric.
type spreads map[string][]float64

func (s spreads) add(r result.Record) {
	for _, v := range r.Values {
		s[v.Metric] = append(s[v.Metric], v.Value)
	}
}

// values are the medians of those that were measured.
func (s spreads) values(metrics []result.Metric) (vs []result.Value) {
	for _, m := range metrics {
		if len(s[m.Name]) > 0 {
			vs = append(vs, figures.Spread(m.Name, s[m.Name]))
		}
	}
	return vs
}

// A streamsTold is what several trials of a stream told.
type streamsTold struct {
	all    spreads
	notes  []string // each once
	failed string   // why the last one that failed did
}

// next is trial n.
func (t *streamsTold) next(ctx context.Context, record trial.Recording, kind string, n int, s stream, daemons func() (result.Usage, error)) error {
	cfg := []result.Pair{{Key: "trial", Value: kind}, {Key: "n", Value: strconv.Itoa(n)}, {Key: "duration", Value: s.length.String()}}
	rec, err := record(ctx, cfg, func(ctx context.Context) (procedure.Outcome, error) { return s.trial(ctx, daemons) })
	if err != nil {
		return err
	}
	t.notes = addNew(t.notes, rec.Warnings)
	if rec.Status != result.Passed {
		t.failed = rec.Reason
		return nil
	}
	if t.all == nil {
		t.all = spreads{}
	}
	t.all.add(rec)
	return nil
}

// addNew adds those of more that are not among notes.
func addNew(notes, more []string) []string {
	for _, w := range more {
		if !slices.Contains(notes, w) {
			notes = append(notes, w)
		}
	}
	return notes
}

const costOfStreams = "What streams cost: CPU time of the whole machine a megabit, and without the tunnel"

var streamMetrics = []result.Metric{
	{Name: "goodput_bps", Label: "goodput bit/s", Group: "Streams: payload that arrives, and without the tunnel", Interval: "range", Heads: true, Unit: "bit/s", Better: 1, Help: "payload bits a second that arrived, summed over connections or flows by iperf3: median of the trials; interval is their range"},
	{Name: "sent_bps", Unit: "bit/s", Help: "payload bits a second that were sent"},
	{Name: "retransmits", Unit: "1", Better: -1, Help: "tcp: segments that were sent again in a trial"},
	{Name: "datagrams_lost_ratio", Label: "lost", Share: true, Unit: "1", Better: -1, Help: "udp: share of the payload sent that the receiver had not read at its end"},
	{Name: "datagrams_sent", Unit: "1", Help: "udp: datagrams that iperf3 sent in a trial"},
	{Name: "datagrams_lost", Unit: "1", Better: -1, Help: "udp: of them, those missing between the numbers of two that arrived"},
	{Name: "jitter_s", Label: "interarrival jitter (RFC 3550)", Unit: "s", Better: -1, Help: "udp: smoothed variation of transit time (RFC 3550), mean of the flows"},
	{Name: "cpu_per_mbit_s", Label: "CPU", Group: costOfStreams, Unit: "s", Better: -1, Help: "CPU time of the whole machine while the connection stood, iperf3's own at both ends among it, for a megabit that arrived; of two machines the sum"},
	{Name: "sender_cpu_per_mbit_s", Label: "sender", Group: costOfStreams, Unit: "s", Better: -1, Help: "of it, the sending machine's; absent where one machine is both ends"},
	{Name: "receiver_cpu_per_mbit_s", Label: "receiver", Group: costOfStreams, Unit: "s", Better: -1, Help: "of it, the receiving machine's"},
}

var streamJoules = []procedure.Joule{procedure.Worked("goodput_bps", "gigabyte", 8*1e9, "while streams ran")}
