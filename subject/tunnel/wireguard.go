// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/unit"
)

// wireguard is the kernel's, set up by its own netlink family (linux/wireguard.h), so
// that no program is needed.
var wireguard = tunnelKind{
	name: "wireguard", doc: "WireGuard in the kernel", ciphers: []string{"chacha20-poly1305"},
	check: checkWireGuard, keys: wgKeys, open: openWireGuard,
}

// A wgPeer is one end's side of a WireGuard tunnel.
type wgPeer struct {
	private, peer [32]byte // its own secret key, the other's public one
	port          uint16
	endpoint      netip.AddrPort
	allowed       netip.Prefix
}

const (
	wgPort = 51820
	// wgSessionPause is between two new sessions: a responder takes an initiation only
	// with a later timestamp, which counts in 16.8 ms, and at most 50 a second
	// (WireGuard's protocol, section 5.4.2).
	wgSessionPause = 100 * time.Millisecond
)

// wgKeys are both ends', made anew.
func wgKeys(string) (both [2]Keys, err error) {
	var keys [2]*ecdh.PrivateKey
	for i := range keys {
		if keys[i], err = ecdh.X25519().GenerateKey(rand.Reader); err != nil {
			return both, fmt.Errorf("make a key: %w", err)
		}
	}
	return keyPairs(func(i int) (Keys, error) {
		return Keys{Private: keys[i].Bytes(), Peer: keys[1-i].PublicKey().Bytes()}, nil
	})
}

// wgPeer is the end's own side.
func (h *Half) wgPeer() (p wgPeer, err error) {
	if len(h.Keys.Private) != len(p.private) || len(h.Keys.Peer) != len(p.peer) {
		return p, errors.New("WireGuard's keys have 32 octets")
	}
	return wgPeer{private: [32]byte(h.Keys.Private), peer: [32]byte(h.Keys.Peer), port: wgPort,
		endpoint: netip.AddrPortFrom(h.other().Outer, wgPort), allowed: h.other().Net.Masked()}, nil
}

// checkWireGuard makes a device and takes it away.
func checkWireGuard(_ context.Context, h *host.Local, _ string) error {
	err := makeWireGuard(h)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, host.ErrNotSupported) {
		return &host.Missing{What: "WireGuard in this kernel (CONFIG_WIREGUARD)", Hint: "boot a kernel that has it (Debian's do), or measure tunnel=wireguard-go in its place"}
	}
	if errors.Is(err, unix.EPERM) {
		return host.Privilege("make a WireGuard device")
	}
	if err != nil {
		return fmt.Errorf("make a WireGuard device: %w", err)
	}
	return removeDevice(h)
}

func makeWireGuard(h *host.Local) error {
	return h.View(func(fs.FS) error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = tunnelDevice
		return netlink.LinkAdd(&netlink.Wireguard{LinkAttrs: attrs})
	})
}

func openWireGuard(_ context.Context, h *Half) error {
	peer, err := h.wgPeer()
	if err != nil {
		return err
	}
	h.driver = "kernel wireguard"
	if err := makeWireGuard(h.at); err != nil {
		return fmt.Errorf("make a WireGuard device: %w", err)
	}
	h.undo = append(h.undo, func() error { return removeDevice(h.at) })
	if err := setWireGuard(h.at, peer.device(), peer.add()); err != nil {
		return err
	}
	h.fresh = func(ctx context.Context) (begun unit.Instant, err error) {
		if err := host.Pause(ctx, wgSessionPause); err != nil {
			return begun, err
		}
		err = setWireGuard(h.at, nil, peer.remove())
		begun = unit.Now()
		return begun, errors.Join(err, setWireGuard(h.at, nil, peer.add()))
	}
	return h.join()
}

// Numbers of linux/wireguard.h.
const (
	wgCmdSetDevice = 1

	wgDeviceIfname, wgDevicePrivateKey, wgDeviceListenPort, wgDevicePeers        = 2, 3, 6, 8
	wgPeerPublicKey, wgPeerFlags, wgPeerEndpoint, wgPeerAllowedIPs               = 1, 3, 4, 9
	wgPeerRemove, wgPeerReplaceAllowed                                    uint32 = 1, 2
	wgAllowedFamily, wgAllowedAddr, wgAllowedMask                                = 1, 2, 3
)

// device are the attributes of its own.
func (p wgPeer) device() []*nl.RtAttr {
	port := binary.NativeEndian.AppendUint16(nil, p.port)
	return []*nl.RtAttr{nl.NewRtAttr(wgDevicePrivateKey, p.private[:]), nl.NewRtAttr(wgDeviceListenPort, port)}
}

// add is the attribute that makes the other end its peer.
func (p wgPeer) add() *nl.RtAttr {
	addr := p.endpoint.Addr().As4()
	sockaddr := binary.NativeEndian.AppendUint16(nil, unix.AF_INET)
	sockaddr = append(binary.BigEndian.AppendUint16(sockaddr, p.endpoint.Port()), addr[:]...)
	sockaddr = append(sockaddr, make([]byte, 8)...)
	allowed := nl.NewRtAttr(wgPeerAllowedIPs|unix.NLA_F_NESTED, nil)
	one := allowed.AddRtAttr(unix.NLA_F_NESTED, nil)
	network := p.allowed.Addr().As4()
	one.AddRtAttr(wgAllowedFamily, binary.NativeEndian.AppendUint16(nil, unix.AF_INET))
	one.AddRtAttr(wgAllowedAddr, network[:])
	one.AddRtAttr(wgAllowedMask, []byte{byte(p.allowed.Bits())})
	return p.with(wgPeerReplaceAllowed, nl.NewRtAttr(wgPeerEndpoint, sockaddr), allowed)
}

// remove is the attribute that makes it forget its peer.
func (p wgPeer) remove() *nl.RtAttr { return p.with(wgPeerRemove) }

func (p wgPeer) with(flags uint32, more ...*nl.RtAttr) *nl.RtAttr {
	peers := nl.NewRtAttr(wgDevicePeers|unix.NLA_F_NESTED, nil)
	peer := peers.AddRtAttr(unix.NLA_F_NESTED, nil)
	peer.AddRtAttr(wgPeerPublicKey, p.peer[:])
	peer.AddRtAttr(wgPeerFlags, binary.NativeEndian.AppendUint32(nil, flags))
	for _, a := range more {
		peer.AddChild(a)
	}
	return peers
}

// A genlHead is struct genlmsghdr: command, version, and two octets that are reserved.
// nl.Genlmsg has only the first two, and sends what lies behind it in memory as well.
type genlHead [nl.SizeofGenlmsg]byte

func (h genlHead) Len() int          { return len(h) }
func (h genlHead) Serialize() []byte { return h[:] }

func wgRequest(family int, device []*nl.RtAttr, peers *nl.RtAttr) *nl.NetlinkRequest {
	req := nl.NewNetlinkRequest(family, unix.NLM_F_ACK)
	req.AddData(genlHead{wgCmdSetDevice, 1})
	req.AddData(nl.NewRtAttr(wgDeviceIfname, nl.ZeroTerminated(tunnelDevice)))
	for _, a := range device {
		req.AddData(a)
	}
	req.AddData(peers)
	return req
}

// setWireGuard sends WG_CMD_SET_DEVICE for the tunnel's device.
func setWireGuard(at *host.Local, device []*nl.RtAttr, peers *nl.RtAttr) error {
	return at.View(func(fs.FS) error {
		family, err := netlink.GenlFamilyGet("wireguard")
		if err != nil {
			return fmt.Errorf("find the kernel's netlink family wireguard: %w", err)
		}
		if _, err := wgRequest(int(family.ID), device, peers).Execute(unix.NETLINK_GENERIC, 0); err != nil {
			return fmt.Errorf("set up the WireGuard device: %w", err)
		}
		return nil
	})
}
