// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strconv"
	"strings"
)

// counters are values by name, cumulative. A counter that this kernel lacks is
// not there, which is not the same as zero.
type counters map[string]uint64

func (c counters) has(name string) bool { _, ok := c[name]; return ok }

// readStack reads the counters of one namespace from its own view of /proc:
//
//	Ip.InReceives, IpExt.InNoRoutes, TcpExt.IPReversePathFilter   snmp, netstat
//	Ip6.InReceives                                                snmp6
//	conntrack.drop                                                stat/nf_conntrack
//
// A file that is not there (no IPv6, no connection tracking) has no counters.
// Names that the dictionary lacks are left out.
func readStack(root fs.FS, c counters) error {
	for _, f := range []struct {
		name  string
		parse func(text string, c counters) error
	}{
		{"snmp", parsePairs},
		{"netstat", parsePairs},
		{"snmp6", parseSNMP6},
		{"stat/nf_conntrack", func(text string, c counters) error { return parseColumns(text, "conntrack.", c, "drop") }},
	} {
		if err := readFile(root, "proc/thread-self/net/"+f.name, f.parse, c); err != nil {
			return err
		}
	}
	maps.DeleteFunc(c, func(name string, _ uint64) bool { return !inStack[name] })
	return nil
}

// readMachine reads the counters that all namespaces share:
//
//	softnet.dropped              full per-CPU backlogs
//	arp.unresolved_discards      full queues of frames that wait for an address
//	ndisc.unresolved_discards    the same of IPv6
//
// The last two stand in the machine's first namespace only.
func readMachine(root fs.FS, c counters) error {
	for _, f := range []struct {
		name  string
		parse func(text string, c counters) error
	}{
		{"softnet_stat", parseSoftnet},
		{"stat/arp_cache", func(text string, c counters) error { return parseColumns(text, "arp.", c, "unresolved_discards") }},
		{"stat/ndisc_cache", func(text string, c counters) error {
			return parseColumns(text, "ndisc.", c, "unresolved_discards")
		}},
	} {
		if err := readFile(root, "proc/self/net/"+f.name, f.parse, c); err != nil {
			return err
		}
	}
	return nil
}

func readFile(root fs.FS, name string, parse func(string, counters) error, c counters) error {
	text, err := fs.ReadFile(root, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && len(text) > 0 {
		err = parse(string(text), c)
	}
	if err != nil {
		return fmt.Errorf("read counters of /%s: %w", name, err)
	}
	return nil
}

// parsePairs parses lines in pairs, names above values: "Ip: InReceives ..."
// above "Ip: 12 ...".
func parsePairs(text string, c counters) error {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines)%2 != 0 {
		return fmt.Errorf("line %d has no values below it", len(lines))
	}
	for i := 0; i < len(lines); i += 2 {
		names, values := strings.Fields(lines[i]), strings.Fields(lines[i+1])
		if len(names) == 0 || len(names) != len(values) || names[0] != values[0] {
			return fmt.Errorf("lines %d and %d do not belong together", i+1, i+2)
		}
		group := strings.TrimSuffix(names[0], ":") + "."
		for j := 1; j < len(names); j++ {
			n, err := strconv.ParseInt(values[j], 10, 64) // Tcp.MaxConn is -1
			if err != nil {
				return fmt.Errorf("line %d: %s is no number: %q", i+2, names[j], values[j])
			}
			c[group+names[j]] = uint64(n)
		}
	}
	return nil
}

// parseSNMP6 parses "Ip6InReceives   12" into Ip6.InReceives. Other groups are
// not of interest.
func parseSNMP6(text string, c counters) error {
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		f := strings.Fields(line)
		if len(f) != 2 {
			return fmt.Errorf("line %d: want a name and a number, not %q", i+1, line)
		}
		name, ok := strings.CutPrefix(f[0], "Ip6")
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(f[1], 10, 64)
		if err != nil {
			return fmt.Errorf("line %d: %s is no number: %q", i+1, f[0], f[1])
		}
		c["Ip6."+name] = n
	}
	return nil
}

// parseColumns sums the named columns of a /proc/net/stat file: names above, one
// line of hexadecimal values a CPU.
func parseColumns(text, prefix string, c counters, want ...string) error {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	names := strings.Fields(lines[0])
	for _, w := range want {
		column := -1
		for i, n := range names {
			if n == w {
				column = i
			}
		}
		if column < 0 {
			continue
		}
		var sum uint64
		for i, line := range lines[1:] {
			n, err := hexField(line, column)
			if err != nil {
				return fmt.Errorf("line %d: %w", i+2, err)
			}
			sum += n
		}
		c[prefix+w] = sum
	}
	return nil
}

// parseSoftnet sums the second column, a line a CPU.
func parseSoftnet(text string, c counters) error {
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		n, err := hexField(line, 1)
		if err != nil {
			return fmt.Errorf("line %d: %w", i+1, err)
		}
		c["softnet.dropped"] += n
	}
	return nil
}

func hexField(line string, column int) (uint64, error) {
	f := strings.Fields(line)
	if column >= len(f) {
		return 0, fmt.Errorf("want at least %d columns, not %d", column+1, len(f))
	}
	n, err := strconv.ParseUint(f[column], 16, 64)
	if err != nil {
		return 0, fmt.Errorf("column %d is no hexadecimal number: %q", column+1, f[column])
	}
	return n, nil
}
