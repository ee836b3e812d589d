// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"boxdyno/agent"
	"boxdyno/ledger"
	"boxdyno/link"
	"boxdyno/result"
	"boxdyno/telemetry"
)

// A there is a box as the DUT, with no cable under load:
//
//	tester                  DUT
//	   |                   | boxdyno-agent
//	   +---- ssh, NATS ----| carries the procedures out
type there struct{ reached }

// There is the name of the topology whose DUT carries out procedures itself.
const There = "there"

func newThere() Topology { return &there{newReached()} }

// Sketch implements Topology: it does not ask the DUT.
func (p *there) Sketch() (*Testbed, error) {
	_, err := p.agent()
	return &Testbed{Topology: There, Kind: "real", TesterCPU: -1}, err
}

// asking is how long the DUT may take to say how it is set up.
const asking = 10 * time.Second

// Build needs ssh here, and on the DUT what the procedures need.
func (p *there) Build(ctx context.Context) (_ *Testbed, err error) {
	at, err := p.agent()
	if err != nil {
		return nil, err
	}
	tb, err := p.Sketch()
	if err != nil {
		return nil, err
	}
	var undo cleanup
	defer func() {
		if err != nil {
			err = errors.Join(err, undo.close())
		}
	}()
	remote, err := p.hold(ctx, at, &undo)
	if err != nil {
		return nil, err
	}
	identify := func(ctx context.Context) (agent.Identity, error) {
		return agent.Identify.Call(ctx, remote, agent.IdentifyArgs{Clock: true})
	}
	id, err := identify(ctx)
	if err != nil {
		return nil, err
	}
	clock, err := remote.Clock(ctx, clockReadings)
	if err != nil {
		return nil, err
	}
	tb.Machines = []result.Machine{id.Machine}
	tb.Settings = farSettings(at, remote, clock)
	tb.Subjects = agent.Machine{Conn: remote}
	tb.Far = &Far{Conn: remote, CPUs: id.CPUs, Busy: func(ctx context.Context, d time.Duration) (float64, error) { return agent.Busy.Call(ctx, remote, d) }}
	tb.Far.Environment = func() []result.Pair {
		ctx, cancel := context.WithTimeout(context.Background(), asking)
		defer cancel()
		now, err := identify(ctx)
		if err != nil {
			return []result.Pair{{Key: "dut_state", Value: err.Error()}}
		}
		return now.Environment
	}
	tb.Tune = TuneBox(remote, nil)
	tb.Watch = func(names []string, warn func(string)) telemetry.Spec { return WatchBox(remote, names, "", warn) }
	tb.Path = func(int, int, bool) ledger.Path { return ledger.Path{} }
	tb.Close = sync.OnceValue(undo.close)
	return tb, nil
}

// farSettings say which box it is, and how its agent is reached.
func farSettings(at link.Agent, remote *link.Conn, clock link.ClockOffset) []result.Pair {
	return []result.Pair{
		{Key: "dut", Value: at.Name},
		{Key: "dut_clock_offset", Value: fmt.Sprintf("%v, at most %v off", clock.Offset, clock.Error)},
		{Key: "dut_version", Value: remote.Hello.Version},
	}
}
