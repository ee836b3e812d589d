// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"time"

	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/netns"
	"boxdyno/unit"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// The way of a frame, with who does it:
//
//	Transmit (goroutine)     lays out variants and schedule in the program's memory, polls it
//	sender thread            one bpf(2) call for the whole trial, ended by a signal
//	bpf/sender.c (kernel)    due? size, headers, flow, sequence, time; counts issued
//	redirect (kernel)        errors counted by redirect_err: Refused
//	port's driver (kernel)   tx_packets, tx_dropped: the ledger's
type xdpTransmitter struct {
	lanes   []host.Port
	cpus    []int
	netns   string
	indexes []int
	refusal *refusalTrace // nil on a kernel without BTF: refusals then stay unexplained
	senders map[senderKind]*senderProgram
}

const (
	maxLanes  = 2
	pollEvery = 2 * time.Millisecond
	flatFlush = 128
)

func (x *xdp) OpenTransmitter(ctx context.Context, lanes []host.Port, cpu int) (Transmitter, error) {
	if len(lanes) < 1 || len(lanes) > maxLanes {
		return nil, fmt.Errorf("open an xdp transmitter: %d lanes, want 1 or 2", len(lanes))
	}
	t := &xdpTransmitter{lanes: lanes, netns: lanes[0].Netns, senders: map[senderKind]*senderProgram{}}
	if cpu >= 0 {
		t.cpus = []int{cpu}
	}
	for _, p := range lanes {
		if p.Netns != t.netns {
			return nil, fmt.Errorf("open an xdp transmitter: %s and %s stand in two namespaces", lanes[0].Name, p.Name)
		}
		if err := netns.Do(p.Netns, func() error {
			iface, err := net.InterfaceByName(p.Name)
			if err != nil {
				return fmt.Errorf("open a transmitter on %s: %w", p.Name, err)
			}
			t.indexes = append(t.indexes, iface.Index)
			return nil
		}); err != nil {
			return nil, err
		}
	}
	trace, err := openRefusalTrace()
	if err != nil && !errors.Is(err, host.ErrNotSupported) && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	t.refusal = trace
	return t, nil
}

func (t *xdpTransmitter) Close() error {
	for _, p := range t.senders {
		p.coll.Close()
	}
	if t.refusal == nil {
		return nil
	}
	return t.refusal.close()
}

// Each flush of the port's queue may wake another CPU, which costs the sender
// 2 us and more. So paced frames leave in bursts of what falls due within 20 us, as
// a NIC would moderate its interrupts, and at most 32: far less than any ring holds.
const (
	moderation = 20 * time.Microsecond
	mostBurst  = 32 // of each lane
)

func burstFor(l Load, lanes int) int {
	if l.Alone {
		return 1
	}
	return lanes * min(max(int(float64(l.Rate)*moderation.Seconds()), 1), mostBurst)
}

func (t *xdpTransmitter) Transmit(ctx context.Context, l Load, streams ...Stream) ([]TxReport, error) {
	lanes := len(streams)
	if lanes == 0 || lanes > len(t.lanes) {
		return nil, fmt.Errorf("transmit: %d streams on %d lanes", lanes, len(t.lanes))
	}
	if err := l.check(); err != nil {
		return nil, fmt.Errorf("transmit: %w", err)
	}
	for _, s := range streams {
		if s.Lane < 0 || s.Lane >= len(t.lanes) {
			return nil, fmt.Errorf("transmit: stream %d goes by lane %d of %d", s.ID, s.Lane, len(t.lanes))
		}
	}
	sched := senderSchedule{Duration: uint64(l.Duration), Count: l.Count * uint64(lanes)}
	if l.Rate > 0 {
		sched.Interval = uint64(math.Round(1e9 * 65536 / (float64(l.Rate) * float64(lanes))))
	}
	var state [maxLanes]senderLane
	longest, ipv6 := 0, streams[0].Frames.Src.Is6()
	for i, s := range streams {
		b, err := frame.NewBuilder(s.Frames, s.ID)
		if err != nil {
			return nil, err
		}
		if b.Layout.IPv6 != ipv6 {
			return nil, errors.New("transmit: streams of one load must be of one IP version")
		}
		longest = max(longest, fillLane(&state[i], b, t.indexes[s.Lane]))
	}
	mixed := shrink(state[:lanes], longest)

	batch, burst := flatFlush, 1
	if l.Rate > 0 {
		burst = burstFor(l, lanes)
		batch = burst
		sched.Due = sched.Interval * uint64(burst-1)
	}
	p, err := t.sender(senderKind{ipv6, l.Rate > 0, mixed, uint32(lanes), uint32(burst)})
	if err != nil {
		return nil, err
	}
	if t.refusal != nil {
		second := 0
		if lanes > 1 {
			second = t.indexes[streams[1].Lane]
		}
		if err := t.refusal.watch(p.send, second); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(p.lanes.Set(&state), p.sched.Set(&sched)); err != nil {
		return nil, fmt.Errorf("set up the sender: %w", err)
	}

	first := make([]byte, max(longest, unit.MinFrame.Buffer()))
	thread, err := netns.Go(t.netns, t.cpus, func() error {
		// Without CAP_SYS_NICE the sender is held up more often, and says so.
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, -20)
		for {
			err := runLive(p.send, first, endless, batch)
			// A signal may be for nothing, and frames that are not due use repeats up.
			if err != nil && !errors.Is(err, unix.EINTR) || p.done() || ctx.Err() != nil {
				return err
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("start the sender: %w", err)
	}
	err = p.wait(ctx, thread, l.expected())
	reports, readErr := t.reports(p, l, streams, batch)
	if err == nil {
		err = readErr
	}
	if err == nil {
		err = ctx.Err()
	}
	return reports, err
}

// fillLane sets up a lane and returns its longest buffer.
func fillLane(lane *senderLane, b *frame.Builder, index int) (longest int) {
	lane.Ifindex = uint32(index)
	lane.AddrBase, lane.PortBase = b.Layout.AddrBase, uint32(b.Layout.PortBase)
	lane.Flows, lane.Sizes = uint32(b.Spec.Flows), uint32(len(b.Variants))
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

// A senderKind is what a sender's program is specialized for.
type senderKind struct {
	ipv6, paced, mixed bool
	lanes, burst       uint32
}

// A senderProgram is a loaded program and its memory.
type senderProgram struct {
	coll         *ebpf.Collection
	send         *ebpf.Program
	lanes, sched *ebpf.Variable
}

// sender loads each kind once: that takes longer than a short trial's snapshots.
func (t *xdpTransmitter) sender(k senderKind) (*senderProgram, error) {
	if p := t.senders[k]; p != nil {
		return p, nil
	}
	p, err := k.load()
	if err == nil {
		t.senders[k] = p
	}
	return p, err
}

func (k senderKind) load() (*senderProgram, error) {
	spec, err := loadSender()
	if err != nil {
		return nil, fmt.Errorf("read the sender's program: %w", err)
	}
	for name, v := range map[string]any{senderVarIpv6: k.ipv6, senderVarPaced: k.paced, senderVarMixed: k.mixed, senderVarLanes: k.lanes, senderVarBurst: k.burst} {
		if err := spec.Variables[name].Set(v); err != nil {
			return nil, fmt.Errorf("set the sender's %s: %w", name, err)
		}
	}
	delete(spec.Programs, senderProgRedirectErr)
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, refused("load the sender", err)
	}
	return &senderProgram{
		coll: coll, send: coll.Programs[senderProgSend],
		lanes: coll.Variables[senderVarLaneState], sched: coll.Variables[senderVarSched],
	}, nil
}

// A refusalTrace counts redirects that the kernel refuses; it costs nothing
// where none are.
type refusalTrace struct {
	coll *ebpf.Collection
	link link.Link
}

func openRefusalTrace() (*refusalTrace, error) {
	spec, err := loadSender()
	if err != nil {
		return nil, fmt.Errorf("read the refusal trace: %w", err)
	}
	delete(spec.Programs, senderProgSend)
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, refused("load the refusal trace", err)
	}
	l, err := link.AttachTracing(link.TracingOptions{Program: coll.Programs[senderProgRedirectErr]})
	if err != nil {
		coll.Close()
		return nil, refused("trace redirect errors", err)
	}
	return &refusalTrace{coll, l}, nil
}

// watch counts from now on the refusals of send, the second lane's apart.
func (r *refusalTrace) watch(send *ebpf.Program, second int) error {
	info, err := send.Info()
	if err != nil {
		return fmt.Errorf("identify the sender: %w", err)
	}
	id, _ := info.ID()
	return errors.Join(
		r.coll.Variables[senderVarRedirectErrors].Set(&[maxLanes]uint64{}),
		r.coll.Variables[senderVarSecondIfindex].Set(uint32(second)),
		r.coll.Variables[senderVarSenderId].Set(uint32(id)),
	)
}

func (r *refusalTrace) read() (n [maxLanes]uint64, err error) {
	return n, r.coll.Variables[senderVarRedirectErrors].Get(&n)
}

func (r *refusalTrace) close() error {
	err := r.link.Close()
	r.coll.Close()
	return err
}

func (p *senderProgram) done() bool {
	var s senderSchedule
	return p.sched.Get(&s) == nil && s.Done != 0
}

// wait returns once the sender's thread has ended: by itself, or because the
// load is done or ctx ended. It sleeps for most of the load, so as not to
// disturb the measurement.
func (p *senderProgram) wait(ctx context.Context, t *netns.Thread, most time.Duration) error {
	timer := time.NewTimer(max(most, pollEvery))
	defer timer.Stop()
	for {
		select {
		case <-t.Done():
			if err := t.Wait(); err != nil && !errors.Is(err, unix.EINTR) {
				return refused("run live frames", err)
			}
			return nil
		case <-ctx.Done():
			// The signal may come before the thread is in its system call: repeat it.
			time.Sleep(pollEvery)
		case <-timer.C:
			timer.Reset(pollEvery)
		}
		if p.done() || ctx.Err() != nil {
			if err := t.Interrupt(); err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("stop the sender: %w", err)
			}
		}
	}
}

// expected is about how long l takes; 0: not known.
func (l Load) expected() time.Duration {
	d := l.Duration
	if l.Count > 0 && l.Rate > 0 {
		byCount := time.Duration(float64(l.Count) / float64(l.Rate) * float64(time.Second))
		if d == 0 || byCount < d {
			d = byCount
		}
	} else if l.Count > 0 {
		d = 0
	}
	return d
}

func (t *xdpTransmitter) reports(p *senderProgram, l Load, streams []Stream, batch int) ([]TxReport, error) {
	var s senderSchedule
	var lanes [maxLanes]senderLane
	var refusals [maxLanes]uint64
	err := errors.Join(p.sched.Get(&s), p.lanes.Get(&lanes))
	if err == nil && t.refusal != nil {
		refusals, err = t.refusal.read()
	}
	if err != nil {
		return nil, fmt.Errorf("read the sender's counts: %w", err)
	}
	reports := make([]TxReport, len(streams))
	for i := range streams {
		lane := &lanes[i]
		r := &reports[i]
		*r = TxReport{
			Stream: streams[i].ID, Refused: refusals[i], Accepted: lane.Issued - refusals[i], Batch: batch,
			First: unit.Instant(lane.First), Last: unit.Instant(lane.Last),
			Late: s.Late, Stalls: s.Stalls, LongestStall: time.Duration(s.LongestStall),
		}
		due := l.Count
		if s.Interval > 0 && s.Duration > 0 {
			// Frames of all lanes that fall due within the duration, dealt out in turn.
			n := uint64(len(streams))
			all := (s.Duration<<16 + s.Interval - 1) / s.Interval
			mine := (all + n - 1 - uint64(i)) / n
			if due == 0 || mine < due {
				due = mine
			}
		}
		r.Intended = due
		if due > lane.Issued {
			r.NotSent = due - lane.Issued
		}
		r.Offered = offered(l, *r)
		if s.Interval == 0 {
			// The clock is read every 64 frames only: lanes have the load's span.
			r.First, r.Last = unit.Instant(s.Origin), unit.Instant(s.Now)
			r.Offered = rateOver(r.Accepted+1, r.First, r.Last)
		}
		r.Peak = r.Offered
		if s.Late > 0 {
			r.Peak = max(r.Offered, l.Rate*9/8)
		}
	}
	return reports, nil
}
