// SPDX-License-Identifier: Apache-2.0

// Package examples holds plans that come with boxdyno, each named for what it
// measures.
package examples

import (
	"embed"
	"strings"
)

//go:embed *.yaml
var files embed.FS

// A Plan is one of them.
type Plan struct {
	Name string // of the file, without .yaml
	Doc  string // the file's first comment
	Data []byte
}

// All is every plan, by name.
func All() (plans []Plan) {
	entries, _ := files.ReadDir(".") // embedded: always there
	for _, e := range entries {
		data, _ := files.ReadFile(e.Name())
		doc, _, _ := strings.Cut(string(data), "\n")
		plans = append(plans, Plan{strings.TrimSuffix(e.Name(), ".yaml"), strings.TrimPrefix(doc, "# "), data})
	}
	return plans
}
