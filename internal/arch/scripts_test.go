// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Scripts run as root fetch programs of others: apt's as its own user, npm's of one version.
func TestScriptsFetchSafely(t *testing.T) {
	var names []string
	for _, pattern := range []string{"../../script/*", "../../.ci/*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, found...)
	}
	install := regexp.MustCompile(`\bnpm (?:install|i|exec)\b.*|\bnpx .*`)
	pinned := regexp.MustCompile(`@\d+\.\d+\.\d+\b`)
	installs := 0
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.IsDir() {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "Sandbox") {
				t.Errorf("%s: apt's sandbox is not to be changed: %s", name, line)
			}
			for _, s := range install.FindAllString(line, -1) {
				installs++
				if !pinned.MatchString(s) {
					t.Errorf("%s: no version is given: %s", name, s)
				}
			}
		}
	}
	if len(names) < 10 || installs == 0 {
		t.Errorf("%d scripts with %d installations were read", len(names), installs)
	}
}
