// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/subject"
)

// tcpdump copies every frame to its standard output as a capture file, and that is
// thrown away. (As root it would give a file, be it /dev/null, to its own user.) On
// SIGUSR1 it says what it has counted.
var tcpdump = Tool{
	Name: "tcpdump", Work: Count, program: "tcpdump",
	doc: "tcpdump, which writes whole frames that are thrown away",
	Argv: func(c *Capture, e Place) ([]string, error) {
		argv := []string{"tcpdump", "-i", e.Port.Name, "-n", "-w", "-"}
		if c.Buffer > 0 {
			argv = append(argv, "-B", strconv.FormatUint(c.Buffer>>10, 10)) // KiB
		}
		return append(argv, words(c.Filter)...), nil
	},
	Said: func(*Capture, subject.Env) (Parser, Parser) { return nil, parseTcpdump },
	poke: unix.SIGUSR1, mute: true, Lag: 1200 * time.Millisecond, step: 1 << 10,
}

// words is a filter as an argument of its own, or nothing.
func words(filter string) []string {
	if filter == "" {
		return nil
	}
	return []string{"--", filter}
}

var (
	tcpdumpCaptured = regexp.MustCompile(`(\d+) packets? captured`)
	tcpdumpReceived = regexp.MustCompile(`(\d+) packets? received by filter`)
	tcpdumpKernel   = regexp.MustCompile(`(\d+) packets? dropped by kernel`)
	tcpdumpPort     = regexp.MustCompile(`(\d+) packets? dropped by interface`)
)

// parseTcpdump reads its standard error: counts in one line where it is asked, in one
// line each at its end.
func parseTcpdump(line string) Told {
	s := Nothing
	s.Ready = strings.Contains(line, "listening on ")
	s.Counted, s.Kernel, s.port = Find(tcpdumpCaptured, line), Find(tcpdumpKernel, line), Find(tcpdumpPort, line)
	if received := Find(tcpdumpReceived, line); s.Counted >= 0 && received >= 0 {
		s.waiting = max(received-s.Counted-max(s.Kernel, 0), 0) // received are those dropped, too
	}
	return s
}
