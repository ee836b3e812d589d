// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"bufio"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"boxdyno/host"
	"boxdyno/result"
)

// fixture is a file of testdata/drivers: a port before and after a trial, and the
// account that must come of it.
func fixture(t *testing.T, file string) (before, after fstest.MapFS, want []string, e Ends) {
	t.Helper()
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	trees := map[string]fstest.MapFS{"before": {}, "after": {}}
	for _, f := range a.Files {
		when, what, _ := strings.Cut(f.Name, "/")
		put := func(name string, data []byte) { trees[when][name] = &fstest.MapFile{Data: data} }
		switch what {
		case "uevent":
			put("sys/class/net/eth0/device/uevent", f.Data)
		case "ethtool":
			put("ethtool/eth0", f.Data)
		case "softnet_stat":
			put("proc/self/net/softnet_stat", f.Data)
		case "statistics":
			for line := range strings.Lines(string(f.Data)) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
				put("sys/class/net/eth0/statistics/"+name, []byte(value+"\n"))
			}
		default: // account
			s := bufio.NewScanner(strings.NewReader(string(f.Data)))
			for s.Scan() {
				word, rest, _ := strings.Cut(s.Text(), " ")
				n, _ := strconv.ParseUint(rest, 10, 64)
				switch word {
				case "accepted":
					e.Accepted = n
				case "received":
					e.Received = n
				default:
					want = append(want, s.Text())
				}
			}
		}
	}
	return trees["before"], trees["after"], want, e
}

func told(a result.Account) (lines []string) {
	for _, d := range a.Drops {
		lines = append(lines, fmt.Sprintf("drop %s|%s|%s|%d", d.Place, d.Name, d.From, d.N))
	}
	for _, u := range a.Unread {
		lines = append(lines, fmt.Sprintf("unread %s %d", u.Counter, u.N))
		if u.Why == "" {
			lines = append(lines, "  without a reason")
		}
	}
	return append(lines, fmt.Sprint("unexplained ", a.Unexplained))
}

// TestDrivers closes the books over a port of every driver of the dictionary.
func TestDrivers(t *testing.T) {
	files, _ := filepath.Glob("testdata/drivers/*.txtar")
	var seen []string
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		seen = append(seen, name)
		t.Run(name, func(t *testing.T) {
			before, after, want, e := fixture(t, file)
			machine := &tree{before}
			dut := &host.Local{Label: "dut", Root: machine}
			book, err := begun(t.Context(), []Path{{Hops: []Hop{{Place: result.Tester}, {Place: result.DUTNIC, Host: dut, Port: host.Port{Name: "eth0"}}}}})
			if err != nil {
				t.Fatal(err)
			}
			defer book.Close()
			book.Virtual = true // what is recorded does not change
			machine.FS = after
			a, err := book.Balance(t.Context(), func(context.Context) (Ends, error) { return e, nil })
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, told(a)); diff != "" {
				t.Error(diff)
			}
			here(t, driverOf(name), after)
		})
	}
	for _, d := range drivers {
		for _, name := range strings.Fields(d.name) {
			if name != "veth" && name != "st_xgmac" && !slices.Contains(seen, name) {
				t.Errorf("driver %s has no fixture", name)
			}
		}
	}
}

// elsewhere are counters of the dictionary that Linux 6.12 does not have under this
// name: of older kernels.
var elsewhere = []string{"ethtool rx_queue_*_drops", "ethtool rx_queue_*_xdp_drops", "ethtool rx_queue_*_xdp_redirects"}

// here fails where the dictionary names counters that the driver does not have.
func here(t *testing.T, d driver, machine fstest.MapFS) {
	t.Helper()
	all := counters{}
	if err := recordedCounters(machine, "eth0", all); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range d.meanings {
		names = append(names, m.counter)
	}
	for _, u := range d.unread {
		names = append(names, u.counter)
	}
	for _, n := range names {
		found := slices.Contains(elsewhere, n) && d.name == "virtio_net"
		for c := range all {
			found = found || matches(n, c)
		}
		if !found {
			t.Errorf("the dictionary has %q of %s, and the driver does not", n, d.name)
		}
	}
}

// What is said to be counted by another is counted there, and no counter stands
// twice in a driver's table.
func TestDictionaryHoldsTogether(t *testing.T) {
	for _, d := range drivers {
		terms := map[string]bool{}
		seen := map[string]bool{}
		for _, m := range slices.Concat(d.meanings, everyPort) {
			terms[m.counter] = terms[m.counter] || !m.passed
		}
		for _, m := range d.meanings {
			key := fmt.Sprint(m.dir, m.at, m.counter)
			if seen[key] {
				t.Errorf("%s: %s stands twice", d.name, m.counter)
			}
			seen[key] = true
		}
		for _, u := range d.unread {
			if seen[u.counter] || u.why == "" {
				t.Errorf("%s: %s stands twice, or has no reason", d.name, u.counter)
			}
			seen[u.counter] = true
			if slices.ContainsFunc(d.meanings, func(m meaning) bool { return m.counter == u.counter }) {
				t.Errorf("%s: %s is a term and is none", d.name, u.counter)
			}
			for _, in := range strings.Split(u.in, ", ") {
				if u.in != "" && !terms[in] {
					t.Errorf("%s: %s is said to be counted by %s, which is no term", d.name, u.counter, in)
				}
			}
		}
	}
}

func TestParseEthtool(t *testing.T) {
	for text, want := range map[string]string{
		"NIC statistics:\n     a b: 1\n     c\n": "line 3 of ethtool -S has no value",
		"     a: x\n":                            "line 1 of ethtool -S: ",
	} {
		if err := parseEthtool(text, counters{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	c := counters{}
	if err := parseEthtool("NIC statistics:\n     RX 65 - 127 Byte Frames: 12\n     [0]: rx_ok: 7\n", c); err != nil || c["ethtool RX 65 - 127 Byte Frames"] != 12 || c["ethtool [0]: rx_ok"] != 7 {
		t.Errorf("%v %v", c, err)
	}
}

// A port without a driver, or without counters, is an error that says so.
func TestBadRecordedPort(t *testing.T) {
	uevent := "sys/class/net/eth0/device/uevent"
	for want, root := range map[string]fstest.MapFS{
		uevent:            {},
		"names no driver": {uevent: {Data: []byte("MODALIAS=x\n")}},
		"statistics":      {uevent: {Data: []byte("DRIVER=macb\n")}},
		"rx_packets":      {uevent: {Data: []byte("DRIVER=macb\n")}, "sys/class/net/eth0/statistics/rx_packets": {Data: []byte("many\n")}},
	} {
		dut := &host.Local{Label: "dut", Root: root}
		_, err := begun(t.Context(), []Path{{Hops: []Hop{{Place: result.Tester}, {Place: result.DUTNIC, Host: dut, Port: host.Port{Name: "eth0"}}}}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, not %v", want, err)
		}
	}
}

// Two machines' counters that are no term are told apart.
func TestUnreadOfTwoMachines(t *testing.T) {
	one := func(host string, n int64) []result.Unread {
		return []result.Unread{{Host: host, Port: "eth0", Counter: "rx_dropped", N: n, Why: "w"}}
	}
	before := snapshot{unread: one("here", 5), remotes: []Reading{{Unread: one("there", 100)}}}
	after := snapshot{unread: one("here", 5), remotes: []Reading{{Unread: one("there", 130)}}}
	if got := unreadSince(before, after); len(got) != 1 || got[0].Host != "there" || got[0].N != 30 {
		t.Errorf("want 30 there: %+v", got)
	}
}
