// SPDX-License-Identifier: Apache-2.0

package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// toolPrograms are those of others that a board has, where the folder of unpacked
// packages holds them.
var toolPrograms = []string{"bin/fio", "sbin/cryptsetup", "bin/iperf3", "sbin/openvpn"}

// closure are the programs below root with their loader and all shared libraries that
// they need: programs in /bin, libraries in /lib.
func closure(root string, programs []string) (out []entry, err error) {
	if _, err := os.Stat(root); root == "" || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	libraries, err := sharedLibraries(root)
	if err != nil {
		return nil, err
	}
	done := map[string]bool{}
	var add func(name, place string) error
	add = func(name, place string) error {
		if done[place] {
			return nil
		}
		done[place] = true
		out = append(out, entry{name: place, mode: 0o755, from: name})
		f, err := elf.Open(name)
		if err != nil {
			return fmt.Errorf("read what %s needs: %w", name, err)
		}
		defer f.Close()
		needs, err := f.ImportedLibraries()
		if err != nil {
			return fmt.Errorf("read what %s needs: %w", name, err)
		}
		if loader := interpreter(f); loader != "" {
			at, ok := libraries[filepath.Base(loader)]
			if !ok {
				return fmt.Errorf("%s needs the loader %s, which no package holds", name, loader)
			}
			if err := add(at, strings.TrimPrefix(loader, "/")); err != nil {
				return err
			}
		}
		for _, n := range needs {
			at, ok := libraries[n]
			if !ok {
				return fmt.Errorf("%s needs %s, which no package holds", name, n)
			}
			if err := add(at, "lib/"+n); err != nil { // where every loader looks
				return err
			}
		}
		return nil
	}
	for _, p := range programs {
		name := filepath.Join(root, p)
		if _, err := os.Stat(name); err != nil { // which releases have below usr alone
			name = filepath.Join(root, "usr", p)
		}
		if err := add(name, "bin/"+filepath.Base(p)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// sharedLibraries are the files below root that may be one, by the names that programs
// ask for, which mostly are links.
func sharedLibraries(root string) (map[string]string, error) {
	found := map[string]string{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(d.Name(), ".so") {
			return err
		}
		if file, err := filepath.EvalSymlinks(name); err == nil && strings.HasPrefix(file, root) { // a link may lead to a package that is not here
			found[d.Name()] = file
		}
		return nil
	})
	return found, err
}

func interpreter(f *elf.File) string {
	s := f.Section(".interp")
	if s == nil {
		return ""
	}
	data, err := s.Data()
	if err != nil {
		return ""
	}
	return strings.TrimRight(string(data), "\x00")
}
