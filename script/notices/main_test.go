// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"
)

// The committed notices name every module that is linked, with its licence.
func TestNoticesAreCurrent(t *testing.T) {
	t.Chdir("../..")
	kept, err := os.ReadFile("internal/cli/notices.txt")
	if err != nil {
		t.Fatal(err)
	}
	linked, err := modules()
	if err != nil {
		t.Fatal(err)
	}
	if len(linked) < 20 {
		t.Fatalf("only %d modules are linked", len(linked))
	}
	for name, dir := range linked {
		text, err := licence(dir)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !strings.Contains(string(kept), "\n"+name+"\n") || !strings.Contains(string(kept), text) {
			t.Errorf("internal/cli/notices.txt lacks %s: run go run ./script/notices >internal/cli/notices.txt", name)
		}
	}
	bundled, err := inPage()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range bundled {
		if !strings.Contains(string(kept), "\n"+name+" (in the page)\n") || !strings.Contains(string(kept), text) {
			t.Errorf("internal/cli/notices.txt lacks %s: run go run ./script/notices >internal/cli/notices.txt", name)
		}
	}
	for name, author := range map[string]string{"svelte": "Svelte Contributors", "clsx": "Luke Edwards"} { // bundled through Svelte
		if !strings.Contains(bundled[name], author) {
			t.Errorf("the page has not the licence of %s by %s", name, author)
		}
	}
}
