// SPDX-License-Identifier: Apache-2.0

package subject

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"boxdyno/host"
)

// zeek runs Zeek with its default scripts, by its documentation: policy/misc/stats
// writes what was processed and dropped since the line before into stats.log, and at its
// end Zeek says what it received in all.
var zeek = tool{
	name: "zeek", work: Application,
	doc: "Zeek with its default scripts, where it is installed; not seen running",
	check: func(context.Context, *Capture) error {
		if host.Has("zeek") == nil {
			return nil
		}
		return &host.Missing{What: "the program zeek", Hint: "install Zeek's own package or build it, as its documentation says, and put its bin folder on the PATH"}
	},
	argv: func(c *Capture, e place) ([]string, error) {
		argv := []string{"zeek", "-C", "-i", e.Port.Name}
		if c.Filter != "" {
			argv = append(argv, "-f", c.Filter)
		}
		return append(argv, "policy/misc/stats", "LogAscii::use_json=T", "Stats::report_interval=1sec"), nil
	},
	said: func(*Capture, Env) (parser, parser) { return parseZeek, parseZeek },
	logs: func() []logFile {
		var z zeekStats
		return []logFile{{name: "stats.log", said: z.line}}
	},
	fixed: asItIs, lag: 1200 * time.Millisecond, rare: 2 * time.Second, grace: sensorGrace,
}

// sensorGrace is how long an IDS may take to end: it flushes streams and logs.
const sensorGrace = 25 * time.Second

var (
	zeekReceived = regexp.MustCompile(`(\d+) packets received on interface `)
	zeekDropped  = regexp.MustCompile(` packets received on interface \S+, (\d+) .*dropped`)
)

// parseZeek reads what it prints, in either stream.
func parseZeek(line string) told {
	s := nothing
	s.ready = strings.Contains(line, "listening on ")
	s.counted, s.kernel = find(zeekReceived, line), find(zeekDropped, line)
	return s
}

// A zeekStats adds the lines of stats.log up.
type zeekStats struct{ dropped int64 }

func (z *zeekStats) line(line string) told {
	s := nothing
	s.quiet = true
	var l struct {
		Processed *int64 `json:"pkts_proc"`
		Dropped   int64  `json:"pkts_dropped"`
	}
	if err := json.Unmarshal([]byte(line), &l); err != nil || l.Processed == nil || *l.Processed < 0 || l.Dropped < 0 {
		s.garbage = true
		return s
	}
	z.dropped += l.Dropped
	s.more, s.kernel = *l.Processed, z.dropped
	return s
}
