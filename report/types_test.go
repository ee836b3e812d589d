// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"boxdyno/result"
)

// TestTypes keeps ui/src/types.ts in step with what HTML puts into the page.
func TestTypes(t *testing.T) {
	golden(t, "ui/src/types.ts", typescript())
}

// typescript declares the JSON of a Document and of the records.
func typescript() []byte {
	var b bytes.Buffer
	b.WriteString("// SPDX-License-Identifier: Apache-2.0\n\n// Made from the Go types by `go test ./report -run Types -update`; do not edit.\n")
	seen := map[reflect.Type]bool{}
	queue := []reflect.Type{reflect.TypeFor[Document](), reflect.TypeFor[result.Record]()}
	var name func(t reflect.Type) string
	name = func(t reflect.Type) string {
		switch t {
		case reflect.TypeFor[time.Time](), reflect.TypeFor[result.Place](), reflect.TypeFor[result.Status](), reflect.TypeFor[result.Bound]():
			return "string"
		case reflect.TypeFor[json.RawMessage]():
			return "unknown"
		case reflect.TypeFor[Points]():
			return "(number | null)[]"
		case reflect.TypeFor[result.Setting](): // report has a Setting too
			if !seen[t] {
				seen[t] = true
				queue = append(queue, t)
			}
			return "KnobSetting"
		}
		switch t.Kind() {
		case reflect.Pointer:
			return name(t.Elem())
		case reflect.Slice:
			return name(t.Elem()) + "[]"
		case reflect.String:
			return "string"
		case reflect.Bool:
			return "boolean"
		case reflect.Struct:
			if !seen[t] {
				seen[t] = true
				queue = append(queue, t)
			}
			return t.Name()
		}
		return "number"
	}
	for _, t := range queue {
		seen[t] = true
	}
	for len(queue) > 0 {
		t := queue[0]
		queue = queue[1:]
		var extends []string // what is embedded
		for i := range t.NumField() {
			if f := t.Field(i); f.Anonymous {
				extends = append(extends, name(f.Type))
			}
		}
		head := name(t)
		if len(extends) > 0 {
			head += " extends " + strings.Join(extends, ", ")
		}
		fmt.Fprintf(&b, "\nexport interface %s {\n", head)
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Anonymous {
				continue
			}
			tag, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
			if !f.IsExported() || tag == "-" {
				continue
			}
			typ, optional := name(f.Type), ""
			if strings.Contains(opts, "string") {
				typ = "string"
			}
			if strings.Contains(opts, "omitempty") {
				optional = "?"
			} else if k := f.Type.Kind(); typ != "unknown" && (k == reflect.Slice || k == reflect.Pointer) {
				typ += " | null"
			}
			fmt.Fprintf(&b, "  %s%s: %s;\n", tag, optional, typ)
		}
		b.WriteString("}\n")
	}
	b.WriteString("\nexport interface PageData {\n  document: Document;\n  records: Record[] | null;\n}\n")
	return b.Bytes()
}
