// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"
)

// Frames by the layout of RFC 826.
var neighbourFrames = []struct {
	name, hex string
	want      neighbour
}{
	{"ARP request", "ffffffffffff 02bd00000002 0806 0001080006040001 02bd00000002 c6120001 000000000000 c6120002",
		neighbour{ask: true, target: v4("198.18.0.2"), sender: v4("198.18.0.1"), senderMAC: mac(2)}},
	{"ARP reply", "02bd00000002 02bd00000001 0806 0001080006040002 02bd00000001 c6120002 02bd00000002 c6120001",
		neighbour{target: v4("198.18.0.2"), sender: v4("198.18.0.2"), senderMAC: mac(1), to: v4("198.18.0.1"), toMAC: mac(2)}},
}

func v4(s string) netip.Addr { return netip.MustParseAddr(s) }

func TestParseNeighbour(t *testing.T) {
	for _, c := range neighbourFrames {
		b, err := hex.DecodeString(strings.ReplaceAll(c.hex, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		got, ok := parseNeighbour(b)
		if !ok || got != c.want {
			t.Errorf("%s: %+v, %v", c.name, got, ok)
		}
		if out := c.want.frame(); !bytes.HasPrefix(out, b) || len(out) != 60 {
			t.Errorf("%s: made %x, want %x", c.name, out, b)
		}
		for n := range b {
			if _, ok := parseNeighbour(b[:n]); ok {
				t.Errorf("%s: taken although cut to %d octets", c.name, n)
			}
		}
	}
}

func TestNeighbourDiscovery(t *testing.T) {
	a, b := netip.MustParseAddr("2001:2:0:1::2"), netip.MustParseAddr("2001:2:0:1::a1:b2c3")
	ask := neighbour{ask: true, target: b, sender: a, senderMAC: mac(1)}
	f := ask.frame()
	if got := hex.EncodeToString(f[:6]); got != "3333ffa1b2c3" {
		t.Errorf("asks %s", got)
	}
	if got, ok := parseNeighbour(f); !ok || got != ask {
		t.Errorf("%+v, %v", got, ok)
	}
	tell := neighbour{target: b, senderMAC: mac(2), to: a, toMAC: mac(1)}
	got, ok := parseNeighbour(tell.frame())
	tell.sender = b
	if !ok || got != tell {
		t.Errorf("%+v, %v", got, ok)
	}
	for _, n := range []neighbour{
		{target: b, senderMAC: mac(2), to: unspecified, toMAC: mac(1)}, // somebody tries the address out
		{target: b, senderMAC: mac(2), unsolicited: true},
	} {
		got, ok := parseNeighbour(n.frame())
		if !ok || !got.unsolicited || got.to != allNodes || got.toMAC != groupMAC(allNodes) {
			t.Errorf("%+v, %v", got, ok)
		}
	}
	for name, spoil := range map[string]func([]byte){
		"a router between":   func(f []byte) { f[etherLen+7] = 254 },
		"a wrong checksum":   func(f []byte) { f[len(f)-1] ^= 1 },
		"a length too large": func(f []byte) { f[etherLen+5] = 200 },
		"another protocol":   func(f []byte) { f[etherLen+6] = protoUDP },
	} {
		f := ask.frame()
		spoil(f)
		if _, ok := parseNeighbour(f); ok {
			t.Errorf("taken in spite of %s", name)
		}
	}
}

func FuzzNeighbour(f *testing.F) {
	for _, c := range neighbourFrames {
		f.Add(c.want.frame())
	}
	f.Add(neighbour{ask: true, target: allNodes, sender: unspecified, senderMAC: mac(1)}.frame())
	f.Fuzz(func(t *testing.T, b []byte) {
		n, ok := parseNeighbour(b)
		if ok && n.target.Is4() && len(n.frame()) != 60 {
			t.Errorf("%+v makes %x", n, n.frame())
		}
	})
}
