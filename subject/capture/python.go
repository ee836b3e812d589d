// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"boxdyno/host"
	"boxdyno/subject"
	"boxdyno/subject/internal/made"
)

// pythons are the libraries of Python, each used by programs/count.py as its own
// documentation does. All but the plain socket live in virtual environments.
func pythons() (all []*Tool) {
	for _, p := range []struct {
		name, work, doc string
		fixed           uint64 // buffer
		lag             time.Duration
		filters         []string // nil: any
		built           bool     // compiled against libpcap when it is installed
		libpcap         bool     // it loads the machine's libpcap by its name
		tshark          bool     // it runs tshark
	}{
		{name: "python-socket", work: Count, doc: "a Python loop of recv() on a packet socket", filters: []string{DefaultFilter, ""}},
		{name: "scapy", work: Dissection, doc: "scapy's sniffer, which builds an object for each layer of each frame", libpcap: true},
		{name: "pyshark", work: Dissection, doc: "pyshark, which reads the XML that a tshark of its own prints", fixed: AsItIs, lag: dumpcapLag, tshark: true},
		{name: "pypcap", work: Decode, doc: "pypcap, and dpkt for UDP's header", fixed: AsItIs, lag: LibpcapLag, built: true},
		{name: "pcapy-ng", work: Decode, doc: "pcapy-ng, and dpkt for UDP's header", lag: LibpcapLag},
		{name: "pcap-ct", work: Decode, doc: "pcap-ct, which calls libpcap by ctypes, and dpkt for UDP's header", fixed: AsItIs, lag: LibpcapLag, libpcap: true},
	} {
		v := made.Venv{Name: p.name, Built: p.built}
		t := &Tool{
			Name: p.name, Work: p.work, doc: p.doc, Fixed: p.fixed, Filters: p.filters, program: "python3", Lag: p.lag,
			Said: func(*Capture, subject.Env) (Parser, Parser) { return ParseCounter, nil },
		}
		interpreter := func() (string, error) { return "python3", nil }
		if p.name != "python-socket" {
			interpreter = v.Python
			t.install = v.Make
			t.check = func(ctx context.Context, c *Capture) error {
				if p.tshark {
					if err := host.Has("tshark"); err != nil {
						return err
					}
				}
				if p.libpcap {
					if err := libpcap(); err != nil {
						return err
					}
				}
				_, err := v.Python()
				return err
			}
		}
		t.Argv = func(c *Capture, e Place) ([]string, error) {
			python, err := interpreter()
			if err != nil {
				return nil, err
			}
			script := filepath.Join(e.Dir, "count.py")
			err = os.WriteFile(script, []byte(made.Embedded("count.py")), 0o600)
			return []string{python, script, p.name, e.Port.Name, c.Filter, strconv.FormatUint(c.Buffer, 10)}, err
		}
		if p.tshark {
			t.Said = func(*Capture, subject.Env) (Parser, Parser) { return ParseCounter, parseDumpcapDrops }
		}
		all = append(all, t)
	}
	return all
}

// parseDumpcapDrops reads what pyshark's dumpcap says at its end: its count is not
// pyshark's.
func parseDumpcapDrops(line string) Told {
	s := parseDumpcap(line)
	s.Counted, s.Ready = -1, false
	return s
}

// libpcap is a *host.Missing where the library, which is loaded by its name, is not
// there.
func libpcap() error {
	for _, pattern := range []string{"/usr/lib/*/libpcap.so*", "/usr/lib*/libpcap.so*", "/lib/*/libpcap.so*"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 { // the patterns are good
			return nil
		}
	}
	return &host.Missing{What: "the library libpcap", Remedy: [][]string{{"apt-get", "install", "-y", "libpcap0.8"}}}
}
