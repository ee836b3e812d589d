// SPDX-License-Identifier: Apache-2.0

package compute

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"boxdyno/host"
)

// SystemBLAS is the library that the machine has chosen (Debian's alternatives).
const SystemBLAS = "system"

// A blasKind is a library of basic linear algebra: the folders of its shared object in
// Debian, the best first, and the package.
type blasKind struct {
	name, pkg string
	folders   []string
}

var blasKinds = []blasKind{
	{"reference", "libblas3", []string{"blas"}},
	{"openblas", "libopenblas0-pthread", []string{"openblas-pthread", "openblas-openmp", "openblas-serial"}},
	{"atlas", "libatlas3-base", []string{"atlas"}},
	{"blis", "libblis4-pthread", []string{"blis-pthread", "blis-openmp", "blis-serial"}},
}

// BLASNames are those that an HPL can be told to use.
func BLASNames() []string {
	names := []string{SystemBLAS}
	for _, k := range blasKinds {
		names = append(names, k.name)
	}
	return names
}

const blasObject = "libblas.so.3"

// blas is the folder that the dynamic linker must look into first, "" for the system's
// own choice, and which library hpcc is then linked to, as the linker says: "openblas
// 0.3.21+ds-4 /usr/lib/.../libblas.so.3". One that is not installed is a *host.Missing.
func (s *HPL) blas(ctx context.Context, h *host.Local) (folder, of string, err error) {
	linked, err := hplLinked(ctx, h, s.program(), "")
	if err != nil {
		return "", "", err
	}
	system := linked["libblas.so"]
	if s.BLAS != SystemBLAS {
		kind, err := blasNamed(s.BLAS)
		if err != nil {
			return "", "", err
		}
		if folder = kind.folder(filepath.Base(filepath.Dir(system))); folder == "" {
			return "", "", &host.Missing{What: "the library " + kind.name + ", which HPL computes with", Remedy: [][]string{{"apt-get", "install", "-y", kind.pkg}}}
		}
		if linked, err = hplLinked(ctx, h, s.program(), folder); err != nil {
			return "", "", err
		}
	}
	real, err := filepath.EvalSymlinks(linked["libblas.so"])
	if err != nil {
		return "", "", fmt.Errorf("find the BLAS that hpcc is linked to: %w", err)
	}
	name := blasName(real)
	if s.BLAS != SystemBLAS && name != s.BLAS {
		return "", "", fmt.Errorf("blas %s: the dynamic linker gives hpcc %s instead (%s)", s.BLAS, name, real)
	}
	return folder, strings.Join([]string{name, fileVersion(ctx, h, real), real}, " "), nil
}

func blasNamed(name string) (blasKind, error) {
	for _, k := range blasKinds {
		if k.name == name {
			return k, nil
		}
	}
	return blasKind{}, fmt.Errorf("blas %q: want one of %s", name, strings.Join(BLASNames(), ", "))
}

// folder is where the library is for the architecture, "x86_64-linux-gnu"; "": it is not
// installed.
func (k blasKind) folder(architecture string) string {
	for _, f := range k.folders {
		dir := filepath.Join("/usr/lib", architecture, f)
		if found, _ := filepath.Glob(filepath.Join(dir, blasObject)); len(found) > 0 {
			return dir
		}
	}
	return ""
}

// blasName is the library of a shared object; that of a folder that nobody knows is
// called by it.
func blasName(object string) string {
	in := filepath.Base(filepath.Dir(object))
	for _, k := range blasKinds {
		for _, f := range k.folders {
			if f == in {
				return k.name
			}
		}
	}
	return in
}

// hplLinked are the shared objects of hpcc, or of another build of it, by name without
// version, as the dynamic linker resolves them where it looks into folder first. One of
// libblas and libmpi that is found nowhere is left out.
func hplLinked(ctx context.Context, h *host.Local, name, folder string) (map[string]string, error) {
	program, err := exec.LookPath(name)
	if err != nil {
		return nil, host.Has(name)
	}
	out, err := h.Run(ctx, "", "env", "LD_LIBRARY_PATH="+folder, "ldd", program)
	if err != nil {
		return nil, fmt.Errorf("ask the dynamic linker what hpcc is linked to: %w", err)
	}
	linked := map[string]string{}
	for line := range strings.Lines(string(out)) {
		name, path, ok := strings.Cut(strings.TrimSpace(line), " => ")
		path, _, _ = strings.Cut(path, " ")
		if base, _, versioned := strings.Cut(name, ".so"); ok && versioned && filepath.IsAbs(path) {
			linked[base+".so"] = path
		}
	}
	if linked["libblas.so"] == "" {
		return nil, fmt.Errorf("hpcc is linked to no %s: %s", blasObject, strings.Join(strings.Fields(string(out)), " "))
	}
	return linked, nil
}

// fileVersion is that of the package that a file is of.
func fileVersion(ctx context.Context, h *host.Local, file string) string {
	out, err := h.Run(ctx, "", "dpkg-query", "--search", file)
	pkg, _, ok := strings.Cut(string(out), ": ")
	if err != nil || !ok {
		return "unknown"
	}
	return packageVersion(ctx, h, strings.TrimSpace(pkg))
}
