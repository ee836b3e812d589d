// SPDX-License-Identifier: Apache-2.0

package testutil

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// Shell makes a folder that can be the root of a process: this machine's sh with its
// libraries as /bin/sh, and nothing else.
func Shell(t testing.TB) (root string) {
	t.Helper()
	root = t.TempDir()
	shell, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	libraries, err := exec.Command("ldd", shell).Output()
	if err != nil {
		t.Skipf("ldd of %s, which tells its libraries: %v: run this on a machine whose shell is linked dynamically", shell, err)
	}
	files := map[string]string{shell: "/bin/sh"}
	for _, lib := range regexp.MustCompile(`/\S+`).FindAllString(string(libraries), -1) {
		files[lib] = lib
	}
	for from, to := range files {
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(root, to)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root
}
