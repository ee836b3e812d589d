// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"bytes"
	"errors"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"boxdyno/internal/ethtool"
)

// A tool asks drivers for their own counters (ethtool -S) without allocation. It is
// a socket of one namespace, where it stays.
type tool struct {
	fd  int
	req *ifreq
	buf []uint64 // struct ethtool_stats, _sset_info, _gstrings: aligned for each
}

// ifreq is struct ifreq of net/if.h, whose union has room for 24 octets on machines
// of 64 bit and 16 on those of 32.
type ifreq struct {
	name [unix.IFNAMSIZ]byte
	data unsafe.Pointer
	_    [16]byte
}

// Numbers of linux/ethtool.h.
const (
	ethtoolGStrings  = 0x1b
	ethtoolGStats    = 0x1d
	ethtoolGSSetInfo = 0x37
	ethSSStats       = 1
	ethGStringLen    = 32
	ethMostStats     = 1 << 15
	ethStatsGrowth   = 1 << 12 // more than a driver's counters can grow by between two questions
)

// openTool opens it in the namespace of the calling thread.
func openTool() (*tool, error) {
	fd, err := ethtool.OpenDescriptor()
	if err != nil {
		return nil, err
	}
	return &tool{fd: fd, req: &ifreq{}, buf: make([]uint64, 8)}, nil
}

func (t *tool) Close() error { return unix.Close(t.fd) }

// words is the buffer with room for n of 8 octets, as bytes too.
func (t *tool) words(n int) {
	if len(t.buf) < n {
		t.buf = make([]uint64, n)
	}
}

func (t *tool) u32(i int) *uint32 { return (*uint32)(unsafe.Add(unsafe.Pointer(&t.buf[0]), 4*i)) }

func (t *tool) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&t.buf[0])), 8*len(t.buf))
}

func (t *tool) ask(port string) error {
	clear(t.req.name[:])
	if len(port) >= len(t.req.name) {
		return unix.ENODEV
	}
	copy(t.req.name[:], port)
	t.req.data = unsafe.Pointer(&t.buf[0])
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(t.fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(t.req)))
	runtime.KeepAlive(t)
	if errno != 0 {
		return errno
	}
	return nil
}

// index is the interface's, ENODEV where there is none. The answer must not lie where
// the garbage collector looks for a pointer: half of an address would be left beside it.
func (t *tool) index(port string) (int, error) {
	r, err := unix.NewIfreq(port)
	if err != nil {
		return 0, unix.ENODEV
	}
	if err := unix.IoctlIfreq(t.fd, unix.SIOCGIFINDEX, r); err != nil {
		return 0, err
	}
	return int(r.Uint32()), nil
}

// count is how many counters the driver has now; 0: none, or no driver.
func (t *tool) count(port string) (int, error) {
	clear(t.buf)
	*t.u32(0) = ethtoolGSSetInfo
	t.buf[1] = 1 << ethSSStats
	err := t.ask(port)
	switch {
	case errors.Is(err, unix.EOPNOTSUPP), err == nil && t.buf[1] == 0:
		return 0, nil
	case err != nil:
		return 0, err
	}
	return int(min(*t.u32(4), ethMostStats)), nil
}

// names are the driver's counters in their order.
func (t *tool) names(port string) ([]string, error) {
	n, err := t.count(port)
	if n == 0 || err != nil {
		return nil, err
	}
	t.words(2 + (n+ethStatsGrowth)*ethGStringLen/8)
	clear(t.buf)
	*t.u32(0), *t.u32(1), *t.u32(2) = ethtoolGStrings, ethSSStats, uint32(n)
	if err := t.ask(port); err != nil {
		return nil, err
	}
	names, b := make([]string, min(n, int(*t.u32(2)))), t.bytes()[12:]
	for i := range names {
		one := b[i*ethGStringLen : (i+1)*ethGStringLen]
		one, _, _ = bytes.Cut(one, []byte{0})
		names[i] = string(bytes.TrimSpace(one))
	}
	return names, nil
}

// stats are the driver's counters, n of them unless it has others now. The slice is
// good until the next question.
func (t *tool) stats(port string, n int) ([]uint64, error) {
	t.words(1 + n + ethStatsGrowth)
	*t.u32(0), *t.u32(1) = ethtoolGStats, uint32(n)
	if err := t.ask(port); err != nil {
		return nil, err
	}
	return t.buf[1 : 1+min(int(*t.u32(1)), len(t.buf)-1)], nil
}
