// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxdyno/procedure/internal/roomtest"
)

// What is wrong with a subject's parameters and file is said before anything is built.
func TestCaptureChecksItsSubject(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("good.yaml", "name: mine\nwork: count\ncommand: [no-such-program, '{port}']\ncount_key: seen\n")
	for _, c := range []struct {
		set  map[string]string
		want string // "": accepted
	}{
		{map[string]string{"subject": "own", "file": good}, ""},
		{map[string]string{"subject": "own"}, "give file=NAME.yaml"},
		{map[string]string{"subject": "own", "file": filepath.Join(dir, "none.yaml")}, "no such file"},
		{map[string]string{"subject": "own", "file": file("bad.yaml", "name: mine\n")}, "bad.yaml"},
		{map[string]string{"subject": "tcpdump", "buffer": "1"}, "buffer 1: want"},
	} {
		p := newCapture()
		roomtest.Assign(t, p.Flags, c.set)
		if err := p.Check(nil); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.set, err, c.want)
		}
	}
}
