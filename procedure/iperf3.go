// SPDX-License-Identifier: Apache-2.0

package procedure

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/result"
	"boxdyno/unit"
)

// A stream is one run of iperf3 from one gateway's network to the other's.
type stream struct {
	from, to lab.Gateway
	udp      bool
	parallel int           // connections, or flows
	length   time.Duration // whole seconds: iperf3 reads no fractions
	payload  int           // octets of a datagram, which are sent as fast as it goes
}

// A streamed is what iperf3 said of a stream.
type streamed struct {
	Sent, Received float64 // payload bit/s
	Seconds        float64
	Retransmits    float64 // of TCP
	Lost, Packets  float64 // of UDP
}

const (
	streamPort    = 5201
	iperfConnects = 5 * time.Second // its control connection
)

// run carries the stream out. Where iperf3 fails or hangs it is an error of one
// sentence, and nothing of it is left.
func (s stream) run(ctx context.Context) (got streamed, usage []result.Usage, err error) {
	if err := host.Has("iperf3"); err != nil {
		return got, nil, err
	}
	limited, stop := context.WithTimeout(ctx, s.length+iperfAround)
	defer stop()
	server, err := serveIperf3(limited, s.to.Host, s.to.Net.Addr(), streamPort, nil)
	if err != nil {
		return got, nil, fmt.Errorf("iperf3's server: %w", err)
	}
	defer func() { err = errors.Join(err, server.Kill()) }()
	var said, wrong bytes.Buffer
	client, err := s.from.Host.Start(limited, host.Cmd{Argv: s.argv(), Stdout: &said, Stderr: &wrong})
	if err != nil {
		return got, nil, err
	}
	defer func() { err = errors.Join(err, client.Kill()) }()
	if err := client.Wait(limited); err != nil {
		switch {
		case ctx.Err() != nil:
			return got, nil, ctx.Err()
		case limited.Err() != nil:
			return got, nil, fmt.Errorf("iperf3 hung: it did not end within %v and was killed", s.length+iperfAround)
		case said.Len() == 0:
			return got, nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(wrong.Bytes()))
		}
	}
	for _, p := range []*host.Process{client, server} {
		if u, err := p.Usage(); err == nil {
			u.Subject = map[bool]string{true: "iperf3 client", false: "iperf3 server"}[p == client]
			usage = append(usage, u)
		}
	}
	got, err = readStream(said.Bytes(), s.udp, s.payload)
	return got, usage, err
}

func (s stream) argv() []string {
	argv := []string{"iperf3", "--client", s.to.Net.Addr().String(), "--bind", s.from.Net.Addr().String(), "--port", strconv.Itoa(streamPort),
		"--connect-timeout", strconv.FormatInt(iperfConnects.Milliseconds(), 10),
		"--time", strconv.FormatFloat(s.length.Seconds(), 'f', -1, 64), "--parallel", strconv.Itoa(s.parallel), "--json"}
	if s.udp {
		argv = append(argv, "--udp", "--length", strconv.Itoa(s.payload), "--bitrate", "0")
	}
	return argv
}

// readStream reads the report of a client (iperf 3.1 and later): sums over its
// connections or flows. Datagrams that arrived are those that were sent and not lost.
func readStream(said []byte, udp bool, payload int) (got streamed, err error) {
	type sum struct {
		Seconds     float64 `json:"seconds"`
		Bits        float64 `json:"bits_per_second"`
		Retransmits float64 `json:"retransmits"`
		Lost        float64 `json:"lost_packets"`
		Packets     float64 `json:"packets"`
	}
	var report struct {
		End struct {
			Sum      *sum `json:"sum"`
			Sent     *sum `json:"sum_sent"`
			Received *sum `json:"sum_received"`
		} `json:"end"`
		Error string `json:"error"`
	}
	if err := json.Unmarshal(said, &report); err != nil {
		return got, fmt.Errorf("iperf3's report is no JSON that is known here: %w", err)
	}
	if report.Error != "" {
		return got, fmt.Errorf("iperf3: %s", strings.TrimPrefix(report.Error, "error - "))
	}
	e := report.End
	switch {
	case udp && e.Sum != nil && e.Sum.Seconds > 0 && e.Sum.Packets > 0:
		got = streamed{Seconds: e.Sum.Seconds, Lost: e.Sum.Lost, Packets: e.Sum.Packets}
		bits := float64(payload) * 8 / got.Seconds
		got.Sent, got.Received = got.Packets*bits, (got.Packets-got.Lost)*bits
	case !udp && e.Sent != nil && e.Received != nil && e.Sent.Seconds > 0:
		got = streamed{Seconds: e.Sent.Seconds, Sent: e.Sent.Bits, Received: e.Received.Bits, Retransmits: e.Sent.Retransmits}
	default:
		return got, errors.New("iperf3's report has no sums of what was sent and received")
	}
	return got, nil
}

// userHz is in what /proc/stat counts: USER_HZ, 100 on every architecture of Linux.
const userHz = 100

// trial is the stream as a trial, with what the whole machine and the daemons behind
// it (nil: none) spent meanwhile.
func (s stream) trial(ctx context.Context, daemons func() (result.Usage, error)) (o Outcome, err error) {
	machine := &host.Local{}
	var spent result.Usage
	if daemons != nil {
		if spent, err = daemons(); err != nil {
			return o, err
		}
	}
	before, err := machine.CPUTime()
	if err != nil {
		return o, err
	}
	begin := unit.Now()
	got, usage, err := s.run(ctx)
	var missing *host.Missing
	if errors.As(err, &missing) || err != nil && ctx.Err() != nil {
		return o, cmp.Or(ctx.Err(), err)
	}
	if err != nil {
		return Outcome{Status: result.Failed, Reason: oneSentence(err)}, nil
	}
	o = Outcome{Status: result.Passed, Usage: usage, Phases: []result.Phase{{Name: "stream", Begin: begin, End: unit.Now()}}}
	after, err := machine.CPUTime()
	if err != nil {
		return o, err
	}
	add := func(name string, v float64) { o.Values = append(o.Values, value(name, v)) }
	add("goodput_bps", got.Received)
	add("sent_bps", got.Sent)
	if s.udp {
		add("datagrams_lost_ratio", got.Lost/got.Packets)
	} else {
		add("retransmits", got.Retransmits)
	}
	megabits := got.Received * got.Seconds / 1e6
	if megabits <= 0 {
		o.Status, o.Reason = result.Failed, "nothing arrived"
		return o, nil
	}
	busy := float64(after.Total-after.Idle-after.Steal) - float64(before.Total-before.Idle-before.Steal)
	add("cpu_per_mbit_s", busy/userHz/megabits)
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

// serveIperf3 starts a server for one client and waits until it listens.
func serveIperf3(ctx context.Context, at *host.Local, address netip.Addr, port int, cpus []int) (*host.Process, error) {
	out, in := io.Pipe() // read to its end: a server whose words nobody takes ends
	p, err := at.Start(ctx, host.Cmd{Argv: []string{"iperf3", "--server", "--one-off", "--bind", address.String(), "--port", strconv.Itoa(port), "--forceflush"}, Stdout: in, Stderr: in, CPUs: cpus})
	if err != nil {
		return nil, err
	}
	go func() { <-p.Done(); in.Close() }()
	listens, ended := make(chan struct{}), make(chan string, 1)
	go func() {
		var said []string
		listening := false
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if !listening && strings.Contains(lines.Text(), "Server listening") {
				listening = true
				close(listens)
			}
			if !listening {
				said = append(said, lines.Text())
			}
		}
		ended <- strings.Join(said, " ")
	}()
	select {
	case <-listens:
		return p, nil
	case s := <-ended:
		err = fmt.Errorf("it did not listen: %s", s)
	case <-ctx.Done():
		err = ctx.Err()
	}
	return nil, errors.Join(err, p.Kill())
}
