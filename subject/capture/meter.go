// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"os"
	"strings"

	"boxdyno/subject"
)

// Program is the boxdyno whose meters are put under load; "": this process's own
// program. Tests set it.
var Program string

// Our own meters run like any other program: "boxdyno meter" as a child. af_packet counts
// frames of UDP, as others with that filter do; xdp and af_xdp those with the engine's
// signature, their loss and order too; of an Env's foreign traffic all count all frames.
var (
	afPacket = meterTool("af_packet", "packet", PacketBuffer, "this program's meter over a TPACKET_V3 ring (boxdyno meter --backend packet --count-udp)")
	xdp      = meterTool("xdp", "xdp", AsItIs, "this program's meter in an XDP program (boxdyno meter --backend xdp); signed frames end there")
	afXDP    = meterTool("af_xdp", "afxdp", AsItIs, "this program's meter over AF_XDP sockets (boxdyno meter --backend afxdp); signed frames end there")
)

// meterStreams are those that are counted: a procedure's, and the highest number for
// the frames with which it tries whether a subject counts.
const meterStreams = "0-14,65535"

// PacketBuffer is the ring of backend packet.
const PacketBuffer = 16 << 20

func meterTool(name, backend string, buffer uint64, doc string) Tool {
	plain := func(c *Capture, e subject.Env) bool {
		return backend == "packet" && c.Filter == DefaultFilter && !e.Foreign
	}
	return Tool{
		Name: name, Work: Count, doc: doc, Fixed: buffer, Unseen: backend != "packet", redirected: backend == "afxdp", ends: backend == "xdp", prompt: true, Filters: []string{DefaultFilter, ""},
		Argv: func(c *Capture, e Place) ([]string, error) {
			program := Program
			if program == "" {
				var err error
				if program, err = os.Executable(); err != nil {
					return nil, err
				}
			}
			what := []string{"--streams", meterStreams}
			if plain(c, e.Env) {
				what = []string{"--count-udp"}
			}
			if backend != "packet" {
				what = append(what, "--force") // the port is the testbed's, and has an address
			}
			return append([]string{program, "meter", "-i", e.Port.Name, "--backend", backend, "--json", "--stats", "0.1"}, what...), nil
		},
		Said: func(c *Capture, e subject.Env) (Parser, Parser) {
			return parseMeter(e.Foreign || c.Filter == "" || plain(c, e)), parseListening
		},
	}
}

// parseListening reads the meter's standard error.
func parseListening(line string) Told {
	s := Nothing
	s.Ready = strings.HasPrefix(line, "listening on ")
	return s
}
