// SPDX-License-Identifier: Apache-2.0

package afxdp

import (
	"errors"
	"fmt"

	"boxdyno/engine"
	"boxdyno/engine/internal/bpf"
	"boxdyno/engine/internal/tally"
	"boxdyno/host"
	"boxdyno/internal/xsk"
	"boxdyno/unit"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// A redirect is the XDP program of a metered port (bpf/redirect.c): frames of
// armed streams go to the sockets of their queues, with the time before them,
//
//	stamp 8 | frame        stamp: ns of CLOCK_MONOTONIC; none where the driver has no metadata
//
// and all others, counted, to the kernel.
type redirect struct {
	coll    *ebpf.Collection
	link    link.Link
	generic bool // the kernel runs it, in place of the driver
	epoch   uint32
}

const stampLen = 8

// newRedirect loads the program for a port of so many queues.
func newRedirect(queues int) (*redirect, error) {
	spec, err := loadRedirect()
	if err != nil {
		return nil, fmt.Errorf("read the redirecting program: %w", err)
	}
	spec.Maps[redirectMapSockets].MaxEntries = uint32(queues)
	coll, err := bpf.Load(spec, nil)
	if err != nil {
		return nil, bpf.Refused("load the redirecting program", err)
	}
	return &redirect{coll: coll}, nil
}

// attachRedirect works on this thread's namespace. It answers ErrNotSupported
// where the driver runs no such program, unless the kernel may in its place.
func attachRedirect(port string, index, queues int, kernel bool) (*redirect, error) {
	r, err := newRedirect(queues)
	if err != nil {
		return nil, err
	}
	prog := r.coll.Programs[redirectProgRedirect]
	r.link, err = bpf.Attach(port, index, prog, link.XDPDriverMode)
	if errors.Is(err, host.ErrNotSupported) && kernel {
		r.generic = true
		r.link, err = bpf.Attach(port, index, prog, link.XDPGenericMode)
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// arm has streams redirected from now on, or all frames but those by which
// neighbours find each other (ARP, ICMPv6 133 to 137), and counts the rest anew.
func (r *redirect) arm(streams []uint16, all bool) error {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	armed, every := make([]uint8, 1<<16), uint32(0)
	for _, id := range streams {
		armed[id] = 1
	}
	if all {
		every = 1
	}
	next := r.epoch ^ 1
	err = errors.Join(
		r.coll.Maps[redirectMapPassed].Put(next, make([]redirectRest, cpus)),
		r.coll.Variables[redirectVarArmed].Set(armed),
		r.coll.Variables[redirectVarAll].Set(every),
		r.coll.Variables[redirectVarEpoch].Set(next),
	)
	if err != nil {
		return fmt.Errorf("arm the redirecting program: %w", err)
	}
	r.epoch = next
	return nil
}

// keep says what is kept from the stack of what does not go to a socket.
func (r *redirect) keep(what uint32) error {
	if err := r.coll.Variables[redirectVarSink].Set(what); err != nil {
		return fmt.Errorf("make the meter a sink: %w", err)
	}
	return nil
}

// add gives frames that come by queue n to s from now on.
func (r *redirect) add(n int, s *xsk.Socket) error {
	if err := r.coll.Maps[redirectMapSockets].Put(uint32(n), uint32(s.FD())); err != nil {
		return bpf.Refused(fmt.Sprintf("give queue %d to its socket", n), err)
	}
	return nil
}

// remove leaves queue n to the kernel. That it has no socket is well.
func (r *redirect) remove(n int) error {
	if err := r.coll.Maps[redirectMapSockets].Delete(uint32(n)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("take queue %d from its socket: %w", n, err)
	}
	return nil
}

// count adds to rep what did not go to a socket since arm.
func (r *redirect) count(rep *engine.MeterReport) error {
	var perCPU []redirectRest
	if err := r.coll.Maps[redirectMapPassed].Lookup(r.epoch, &perCPU); err != nil {
		return fmt.Errorf("read the redirecting program's counters: %w", err)
	}
	for _, c := range perCPU {
		if c.Frames == 0 {
			continue
		}
		rep.Foreign += c.Frames
		rep.ForeignOctets += c.Octets + c.Frames*unit.FCS
		tally.Span(&rep.First, &rep.Last, c.First, c.Last)
	}
	return nil
}

// Close detaches the program; the kernel does so too when this process ends.
func (r *redirect) Close() (err error) {
	if r.link != nil {
		err = r.link.Close()
	}
	if r.coll != nil {
		r.coll.Close()
	}
	return err
}
