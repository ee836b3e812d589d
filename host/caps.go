// SPDX-License-Identifier: Apache-2.0

package host

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// inheritCaps hands the capabilities of a binary that got them by setcap on to
// the programs it starts. Root's programs have theirs anyway.
func inheritCaps() *syscall.SysProcAttr {
	if unix.Geteuid() == 0 {
		return nil
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&hdr, &data[0]) != nil {
		return nil
	}
	var caps []uintptr
	for _, c := range []uintptr{unix.CAP_NET_ADMIN, unix.CAP_NET_RAW} {
		if data[0].Permitted&(1<<c) != 0 {
			caps = append(caps, c)
		}
	}
	if len(caps) == 0 {
		return nil
	}
	return &syscall.SysProcAttr{AmbientCaps: caps}
}
