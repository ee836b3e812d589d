// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"net/netip"

	"boxdyno/agent"
	"boxdyno/engine"
	"boxdyno/engine/packet"
	"boxdyno/host"
	"boxdyno/internal/guard"
	"boxdyno/link"
	"boxdyno/service"
)

// A BoardCable is how this board and another one are in one network, by cables of their own.
type BoardCable struct {
	Port    string     `json:"port"`    // this board's
	Address netip.Addr `json:"address"` // its IPv4 address there
	To      string     `json:"to"`      // the other board's port
	Other   netip.Addr `json:"other"`   // its IPv4 address there
}

// slotBits are how many bits of a board's address number its test addresses in BuildArm: two of the
// 65,536 on a side, and the one before and after them, are those of one pair.
const slotBits = 14

// ArmPrefix says why boards in a network of this prefix cannot be set up by BuildArm: boards of other
// runs in it could have the same test addresses.
func ArmPrefix(p netip.Prefix) error {
	if least := 32 - slotBits; p.Bits() < least {
		return fmt.Errorf("network %s is wider than /%d, so that another run in it could have the same test addresses: give the boards' ports addresses in a narrower one", p, least)
	}
	return nil
}

// armed is the box's address on a side of BuildArm.
func (at BoardCable) armed(side int) netip.Addr {
	b, own := sides[side].net4.Addr().As4(), [4]byte{}
	if at.Address.Is4() {
		own = at.Address.As4()
	}
	slot := (uint16(own[2])<<8 | uint16(own[3])) % (1 << slotBits)
	b[2], b[3] = byte(slot>>6), byte(slot<<2|1)
	return netip.AddrFrom4(b)
}

// arm is the pair of BuildArm, of which nothing stands.
func (at BoardCable) arm() *pair {
	p := &pair{wire2: defaultWire(), reached: newReached(), services: managed}
	p.hosts, p.force, p.arm = 1, true, true
	for i := range p.ends {
		box := at.armed(i)
		p.ends[i] = wireEnd{port: at.Port, address4: box.Next(), gateway4: box}
		p.dut[i] = at.To
	}
	return p
}

// Ports are the other board's one port for each network, as BuildArm has it set up.
func (at BoardCable) Ports() []service.Port {
	p := at.arm()
	return p.portsOf(p.ends[:])
}

// BuildArm builds topology pair of one arm: the board that c reaches is set up to route between two
// test networks, which are both at its one port, until the testbed is closed.
//
//	this board   Port ==== cable, switch, cable ==== To   other board
//	             198.18.SLOT + 2  -----------------> 198.18.SLOT + 1
//	             198.19.SLOT + 2  <----------------- 198.19.SLOT + 1
//
// SLOT is four times the last 14 bits of this board's address, so that no pair in a network of this
// size has another one's (ArmPrefix).
//
// It needs what topology pair needs. What sends and meters is backend packet, as of BuildBoards.
func BuildArm(ctx context.Context, at BoardCable, c *link.Conn) (*Testbed, error) {
	p := at.arm()
	p.ssh = c.Name
	p.dial = func(context.Context, link.Agent) (*link.Conn, error) { return c, nil }
	var set agent.ManageReply
	tb, _, err := p.stand(ctx, func(remote *link.Conn, ends []wireEnd, undo *cleanup) (err error) {
		set, err = p.manage(ctx, remote, ends, undo)
		return err
	})
	if err != nil {
		return nil, err
	}
	tb.Warnings, tb.Services, tb.AsIs, tb.Arm = append(tb.Warnings, set.Warnings...), ArmServices, false, true
	tb.Engine, tb.Means, tb.Senders = packet.New(), managedMeans{tb.Means.(*pairMeans)}, nil
	return tb, nil
}

// ArmServices are those that a box of one arm can be set up for: nat needs an inner and an outer port.
var ArmServices = []string{"route", "filter"}

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
