// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"os"
	"regexp"
	"testing"
)

// Proofs are built in a workspace, which takes the newer of two versions. Each module
// by itself would be built with another one.
func TestModulesAgree(t *testing.T) {
	product, proof := requirements(t, "../../go.mod"), requirements(t, "../../script/proof/go.mod")
	both := 0
	for module, version := range proof {
		if want, ok := product[module]; ok {
			both++
			if version != want {
				t.Errorf("script/proof/go.mod has %s %s, go.mod has %s: run \"go mod tidy\" in script/proof", module, version, want)
			}
		}
	}
	if both < 10 {
		t.Errorf("both name %d modules: are they still read?", both)
	}
}

// requirements returns the version of each module that a go.mod requires, and of Go.
func requirements(t *testing.T, file string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(?:\t|require )(\S+/\S+) (v\S+)|^(go|toolchain) (\S+)$`).FindAllStringSubmatch(string(text), -1) {
		versions[m[1]+m[3]] = m[2] + m[4]
	}
	return versions
}
