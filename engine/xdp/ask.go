// SPDX-License-Identifier: Apache-2.0

package xdp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"

	"boxdyno/host"
	"boxdyno/internal/netns"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// AskTransmit asks the kernel whether the port is a redirect target now. The answer
// is what the kernel itself looks at for each frame. Before Linux 6.3 it sends one
// frame of the local experimental Ethernet type and looks whether the port counts it.
func (x *Backend) AskTransmit(_ context.Context, p host.Port) (frames uint64, err error) {
	err = netns.Do(p.Netns, func() error {
		takes, err := redirectTarget(p.Name)
		switch {
		case errors.Is(err, host.ErrNotSupported):
			err = probeSend(p.Name)
			if err == nil {
				frames = 1
			}
			return err
		case err != nil:
			return err
		case !takes:
			return fmt.Errorf("xdp on %s: the port takes no redirected frame: %w", p.Name, host.ErrNotSupported)
		}
		return nil
	})
	return frames, err
}

// What include/uapi/linux/netdev.h says of the generic netlink family "netdev".
const (
	netdevDevGet       = 1
	netdevIndex        = 1 // u32
	netdevXDPFeatures  = 3 // u64
	netdevXDPRedirects = 1 << 2
)

// redirectTarget says whether frames may be redirected to a port of this thread's
// namespace. host.ErrNotSupported: the kernel cannot say (before Linux 6.3).
func redirectTarget(port string) (bool, error) {
	iface, err := net.InterfaceByName(port)
	if err != nil {
		return false, fmt.Errorf("ask whether %s takes redirected frames: %w", port, err)
	}
	family, err := netlink.GenlFamilyGet("netdev")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EOPNOTSUPP) {
		return false, fmt.Errorf("ask whether %s takes redirected frames: %w", port, host.ErrNotSupported)
	}
	if err != nil {
		return false, fmt.Errorf("ask whether %s takes redirected frames: %w", port, err)
	}
	req := nl.NewNetlinkRequest(int(family.ID), 0)
	// nl.Genlmsg leaves its last two octets as they are, and this family wants zeros.
	req.AddRawData([]byte{netdevDevGet, 1, 0, 0})
	req.AddRawData(nl.NewRtAttr(netdevIndex, nl.Uint32Attr(uint32(iface.Index))).Serialize())
	answers, err := req.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return false, fmt.Errorf("ask whether %s takes redirected frames: %w", port, err)
	}
	for _, a := range answers {
		if len(a) < nl.SizeofGenlmsg {
			continue
		}
		attrs, err := nl.ParseRouteAttr(a[nl.SizeofGenlmsg:])
		if err != nil {
			return false, fmt.Errorf("ask whether %s takes redirected frames: %w", port, err)
		}
		for _, at := range attrs {
			if at.Attr.Type&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER) == netdevXDPFeatures && len(at.Value) >= 8 {
				return binary.NativeEndian.Uint64(at.Value)&netdevXDPRedirects != 0, nil
			}
		}
	}
	return false, fmt.Errorf("ask whether %s takes redirected frames: the kernel's answer does not say: %w", port, host.ErrNotSupported)
}
