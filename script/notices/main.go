// SPDX-License-Identifier: Apache-2.0

// Notices prints the licences of all that is linked into boxdyno or bundled with its
// page: go run ./script/notices >internal/cli/notices.txt.
package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// page carries the notices of what its build put into it, in a comment at its end.
const page = "report/page/ui/dist/page.html"

func main() {
	w := new(bytes.Buffer)
	if err := write(w); err != nil {
		fmt.Fprintln(os.Stderr, "script/notices:", err)
		os.Exit(1)
	}
	os.Stdout.Write(w.Bytes())
}

// write prints each licence once, under the names of all that it is of.
func write(w io.Writer) error {
	linked, err := modules()
	if err != nil {
		return err
	}
	of := map[string][]string{} // names by text
	for name, dir := range linked {
		text, err := licence(dir)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		of[text] = append(of[text], name)
	}
	bundled, err := inPage()
	if err != nil {
		return err
	}
	for name, text := range bundled {
		of[text] = append(of[text], name+" (in the page)")
	}
	texts := slices.SortedFunc(maps.Keys(of), func(a, b string) int {
		slices.Sort(of[a])
		slices.Sort(of[b])
		return strings.Compare(of[a][0], of[b][0])
	})
	fmt.Fprintln(w, "boxdyno contains work of others, under these licences.")
	for _, text := range texts {
		fmt.Fprintf(w, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(of[text], "\n"), text)
	}
	return nil
}

// inPage returns the licences of the packages in the page, by their names.
func inPage() (map[string]string, error) {
	html, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	_, comment, _ := strings.Cut(string(html), "</html>\n<!--\n")
	texts := map[string]string{}
	for part := range strings.SplitSeq(strings.TrimSuffix(strings.TrimSpace(comment), "-->"), "This page contains ") {
		if name, text, ok := strings.Cut(part, ", under this licence:\n"); ok {
			texts[name] = strings.TrimSpace(text)
		}
	}
	if len(texts) == 0 {
		return nil, fmt.Errorf("%s names nothing that it contains", page)
	}
	return texts, nil
}

// modules returns the folders of the modules that boxdyno is linked with, on any
// processor, and of Go itself.
func modules() (map[string]string, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("find Go's own licence: %w", err)
	}
	dirs := map[string]string{"Go (standard library and runtime)": strings.TrimSpace(string(root))}
	for _, arch := range []string{"amd64", "arm64", "arm", "riscv64", "386"} {
		cmd := exec.Command("go", "list", "-buildvcs=false", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}", "./cmd/...")
		cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0")
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("list what is linked: %w", err)
		}
		for line := range strings.Lines(string(out)) {
			if path, dir, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
				dirs[path] = dir
			}
		}
	}
	return dirs, nil
}

// licence returns the texts of a folder's LICENSE and NOTICE files.
func licence(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var texts []string
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		if e.IsDir() || !slices.ContainsFunc([]string{"LICENSE", "LICENCE", "COPYING", "NOTICE"}, func(p string) bool { return strings.HasPrefix(name, p) }) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return "", err
		}
		texts = append(texts, strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n")))
	}
	if len(texts) == 0 {
		return "", fmt.Errorf("there is no licence in %s", dir)
	}
	return strings.Join(texts, "\n\n"), nil
}
