// SPDX-License-Identifier: Apache-2.0

package userland

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"boxdyno/host"
	"boxdyno/internal/testutil"
	"boxdyno/result"
	"boxdyno/subject"
)

// A command of another userland is started by a gate of the machine's, in its folder.
func TestCommandOfAUserland(t *testing.T) {
	testutil.Privileged(t)
	u := &host.Userland{Name: "toy", Root: testutil.Shell(t)}
	if err := os.WriteFile(filepath.Join(u.Root, "mark"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	dir, err := host.MakeScratch()
	if err != nil {
		t.Fatal(err)
	}
	run, err := subject.Command{
		Name: "a script", Argv: []string{"sh", "-c", "[ -e /mark ] && echo x > left && pwd"}, Dir: dir,
		Read: func(w subject.Worked) ([]result.Value, error) {
			if strings.TrimSpace(w.Stdout) != dir || w.Elapsed <= 0 {
				return nil, errors.New("it was in " + w.Stdout)
			}
			return nil, nil
		},
	}.Start(t.Context(), subject.Env{Host: &host.Local{Userland: u}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := run.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is left", dir)
		}
	}()
	if err := errors.Join(run.Ready(t.Context()), run.Begin()); err != nil {
		t.Fatal(err)
	}
	if _, err := run.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	_, err = subject.Command{Name: "none", Argv: []string{"sha1sum"}}.Start(t.Context(), subject.Env{Host: &host.Local{Userland: u}})
	var missing *host.Missing
	if !errors.As(err, &missing) || !slices.Equal(missing.Remedy[0], []string{"chroot", u.Root, "apt-get", "install", "-y", "coreutils"}) {
		t.Errorf("a program that it lacks: %v", err)
	}
}

// What is not made has the command that makes it; half of it goes first.
func TestNarrowUserlandIsMade(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	if u, err := Named(t.Context(), Native); u != nil || err != nil {
		t.Errorf("the machine's own: %+v, %v", u, err)
	}
	var missing *host.Missing
	if _, err := narrowUserland("riscv64"); !errors.As(err, &missing) || !strings.Contains(err.Error(), "on a kernel of riscv64 there are none") {
		t.Errorf("RISC-V: %v", err)
	}
	arm, err := narrowUserland("aarch64")
	if err != nil || arm.Name != "armhf" || filepath.Base(arm.Root) != "armhf" {
		t.Errorf("%+v, %v", arm, err)
	}
	u, err := narrowUserland((&host.Local{}).Identify().Machine)
	if errors.As(err, &missing) {
		t.Skip(missing)
	} else if err != nil {
		t.Fatal(err)
	}
	if _, err := Named(t.Context(), Narrow); !errors.As(err, &missing) || !strings.HasSuffix(err.Error(), "run boxdyno doctor --install width") {
		t.Errorf("not made: %v", err)
	}
	err = CheckNarrow(t.Context())
	if !errors.As(err, &missing) {
		t.Fatal(err)
	}
	if len(missing.Remedy) == 0 {
		t.Skip(missing) // no apt
	}
	makes := func() []string {
		return slices.DeleteFunc(slices.Clone(missing.Remedy[len(missing.Remedy)-1]), func(w string) bool { return strings.Contains(w, "://") })
	}
	if got := makes(); got[0] != "debootstrap" || got[1] != "--arch="+u.Name || got[len(got)-1] != u.Root {
		t.Errorf("%q", got)
	}
	half := filepath.Join(u.Root, "debootstrap")
	if err := os.MkdirAll(half, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(u.Root, "bin", "true"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := CheckNarrow(t.Context()); !errors.As(err, &missing) || !slices.ContainsFunc(missing.Remedy, func(r []string) bool { return slices.Equal(r, removeUserland(u.Root)) }) {
		t.Errorf("half made: %v", err)
	}
	if err := os.RemoveAll(half); err != nil || !madeUserland(u.Root) {
		t.Errorf("one that is made is none (%v)", err)
	}
}

// The distribution's own source goes before a board vendor's, whatever their order.
func TestPackageSource(t *testing.T) {
	const release = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nVERSION_CODENAME=bookworm\n"
	for _, c := range []struct{ targets, want string }{
		{"", ""},
		{"bookworm-security main Debian http://security/\nbookworm main Debian http://a/debian/\n", "http://a/debian/"},
		{"bookworm main Raspberry Pi Foundation http://vendor/debian/\nbookworm main Debian http://a/debian/\n", "http://a/debian/"},
		{"bookworm main Debian http://a/debian/\nbookworm main Raspberry Pi Foundation http://vendor/debian/\n", "http://a/debian/"},
		{"bookworm contrib Debian http://a/debian/\ntrixie main Debian http://b/debian/\n", ""},
	} {
		if suite, got := packageSource(release, c.targets); suite != "bookworm" || got != c.want {
			t.Errorf("%q: %s of %s, want %s", c.targets, got, suite, c.want)
		}
	}
}
