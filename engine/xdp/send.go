// SPDX-License-Identifier: Apache-2.0

package xdp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/internal/ports"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/unit"

	"golang.org/x/sys/unix"
)

// The way of a frame, with who does it:
//
//	Transmit (goroutine)     lays out variants and schedule in the program's memory, polls it
//	sender thread            one bpf(2) call for the whole trial, ended by a signal
//	bpf/sender.c (kernel)    due? size, headers, flow, sequence, time; counts issued
//	redirect (kernel)        errors counted by redirect_err, and devmap_xmit: Refused
//	port's driver (kernel)   tx_packets, tx_dropped: the ledger's
type Transmitter struct {
	lanes    []host.Port
	cpus     []int
	netns    string
	socket   int // in netns
	Indexes  []int
	Refusals *Refusals // nil on a kernel without BTF: refusals then stay unexplained
	senders  map[senderKind]*Program
	reel     *reel // of the last source; nil: none
}

const maxLanes = 2

func (x *Backend) OpenTransmitter(ctx context.Context, lanes []host.Port, cpu int) (engine.Transmitter, error) {
	if len(lanes) < 1 || len(lanes) > maxLanes {
		return nil, fmt.Errorf("open an xdp transmitter: %d lanes, want 1 or 2", len(lanes))
	}
	t := &Transmitter{lanes: lanes, netns: lanes[0].Netns, socket: -1, senders: map[senderKind]*Program{}}
	if cpu >= 0 {
		t.cpus = []int{cpu}
	}
	var taps [maxLanes]uint32
	for i, p := range lanes {
		if p.Netns != t.netns {
			return nil, fmt.Errorf("open an xdp transmitter: %s and %s stand in two namespaces", lanes[0].Name, p.Name)
		}
		if err := netns.Do(p.Netns, func() error {
			iface, err := net.InterfaceByName(p.Name)
			if err != nil {
				return fmt.Errorf("open a transmitter on %s: %w", p.Name, err)
			}
			t.Indexes = append(t.Indexes, iface.Index)
			if ports.IsTap(p.Name) {
				taps[i] = uint32(iface.Index)
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	var err error
	if t.Refusals, err = openRefusalTrace(taps); err != nil {
		return nil, err
	}
	if t.socket, err = ports.Socket(t.netns); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func (t *Transmitter) Close() error {
	for _, p := range t.senders {
		p.Coll.Close()
	}
	var err error
	if t.reel != nil {
		err = t.reel.close()
	}
	err = errors.Join(err, t.Refusals.close())
	if t.socket >= 0 {
		err = errors.Join(err, unix.Close(t.socket))
	}
	return err
}

func (t *Transmitter) Transmit(ctx context.Context, l engine.Load, streams ...engine.Stream) ([]engine.TxReport, error) {
	lanes := len(streams)
	if lanes == 0 || lanes > len(t.lanes) {
		return nil, fmt.Errorf("transmit: %d streams on %d lanes", lanes, len(t.lanes))
	}
	if err := l.Check(streams...); err != nil {
		return nil, fmt.Errorf("transmit: %w", err)
	}
	for _, s := range streams {
		if s.Source != nil && lanes > 1 {
			return nil, fmt.Errorf("transmit: stream %d has a source, and is one of %d: backend xdp needs a transmitter for each such stream", s.ID, lanes)
		}
		if s.Lane < 0 || s.Lane >= len(t.lanes) {
			return nil, fmt.Errorf("transmit: stream %d goes by lane %d of %d", s.ID, s.Lane, len(t.lanes))
		}
	}
	if streams[0].Source != nil {
		return t.replay(ctx, l, streams[0])
	}
	return t.send(ctx, l, streams)
}

// send offers streams of specs.
func (t *Transmitter) send(ctx context.Context, l engine.Load, streams []engine.Stream) ([]engine.TxReport, error) {
	var state [maxLanes]senderLane
	longest, mean, ipv6, networked := 0, 0.0, streams[0].Frames.Src.Is6(), false
	tagged := streams[0].Frames.VLAN > 0
	for i, s := range streams {
		b, err := frame.NewBuilder(s.Frames, s.ID)
		if err != nil {
			return nil, err
		}
		if b.Layout.IPv6 != ipv6 {
			return nil, errors.New("transmit: streams of one load must be of one IP version")
		}
		if (s.Frames.VLAN > 0) != tagged {
			return nil, errors.New("transmit: streams of one load must all have a VLAN tag, or none")
		}
		networked = networked || s.Frames.Networks > 1
		longest = max(longest, fillLane(&state[i], b, t.Indexes[s.Lane]))
		mean += frame.Mix{Sizes: s.Frames.Sizes}.Mean() / float64(len(streams))
	}
	mixed := shrink(state[:len(streams)], longest)
	sc, err := NewSchedule(l, len(streams), streams[0].ID, mean, 0)
	if err != nil {
		return nil, err
	}
	p, err := t.sender(senderKind{sc.Pace, ipv6, mixed, networked, tagged, uint32(len(streams))})
	if err != nil {
		return nil, err
	}
	if err := p.Coll.Variables[senderVarLaneState].Set(&state); err != nil {
		return nil, fmt.Errorf("set up the sender: %w", err)
	}
	second := 0
	if len(streams) > 1 {
		second = t.Indexes[streams[1].Lane]
	}
	frames := l.Frames(streams[0])
	err = t.Run(ctx, p, sc, Run{
		second: second, Longest: max(longest, unit.MinFrame.Buffer()), Most: sc.Expected(l, frames),
	})
	reports, readErr := t.reports(p, sc, l, streams)
	if err == nil {
		err = readErr
	}
	if err == nil {
		err = cmp.Or(t.Gone(reports), ctx.Err())
	}
	return reports, err
}

// A Run is what the sender's thread needs to know, beside its program.
type Run struct {
	second  int           // the second lane's port; 0: none
	Longest int           // octets that live frames begin as
	Most    time.Duration // the load takes about
	tend    func()        // what is to be done meanwhile, often; nil: nothing
}

// Run has a thread send until the load is done, a port is gone or ctx ends.
func (t *Transmitter) Run(ctx context.Context, p *Program, sc *Schedule, r Run) error {
	if err := t.Refusals.watch(p.prog, r.second); err != nil {
		return err
	}
	if at := sc.load.Start.Ready(ctx.Done()); at != 0 {
		sc.start.Origin = uint64(at) + uint64(sc.load.Phase)
	}
	if err := sc.set(p.Coll); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	first := make([]byte, r.Longest)
	thread, err := netns.Go(t.netns, t.cpus, func() error {
		if err := t.Refusals.here(); err != nil {
			return err
		}
		// Without CAP_SYS_NICE the sender is held up more often, and says so.
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, -20)
		for {
			err := runLive(p.prog, first, endless, sc.batch)
			// A signal may be for nothing, and frames that are not due use repeats up.
			if err != nil && !errors.Is(err, unix.EINTR) || p.done() || ctx.Err() != nil {
				return err
			}
		}
	})
	if err != nil {
		return fmt.Errorf("start the sender: %w", err)
	}
	return p.wait(ctx, thread, r, func() {
		if t.lost() >= 0 {
			stop()
		}
	})
}

// fillLane sets up a lane and returns its longest buffer.
func fillLane(lane *senderLane, b *frame.Builder, index int) (longest int) {
	lane.Ifindex = uint32(index)
	lane.AddrBase, lane.PortBase = b.Layout.AddrBase, uint32(b.Layout.PortBase)
	lane.Flows, lane.Networks, lane.Sizes = uint32(b.Spec.Flows), uint32(b.Spec.Networks), uint32(len(b.Variants))
	lane.FirstAddr, lane.FirstPort = uint32(b.Spec.First/frame.FlowPorts), uint32(b.Spec.First%frame.FlowPorts)
	lane.FlowAddr, lane.FlowPort = lane.FirstAddr, lane.FirstPort
	if b.Spec.Answer {
		lane.Answer = 1
	}
	for i, v := range b.Variants {
		w := &lane.Variants[i]
		w.Header, w.Len, w.IpSum, w.UdpSum = v.Header, uint32(v.Len), v.IPSum, v.UDPSum
		longest = max(longest, v.Len)
	}
	return longest
}

// shrink says by how much each size is shorter than the longest, which live
// frames begin as, and whether any is.
func shrink(lanes []senderLane, longest int) (mixed bool) {
	for i := range lanes {
		for j := range lanes[i].Variants[:lanes[i].Sizes] {
			v := &lanes[i].Variants[j]
			v.Shrink = int32(v.Len) - int32(longest)
			mixed = mixed || v.Shrink != 0 || lanes[i].Sizes > 1
		}
	}
	return mixed
}

// lost is the first lane whose port has vanished; -1: none.
func (t *Transmitter) lost() int {
	return slices.IndexFunc(t.Indexes, func(index int) bool { return ports.Vanished(t.socket, index) })
}

// Gone says whether a port has vanished.
func (t *Transmitter) Gone(reports []engine.TxReport) error {
	if lane := t.lost(); lane >= 0 {
		return ports.GoneError(t.lanes[lane].Name, reports)
	}
	return nil
}

func (t *Transmitter) reports(p *Program, sc *Schedule, l engine.Load, streams []engine.Stream) ([]engine.TxReport, error) {
	var lanes [maxLanes]senderLane
	refusals, err := t.Refusals.Read()
	err = errors.Join(err, p.Coll.Variables[senderVarLaneState].Get(&lanes))
	if err != nil {
		return nil, fmt.Errorf("read the sender's counts: %w", err)
	}
	reports := make([]engine.TxReport, len(streams))
	for i := range streams {
		lane := &lanes[i]
		reports[i], err = sc.Report(p, l, streams[i], i, len(streams), Sent{
			Issued: lane.Issued, Refused: refusals[i], Octets: octetsOf(streams[i].Frames.Sizes, lane.Issued),
			First: unit.Instant(lane.First), Last: unit.Instant(lane.Last),
		})
		if err != nil {
			return nil, err
		}
	}
	return reports, nil
}

// octetsOf is that of the first n frames of a cycle of sizes.
func octetsOf(sizes []unit.FrameSize, n uint64) (octets uint64) {
	for i, size := range sizes {
		cycles := n / uint64(len(sizes))
		if uint64(i) < n%uint64(len(sizes)) {
			cycles++
		}
		octets += cycles * uint64(size)
	}
	return octets
}
