// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// Every command has a page, with its examples.
func TestPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man")
	if err := write([]string{dir}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"boxdyno", "boxdyno-run", "boxdyno-send", "boxdyno-replay", "boxdyno-meter"} {
		page, err := os.ReadFile(filepath.Join(dir, name+".1"))
		if err != nil {
			t.Fatal(err)
		}
		if name != "boxdyno" && !bytes.Contains(page, []byte("EXAMPLE")) {
			t.Errorf("%s.1 has no example", name)
		}
	}
	for _, name := range []string{"boxdyno.bash", "_boxdyno", "boxdyno.fish"} {
		script, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(script, []byte(" __complete")) {
			t.Errorf("%s does not ask boxdyno", name)
		}
	}
	if err := write(nil); err == nil {
		t.Error("it wants no folder")
	}
}
