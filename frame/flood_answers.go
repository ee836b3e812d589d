// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"encoding/binary"
	"strings"
)

// Resource record types (RFC 1035, 3596, 4034, 6891) and the query for all.
const (
	dnsA      = 1
	dnsNS     = 2
	dnsSOA    = 6
	dnsMX     = 15
	dnsTXT    = 16
	dnsAAAA   = 28
	dnsOPT    = 41
	dnsRRSIG  = 46
	dnsDNSKEY = 48
	dnsANY    = 255
)

// dnsFlood answers queries that the victim never made.
func dnsFlood(f *flooder) {
	f.someSources()
	f.anyPort(2)
	f.any(udpLen, 2) // the message's ID
	f.identify()
	for i := range floodDrafts {
		m := f.dnsAnswer([]string{"example.com", "example.net", "example.org"}[i%3], i%2 == 0, 1000+f.rng.IntN(401))
		d := f.begin(protoUDP, f.ttl(64), 0, udpLen+len(m))
		d.udp(53, 0, len(m))
		d.octets = append(d.octets, m...)
		f.add(d)
	}
}

// dnsAnswer is an answer of exactly n octets, n at least 1000.
func (f *flooder) dnsAnswer(zone string, all bool, n int) []byte {
	question := uint16(dnsTXT)
	if all {
		question = dnsANY
	}
	const answered = 0x8180 // response, recursion desired and available
	b := binary.BigEndian.AppendUint16(make([]byte, 2, n), answered)
	b = append(b, 0, 1, 0, 0, 0, 0, 0, 1)
	b = dnsName(b, zone)
	b = binary.BigEndian.AppendUint16(b, question)
	b = append(b, 0, 1)
	records := uint16(0)
	add := func(kind uint16, data []byte) {
		b = append(b, 0xc0, 12) // the question's name
		b = binary.BigEndian.AppendUint16(b, kind)
		b = append(b, 0, 1)
		b = binary.BigEndian.AppendUint32(b, 3600)
		b = binary.BigEndian.AppendUint16(b, uint16(len(data)))
		b = append(b, data...)
		records++
	}
	if all {
		soa := dnsName(dnsName(nil, "ns1."+zone), "hostmaster."+zone)
		for _, v := range []uint32{2026010101, 7200, 3600, 1209600, 3600} {
			soa = binary.BigEndian.AppendUint32(soa, v)
		}
		add(dnsSOA, soa)
		add(dnsNS, dnsName(nil, "ns1."+zone))
		add(dnsNS, dnsName(nil, "ns2."+zone))
		add(dnsA, []byte{192, 0, 2, 80})
		add(dnsAAAA, []byte{0x20, 0x01, 0x0d, 0xb8, 15: 80})
		add(dnsMX, dnsName([]byte{0, 10}, "mail."+zone))
		add(dnsDNSKEY, append([]byte{1, 1, 3, 8, 3, 1, 0, 1}, f.octets(256)...))
		signature := binary.BigEndian.AppendUint16(nil, dnsDNSKEY)
		signature = append(signature, 8, 2, 0, 0, 14, 16) // RSA/SHA-256, two labels, TTL 3600
		signature = append(signature, f.octets(10)...)    // expiration, inception, key tag
		add(dnsRRSIG, append(dnsName(signature, zone), f.octets(256)...))
	}
	// Text up to the OPT record's 11 octets; a record has 12 besides its data.
	for len(b) < n-11 {
		left := n - 11 - len(b) - 12
		size := min(left, 200)
		if left-size < 20 && left > size { // no room for another record
			size = left/2 + 1
		}
		text := []byte("v=" + strings.Repeat("x", max(size-3, 0)))
		for i := 2; i < len(text); i++ {
			text[i] = "abcdefghijklmnopqrstuvwxyz0123456789"[f.rng.IntN(36)]
		}
		add(dnsTXT, append([]byte{byte(len(text))}, text...))
	}
	binary.BigEndian.PutUint16(b[6:], records)
	b = append(b, 0)
	b = binary.BigEndian.AppendUint16(b, dnsOPT)
	return append(b, 0x10, 0, 0, 0, 0x80, 0, 0, 0) // 4096 octets, DNSSEC OK
}

func dnsName(b []byte, name string) []byte {
	for label := range strings.SplitSeq(name, ".") {
		b = append(append(b, byte(len(label))), label...)
	}
	return append(b, 0)
}

// ntpFlood is what an old ntpd answers to "monlist": 600 clients in 100 datagrams
// of 6 (mode 7, implementation XNTPD, request MON_GETLIST_1).
func ntpFlood(f *flooder) {
	const (
		answers, items, itemLen  = 100, 6, 72
		response, more           = 0x80, 0x40
		version2, private        = 2 << 3, 7
		xntpd, monList1          = 3, 42
		modeClient, addressStart = 3, 16
	)
	f.someSources()
	f.anyPort(2)
	f.identify()
	for sequence := range answers {
		first := byte(response | more | version2 | private)
		if sequence == answers-1 {
			first &^= more
		}
		m := []byte{first, byte(sequence), xntpd, monList1, 0, items, 0, itemLen}
		for range items {
			item := make([]byte, itemLen)
			binary.BigEndian.PutUint32(item[0:], f.rng.Uint32N(4096))  // average interval, s
			binary.BigEndian.PutUint32(item[4:], f.rng.Uint32N(65536)) // since the last packet, s
			binary.BigEndian.PutUint32(item[12:], 1+f.rng.Uint32N(1000))
			copy(item[addressStart:], f.octets(4))
			copy(item[20:], []byte{192, 0, 2, 123}) // the server's own
			binary.BigEndian.PutUint16(item[28:], 123)
			item[30], item[31] = modeClient, 4
			m = append(m, item...)
		}
		d := f.begin(protoUDP, f.ttl(64), 0, udpLen+len(m))
		d.udp(123, 0, len(m))
		d.octets = append(d.octets, m...)
		f.add(d)
	}
}
