// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestCaptureFiles(t *testing.T) {
	dir := t.TempDir() + "/"
	for _, n := range []string{"web.pcap", "web.pcapng.zst", "web.txt", "wide.cap.gz", ".hidden.pcap"} {
		if err := os.WriteFile(filepath.Join(dir, n), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(dir+"werk", 0o700); err != nil {
		t.Fatal(err)
	}
	for begin, want := range map[string][]string{
		"w":     {"web.pcap", "web.pcapng.zst", "werk/", "wide.cap.gz"},
		"web":   {"web.pcap", "web.pcapng.zst"},
		".":     {".hidden.pcap"},
		"x":     nil,
		"no/xx": nil,
	} {
		var full []string
		for _, n := range want {
			full = append(full, "file="+dir+n)
		}
		if got := captureFiles("file=", dir+begin); !slices.Equal(got, full) {
			t.Errorf("%s: %v, want %v", begin, got, full)
		}
	}
}
