// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"regexp"
	"strings"

	"boxdyno/subject"
)

// tshark prints a line for each frame that it has dissected: those are counted. Its
// child dumpcap captures into a temporary file, which grows until the end.
var tshark = Tool{
	Name: "tshark", Work: Dissection, program: "tshark",
	doc: "tshark -T fields, which prints number and length of each frame",
	Argv: func(c *Capture, e Place) ([]string, error) {
		return append([]string{"tshark", "-i", e.Port.Name, "-n", "-l", "-T", "fields", "-e", "frame.number", "-e", "udp.length"}, wiresharkOptions(c)...), nil
	},
	Said: func(*Capture, subject.Env) (Parser, Parser) { return nil, parseTshark },
	rows: true, Lag: dumpcapLag, step: 1 << 20,
}

var (
	tsharkEnd   = regexp.MustCompile(`^\d+ packets? captured$`)
	tsharkDrops = regexp.MustCompile(`^(\d+) packets? dropped`)
)

// parseTshark reads its standard error: at its end it says what was dropped, unless
// nothing was.
func parseTshark(line string) Told {
	s := Nothing
	s.Ready = strings.HasPrefix(line, "Capturing on ")
	if s.Kernel = Find(tsharkDrops, line); tsharkEnd.MatchString(line) {
		s.Kernel = 0
	}
	return s
}
