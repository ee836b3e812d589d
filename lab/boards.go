// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"net/netip"

	"boxdyno/agent"
	"boxdyno/engine"
	"boxdyno/engine/packet"
	"boxdyno/host"
	"boxdyno/internal/guard"
	"boxdyno/link"
)

// A BoardCable is how this board and another one are in one network, by cables of their own.
type BoardCable struct {
	Port    string     `json:"port"`    // this board's
	Address netip.Addr `json:"address"` // its IPv4 address there
	To      string     `json:"to"`      // the other board's port
	Other   netip.Addr `json:"other"`   // its IPv4 address there
}

// BuildBoards builds topology pair between this board and the one that c reaches. Nothing is
// set up on either. Other boards may be at the same switch, so frames for software on the
// other board go to a station that it has announced. It needs what topology pair needs. What
// sends is backend packet alone: the agent has no code of another one.
func BuildBoards(ctx context.Context, at BoardCable, c *link.Conn) (*Testbed, error) {
	p := &pair{wire2: defaultWire(), reached: newReached(), services: asIs}
	p.hosts, p.force, p.ssh = 1, true, c.Name
	p.ends[0] = wireEnd{port: at.Port, address4: at.Address, gateway4: at.Other}
	p.ends[1] = wireEnd{}
	p.dut[0] = at.To
	p.dial = func(context.Context, link.Agent) (*link.Conn, error) { return c, nil }
	var station [6]byte
	tb, _, err := p.stand(ctx, func(remote *link.Conn, _ []wireEnd, undo *cleanup) (err error) {
		station, err = p.station(ctx, remote, undo)
		return err
	})
	if err != nil {
		return nil, err
	}
	tb.Station = station
	tb.Engine, tb.Means, tb.Senders = packet.New(), boardsMeans{tb.Means.(*pairMeans)}, nil
	return tb, nil
}

// boardsMeans are those of a pair of boards.
type boardsMeans struct{ *pairMeans }

// OpenSender implements Sender.
func (m boardsMeans) OpenSender(ctx context.Context, cpu int) (engine.Transmitter, error) {
	return packet.Backend{}.OpenTransmitter(ctx, []host.Port{m.ends[0].Port}, cpu)
}

// station has the other board announce the station of frames for it, until undo.
func (p *pair) station(ctx context.Context, remote *link.Conn, undo *cleanup) ([6]byte, error) {
	args := agent.AnnounceArgs{Port: p.dut[0], Station: p.ends[0].gateway4}
	if _, err := agent.NetworkAnnounce.Call(ctx, remote, args); err != nil {
		return [6]byte{}, err
	}
	again, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	undo.add(func() error { stop(); <-ended; return nil })
	guard.Go(func() {
		defer close(ended)
		for host.Pause(again, talkGap) == nil {
			_, _ = agent.NetworkAnnounce.Call(again, remote, args) // a board that is gone shows in the trial
		}
	})
	return agent.Station(args.Station), nil
}
