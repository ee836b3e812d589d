// SPDX-License-Identifier: Apache-2.0

// Package iperf runs servers and clients of iperf3, here or on a box (Machine).
package iperf

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"boxdyno/host"
	"boxdyno/internal/guard"
)

// Around is the time that a run of iperf3 may take beside its own: its start, its
// handshakes and its end.
const Around = 15 * time.Second

// Serve implements Machine: a *host.Process. An error is what it said instead.
func (l Local) Serve(ctx context.Context, address netip.Addr, port int, cpus []int) (Server, error) {
	out, in := io.Pipe() // read to its end: a server whose words nobody takes ends
	p, err := l.Host.Start(ctx, host.Cmd{Argv: []string{"iperf3", "--server", "--one-off", "--bind", address.String(), "--port", strconv.Itoa(port), "--forceflush"}, Stdout: in, Stderr: in, CPUs: cpus})
	if err != nil {
		return nil, err
	}
	guard.Go(func() { <-p.Done(); in.Close() })
	listens, ended := make(chan struct{}), make(chan string, 1)
	guard.Go(func() {
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
	})
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
