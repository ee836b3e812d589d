// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"boxdyno/agent"
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
func (p *there) Sketch() (Facts, error) {
	_, err := p.agent()
	return Facts{Topology: There, Kind: result.KindReal, TesterCPU: -1}, err
}

// asking is how long the DUT may take to say how it is set up.
const asking = 10 * time.Second

// Build needs ssh here, and on the DUT what the procedures need.
func (p *there) Build(ctx context.Context) (_ *Testbed, err error) {
	at, err := p.agent()
	if err != nil {
		return nil, err
	}
	facts, err := p.Sketch()
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
	means := &thereMeans{Tuner: tuneBox{conn: remote}, once: sync.OnceValue(undo.close), conn: remote}
	id, err := means.identify(ctx)
	if err != nil {
		return nil, err
	}
	means.cpus = id.CPUs
	clock, err := remote.Clock(ctx, clockReadings)
	if err != nil {
		return nil, err
	}
	return &Testbed{
		Facts: facts, Machines: []result.Machine{id.Machine}, Settings: farSettings(at, remote, clock),
		Subjects: agent.Machine{Conn: remote}, Means: means,
	}, nil
}

// thereMeans are those of a box that carries out procedures itself.
type thereMeans struct {
	Tuner
	once
	conn *link.Conn
	cpus []int
}

func (m *thereMeans) identify(ctx context.Context) (agent.Identity, error) {
	return agent.Identify.Call(ctx, m.conn, agent.IdentifyArgs{Clock: true})
}

// Conn implements Far.
func (m *thereMeans) Conn() *link.Conn { return m.conn }

// Allowed implements Far.
func (m *thereMeans) Allowed() []int { return m.cpus }

// Environment implements Far.
func (m *thereMeans) Environment() []result.Pair {
	ctx, cancel := context.WithTimeout(context.Background(), asking)
	defer cancel()
	now, err := m.identify(ctx)
	if err != nil {
		return []result.Pair{{Key: "dut_state", Value: err.Error()}}
	}
	return now.Environment
}

// Busy implements Far.
func (m *thereMeans) Busy(ctx context.Context, d time.Duration) (float64, error) {
	return agent.Busy.Call(ctx, m.conn, d)
}

// Watch implements Watcher.
func (m *thereMeans) Watch(names []string, warn func(string)) telemetry.Spec {
	return WatchBox(m.conn, names, "", warn)
}

// farSettings say which box it is, and how its agent is reached.
func farSettings(at link.Agent, remote *link.Conn, clock link.ClockOffset) []result.Pair {
	return []result.Pair{
		{Key: "dut", Value: at.Name},
		{Key: "dut_clock_offset", Value: fmt.Sprintf("%v, at most %v off", clock.Offset, clock.Error)},
		{Key: "dut_version", Value: remote.Hello.Version},
	}
}
