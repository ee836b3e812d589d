// SPDX-License-Identifier: Apache-2.0

package subject

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// tcpdump copies every frame to its standard output as a capture file, and that is
// thrown away. (As root it would give a file, be it /dev/null, to its own user.) On
// SIGUSR1 it says what it has counted.
var tcpdump = tool{
	name: "tcpdump", work: Count, program: "tcpdump",
	doc: "tcpdump, which writes whole frames that are thrown away",
	argv: func(c *Capture, e place) ([]string, error) {
		argv := []string{"tcpdump", "-i", e.Port.Name, "-n", "-w", "-"}
		if c.Buffer > 0 {
			argv = append(argv, "-B", strconv.FormatUint(c.Buffer>>10, 10)) // KiB
		}
		return append(argv, words(c.Filter)...), nil
	},
	said: func(*Capture, Env) (parser, parser) { return nil, parseTcpdump },
	poke: unix.SIGUSR1, mute: true, lag: 1200 * time.Millisecond, step: 1 << 10,
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
func parseTcpdump(line string) told {
	s := nothing
	s.ready = strings.Contains(line, "listening on ")
	s.counted, s.kernel, s.port = find(tcpdumpCaptured, line), find(tcpdumpKernel, line), find(tcpdumpPort, line)
	if received := find(tcpdumpReceived, line); s.counted >= 0 && received >= 0 {
		s.waiting = max(received-s.counted-max(s.kernel, 0), 0) // received are those dropped, too
	}
	return s
}
