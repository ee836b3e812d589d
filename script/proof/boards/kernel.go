// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A kernel is a distribution's, taken from its package: the image, and of its modules
// those that the board loads.
type kernel struct {
	image   string
	dtb     string
	modules []string // files, each after those that it needs
}

// unpack takes the kernel out of its package, once: what it took lies below cache
// until the package or the list of modules is another one. dtb may be "".
func unpack(deb, cache, dtb string, names []string) (k kernel, err error) {
	sum := sha256.Sum256([]byte(filepath.Base(deb) + "\n" + dtb + "\n" + strings.Join(names, "\n")))
	dir := filepath.Join(cache, fmt.Sprintf("%x", sum[:6]))
	if _, err := os.Stat(dir); err != nil {
		if err := take(deb, dir, dtb, names); err != nil {
			return k, fmt.Errorf("unpack kernel %s: %w", filepath.Base(deb), err)
		}
	}
	order, err := os.ReadFile(filepath.Join(dir, "order"))
	if err != nil {
		return k, err
	}
	for _, m := range strings.Fields(string(order)) {
		k.modules = append(k.modules, filepath.Join(dir, m))
	}
	k.image = filepath.Join(dir, "vmlinuz")
	k.dtb = filepath.Join(dir, "dtb")
	return k, nil
}

// take fills dir, which appears as a whole or not at all.
func take(deb, dir, dtb string, names []string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	whole, err := os.MkdirTemp(filepath.Dir(dir), "unpacking-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(whole)
	if out, err := exec.Command("dpkg-deb", "--extract", deb, whole).CombinedOutput(); err != nil {
		return fmt.Errorf("dpkg-deb: %w: %s", err, out)
	}
	images, _ := filepath.Glob(filepath.Join(whole, "boot/vmlinu[xz]-*"))
	if len(images) != 1 {
		return fmt.Errorf("it holds %d files boot/vmlinuz-* and vmlinux-*, not one", len(images))
	}
	_, version, _ := strings.Cut(filepath.Base(images[0]), "-")
	root := whole
	if _, err := os.Stat(filepath.Join(whole, "lib/modules")); err != nil {
		root = filepath.Join(whole, "usr") // where /lib is /usr/lib in packages, too
	}
	if out, err := exec.Command("depmod", "--basedir", root, version).CombinedOutput(); err != nil {
		return fmt.Errorf("depmod: %w: %s", err, out)
	}
	tree := filepath.Join(root, "lib/modules", version)
	files, err := order(tree, names)
	if err != nil {
		return err
	}
	small := filepath.Join(whole, "small")
	if err := os.Mkdir(small, 0o755); err != nil {
		return err
	}
	var list []string
	for _, f := range files {
		name, err := plain(filepath.Join(tree, f), small)
		if err != nil {
			return err
		}
		list = append(list, name)
	}
	err = os.WriteFile(filepath.Join(small, "order"), []byte(strings.Join(list, "\n")+"\n"), 0o644)
	if err == nil {
		err = os.Rename(images[0], filepath.Join(small, "vmlinuz"))
	}
	if err == nil && dtb != "" {
		err = os.Rename(filepath.Join(whole, "usr/lib/linux-image-"+version, dtb), filepath.Join(small, "dtb"))
	}
	if err == nil {
		err = os.Rename(small, dir)
	}
	if errors.Is(err, os.ErrExist) { // another made it meanwhile
		return nil
	}
	return err
}

// order lists the modules' files, each once and after what it needs, by depmod's
// modules.dep. A name that is built into the kernel is left out; one that is not
// there at all is an error.
func order(tree string, names []string) (files []string, err error) {
	dep, err := os.ReadFile(filepath.Join(tree, "modules.dep"))
	if err != nil {
		return nil, err
	}
	builtin, err := os.ReadFile(filepath.Join(tree, "modules.builtin"))
	if err != nil {
		return nil, err
	}
	needs := map[string][]string{} // of a module's name: its file, then what it needs, the first needed last
	for line := range strings.Lines(string(dep)) {
		file, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		needs[moduleName(file)] = append([]string{file}, strings.Fields(rest)...)
	}
	inside := map[string]bool{}
	for _, f := range strings.Fields(string(builtin)) {
		inside[moduleName(f)] = true
	}
	seen := map[string]bool{}
	for _, n := range names {
		all, ok := needs[n]
		if !ok && !inside[n] {
			return nil, fmt.Errorf("it has no module %s", n)
		}
		for i := len(all) - 1; i >= 0; i-- {
			if !seen[all[i]] {
				seen[all[i]] = true
				files = append(files, all[i])
			}
		}
	}
	return files, nil
}

// moduleName is how a module is called: "kernel/crypto/crc32c-generic.ko.xz" is
// crc32c_generic.
func moduleName(file string) string {
	name, _, _ := strings.Cut(filepath.Base(file), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// plain puts a module into dir without compression, for the board has none to undo it
// with, and returns its name there.
func plain(file, dir string) (string, error) {
	name := moduleName(file) + ".ko"
	switch to := filepath.Join(dir, name); filepath.Ext(file) {
	case ".ko":
		return name, os.Rename(file, to)
	case ".xz":
		f, err := os.Create(to)
		if err != nil {
			return "", err
		}
		cmd := exec.Command("xz", "--decompress", "--stdout", file)
		cmd.Stdout, cmd.Stderr = f, os.Stderr
		if err := errors.Join(cmd.Run(), f.Close()); err != nil {
			return "", fmt.Errorf("decompress %s: %w", filepath.Base(file), err)
		}
		return name, nil
	}
	return "", fmt.Errorf("%s is packed in a way that is not known here", filepath.Base(file))
}
