// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"boxdyno/host"
	"boxdyno/subject"
)

// zeek runs Zeek with its default scripts, by its documentation: policy/misc/stats
// writes what was processed and dropped since the line before into stats.log, and at its
// end Zeek says what it received in all.
var zeek = Tool{
	Name: "zeek", Work: Application,
	doc: "Zeek with its default scripts, where it is installed; not seen running",
	check: func(context.Context, *Capture) error {
		if host.Has("zeek") == nil {
			return nil
		}
		return &host.Missing{What: "the program zeek", Hint: "install Zeek's own package or build it, as its documentation says, and put its bin folder on the PATH"}
	},
	Argv: func(c *Capture, e Place) ([]string, error) {
		argv := []string{"zeek", "-C", "-i", e.Port.Name}
		if c.Filter != "" {
			argv = append(argv, "-f", c.Filter)
		}
		return append(argv, "policy/misc/stats", "LogAscii::use_json=T", "Stats::report_interval=1sec"), nil
	},
	Said: func(*Capture, subject.Env) (Parser, Parser) { return parseZeek, parseZeek },
	Logs: func() []LogFile {
		var z zeekStats
		return []LogFile{{Name: "stats.log", Said: z.line}}
	},
	Fixed: AsItIs, Lag: 1200 * time.Millisecond, Rare: 2 * time.Second, Grace: SensorGrace,
}

// SensorGrace is how long an IDS may take to end: it flushes streams and logs.
const SensorGrace = 25 * time.Second

var (
	zeekReceived = regexp.MustCompile(`(\d+) packets received on interface `)
	zeekDropped  = regexp.MustCompile(` packets received on interface \S+, (\d+) .*dropped`)
)

// parseZeek reads what it prints, in either stream.
func parseZeek(line string) Told {
	s := Nothing
	s.Ready = strings.Contains(line, "listening on ")
	s.Counted, s.Kernel = Find(zeekReceived, line), Find(zeekDropped, line)
	return s
}

// A zeekStats adds the lines of stats.log up.
type zeekStats struct{ dropped int64 }

func (z *zeekStats) line(line string) Told {
	s := Nothing
	s.Quiet = true
	var l struct {
		Processed *int64 `json:"pkts_proc"`
		Dropped   int64  `json:"pkts_dropped"`
	}
	if err := json.Unmarshal([]byte(line), &l); err != nil || l.Processed == nil || *l.Processed < 0 || l.Dropped < 0 {
		s.Garbage = true
		return s
	}
	z.dropped += l.Dropped
	s.more, s.Kernel = *l.Processed, z.dropped
	return s
}
