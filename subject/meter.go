// SPDX-License-Identifier: Apache-2.0

package subject

import (
	"os"
	"strings"
)

// Program is the boxdyno whose meters are put under load; "": this process's own
// program. Tests set it.
var Program string

// Our own meters run like any other program: "boxdyno meter" as a child. af_packet counts
// frames of UDP, as others with that filter do; xdp and af_xdp those with the engine's
// signature, their loss and order too; of an Env's foreign traffic all count all frames.
var (
	afPacket = meterTool("af_packet", "packet", packetBuffer, "this program's meter over a TPACKET_V3 ring (boxdyno meter --backend packet --count-udp)")
	xdp      = meterTool("xdp", "xdp", asItIs, "this program's meter in an XDP program (boxdyno meter --backend xdp); signed frames end there")
	afXDP    = meterTool("af_xdp", "afxdp", asItIs, "this program's meter over AF_XDP sockets (boxdyno meter --backend afxdp); signed frames end there")
)

// meterStreams are those that are counted: a procedure's, and the highest number for
// the frames with which it tries whether a subject counts.
const meterStreams = "0-14,65535"

// packetBuffer is the ring of backend packet.
const packetBuffer = 16 << 20

func meterTool(name, backend string, buffer uint64, doc string) tool {
	plain := func(c *Capture, e Env) bool { return backend == "packet" && c.Filter == DefaultFilter && !e.Foreign }
	return tool{
		name: name, work: Count, doc: doc, fixed: buffer, unseen: backend != "packet", redirected: backend == "afxdp", ends: backend == "xdp", prompt: true, filters: []string{DefaultFilter, ""},
		argv: func(c *Capture, e place) ([]string, error) {
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
		said: func(c *Capture, e Env) (parser, parser) {
			return parseMeter(e.Foreign || c.Filter == "" || plain(c, e)), parseListening
		},
	}
}

// parseListening reads the meter's standard error.
func parseListening(line string) told {
	s := nothing
	s.ready = strings.HasPrefix(line, "listening on ")
	return s
}
