// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A token is on no command line, here or there.
func TestTokenIsOnNoCommandLine(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	script := "#!/bin/sh\necho \"$@\" >" + dir + "/words\ncat >" + dir + "/input\necho board KEY joined\n"
	if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	b := Box{SSH: "pi1", Agent: "/var/lib/boxdyno-agent/boxdyno-agent"}
	said, err := b.JoinFleet(t.Context(), "tls://hub.lan:4222", "bdfleet1-SECRET", "pi1", []string{"tune"})
	if err != nil || said != "board KEY joined" {
		t.Fatalf("%q, %v", said, err)
	}
	words, err := os.ReadFile(filepath.Join(dir, "words"))
	if err != nil || strings.Contains(string(words), "SECRET") || !strings.Contains(string(words), " join tls://hub.lan:4222 - ") {
		t.Errorf("%q, %v", words, err)
	}
	if input, err := os.ReadFile(filepath.Join(dir, "input")); err != nil || string(input) != "bdfleet1-SECRET\n" {
		t.Errorf("%q, %v", input, err)
	}
}
