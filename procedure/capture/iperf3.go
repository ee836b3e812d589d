// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"boxdyno/engine"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/lab"
	"boxdyno/procedure/internal/trial"
	"boxdyno/result"
	"boxdyno/subject/iperf"
	"boxdyno/unit"
)

// An iperf3 sends UDP as the published study did: its server is on the DUT, where the
// subject is, and its client on the tester. It opens a TCP connection for control, and
// both ends greet each other in UDP.
type iperf3 struct {
	client     *host.Local
	server     iperf.Machine
	port       lab.Port // of the tester
	clientCPUs []int    // nil: any
	serverCPUs []int
	payload    int
	leave      func() error // ends its use of the port
}

const (
	generatorEngine = "engine"
	generatorIperf3 = "iperf3"

	// iperfFilter is what is the subject's to count: the client's datagrams, among them
	// its greeting, and the engine's probes, which go to the same port.
	iperfFilter   = "udp dst port 9"
	iperfGreeting = 1 // datagrams
)

// newIperf3 gives the tester's port its address, which close takes away: the engine
// needs none.
func newIperf3(ctx context.Context, bed *lab.Testbed, payload int) (generator, error) {
	p := bed.Ports[0]
	g := &iperf3{client: &host.Local{Label: "tester", Netns: p.Netns}, server: iperf.Local{Host: bed.DUT}, port: p, serverCPUs: bed.DUTCPUs, payload: payload}
	if bed.TesterCPU >= 0 {
		g.clientCPUs = []int{bed.TesterCPU}
	}
	if err := host.Has("iperf3"); err != nil {
		return nil, err
	}
	if far, ok := bed.Subjects.(iperf.Machine); ok { // a box
		if err := far.HasIperf(ctx); err != nil {
			return nil, err
		}
		g.server, g.serverCPUs = far, nil
	}
	var err error
	if g.leave, err = trial.Talk(ctx, bed); err != nil {
		return nil, fmt.Errorf("generator iperf3: %w", err)
	}
	return g, nil
}

func (g *iperf3) close() error { return g.leave() }

// transmit offers l, of which it knows rate, count and duration.
func (g *iperf3) transmit(ctx context.Context, l engine.Load) (r engine.TxReport, err error) {
	ctx, stop := context.WithTimeout(ctx, lasts(l)+iperf.Around)
	defer stop()
	server, err := g.serve(ctx)
	if err != nil {
		return r, fmt.Errorf("iperf3's server: %w", err)
	}
	defer func() { err = errors.Join(err, server.Kill()) }()
	frames := l.Count
	if frames == 0 { // its --time takes whole seconds, and none for a part of one
		frames = max(1, uint64(math.Round(float64(l.Rate)*l.Duration.Seconds())))
	}
	argv := []string{"iperf3", "--client", g.port.Gateway4.String(), "--bind", g.port.Addr4.String(), "--port", strconv.Itoa(frame.Port),
		"--udp", "--length", strconv.Itoa(g.payload), "--bitrate", strconv.FormatFloat(float64(l.Rate)*float64(g.payload)*8, 'f', 0, 64), "--blockcount", strconv.FormatUint(frames, 10), "--json"}
	var said, wrong bytes.Buffer
	client, err := g.client.Start(ctx, host.Cmd{Argv: argv, Stdout: &said, Stderr: &wrong, CPUs: g.clientCPUs})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, client.Kill()) }()
	if err := client.Wait(ctx); err != nil && said.Len() == 0 {
		return r, fmt.Errorf("%w: %s", err, bytes.TrimSpace(wrong.Bytes()))
	}
	if r, err = readIperf3(said.Bytes(), unit.Now()); err == nil {
		r.Intended = frames
	}
	return r, err
}

// serve starts a server for one client and waits until it listens.
func (g *iperf3) serve(ctx context.Context) (iperf.Server, error) {
	return g.server.Serve(ctx, g.port.Gateway4, frame.Port, g.serverCPUs)
}

// readIperf3 reads what a client says at its end, at the instant now: the datagrams it
// sent, its greeting among them. It does not say when that was to less than a second:
// the last one left some ms before its end, in which it heard the server's results.
func readIperf3(said []byte, now unit.Instant) (r engine.TxReport, err error) {
	var s struct {
		End struct {
			Streams []struct {
				UDP struct {
					Seconds float64 `json:"seconds"`
					Bytes   uint64  `json:"bytes"`
					Packets uint64  `json:"packets"`
				} `json:"udp"`
			} `json:"streams"`
		} `json:"end"`
		Error string `json:"error"`
	}
	if err := json.Unmarshal(said, &s); err != nil {
		return r, fmt.Errorf("iperf3's report is no JSON that is known here: %w", err)
	}
	switch {
	case s.Error != "":
		return r, fmt.Errorf("iperf3: %s", s.Error)
	case len(s.End.Streams) != 1 || s.End.Streams[0].UDP.Seconds <= 0 || s.End.Streams[0].UDP.Packets == 0:
		return r, errors.New("iperf3's report has no datagrams that were sent")
	}
	u := s.End.Streams[0].UDP
	r.Stream, r.Accepted, r.Octets = captureStream, u.Packets+iperfGreeting, u.Bytes
	r.First, r.Last = now-unit.Instant(u.Seconds*1e9), now
	r.Offered = unit.FrameRate(float64(u.Packets) / u.Seconds)
	r.Peak = r.Offered
	return r, nil
}

// beside is how many frames left the tester's port that are not among a's.
func (g *iperf3) beside(a *result.Account) int64 {
	for _, t := range a.Passed {
		if t.Place == result.Tester && t.Link == g.port.Name && strings.HasSuffix(t.From, " tx_packets") {
			return t.N - a.Accepted
		}
	}
	return 0
}
