// SPDX-License-Identifier: Apache-2.0

package arch

import (
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// banned are phrases that readers of documents and messages stumble over.
var banned = regexp.MustCompile(`(?i)\b(books (do not )?close|stood still|as told|borne out|(bears?|bear) (that|it) out|what gave|where it gives|of its words|could not do its part)\b`)

func TestBannedPhrases(t *testing.T) {
	check := func(at, text string) {
		if phrase := banned.FindString(strings.Join(strings.Fields(text), " ")); phrase != "" {
			t.Errorf("%s: say %q in plain English", at, phrase)
		}
	}
	for _, s := range sources(t, false) {
		if strings.HasPrefix(s.pkg, "script/") {
			continue // no part of the program
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING {
				check(s.fset.Position(text.Pos()).String(), text.Value)
			}
			return true
		})
	}
	pages := []string{"../../README.md", "../../CONTRIBUTING.md"}
	for _, dir := range []string{"../../docs", "../../report/page/ui/src", "../../examples"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if slices.Contains([]string{".md", ".svelte", ".ts", ".yaml"}, filepath.Ext(path)) {
				pages = append(pages, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		check(page, string(text))
	}
}
