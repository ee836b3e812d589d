// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"boxdyno/host"
	"boxdyno/subject"
)

// dumpcap is the program that captures for Wireshark and tshark.
var dumpcap = Tool{
	Name: "dumpcap", Work: Count, check: wireshark("dumpcap", "wireshark-common"),
	doc: "Wireshark's dumpcap, which writes whole frames that are thrown away",
	Argv: func(c *Capture, e Place) ([]string, error) {
		// It removes a file that it could not begin, and as root /dev/null itself.
		null := filepath.Join(e.Dir, "null")
		err := os.Symlink(os.DevNull, null)
		return append([]string{"dumpcap", "-i", e.Port.Name, "-w", null}, wiresharkOptions(c)...), err
	},
	Said: func(*Capture, subject.Env) (Parser, Parser) { return nil, parseDumpcap },
	Lag:  dumpcapLag, behind: true, step: 1 << 20,
}

// dumpcapLag is above the 250 ms after which dumpcap gets a block that is not full.
const dumpcapLag = 300 * time.Millisecond

// wireshark checks that one of its programs is installed.
func wireshark(program, pkg string) func(context.Context, *Capture) error {
	return func(context.Context, *Capture) error {
		if host.Has(program) == nil {
			return nil
		}
		return &host.Missing{What: "the program " + program, Remedy: [][]string{{"apt-get", "install", "-y", pkg}}}
	}
}

// wiresharkOptions are those of dumpcap, which tshark hands on: the buffer is in MiB.
func wiresharkOptions(c *Capture) (argv []string) {
	if c.Filter != "" {
		argv = append(argv, "-f", c.Filter)
	}
	if c.Buffer > 0 {
		argv = append(argv, "-B", strconv.FormatUint(c.Buffer>>20, 10))
	}
	return argv
}

var (
	dumpcapCount = regexp.MustCompile(`^Packets(?: captured)?: (\d+)\s*$`)
	dumpcapDrops = regexp.MustCompile(`^Packets received/dropped on interface .*: \d+/\d+ \(pcap:(\d+)/dumpcap:(\d+)/flushed:(\d+)/ps_ifdrop:(\d+)\)`)
)

// parseDumpcap reads its standard error: the count five times a second or more, drops
// at its end.
func parseDumpcap(line string) Told {
	s := Nothing
	s.Ready = strings.HasPrefix(line, "File: ")
	s.Counted = Find(dumpcapCount, line)
	if m := dumpcapDrops.FindStringSubmatch(line); m != nil {
		s.Kernel, s.port = frames(m[1]), frames(m[4])
		if own, flushed := frames(m[2]), frames(m[3]); own >= 0 && flushed >= 0 {
			s.Own = own + flushed
		}
	}
	return s
}
