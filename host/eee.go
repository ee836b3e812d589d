// SPDX-License-Identifier: Apache-2.0

package host

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ethtoolEEE is the kernel's struct ethtool_eee (include/uapi/linux/ethtool.h).
type ethtoolEEE struct {
	cmd, supported, advertised, peer  uint32
	active, enabled, txLPI, txLPITime uint32
	_                                 [2]uint32
}

// EEE says whether a port of this thread's namespace lets its link sleep between
// frames (IEEE 802.3az), which adds to latency: "on", "off" or "unknown".
func EEE(port string) string {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "unknown"
	}
	defer unix.Close(fd)
	eee := &ethtoolEEE{cmd: unix.ETHTOOL_GEEE}
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(eee)
	req := struct { // struct ifreq
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: unsafe.Pointer(eee)}
	copy(req.name[:unix.IFNAMSIZ-1], port)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&req)))
	switch {
	case errno != 0: // a driver without it
		return "unknown"
	case eee.enabled != 0:
		return "on"
	}
	return "off"
}
