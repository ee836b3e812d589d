// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"context"
	"net"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"boxdyno/host"
)

// eee is IEEE 802.3az, Energy-Efficient Ethernet (ethtool --show-eee): the link
// sleeps between frames, and wakes late.
var eee = Spec{
	Name: "eee", Doc: "whether the link may sleep between frames, which saves power and adds latency", Values: "on, off",
	Scope: PerPort, Check: oneOf("on", "off"),
	Read: func(_ context.Context, at Site) (string, error) {
		e, err := getEEE(at)
		return [...]string{"off", "on"}[min(e.enabled, 1)], err
	},
	Write: func(_ context.Context, at Site, value string) error {
		e, err := getEEE(at)
		if err != nil {
			return err
		}
		e.cmd, e.enabled = unix.ETHTOOL_SEEE, map[string]uint32{"off": 0, "on": 1}[value]
		return at.within(func() error { return absent(ioctlEEE(at.Port, &e)) })
	},
	Export: func(port, value string) ([]Exported, error) {
		return command("ethtool --set-eee " + port + " eee " + value), nil
	},
}

// ethtoolEEE is the kernel's struct ethtool_eee (include/uapi/linux/ethtool.h).
type ethtoolEEE struct {
	cmd, supported, advertised, peer  uint32
	active, enabled, txLPI, txLPITime uint32
	_                                 [2]uint32
}

func getEEE(at Site) (e ethtoolEEE, err error) {
	e.cmd = unix.ETHTOOL_GEEE
	err = at.within(func() error { return absent(ioctlEEE(at.Port, &e)) })
	if err == nil && e.supported == 0 {
		err = host.ErrNotSupported // a driver that answers and has no mode of it
	}
	return e, err
}

func ioctlEEE(port string, e *ethtoolEEE) error {
	if _, err := net.InterfaceByName(port); err != nil {
		return noPort(port)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(e)
	req := struct { // struct ifreq
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: unsafe.Pointer(e)}
	copy(req.name[:unix.IFNAMSIZ-1], port)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&req))); errno != 0 {
		return errno
	}
	return nil
}
