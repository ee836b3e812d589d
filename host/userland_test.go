// SPDX-License-Identifier: Apache-2.0

package host

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"boxdyno/internal/testutil"
)

// A program of a userland sees its folder as the root, and the machine's processes and
// temporary files in it; nothing of that is mounted here.
func TestUserland(t *testing.T) {
	testutil.Privileged(t)
	share := t.TempDir()
	h := &Local{Userland: &Userland{Name: "toy", Root: testutil.Shell(t), Share: []string{share, "/no/such/folder"}}}
	look := `echo /*; [ -e /proc/self/stat ] && [ -c /dev/null ] && [ -e ` + share + `/there ] && echo "$1"; pwd`
	if err := os.WriteFile(filepath.Join(share, "there"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.Userland.Root, "bin", "noise"), []byte{0x7f, 'E', 'L', 'F', 0}, 0o755); err != nil {
		t.Fatal(err)
	}
	right := func(out string) {
		t.Helper()
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if len(lines) != 3 || lines[0] == hostRoot(t) || !strings.HasPrefix(lines[0], "/bin /dev /lib") || lines[1] != "an argument" {
			t.Errorf("it saw %q", out)
		}
	}
	out, err := h.Run(t.Context(), "", "sh", "-c", look, "sh", "an argument")
	if err != nil {
		t.Fatal(err)
	}
	right(string(out))
	var text, wrong bytes.Buffer
	p, err := h.Start(t.Context(), Cmd{Argv: []string{"sh", "-c", look, "sh", "an argument"}, Stdout: &text, Stderr: &wrong, Dir: share})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(t.Context()); err != nil {
		t.Fatalf("%v: %s", err, wrong.String())
	}
	right(text.String())
	if !strings.HasSuffix(strings.TrimSpace(text.String()), share) {
		t.Errorf("it is not in the folder that it was given: %q", text.String())
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil || strings.Contains(string(mounts), h.Userland.Root) {
		t.Errorf("left mounted: %v", err)
	}
	var missing *Missing
	if _, err := h.Run(t.Context(), "", "noise"); !errors.As(err, &missing) || !strings.Contains(err.Error(), "run programs of toy") {
		t.Errorf("a program of another machine: %v", err)
	}
	if _, err := h.Run(t.Context(), "", "sh", "-c", "exit 3"); err == nil || errors.As(err, &missing) && missing.What == "" {
		t.Errorf("exit code 3 is %v", err)
	}
}

// hostRoot is what is in the machine's own root.
func hostRoot(t *testing.T) string {
	t.Helper()
	names, err := filepath.Glob("/*")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(names, " ")
}

func TestUserlandLooksInItsFolder(t *testing.T) {
	u := &Userland{Name: "i386", Root: t.TempDir()}
	h := &Local{Userland: u}
	err := h.Has("opusenc")
	if want := "missing the program opusenc among those of i386: run chroot " + u.Root + " apt-get install -y opus-tools"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if u.Programs() != "i386" {
		t.Errorf("of an empty folder: %s", u.Programs())
	}
	for name, text := range map[string]string{"bin/sh": "\x7fELF\x01", "etc/os-release": "PRETTY_NAME=\"Toy 1\"\n"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(u.Root, name)), 0o755), os.WriteFile(filepath.Join(u.Root, name), []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	if got := u.Programs(); got != "32 bit, i386, Toy 1" {
		t.Errorf("%q", got)
	}
	if err := h.Has("sh"); err != nil {
		t.Error(err)
	}
}
