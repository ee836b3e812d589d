// SPDX-License-Identifier: Apache-2.0

package iperf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"boxdyno/host"
	"boxdyno/result"
	"boxdyno/unit"
)

// A Client is one run of iperf3 against a server, as plain data.
type Client struct {
	From        netip.Addr    `json:"from"`
	To          netip.Addr    `json:"to"`
	Port        int           `json:"port"`
	UDP         bool          `json:"udp,omitempty"`     // as fast as it goes
	Connections int           `json:"connections"`       // or flows
	Length      time.Duration `json:"length_ns"`         // whole seconds: iperf3 reads no fractions
	Payload     int           `json:"payload,omitempty"` // octets of a datagram
}

// A Ran is what a client said, and when it was.
type Ran struct {
	Report []byte       `json:"report"`   // JSON
	Begin  unit.Instant `json:"begin_ns"` // from when its first connection or flow stood
	End    unit.Instant `json:"end_ns"`
	Stood  bool         `json:"stood"` // it was seen to stand
	Usage  result.Usage `json:"usage"`
}

// A Machine is where iperf3 runs: this one, or a box.
type Machine interface {
	// HasIperf is a *host.Missing where there is no iperf3.
	HasIperf(ctx context.Context) error
	// Serve starts a server for one client and waits until it listens. It runs on cpus; nil:
	// on any.
	Serve(ctx context.Context, address netip.Addr, port int, cpus []int) (Server, error)
	// Send carries c out. stands is called once the first connection or flow stands.
	// Instants are of this machine's clock.
	Send(ctx context.Context, c Client, stands func() error) (Ran, error)
	// CPUTime is that of all CPUs of the machine.
	CPUTime(ctx context.Context) (host.CPUTime, error)
}

// A Server is one that listens.
type Server interface {
	Usage() (result.Usage, error)
	Kill() error
}

// A Local is a Machine that is this one, or a namespace of it.
type Local struct{ Host *host.Local }

// HasIperf implements Machine.
func (l Local) HasIperf(context.Context) error { return l.Host.Has("iperf3") }

// CPUTime implements Machine.
func (l Local) CPUTime(context.Context) (host.CPUTime, error) { return (&host.Local{}).CPUTime() }

const (
	connects = 5 * time.Second // its control connection

	mostConnections = 128
	mostLength      = 24 * time.Hour
)

// Check refuses what no Client is.
func (c Client) Check() error {
	switch {
	case !c.From.Is4() || !c.To.Is4() || c.Port < 1 || c.Port > 65535:
		return errors.New("iperf3 needs two IPv4 addresses and a port")
	case c.Connections < 1 || c.Connections > mostConnections || c.Length < time.Second || c.Length > mostLength || c.Payload < 0 || c.Payload > 65507:
		return fmt.Errorf("iperf3 takes 1 to %d connections, 1s to %v, and a payload of up to 65507", mostConnections, mostLength)
	}
	return nil
}

func (c Client) argv() []string {
	argv := []string{"iperf3", "--client", c.To.String(), "--bind", c.From.String(), "--port", strconv.Itoa(c.Port),
		"--connect-timeout", strconv.FormatInt(connects.Milliseconds(), 10),
		"--time", strconv.FormatFloat(c.Length.Seconds(), 'f', -1, 64), "--parallel", strconv.Itoa(c.Connections), "--json",
		"--interval", "0"} // else it keeps what each connection did in every second, of a day too
	if c.UDP {
		argv = append(argv, "--udp", "--length", strconv.Itoa(c.Payload), "--bitrate", "0")
	}
	return argv
}

// Send implements Machine. An iperf3 that hangs is killed Around after its time.
func (l Local) Send(ctx context.Context, c Client, stands func() error) (r Ran, err error) {
	if err := c.Check(); err != nil {
		return r, err
	}
	limited, stop := context.WithTimeout(ctx, c.Length+Around)
	defer stop()
	var said, wrong bytes.Buffer
	p, err := l.Host.Start(limited, host.Cmd{Argv: c.argv(), Stdout: &said, Stderr: &wrong})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, p.Kill()) }()
	if r.Stood, err = l.stands(limited, c, p); err != nil {
		return r, err
	}
	r.Begin = unit.Now()
	if r.Stood {
		if err := stands(); err != nil {
			return r, err
		}
	}
	if err := p.Wait(limited); err != nil {
		switch {
		case ctx.Err() != nil:
			return r, ctx.Err()
		case limited.Err() != nil:
			return r, fmt.Errorf("iperf3 hung: it did not end within %v and was killed", c.Length+Around)
		case said.Len() == 0 && wrong.Len() == 0:
			return r, err
		case said.Len() == 0:
			return r, fmt.Errorf("%w: %s", err, bytes.TrimSpace(wrong.Bytes()))
		}
	}
	r.End = unit.Now()
	r.Report = said.Bytes()
	r.Usage, _ = p.Usage() // else it is not known
	return r, nil
}

// stands waits until the client has its first connection, beside that for control, or
// flow; false: it ended before that was seen. What iperf3 says of it comes a second later.
func (l Local) stands(ctx context.Context, c Client, client *host.Process) (bool, error) {
	table, least := "tcp", 2
	if c.UDP {
		table, least = "udp", 1
	}
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for {
		n := 0
		err := l.Host.View(func(root fs.FS) error {
			data, err := fs.ReadFile(root, "proc/thread-self/net/"+table)
			for line := range strings.Lines(string(data)) {
				f := strings.Fields(line)
				if len(f) > 3 && f[3] == "01" && strings.HasSuffix(f[2], fmt.Sprintf(":%04X", c.Port)) { // connected to it
					n++
				}
			}
			return err
		})
		if err != nil || n >= least {
			return n >= least, err
		}
		select {
		case <-again.C:
		case <-client.Done():
			return false, nil
		case <-ctx.Done():
			return false, nil
		}
	}
}
