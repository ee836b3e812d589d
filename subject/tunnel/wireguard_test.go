// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"bytes"
	"errors"
	"io/fs"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"boxdyno/host"
)

// A module does not help who may not open the device.
func TestNoTun(t *testing.T) {
	for err, want := range map[error]string{&fs.PathError{Op: "open", Path: "/dev/net/tun", Err: fs.ErrPermission}: "sudo", fs.ErrNotExist: "modprobe tun"} {
		var m *host.Missing
		if got := noTun(err); !errors.As(got, &m) || !strings.Contains(got.Error(), want) || strings.Contains(got.Error(), "modprobe") != (want == "modprobe tun") {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// What the kernel is told of a peer, taken apart again; numbers of linux/wireguard.h.
func TestWireGuardPeer(t *testing.T) {
	p := wgPeer{endpoint: netip.MustParseAddrPort("192.0.2.2:51820"), allowed: netip.MustParsePrefix("198.19.0.0/16")}
	p.peer[0], p.peer[31] = 7, 9
	nested := func(b []byte) map[uint16][]byte {
		t.Helper()
		attrs, err := nl.ParseRouteAttr(b)
		if err != nil {
			t.Fatal(err)
		}
		out := map[uint16][]byte{}
		for _, a := range attrs {
			out[a.Attr.Type&^unix.NLA_F_NESTED] = a.Value
		}
		return out
	}
	peer := nested(nested(nested(p.add().Serialize())[8])[0])
	if !bytes.Equal(peer[1], p.peer[:]) || peer[3][0] != 2 || !bytes.Equal(peer[4][2:8], []byte{0xca, 0x6c, 192, 0, 2, 2}) || len(peer[4]) != 16 {
		t.Errorf("peer %v", peer)
	}
	allowed := nested(nested(peer[9])[0])
	if allowed[1][0] != unix.AF_INET || !bytes.Equal(allowed[2], []byte{198, 19, 0, 0}) || allowed[3][0] != 16 {
		t.Errorf("allowed %v", allowed)
	}
	if gone := nested(nested(nested(p.remove().Serialize())[8])[0]); len(gone) != 2 || gone[3][0] != 1 {
		t.Errorf("removed %v", gone)
	}
}

// The two reserved octets of a request are 0, whatever lies in memory.
func TestWireGuardRequest(t *testing.T) {
	var noise []*byte
	for range 200 {
		for range 3 {
			b := new(byte)
			*b = 0xff
			noise = append(noise, b)
		}
		p := wgPeer{}
		got := wgRequest(7, p.device(), p.remove()).Serialize()[unix.SizeofNlMsghdr:]
		if want := []byte{wgCmdSetDevice, 1, 0, 0}; !bytes.Equal(got[:4], want) {
			t.Fatalf("it begins with % x, want % x", got[:4], want)
		}
	}
	runtime.KeepAlive(noise)
}
