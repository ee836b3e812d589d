// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"boxdyno/procedure/catalog"
)

// tablesOf are the tables of drawings, verdicts and other programs' files: they name what
// they draw, judge and have a place for.
var tablesOf = map[string]bool{"report/page/ui/src/lib/drawings.ts": true, "report/blocks.go": true, "report/named.go": true, "report/text/named.go": true}

// restated counts, for each file of a folder, the string literals that are a procedure's
// name, and the metrics' names in its literals.
func restated(t *testing.T, folders ...string) map[string]int {
	t.Helper()
	names := map[string]bool{}
	metrics := map[string]bool{}
	for _, s := range catalog.All {
		names[s.Name] = true
		for _, m := range s.Metrics {
			metrics[m.Name] = true
		}
	}
	word := regexp.MustCompile(`[a-z0-9_]+`)
	counts := map[string]int{}
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join("..", folder, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%d files in %s: %v", len(files), folder, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") || tablesOf[folder+"/"+filepath.Base(file)] {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				literal, ok := n.(*ast.BasicLit)
				if !ok || literal.Kind != token.STRING {
					return true
				}
				text, _ := strconv.Unquote(literal.Value)
				n1 := 0
				if names[text] {
					n1++
				}
				for _, w := range word.FindAllString(text, -1) {
					if strings.Contains(w, "_") && metrics[w] {
						n1++
					}
				}
				if n1 > 0 {
					counts[folder+"/"+filepath.Base(file)] += n1
				}
				return true
			})
		}
	}
	for _, file := range pageSources(t) {
		if tablesOf[filepath.ToSlash(filepath.Join("report", file))] {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range regexp.MustCompile(`"[a-z0-9-]+"|[a-z0-9_]+`).FindAllString(string(text), -1) {
			if strings.Contains(w, "_") && metrics[w] || names[strings.Trim(w, `"`)] && strings.HasPrefix(w, `"`) {
				counts[filepath.ToSlash(filepath.Join("report", file))]++
			}
		}
	}
	return counts
}

// pageSources are the page's files that are written by hand.
func pageSources(t *testing.T) (out []string) {
	err := filepath.WalkDir("page/ui/src", func(path string, _ fs.DirEntry, err error) error {
		if ext := filepath.Ext(path); (ext == ".ts" || ext == ".svelte") && filepath.Base(path) != "types.ts" {
			out = append(out, path)
		}
		return err
	})
	if err != nil || len(out) < 20 {
		t.Fatalf("%d files of the page: %v", len(out), err)
	}
	return out
}

// What is said of a procedure stands with it: names of procedures and metrics in report,
// verdict, runner and the page grow no more. names.txt has what there is: -update lowers it.
func TestNames(t *testing.T) {
	const list = "testdata/names.txt"
	counts := restated(t, "report", "report/text", "report/page", "report/compare", "report/timeline", "report/internal/grid", "report/internal/phrase", "report/internal/sensed", "verdict", "runner")
	if *update {
		var b strings.Builder
		for _, file := range slices.Sorted(maps.Keys(counts)) {
			fmt.Fprintf(&b, "%s %d\n", file, counts[file])
		}
		if err := os.WriteFile(list, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	data, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[string]int{}
	for line := range strings.Lines(string(data)) {
		var file string
		var n int
		if _, err := fmt.Sscan(line, &file, &n); err != nil {
			t.Fatalf("%s: %q: %v", list, line, err)
		}
		allowed[file] = n
	}
	total := 0
	for file, n := range counts {
		total += n
		if n > allowed[file] {
			t.Errorf("%s names procedures or metrics %d times, and %d are allowed: declare it with the procedure's metrics", file, n, allowed[file])
		}
	}
	for file, n := range allowed {
		if counts[file] < n {
			t.Errorf("%s names procedures or metrics %d times, and %s says %d: run go test ./report -run TestNames -update", file, counts[file], list, n)
		}
	}
	t.Logf("%d names in %d files", total, len(counts))
}
