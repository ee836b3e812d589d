// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"boxdyno/host"
)

// The page of settings has the keys that are recorded of a machine and of a port, and no other.
func TestPreflightKeys(t *testing.T) {
	p := named(t, "docs/preflight.md")
	var machine, port []string
	for _, row := range tables(p.section(t, "What is recorded")) {
		if row[0] == "each port, after its name" {
			port = append(port, codes(row[1])...)
		} else {
			machine = append(machine, codes(row[1])...)
		}
	}
	same := func(of string, has, want []string) {
		t.Helper()
		if len(want) < 10 {
			t.Errorf("%d keys of a %s in the source: are they still recognised?", len(want), of)
		}
		for _, k := range want {
			if !slices.Contains(has, k) {
				t.Errorf("%s: %q of a %s is recorded, and has no place", p.name, k, of)
			}
		}
		for _, k := range has {
			if !slices.Contains(want, k) {
				t.Errorf("%s: %q of a %s is not recorded", p.name, k, of)
			}
		}
	}
	same("machine", machine, slices.Concat(keys(t, "host/identify.go"), keys(t, "host/setup.go"), keys(t, "telemetry/settings.go")))
	same("port", port, keys(t, "host/port_settings.go"))
}

// keys are those of the pairs that a source file makes: add("KEY", ...), Key: "KEY", and
// Key: name + " KEY" of a port.
func keys(t *testing.T, file string) (all []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root(t), file), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	note := func(e ast.Expr) {
		switch e := e.(type) {
		case *ast.BinaryExpr:
			if last, ok := e.Y.(*ast.BasicLit); ok {
				if text, _ := strconv.Unquote(last.Value); len(text) > 1 {
					all = append(all, text[1:])
				}
			}
		case *ast.BasicLit:
			text, _ := strconv.Unquote(e.Value)
			all = append(all, text)
		case *ast.Ident:
			if e.Name == "BySession" {
				all = append(all, host.BySession)
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if name, ok := n.Fun.(*ast.Ident); ok && name.Name == "add" {
				note(n.Args[0])
			}
		case *ast.KeyValueExpr:
			if name, ok := n.Key.(*ast.Ident); ok && name.Name == "Key" {
				note(n.Value)
			}
		}
		return true
	})
	return all
}
