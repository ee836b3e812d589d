// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path"
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
var tablesOf = map[string]bool{"report/page/ui/src/lib/drawings.ts": true, "report/page/ui/src/lib/named.ts": true, "report/blocks.go": true, "report/named.go": true, "report/text/named.go": true, "runner/named.go": true, "reference/sizing/named.go": true}

// restated are, for each Go file of folders, which may be one, and of the page, the string literals that are a
// procedure's name, and the metrics' names in its literals.
func restated(t *testing.T, folders ...string) map[string][]string {
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
	found := map[string][]string{}
	for _, folder := range folders {
		pattern := filepath.Join("..", folder, "*.go")
		if strings.HasSuffix(folder, ".go") {
			pattern, folder = filepath.Join("..", folder), path.Dir(folder)
		}
		files, err := filepath.Glob(pattern)
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
				if homonym(n) {
					return false
				}
				literal, ok := n.(*ast.BasicLit)
				if !ok || literal.Kind != token.STRING {
					return true
				}
				text, _ := strconv.Unquote(literal.Value)
				at := folder + "/" + filepath.Base(file)
				if names[text] {
					found[at] = append(found[at], text)
				}
				for _, w := range word.FindAllString(text, -1) {
					if strings.Contains(w, "_") && metrics[w] {
						found[at] = append(found[at], w)
					}
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
		text = regexp.MustCompile(`<Figure name="[a-z-]+"`).ReplaceAll(text, nil) // a drawing's name
		for _, w := range regexp.MustCompile(`"[a-z0-9-]+"|[a-z0-9_]+`).FindAllString(string(text), -1) {
			if strings.Contains(w, "_") && metrics[w] || names[strings.Trim(w, `"`)] && strings.HasPrefix(w, `"`) {
				at := filepath.ToSlash(filepath.Join("report", file))
				found[at] = append(found[at], w)
			}
		}
	}
	return found
}

// homonym says whether n's literals may be words that a procedure happens to be called: the
// name of a parameter or a label, a word sought in a text, or one of a type's own.
func homonym(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		return slices.Contains([]string{"get", "m.get", "result.Get", "label", "strings.Contains"}, types.ExprString(n.Fun))
	case *ast.ValueSpec:
		return n.Type != nil
	}
	return false
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

// What is said of a procedure stands with it: report, verdict, runner, the page, the search
// for boards and the line of progress name no procedure and no metric outside their tables.
func TestNames(t *testing.T) {
	for file, names := range restated(t, "report", "report/text", "report/page", "report/compare", "report/timeline", "report/internal/grid", "report/internal/phrase", "report/internal/sensed", "verdict", "runner", "reference/sizing", "internal/cli/progress.go") {
		t.Errorf("%s names %s: declare it with the procedure's metrics, or put it into a table of names", file, strings.Join(names, ", "))
	}
}
