// SPDX-License-Identifier: Apache-2.0

package packet

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"boxdyno/engine"
	"boxdyno/engine/internal/clock"
	"boxdyno/engine/internal/ports"
	"boxdyno/engine/internal/tally"
	"boxdyno/engine/roll"
	"boxdyno/frame"
	"boxdyno/host"
	"boxdyno/internal/guard"
	"boxdyno/internal/netns"
	"boxdyno/unit"

	"golang.org/x/sys/unix"
)

// A Meter takes frames from a ring that the kernel fills, a block at a time. Arrival is
// when the kernel copied the frame into the ring, by CLOCK_REALTIME, turned into
// CLOCK_MONOTONIC by the clocks' distance at the reading of its block: right to some 100 ns,
// unless the real-time clock is set in the time that a block may take to fill. The time of
// the driver and of softirq is in the latency. A timed meter has the NIC stamp frames instead,
// where it can (nicClock).
type Meter struct {
	port   string
	index  int // of the port
	fd     int
	wait   *os.File // of fd, for Go's poller: a thread that polls by itself keeps the runtime's monitor awake
	ring   []byte
	clock  clock.Clock
	stamps string        // of software
	retire int           // how long the kernel may keep a block that is not full, ms
	done   chan struct{} // closed once run has returned
	err    error         // what it returned
	stop   atomic.Bool

	mu     sync.Mutex   // guards what follows
	tally  *tally.Tally // nil: not armed
	hash   bool         // from the next Arm on
	screen bool
	plain  bool // frames are not looked into
	early  byte // what block touched early
	since  unit.Instant
	drops  uint64

	nic       *nicClock             // nil: none, or not asked yet
	nicOffset func() (int64, error) // of nic
	asked     bool                  // whether the NIC has a clock
	hardware  uint64                // frames that the NIC stamped
	software  uint64                // frames that it did not
}

const (
	ringBlock     = 256 << 10
	ringBlocks    = 64
	promptRetire  = 4 // ms
	sparingRetire = 32
)

// late is how old a frame may be that is not counted yet: the kernel's timer may tick at
// 10 ms only, and look twice.
func (m *Meter) late() time.Duration {
	return time.Duration(2*m.retire+17)*time.Millisecond + m.pause()
}

// pause is how long blocks may gather, so that a busy port does not wake the meter for each
// one; 16.7 Gbit/s fill the ring in a sparing meter's 8 ms.
func (m *Meter) pause() time.Duration {
	return time.Duration(m.retire) * time.Millisecond / 4
}

// OpenRoll opens a meter of package roll behind the driver: a ring that is copied to user
// space would lose frames that have to be told apart.
func (Backend) OpenRoll(_ context.Context, p host.Port, r *frame.Roll) (engine.Meter, error) {
	return roll.Open(p, r, false)
}

// OpenMeter opens a ring on p and starts to read it.
func (Backend) OpenMeter(_ context.Context, p host.Port) (engine.Meter, error) {
	return openRing(p, promptRetire)
}

// OpenSparing implements Sparer: it wakes for an eighth as many blocks that are not full.
func (Backend) OpenSparing(_ context.Context, p host.Port) (engine.Meter, error) {
	return openRing(p, sparingRetire)
}

func openRing(p host.Port, retire int) (_ *Meter, err error) {
	m := &Meter{port: p.Name, fd: -1, retire: retire, done: make(chan struct{}), clock: clock.New(), stamps: clock.Stamps("packet ring behind the driver")}
	defer func() {
		if err != nil {
			m.release()
		}
	}()
	if err := netns.Do(p.Netns, func() error { return m.open(p) }); err != nil {
		return nil, err
	}
	guard.Go(func() { // no thread of its own: Go would have to wake two to run it
		defer close(m.done)
		m.err = guard.Call(m.run)
	})
	return m, nil
}

func (m *Meter) open(p host.Port) error {
	var err error
	if m.index, _, err = ports.Ethernet(p); err != nil {
		return err
	}
	if m.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		m.fd = -1
		return refused("open a packet socket on "+p.Name, err)
	}
	err = unix.SetsockoptInt(m.fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V3)
	if err == nil {
		// Kernels before 4.20 lack it; block looks for itself.
		if e := unix.SetsockoptInt(m.fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1); e != unix.ENOPROTOOPT {
			err = e
		}
	}
	if err == nil {
		err = unix.SetsockoptInt(m.fd, unix.SOL_PACKET, unix.PACKET_RESERVE, vlanTag)
	}
	if err == nil {
		err = unix.SetsockoptTpacketReq3(m.fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &unix.TpacketReq3{
			Block_size: ringBlock, Block_nr: ringBlocks, Frame_size: ringBlock, Frame_nr: ringBlocks, Retire_blk_tov: uint32(m.retire),
		})
	}
	if err == nil {
		m.ring, err = unix.Mmap(m.fd, 0, ringBlock*ringBlocks, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err == nil {
		all := uint16(unix.ETH_P_ALL)
		err = unix.Bind(m.fd, &unix.SockaddrLinklayer{Protocol: all<<8 | all>>8, Ifindex: m.index})
	}
	if err == nil {
		var fd int
		if fd, err = unix.FcntlInt(uintptr(m.fd), unix.F_DUPFD_CLOEXEC, 0); err == nil {
			m.wait = os.NewFile(uintptr(fd), "packet ring")
		}
	}
	if err != nil {
		return refused("set up a packet ring on "+p.Name, err)
	}
	return nil
}

// Arm forgets frames that arrived before it, also those still in the ring.
func (m *Meter) Arm(_ context.Context, timing bool, streams ...uint16) error {
	if err := tally.Armable(streams); err != nil {
		return err
	}
	if err := m.failed(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.kernelDrops(); err != nil { // reading forgets
		return err
	}
	if timing && !m.asked {
		m.asked = true
		if nic, err := openNICClock(m.fd, m.port); err == nil { // the reports say what stamped
			m.nic, m.nicOffset = nic, nic.offset
		}
	}
	m.tally, m.since, m.drops = tally.New(timing, slices.Clone(streams)), m.clock.Now(), 0
	m.hardware, m.software = 0, 0
	if m.hash {
		m.tally.Hash = engine.NewDigest()
	}
	return nil
}

// Screen implements Screener.
func (m *Meter) Screen() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.screen = true
	return nil
}

// ofNeighbours says whether neighbours talk by the frame: to find each other (ARP,
// neighbour discovery), or about multicast groups (MLD, behind the one option that it has).
func ofNeighbours(f []byte) bool {
	const ether, ip6, icmp6, hopByHop = 14, 40, 58, 0
	if len(f) < ether {
		return false
	}
	switch binary.BigEndian.Uint16(f[ether-2:]) {
	case unix.ETH_P_ARP:
		return true
	case unix.ETH_P_IPV6:
		if len(f) <= ether+ip6 {
			return false
		}
		kind := f[ether+ip6]
		switch f[ether+6] {
		case icmp6:
			return kind >= 133 && kind <= 137
		case hopByHop:
			if kind != icmp6 || len(f) < ether+ip6+9 || f[ether+ip6+1] != 0 {
				return false
			}
			kind = f[ether+ip6+8]
			return kind >= 130 && kind <= 132 || kind == 143
		}
	}
	return false
}

// Hash implements engine.Hasher.
func (m *Meter) Hash(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hash = on
}

// CountUDP implements PlainCounter. The filter also leaves out what the port sends, which
// kernels before 4.20 show.
func (m *Meter) CountUDP() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := unix.SetsockoptSockFprog(m.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(udpFilter)), Filter: &udpFilter[0]}); err != nil {
		return refused("filter frames of UDP on "+m.port, err)
	}
	m.plain = true
	return nil
}

// skbType is where a filter finds the packet type (SKF_AD_OFF + SKF_AD_PKTTYPE,
// include/uapi/linux/filter.h).
const skbType = 1<<32 - 0x1000 + 4

// udpFilter takes whole frames of UDP over IPv4 or IPv6 (also behind a fragment header, as
// tcpdump's "udp" does) that the port received.
var udpFilter = []unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: skbType},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 11, K: unix.PACKET_OUTGOING},
	{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: 12}, // EtherType
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 5, K: unix.ETH_P_IPV6},
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 20}, // next header
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 6, K: unix.IPPROTO_UDP},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 6, K: unix.IPPROTO_FRAGMENT},
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 54}, // the one behind it
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 3, Jf: 4, K: unix.IPPROTO_UDP},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 3, K: unix.ETH_P_IP},
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 23}, // protocol
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.IPPROTO_UDP},
	{Code: unix.BPF_RET | unix.BPF_K, K: 1 << 18},
	{Code: unix.BPF_RET | unix.BPF_K},
}

// Read takes 25 ms, a sparing meter's 81: so long the kernel may keep frames to itself.
func (m *Meter) Read(ctx context.Context) (engine.MeterReport, error) {
	select {
	case <-ctx.Done():
		return engine.MeterReport{}, ctx.Err()
	case <-time.After(m.late()):
	}
	failed := m.failed()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tally == nil {
		return engine.MeterReport{}, cmp.Or(failed, errors.New("read the meter of "+m.port+": it is not armed"))
	}
	drops, err := m.kernelDrops()
	if err != nil {
		return engine.MeterReport{}, cmp.Or(failed, err)
	}
	m.drops += drops
	if failed != nil && ports.Vanished(m.fd, m.index) {
		failed = fmt.Errorf("meter frames on %s: %w", m.port, engine.ErrPortGone)
	}
	return m.tally.Report(m.drops, m.stamped()), failed
}

// stamped names what took the times.
func (m *Meter) stamped() string {
	switch {
	case m.hardware == 0:
		return m.stamps
	case m.software == 0:
		return "hardware (not seen on hardware)"
	}
	return fmt.Sprintf("hardware (not seen on hardware), %d of %d frames %s", m.software, m.hardware+m.software, m.stamps)
}

// failed is why the thread ended, if it did.
func (m *Meter) failed() error {
	select {
	case <-m.done:
		return m.err
	default:
		return nil
	}
}

// kernelDrops is the growth since it was last read.
func (m *Meter) kernelDrops() (uint64, error) {
	s, err := unix.GetsockoptTpacketStatsV3(m.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return 0, fmt.Errorf("read the ring's drops on %s: %w", m.port, err)
	}
	return uint64(s.Drops), nil
}

func (m *Meter) Close() error {
	if m.stop.Swap(true) {
		return nil
	}
	err := m.wait.SetReadDeadline(time.Now()) // ends its waiting
	<-m.done                                  // Read has told why it ended
	return errors.Join(err, m.release())
}

func (m *Meter) release() (err error) {
	if m.wait != nil {
		err = m.wait.Close()
	}
	if m.nic != nil {
		err = errors.Join(err, m.nic.close())
	}
	if m.ring != nil {
		err = errors.Join(err, unix.Munmap(m.ring))
	}
	if m.fd >= 0 {
		err = errors.Join(err, unix.Close(m.fd))
	}
	return err
}
