// SPDX-License-Identifier: Apache-2.0

// Package userland holds programs of another width than the machine's own.
package userland

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"boxdyno/host"
	"boxdyno/subject/internal/made"
)

// The names of userlands that procedures take.
const (
	Native = "native" // the machine's own
	Narrow = "32-bit" // programs of 32 bit on a kernel of 64
)

// Names are those names.
func Names() []string { return []string{Native, Narrow} }

// WidthSet is what doctor --install makes Narrow by.
const WidthSet = "width"

// narrow are Debian's architectures of 32 bit whose programs a kernel (uname -m) may run
// beside its own.
var narrow = map[string]string{"x86_64": "i386", "aarch64": "armhf"}

// widthPackages are those of the programs whose speed is compared between widths.
var widthPackages = []string{
	"gcc", "libc6-dev", "openssl", "7zip", "sysbench", "stress-ng", "lame", "flac", "opus-tools", "vorbis-tools", "iperf3", "openvpn", "wireguard-go",
}

// Named is the userland of a name: nil of the machine's own. One that is not
// made, or cannot be run here, is a *host.Missing. It runs a program of it.
func Named(ctx context.Context, name string) (*host.Userland, error) {
	if name == Native {
		return nil, nil
	}
	u, err := narrowUserland((&host.Local{}).Identify().Machine)
	if err != nil {
		return nil, err
	}
	if !madeUserland(u.Root) {
		return nil, &host.Missing{What: fmt.Sprintf("programs of 32 bit (%s)", u.Name), Remedy: [][]string{{"boxdyno", "doctor", "--install", WidthSet}}}
	}
	if _, err := (&host.Local{Userland: u}).Run(ctx, "", "true"); err != nil {
		return nil, err
	}
	return u, nil
}

// narrowUserland is where the programs of 32 bit for a kernel are, made or not.
func narrowUserland(machine string) (*host.Userland, error) {
	name := narrow[machine]
	if name == "" {
		return nil, &host.Missing{What: "programs of 32 bit beside the machine's own", Hint: fmt.Sprintf("on a kernel of %s there are none", machine)}
	}
	programs, err := made.Store()
	if err != nil {
		return nil, err
	}
	root := filepath.Join(filepath.Dir(programs), "userlands", name)
	if os.Geteuid() == 0 {
		if err := made.RootsAlone(root); err != nil {
			return nil, err
		}
	}
	return &host.Userland{Name: name, Root: root, Share: []string{programs}}, nil
}

// madeUserland says whether debootstrap has ended well in a folder: it takes a folder of
// its own away last.
func madeUserland(root string) bool {
	_, shell := os.Stat(filepath.Join(root, "bin", "true"))
	_, half := os.Stat(filepath.Join(root, "debootstrap"))
	return shell == nil && os.IsNotExist(half)
}

// CheckNarrow says whether programs of 32 bit are there and run. A *host.Missing carries
// the commands that make them with debootstrap from the machine's own package source.
func CheckNarrow(ctx context.Context) error {
	local := &host.Local{}
	u, err := narrowUserland(local.Identify().Machine)
	if err != nil {
		return err
	}
	if madeUserland(u.Root) {
		_, err := Named(ctx, Narrow)
		return err
	}
	missing := &host.Missing{What: fmt.Sprintf("programs of 32 bit (%s)", u.Name)}
	out, err := local.Run(ctx, "", "apt-get", "indextargets", "--format", "$(CODENAME) $(COMPONENT) $(ORIGIN) $(REPO_URI)", "Created-By: Packages")
	if err != nil {
		missing.Hint = "they are made from Debian's packages, and this machine has no apt: " + err.Error()
		return missing
	}
	release, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return fmt.Errorf("find out which Debian this is: %w", err)
	}
	suite, mirror := packageSource(string(release), string(out))
	if mirror == "" {
		missing.Hint = "apt has no source of this distribution's own packages (component main), from which they would be made"
		return missing
	}
	if host.Has("debootstrap") != nil {
		missing.Remedy = append(missing.Remedy, []string{"apt-get", "install", "-y", "debootstrap"})
	}
	if _, err := os.Lstat(u.Root); err == nil { // half made
		missing.Remedy = append(missing.Remedy, removeUserland(u.Root))
	}
	missing.Remedy = append(missing.Remedy, []string{"debootstrap", "--arch=" + u.Name, "--variant=minbase", "--include=" + strings.Join(widthPackages, ","), suite, u.Root, mirror})
	return missing
}

// removeUserland is the command that takes a userland away; what a killed debootstrap
// may have left mounted there stays.
func removeUserland(root string) []string { return []string{"rm", "-rf", "--one-file-system", root} }

// packageSource is the codename of the distribution and where apt gets its packages from:
// lines of codename, component, origin and URI, of which Debian's or Ubuntu's own come
// before another's, such as a board vendor's, with few packages for other architectures.
func packageSource(release, targets string) (suite, mirror string) {
	for line := range strings.Lines(release) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "VERSION_CODENAME="); ok {
			suite = strings.Trim(v, `"`)
		}
	}
	for line := range strings.Lines(targets) {
		f := strings.Fields(line)
		if len(f) < 4 || f[0] != suite || f[1] != "main" {
			continue
		}
		if uri := f[len(f)-1]; mirror == "" || slices.Contains([]string{"Debian", "Ubuntu"}, strings.Join(f[2:len(f)-1], " ")) {
			mirror = uri
		}
	}
	return suite, mirror
}
