// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"fmt"
)

// Link types (the numbers of pcap files) that frames can be made of.
const (
	linkNull     = 0 // BSD loopback: address family in the writer's byte order
	linkEthernet = 1
	linkRawBSD   = 12 // DLT_RAW, which some write in place of linkRaw
	linkRawOpen  = 14 // the same on OpenBSD
	linkRaw      = 101
	linkLoop     = 108 // OpenBSD loopback: address family in network byte order
	linkSLL      = 113 // Linux cooked
	linkIPv4     = 228
	linkIPv6     = 229
	linkSLL2     = 276
)

// linkNames are the names by which other link types are refused: those that
// captures have in practice.
var linkNames = map[uint16]string{
	6: "IEEE802_5", 7: "ARCNET_BSD", 8: "SLIP", 9: "PPP", 10: "FDDI", 50: "PPP_HDLC", 51: "PPP_ETHER",
	100: "ATM_RFC1483", 104: "C_HDLC", 105: "IEEE802_11", 107: "FRELAY", 117: "PFLOG", 119: "IEEE802_11_PRISM",
	122: "IP_OVER_FC", 127: "IEEE802_11_RADIOTAP", 143: "DOCSIS", 144: "LINUX_IRDA", 163: "IEEE802_11_AVS",
	187: "BLUETOOTH_HCI_H4", 189: "USB_LINUX", 192: "PPI", 195: "IEEE802_15_4_WITHFCS", 201: "BLUETOOTH_HCI_H4_WITH_PHDR",
	220: "USB_LINUX_MMAPPED", 227: "CAN_SOCKETCAN", 230: "IEEE802_15_4_NOFCS", 231: "DBUS", 239: "NFLOG", 249: "USBPCAP",
	251: "BLUETOOTH_LE_LL", 252: "WIRESHARK_UPPER_PDU", 253: "NETLINK", 254: "BLUETOOTH_LINUX_MONITOR", 274: "ETHERNET_MPACKET",
}

func linkName(link uint16) string {
	if n, ok := linkNames[link]; ok {
		return fmt.Sprintf("link type %d (%s)", link, n)
	}
	if link >= 147 && link <= 162 {
		return fmt.Sprintf("link type %d (USER%d)", link, link-147)
	}
	return fmt.Sprintf("link type %d", link)
}

// A refusal is why no frame can be made of a packet.
type refusal uint8

const (
	taken       refusal = iota
	unknownLink         // of its link type
	tooShort            // for its link header
	noIP                // raw or loopback: neither IPv4 nor IPv6
	noEthertype         // cooked: of a protocol that Ethernet has no type for
)

// ethernet makes a frame of a packet: head's first octets, of which there are
// made, before body, a part of p.data. A packet of Ethernet has no head.
func ethernet(p *packet, head *[ethLen]byte) (made int, body []byte, why refusal) {
	switch p.link {
	case linkEthernet:
		if len(p.data) < ethLen {
			return 0, nil, tooShort
		}
		return 0, p.data, taken
	case linkRaw, linkRawBSD, linkRawOpen, linkIPv4, linkIPv6:
		return rawIP(p.data, head)
	case linkNull, linkLoop:
		if len(p.data) < 4 {
			return 0, nil, tooShort
		}
		return rawIP(p.data[4:], head)
	case linkSLL:
		if len(p.data) < 16 {
			return 0, nil, tooShort
		}
		d := p.data
		return cooked(d[14:16], binary.BigEndian.Uint16(d), d[5], d[6:14], d[16:], head)
	case linkSLL2:
		if len(p.data) < 20 {
			return 0, nil, tooShort
		}
		d := p.data
		return cooked(d[0:2], uint16(d[10]), d[11], d[12:20], d[20:], head)
	}
	return 0, nil, unknownLink
}

// Addresses of frames whose capture has none: locally administered.
var (
	madeDst = [6]byte{2, 0, 0, 0, 0, 2}
	madeSrc = [6]byte{2, 0, 0, 0, 0, 1}
)

func rawIP(body []byte, head *[ethLen]byte) (int, []byte, refusal) {
	if len(body) == 0 {
		return 0, nil, tooShort
	}
	copy(head[0:], madeDst[:])
	copy(head[6:], madeSrc[:])
	switch body[0] >> 4 {
	case 4:
		binary.BigEndian.PutUint16(head[12:], 0x0800)
	case 6:
		binary.BigEndian.PutUint16(head[12:], 0x86dd)
	default:
		return 0, nil, noIP
	}
	return ethLen, body, taken
}

// cooked makes a header of what Linux keeps of one: kind is 1 for a broadcast;
// the source address has addrLen octets.
func cooked(protocol []byte, kind uint16, addrLen byte, addr, body []byte, head *[ethLen]byte) (int, []byte, refusal) {
	copy(head[0:], madeDst[:])
	if kind == 1 {
		copy(head[0:], "\xff\xff\xff\xff\xff\xff")
	}
	copy(head[6:], madeSrc[:])
	if addrLen == 6 && [6]byte(addr[:6]) != [6]byte{} {
		copy(head[6:], addr[:6])
	}
	switch v := binary.BigEndian.Uint16(protocol); {
	case v >= 0x600:
		copy(head[12:], protocol)
	case (v == 1 || v == 4) && len(body) <= 1500: // IEEE 802.3: a length in place of a type
		binary.BigEndian.PutUint16(head[12:], uint16(len(body)))
	default:
		return 0, nil, noEthertype
	}
	return ethLen, body, taken
}
