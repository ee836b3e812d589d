// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"boxdyno/host"
	"boxdyno/subject"
)

// snort runs Snort 3 over AF_PACKET with the configuration that it was installed with,
// by its manual: on SIGUSR1, and at its end, it prints its statistics.
var snort = Tool{
	Name: "snort", Work: Application,
	doc: "Snort 3 with the configuration that it was installed with, where it is; not seen running",
	check: func(context.Context, *Capture) error {
		const hint = "build libdaq and Snort 3, as its guide says, and put snort on the PATH; distributions have Snort 2"
		if host.Has("snort") != nil {
			return &host.Missing{What: "the program snort", Hint: hint}
		}
		if _, err := snortConfig(); err != nil {
			return &host.Missing{What: "Snort 3's configuration " + strings.Join(snortConfigs, " or "), Hint: hint}
		}
		return nil
	},
	Argv: func(c *Capture, e Place) ([]string, error) {
		config, err := snortConfig()
		argv := []string{"snort", "-c", config, "-i", e.Port.Name, "--daq", "afpacket", "-k", "none", "-l", e.Dir, "-A", "none", "-z", strconv.Itoa(max(len(e.CPUs), 1))}
		if c.Buffer > 0 {
			argv = append(argv, "--daq-var", "buffer_size_mb="+strconv.FormatUint(c.Buffer>>20, 10))
		}
		if c.Filter != "" {
			argv = append(argv, "--bpf", c.Filter)
		}
		return argv, err
	},
	Said: func(*Capture, subject.Env) (Parser, Parser) {
		var s snortStats
		return s.line, nil
	},
	poke: unix.SIGUSR1, step: 1 << 20, Lag: 1200 * time.Millisecond, Grace: SensorGrace,
}

var snortConfigs = []string{"/usr/local/etc/snort/snort.lua", "/etc/snort/snort.lua", "/usr/local/snort/etc/snort/snort.lua"}

func snortConfig() (string, error) {
	for _, name := range snortConfigs {
		if _, err := os.Stat(name); err == nil {
			return name, nil
		}
	}
	return "", errors.New("Snort 3's configuration is not there")
}

// A snortStats reads sections of statistics: a title at the beginning of a line, then
// its counters, indented.
type snortStats struct{ section string }

var snortCounter = regexp.MustCompile(`^\s+([a-z_0-9]+): (\d+)`)

func (p *snortStats) line(line string) Told {
	s := Nothing
	m := snortCounter.FindStringSubmatch(line)
	switch {
	case strings.HasPrefix(line, "Commencing packet processing"):
		s.Ready = true
	case m == nil:
		p.section = strings.TrimSpace(line)
	case p.section == "daq" && m[1] == "analyzed":
		s.Counted = frames(m[2])
	case p.section == "daq" && m[1] == "dropped":
		s.Kernel = frames(m[2])
	default:
		s.Quiet = true
	}
	return s
}
