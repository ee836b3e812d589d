// SPDX-License-Identifier: Apache-2.0

package subject

import (
	"regexp"
	"strings"
)

// tshark prints a line for each frame that it has dissected: those are counted. Its
// child dumpcap captures into a temporary file, which grows until the end.
var tshark = tool{
	name: "tshark", work: Dissection, program: "tshark",
	doc: "tshark -T fields, which prints number and length of each frame",
	argv: func(c *Capture, e place) ([]string, error) {
		return append([]string{"tshark", "-i", e.Port.Name, "-n", "-l", "-T", "fields", "-e", "frame.number", "-e", "udp.length"}, wiresharkOptions(c)...), nil
	},
	said: func(*Capture, Env) (parser, parser) { return nil, parseTshark },
	rows: true, lag: dumpcapLag, step: 1 << 20,
}

var (
	tsharkEnd   = regexp.MustCompile(`^\d+ packets? captured$`)
	tsharkDrops = regexp.MustCompile(`^(\d+) packets? dropped`)
)

// parseTshark reads its standard error: at its end it says what was dropped, unless
// nothing was.
func parseTshark(line string) told {
	s := nothing
	s.ready = strings.HasPrefix(line, "Capturing on ")
	if s.kernel = find(tsharkDrops, line); tsharkEnd.MatchString(line) {
		s.kernel = 0
	}
	return s
}
