// SPDX-License-Identifier: Apache-2.0

// Package xsk is AF_XDP sockets (Linux documentation, networking/af_xdp): memory
// that user space and a port share, and the rings through which they hand frames
// to each other.
//
//	Fill        user -> kernel   memory to receive into
//	RX          kernel -> user   frames received
//	TX          user -> kernel   frames to send
//	Completion  kernel -> user   memory whose frame was sent
//
// A socket serves one queue of one port, alone. It needs CAP_NET_RAW, and Linux
// 5.4 or later. Zero-copy and busy polling are built to the kernel's
// documentation and were not seen on hardware.
package xsk

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// Chunk is the size of a piece of memory: no frame may straddle two.
	Chunk = 4096
	// Headroom is what the kernel leaves free before a received frame.
	Headroom = unix.XDP_PACKET_HEADROOM
	// Longest is the most octets of a frame, sent or received.
	Longest = Chunk - Headroom

	ringNeedWakeup = unix.XDP_RING_NEED_WAKEUP
)

// A Config says what a socket is like. Sizes of rings are powers of two.
type Config struct {
	Index    int // of the port
	Queue    int
	ZeroCopy bool // the driver reads and writes the UMEM; not every one can. False: the kernel copies
	Receive  int  // chunks to receive into, at the UMEM's begin, and entries of Fill and RX
	Send     int  // chunks to send from, behind them
	Sends    int  // entries of TX and Completion
	// SendBuffer is the most octets under way to the port in copy mode; 0: the
	// kernel's default.
	SendBuffer int

	// BusyPoll makes system calls on the socket work the port's queue for so long,
	// instead of its interrupt (SO_PREFER_BUSY_POLL, Linux 5.11); 0: they do not.
	// The port's napi_defer_hard_irqs and gro_flush_timeout should be set with it.
	BusyPoll time.Duration
	Budget   int // frames of one busy poll; 0: 64
}

// A Socket is a bound AF_XDP socket. Its rings are each for one goroutine, and
// may be used at the same time.
type Socket struct {
	Fill       Producer[uint64]
	RX         Consumer[Desc]
	TX         Producer[Desc]
	Completion Consumer[uint64]

	// UMEM is the memory; a Desc's Addr is an index of it.
	UMEM []byte

	fd   int
	copy bool
	maps [][]byte
	kick func() error // in place of the system call; nil: that
}

// Open makes a socket and binds it to a queue of a port of this thread's
// namespace. Its errors are the kernel's: EPERM; EBUSY where another socket has
// the queue; EINVAL where there is no such queue; EOPNOTSUPP or EINVAL where the
// driver has no zero-copy.
func Open(c Config) (_ *Socket, err error) {
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open an AF_XDP socket: %w", err)
	}
	s := &Socket{fd: fd, copy: !c.ZeroCopy}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if s.UMEM, err = s.mmap(-1, 0, (c.Receive+c.Send)*Chunk, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE); err != nil {
		return nil, fmt.Errorf("map memory for frames: %w", err)
	}
	reg := unix.XDPUmemReg{Addr: uint64(uintptr(unsafe.Pointer(&s.UMEM[0]))), Len: uint64(len(s.UMEM)), Size: Chunk}
	if err := setsockopt(fd, unix.SOL_XDP, unix.XDP_UMEM_REG, &reg); err != nil {
		return nil, fmt.Errorf("register memory for frames: %w", err)
	}
	for _, r := range []struct{ option, entries int }{
		{unix.XDP_UMEM_FILL_RING, c.Receive}, {unix.XDP_UMEM_COMPLETION_RING, c.Sends},
		{unix.XDP_RX_RING, c.Receive}, {unix.XDP_TX_RING, c.Sends},
	} {
		if err := unix.SetsockoptInt(fd, unix.SOL_XDP, r.option, r.entries); err != nil {
			return nil, fmt.Errorf("make a ring of %d frames: %w", r.entries, err)
		}
	}
	var off unix.XDPMmapOffsets
	if err := getsockopt(fd, unix.SOL_XDP, unix.XDP_MMAP_OFFSETS, &off); err != nil {
		return nil, fmt.Errorf("read the rings' layout: %w", err)
	}
	if s.Fill.ring, err = mapRing[uint64](s, off.Fr, unix.XDP_UMEM_PGOFF_FILL_RING, c.Receive); err != nil {
		return nil, err
	}
	if s.Completion.ring, err = mapRing[uint64](s, off.Cr, unix.XDP_UMEM_PGOFF_COMPLETION_RING, c.Sends); err != nil {
		return nil, err
	}
	if s.RX.ring, err = mapRing[Desc](s, off.Rx, unix.XDP_PGOFF_RX_RING, c.Receive); err != nil {
		return nil, err
	}
	if s.TX.ring, err = mapRing[Desc](s, off.Tx, unix.XDP_PGOFF_TX_RING, c.Sends); err != nil {
		return nil, err
	}
	if err := s.options(c); err != nil {
		return nil, err
	}
	s.fill(c.Receive)
	flags := uint16(unix.XDP_COPY)
	if c.ZeroCopy {
		flags = unix.XDP_ZEROCOPY | unix.XDP_USE_NEED_WAKEUP
	}
	if err := bind(fd, &unix.SockaddrXDP{Flags: flags, Ifindex: uint32(c.Index), QueueID: uint32(c.Queue)}); err != nil {
		return nil, fmt.Errorf("bind to queue %d: %w", c.Queue, err)
	}
	return s, nil
}

func (s *Socket) fill(chunks int) {
	for i := range chunks {
		s.Fill.Put(uint64(i * Chunk))
	}
	s.Fill.Publish()
}

// bind waits for a socket that was closed: the kernel frees its queue some time
// later.
func bind(fd int, to *unix.SockaddrXDP) (err error) {
	for range 50 {
		if err = unix.Bind(fd, to); err != unix.EBUSY {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

func (s *Socket) options(c Config) error {
	if c.SendBuffer > 0 && unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, c.SendBuffer) != nil {
		if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, c.SendBuffer); err != nil {
			return fmt.Errorf("set the send buffer: %w", err)
		}
	}
	// In copy mode a call sends 32 frames, or as many as this says (Linux 6.17).
	if err := unix.SetsockoptInt(s.fd, unix.SOL_XDP, unix.XDP_MAX_TX_SKB_BUDGET, c.Sends); err != nil && err != unix.ENOPROTOOPT {
		return fmt.Errorf("set the frames of a call: %w", err)
	}
	if c.BusyPoll <= 0 {
		return nil
	}
	budget := c.Budget
	if budget == 0 {
		budget = 64
	}
	for _, o := range []struct{ option, value int }{
		{unix.SO_PREFER_BUSY_POLL, 1},
		{unix.SO_BUSY_POLL, int(c.BusyPoll.Microseconds())},
		{unix.SO_BUSY_POLL_BUDGET, budget},
	} {
		if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, o.option, o.value); err != nil {
			return fmt.Errorf("set busy polling: %w", err)
		}
	}
	return nil
}

func (s *Socket) mmap(fd int, offset int64, length, flags int) ([]byte, error) {
	b, err := unix.Mmap(fd, offset, length, unix.PROT_READ|unix.PROT_WRITE, flags)
	if err == nil {
		s.maps = append(s.maps, b)
	}
	return b, err
}

func mapRing[T Desc | uint64](s *Socket, off unix.XDPRingOffset, at int64, entries int) (r ring[T], err error) {
	var one T
	mem, err := s.mmap(s.fd, at, int(off.Desc)+entries*int(unsafe.Sizeof(one)), unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return r, fmt.Errorf("map a ring: %w", err)
	}
	index := func(offset uint64) *uint32 { return (*uint32)(unsafe.Pointer(&mem[offset])) }
	return ring[T]{
		producer: index(off.Producer), consumer: index(off.Consumer), flags: index(off.Flags),
		entries: unsafe.Slice((*T)(unsafe.Pointer(&mem[off.Desc])), entries),
	}, nil
}

// Entries is how many frames RX holds.
func (s *Socket) Entries() int { return len(s.RX.entries) }

// FD is for poll(2) and an XSKMAP; it stays owned by s. In copy mode a poll also
// sends what is on TX.
func (s *Socket) FD() int { return s.fd }

// Kick makes the kernel send what is on TX, where it waits for that. In copy mode
// it has sent all of it on nil. Of its errors, EAGAIN and ENOBUFS leave what was
// not sent on TX; with EBUSY the port has dropped one frame, the last that was
// taken; others are final: ENETDOWN, ENXIO where the port is gone.
func (s *Socket) Kick() error {
	if !s.copy && !s.TX.needWakeup() {
		return nil
	}
	if s.kick != nil {
		return s.kick()
	}
	for {
		_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(s.fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return errno
		}
	}
}

// Wake makes the kernel take from Fill, where it waits for that.
func (s *Socket) Wake() error {
	if s.copy || !s.Fill.needWakeup() {
		return nil
	}
	_, _, err := unix.Recvfrom(s.fd, nil, unix.MSG_DONTWAIT)
	if err == unix.EAGAIN || err == unix.EINTR || err == unix.EBUSY {
		err = nil
	}
	return err
}

// Statistics are the kernel's counters since Open (XDP_STATISTICS).
func (s *Socket) Statistics() (unix.XDPStatistics, error) {
	var st unix.XDPStatistics
	if err := getsockopt(s.fd, unix.SOL_XDP, unix.XDP_STATISTICS, &st); err != nil {
		return st, fmt.Errorf("read a socket's statistics: %w", err)
	}
	return st, nil
}

// Err is the socket's pending error, such as ENETDOWN once the port is gone.
func (s *Socket) Err() error {
	errno, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && errno != 0 {
		err = unix.Errno(errno)
	}
	return err
}

// Close unbinds the socket and frees the rings and the UMEM: nobody may use them.
func (s *Socket) Close() (err error) {
	for _, m := range s.maps {
		err = errors.Join(err, unix.Munmap(m))
	}
	s.maps = nil
	if s.fd >= 0 {
		err = errors.Join(err, unix.Close(s.fd))
	}
	return err
}

func setsockopt[T any](fd, level, option int, v *T) error {
	return unix.SetsockoptString(fd, level, option, unsafe.String((*byte)(unsafe.Pointer(v)), int(unsafe.Sizeof(*v))))
}

func getsockopt[T any](fd, level, option int, v *T) error {
	size := uint32(unsafe.Sizeof(*v))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option), uintptr(unsafe.Pointer(v)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}
