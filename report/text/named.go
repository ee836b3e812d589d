// SPDX-License-Identifier: Apache-2.0

package text

import "boxdyno/result"

// This file names the procedures and metrics that have a place of their own in files of
// other programs. No other file of this package does.

// The figures of a trial of iperf3.
const (
	iperf3Sent        = "sent_bps"
	iperf3Received    = "goodput_bps"
	iperf3Retransmits = "retransmits"
	iperf3Share       = "datagrams_lost_ratio"
	iperf3Packets     = "datagrams_sent"
	iperf3Lost        = "datagrams_lost"
	iperf3Jitter      = "jitter_s"
)

const (
	iperf3Phase   = "stream"      // while its connections stand
	iperf3Streams = "connections" // the setting
)

// An sbcFigure is a column that the same program fills here: the mean of metrics of a
// point with these settings.
type sbcFigure struct {
	column    string
	procedure string
	where     []result.Pair // a value may be one of several, with commas between them
	metrics   []string
	divisor   float64
	note      string
}

var sbcFigures = []sbcFigure{
	{"7-zip single", "cpu", []result.Pair{{Key: "subject", Value: "7-zip"}, {Key: "parallel", Value: "1"}, {Key: "core_type", Value: ",0"}, {Key: "userland", Value: ",native"}}, []string{"compress_ips", "decompress_ips"}, 1e6,
		"7-zip single: MIPS of 7zz b 1 -mmt1, the mean of compression and decompression; one pass over one size of dictionary, and sbc-bench has several."},
	{"AES", "crypto", []result.Pair{{Key: "path", Value: "openssl"}, {Key: "cipher", Value: "aes-cbc-256"}, {Key: "parallel", Value: "1"}, {Key: "block", Value: "0,16384"}, {Key: "core_type", Value: ",0"}, {Key: "userland", Value: ",native"}}, []string{"encrypt_bytes_per_s"}, 1e3,
		"AES: thousands of octets a second of openssl speed -elapsed -evp aes-256-cbc with blocks of 16 KiB, on one CPU."},
}
