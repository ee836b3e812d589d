// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzRates expands a capture by a file of rates that anybody wrote.
func FuzzRates(f *testing.F) {
	dir := f.TempDir()
	writePcap(f, filepath.Join(dir, "a.pcap"), []talk{{0, false, udpFrame(false, 4000, 53, "one")}, {900, true, udpFrame(true, 4000, 53, "two")}})
	head := "- duration: 1\n" + generator
	f.Add(head + "  cap_info:\n   - {name: a.pcap, cps: 100}\n")
	f.Add(head + "  cap_ipg: true\n  cap_ipg_min: 30\n  cap_override_ipg: 200\n  cap_info:\n   - {name: a.pcap, cps: 5, w: 3}\n   - {name: a.pcap, cps: 1e3}\n")
	f.Add(head + "  cap_info:\n   - {name: a.pcap, cps: 1e9, w: 1, ipg: 1e9, rtt: 1e9}\n")                 // a billion flows a second that last 1000 s
	f.Add(head + "  cap_info:\n   - {name: a.pcap, cps: 3e5}\n   - {name: a.pcap, cps: 1e-6, ipg: 1e9}\n") // 300 million flows before the beginning
	f.Add("- duration: 1e7\n" + strings.Replace(generator, "48.0.0.5", "255.255.255.255", 1) + "  cap_info:\n   - {name: a.pcap, cps: 1e-6}\n")
	path := filepath.Join(dir, "rates.yaml")
	w := Window{Blob: make([]byte, 1<<16), Entries: make([]Entry, 512)}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "/") {
			return // no other files
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := OpenTemplates(path, TemplateOptions{})
		if err != nil {
			if s := err.Error(); strings.Contains(s, "\n") || strings.Contains(s, "%!") && !strings.Contains(text, "%!") {
				t.Errorf("%q", s)
			}
			return
		}
		if past, early := float64(s.now.k), float64(len(s.early)); past > 1.1*mostPast || early > 1.1*mostUnderWay { // what OpenTemplates spends its time on
			t.Errorf("%g flows before the beginning, %g of them under way at it", past, early)
		}
		last := uint64(0)
		for range 4 {
			w.Reset()
			if err = s.Fill(&w); err != nil {
				break
			}
			for _, e := range w.Entries[:w.Len()] {
				if e.At < last {
					t.Fatal("time goes backwards")
				}
				last = e.At
			}
		}
		if err != nil && !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	})
}
