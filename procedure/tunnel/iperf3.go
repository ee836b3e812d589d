// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/procedure"
	"boxdyno/result"
	"boxdyno/subject"
	"boxdyno/subject/iperf"
	"boxdyno/unit"
)

// A stream is one run of iperf3 from one gateway's network to the other's.
type stream struct {
	from, to    lab.Gateway
	apart       bool // they are two machines
	udp         bool
	connections int           // connections, or flows
	length      time.Duration // whole seconds: iperf3 reads no fractions
	payload     int           // octets of a datagram, which are sent as fast as it goes
}

// Streaming is a stream of iperf3 between any two machines.
type Streaming struct {
	UDP         bool          // as fast as it goes
	Connections int           // or flows
	Length      time.Duration // whole seconds
	Payload     int           // octets of a datagram
}

// Between carries s out as a trial, from one machine to another one, each at an address of
// its own (Place.Net). Its values are of StreamMetrics.
func (s Streaming) Between(ctx context.Context, from, to lab.Gateway) (procedure.Outcome, error) {
	return stream{from: from, to: to, apart: true, udp: s.UDP, connections: s.Connections, length: s.Length, payload: s.Payload}.trial(ctx, nil)
}

// StreamMetrics are the metrics of a stream.
func StreamMetrics() []result.Metric { return streamMetrics }

// A streamed is what iperf3 said of a stream, and when it was.
type streamed struct {
	Sent, Received float64 // payload bit/s
	Octets         float64 // of payload that arrived
	Retransmits    float64 // of TCP
	LostRatio      float64 // of UDP: share of the payload sent
	Datagrams      *datagrams
	By             string // "iperf 3.12, cubic"

	Begin, End unit.Instant // from when its first connection or flow stood to the client's end
	Busy       [2]float64   // seconds of all CPUs of the sender's machine meanwhile, and, if that is another one, of the receiver's; 0: not known
	Usage      []result.Usage
}

// A datagrams is what iperf3 counted of UDP.
type datagrams struct {
	Sent   float64
	Lost   float64 // gaps between the numbers of those that arrived
	Jitter float64 // seconds, smoothed as in RFC 3550
}

const streamPort = 5201

// run carries the stream out. Where iperf3 fails or hangs it is an error of one
// sentence, and nothing of it is left. CPU time is counted from when the connection
// stands, so that the programs' starts are no part of it.
func (s stream) run(ctx context.Context) (got streamed, err error) {
	for _, g := range []lab.Gateway{s.from, s.to} {
		if err := g.Machine.HasIperf(ctx); err != nil {
			return got, err
		}
	}
	limited, stop := context.WithTimeout(ctx, s.length+2*iperf.Around)
	defer stop()
	server, err := s.to.Machine.Serve(limited, s.to.Net.Addr(), streamPort, nil)
	if err != nil {
		return got, fmt.Errorf("iperf3's server: %w", err)
	}
	defer func() { err = errors.Join(err, server.Kill()) }()
	machines := []lab.Gateway{s.from, s.to}[:1]
	if s.apart {
		machines = machines[:2]
	}
	var before, after [2]host.CPUTime
	times := func(into *[2]host.CPUTime) error {
		for i, g := range machines {
			var err error
			if into[i], err = g.Machine.CPUTime(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	ran, err := s.from.Machine.Send(limited, iperf.Client{From: s.from.Net.Addr(), To: s.to.Net.Addr(), Port: streamPort, UDP: s.udp, Connections: s.connections,
		Length: s.length, Payload: s.payload}, func() error { return times(&before) })
	if err != nil {
		return got, err
	}
	if err := times(&after); err != nil {
		return got, err
	}
	if got, err = readStream(ran.Report, s.udp); err != nil {
		return got, err
	}
	got.Begin, got.End = ran.Begin, ran.End
	for i := range machines {
		if ran.Stood {
			got.Busy[i] = (float64(after[i].Total-after[i].Idle-after[i].Steal) - float64(before[i].Total-before[i].Idle-before[i].Steal)) / userHz
		}
	}
	ran.Usage.Subject = "iperf3 client"
	got.Usage = append(got.Usage, ran.Usage)
	if u, err := server.Usage(); err == nil {
		u.Subject = "iperf3 server"
		got.Usage = append(got.Usage, u)
	}
	return got, nil
}

// readStream reads the report of a client (iperf 3.1 and later): sums over its
// connections or flows. Of datagrams the receiver's own sum is taken (3.12 and later):
// those that had not arrived at the end are not among the lost ones, which are gaps
// between the numbers of those that arrived. An older one tells the gaps alone.
func readStream(said []byte, udp bool) (got streamed, err error) {
	type sum struct {
		Seconds     float64 `json:"seconds"`
		Octets      float64 `json:"bytes"`
		Bits        float64 `json:"bits_per_second"`
		Retransmits float64 `json:"retransmits"`
		Lost        float64 `json:"lost_packets"`
		Packets     float64 `json:"packets"`
		Jitter      float64 `json:"jitter_ms"`
	}
	var report struct {
		Start struct {
			Version string `json:"version"`
		} `json:"start"`
		End struct {
			Sum      *sum   `json:"sum"`
			Sent     *sum   `json:"sum_sent"`
			Received *sum   `json:"sum_received"`
			Control  string `json:"sender_tcp_congestion"`
		} `json:"end"`
		Error string `json:"error"`
	}
	if err := json.Unmarshal(said, &report); err != nil {
		return got, fmt.Errorf("iperf3's report is no JSON that is known here: %w", err)
	}
	if report.Error != "" {
		return got, fmt.Errorf("iperf3: %s", strings.TrimPrefix(report.Error, "error - "))
	}
	sent, received := report.End.Sent, report.End.Received
	if all := report.End.Sum; udp && all != nil && all.Packets > 0 {
		if sent == nil {
			sent = all
		}
		if received == nil {
			arrived := all.Octets * (1 - all.Lost/all.Packets)
			received = &sum{Seconds: all.Seconds, Octets: arrived, Bits: arrived * 8 / all.Seconds}
		}
	}
	if sent == nil || received == nil || sent.Seconds <= 0 || received.Seconds <= 0 || sent.Octets <= 0 {
		return got, errors.New("iperf3's report has no sums of what was sent and received")
	}
	got = streamed{Sent: sent.Bits, Received: received.Bits, Octets: received.Octets, By: report.Start.Version}
	if udp {
		got.LostRatio = 1 - received.Octets/sent.Octets
		if all := report.End.Sum; all != nil && all.Packets > 0 {
			got.Datagrams = &datagrams{Sent: all.Packets, Lost: all.Lost, Jitter: all.Jitter / 1e3}
		}
		return got, nil
	}
	got.Retransmits = sent.Retransmits
	if c := report.End.Control; c != "" {
		got.By += ", TCP " + c
	}
	return got, nil
}

// userHz is in what /proc/stat counts: USER_HZ, 100 on every architecture of Linux.
const userHz = 100

// trial is the stream as a trial, with what the whole machine and the daemons behind
// it (nil: none) spent meanwhile.
func (s stream) trial(ctx context.Context, daemons func() (result.Usage, error)) (o procedure.Outcome, err error) {
	var spent result.Usage
	if daemons != nil {
		if spent, err = daemons(); err != nil {
			return o, err
		}
	}
	got, err := s.run(ctx)
	var missing *host.Missing
	if errors.As(err, &missing) || errors.Is(err, subject.ErrLost) || err != nil && ctx.Err() != nil {
		return o, cmp.Or(ctx.Err(), err)
	}
	if err != nil {
		return procedure.Outcome{Status: result.Failed, Reason: procedure.Sentence(err)}, nil
	}
	o = procedure.Outcome{Status: result.Passed, Usage: got.Usage, Phases: []result.Phase{{Name: "stream", Begin: got.Begin, End: got.End}}}
	if got.By != "" {
		o.Warnings = append(o.Warnings, got.By)
	}
	add := func(name string, v float64) { o.Values = append(o.Values, figures.Value(name, v)) }
	add("goodput_bps", got.Received)
	add("sent_bps", got.Sent)
	if s.udp {
		add("datagrams_lost_ratio", got.LostRatio)
		if d := got.Datagrams; d != nil {
			add("datagrams_sent", d.Sent)
			add("datagrams_lost", d.Lost)
			add("jitter_s", d.Jitter)
		}
	} else {
		add("retransmits", got.Retransmits)
	}
	megabits := got.Octets * 8 / 1e6
	if megabits <= 0 {
		o.Status, o.Reason = result.Failed, "nothing arrived"
		return o, nil
	}
	if got.Busy[0] > 0 {
		add("cpu_per_mbit_s", (got.Busy[0]+got.Busy[1])/megabits)
	}
	if s.apart && got.Busy[0] > 0 {
		add("sender_cpu_per_mbit_s", got.Busy[0]/megabits)
		add("receiver_cpu_per_mbit_s", got.Busy[1]/megabits)
	}
	if daemons == nil {
		return o, nil
	}
	now, err := daemons()
	if err != nil {
		return o, err
	}
	if now.Source == "" { // the kernel does the work
		return o, nil
	}
	now = now.Since(spent)
	now.Phase = "stream"
	o.Usage = append(o.Usage, now)
	add("daemon_cpu_per_mbit_s", now.CPU.Seconds()/megabits)
	if now.PeakMemory > 0 {
		add("subject_memory_bytes", float64(now.PeakMemory))
	}
	return o, nil
}
