// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"flag"
	"strconv"
	"sync"

	"boxdyno/host"
	"boxdyno/ledger"
	"boxdyno/result"
	"boxdyno/unit"
)

// A loop is the tester alone, for what it can do by itself:
//
//	tester namespace
//	loop0 ====== veth ====== loop1
//
// Receiving is done in the sender's softirq, on its CPU.
type loop struct {
	mtu  int
	rate unit.BitRate
}

func newLoop() Topology { return &loop{mtu: defaultMTU} }

func (l *loop) Flags(fs *flag.FlagSet) { addLinkFlags(fs, &l.mtu, &l.rate) }

func (l *loop) Sketch() (Facts, error) {
	cpus, err := host.AllowedCPUs()
	if err != nil {
		return Facts{}, err
	}
	cpu := cpus[len(cpus)-1]
	more, err := sendersBeside(cpu, -1)
	if err != nil {
		return Facts{}, err
	}
	ports := loopPorts(unbuilt, l.mtu, l.rate)
	return Facts{Senders: more, Topology: "loop", Kind: result.KindSandbox, TesterCPU: cpu, CPUs: []int{cpu}, Ports: ports, Loop: ports}, nil
}

// unbuilt is a namespace in a sketch.
var unbuilt = &space{Local: &host.Local{Label: "tester"}}

// Build needs CAP_SYS_ADMIN and CAP_NET_ADMIN: a *host.Missing otherwise.
func (l *loop) Build(ctx context.Context) (*Testbed, error) {
	tb, err := l.build()
	return withEngine(ctx, tb, err)
}

// build is Build without the engine.
func (l *loop) build() (_ *Testbed, err error) {
	var undo cleanup
	defer func() {
		if err != nil {
			err = host.Permit("build a loop", errors.Join(err, undo.close()))
		}
	}()
	facts, err := l.Sketch()
	if err != nil {
		return nil, err
	}
	tester, err := newSpace("tester", testerSysctls())
	if err != nil {
		return nil, err
	}
	undo.add(tester.close)
	cables := [][2]end{loopCable(tester)}
	if err := lay(cables, l.mtu, &undo); err != nil {
		return nil, err
	}
	if err := raise(cables); err != nil {
		return nil, err
	}
	facts.Ports = loopPorts(tester, l.mtu, l.rate)
	facts.Loop = facts.Ports
	tb := &Testbed{Facts: facts, Means: &loopMeans{once(sync.OnceValue(undo.close)), tester}}
	tb.Settings = append([]result.Pair{
		{Key: "tester_cpu", Value: strconv.Itoa(tb.TesterCPU)},
		{Key: "meter_napi", Value: "in the sender's softirq"},
	}, linkSettings(l.mtu, l.rate)...)
	return tb, nil
}

// loopMeans are those of a loop that stands.
type loopMeans struct {
	once
	tester *space
}

// Path implements Pather.
func (m *loopMeans) Path(from, to int, _ bool) ledger.Path { return loopPath(m.tester, from, to) }

// loopCable is the pair of tester ports that are wired to each other.
func loopCable(tester *space) [2]end {
	return [2]end{{tester, "loop0", mac(5)}, {tester, "loop1", mac(6)}}
}

// loopPorts are the ends of loopCable: each is the other's gateway.
func loopPorts(tester *space, mtu int, rate unit.BitRate) (ports []Port) {
	c := loopCable(tester)
	for i := range c {
		mine, other := sides[i], sides[1-i]
		ports = append(ports, Port{
			Port: c[i].port(), MAC: c[i].mac, GatewayMAC: c[1-i].mac,
			Addr4: mine.net4.Addr().Next(), Gateway4: other.net4.Addr().Next(),
			Addr6: mine.net6.Addr().Next(), Gateway6: other.net6.Addr().Next(),
			MTU: mtu, Link: rate,
		})
	}
	return ports
}

func loopPath(tester *space, from, to int) ledger.Path {
	c := loopCable(tester)
	return ledger.Path{Name: c[from].name + "-to-" + c[to].name, Hops: []ledger.Hop{
		{Place: result.Tester, Host: tester.Local, Port: c[from].port()},
		{Place: result.MeterAt, Host: tester.Local, Port: c[to].port()},
	}}
}
