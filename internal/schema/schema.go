// SPDX-License-Identifier: Apache-2.0

// Package schema describes in JSON schema (2020-12) what encoding/json makes of
// Go types.
package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"time"
)

// An Object is a schema, or a part of one.
type Object = map[string]any

// A Describer encodes itself, and says what it becomes.
type Describer interface{ JSONSchema() Object }

// An Adder is a struct that encodes itself with more fields, which may be absent.
type Adder interface {
	Adds() map[string]reflect.Type
}

// Of describes a struct. The structs in it are under "$defs", by name; of two
// with one name the second has its package's name before it. A kind of field
// that it does not know is a fault of the program.
func Of(t reflect.Type) Object {
	d := definitions{names: map[reflect.Type]string{}, defs: Object{}}
	s := d.fields(t)
	if len(d.defs) > 0 {
		s["$defs"] = d.defs
	}
	return s
}

// Text is s, indented, with a title.
func Text(s Object, title string) []byte {
	whole := maps.Clone(s)
	whole["$schema"], whole["title"] = "https://json-schema.org/draft/2020-12/schema", title
	text, err := json.MarshalIndent(whole, "", "  ")
	if err != nil {
		panic(err) // of plain data there is none
	}
	return append(text, '\n')
}

type definitions struct {
	names map[reflect.Type]string
	defs  Object
}

func (d definitions) of(t reflect.Type) Object {
	switch t {
	case reflect.TypeFor[time.Time]():
		return Object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[json.RawMessage]():
		return Object{} // any JSON
	}
	if own, ok := reflect.Zero(t).Interface().(Describer); ok && t.Kind() != reflect.Pointer {
		return own.JSONSchema()
	}
	switch t.Kind() {
	case reflect.String:
		return Object{"type": "string"}
	case reflect.Bool:
		return Object{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return Object{"type": "integer"}
	case reflect.Uint64:
		return Object{"type": "integer", "minimum": 0}
	case reflect.Float64:
		return Object{"type": "number"}
	case reflect.Pointer:
		return d.of(t.Elem())
	case reflect.Slice:
		return Object{"type": "array", "items": d.of(t.Elem())}
	case reflect.Map:
		return Object{"type": "object", "additionalProperties": d.of(t.Elem())}
	case reflect.Struct:
		return Object{"$ref": "#/$defs/" + d.name(t)}
	}
	panic("no schema for " + t.String())
}

// name defines t, if it is not defined yet.
func (d definitions) name(t reflect.Type) string {
	if name, ok := d.names[t]; ok {
		return name
	}
	name := t.Name()
	if _, taken := d.defs[name]; taken {
		pkg := t.PkgPath()[strings.LastIndexByte(t.PkgPath(), '/')+1:]
		name = strings.ToUpper(pkg[:1]) + pkg[1:] + name
	}
	d.names[t] = name
	d.defs[name] = nil // taken
	d.defs[name] = d.fields(t)
	return name
}

func (d definitions) fields(t reflect.Type) Object {
	props, required := Object{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || !f.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			panic(fmt.Sprintf("%s.%s has no name in JSON", t, f.Name))
		}
		s := d.of(f.Type)
		switch opts {
		case "omitempty":
			props[name] = s
			continue
		case "string":
			s = Object{"type": "string"}
		}
		required = append(required, name)
		props[name] = orNull(f.Type, s)
	}
	if more, ok := reflect.Zero(t).Interface().(Adder); ok {
		for name, t := range more.Adds() {
			props[name] = d.of(t)
		}
	}
	return Object{"type": "object", "additionalProperties": false, "required": required, "properties": props}
}

// orNull is s, or null where that is what encoding/json makes of nil.
func orNull(t reflect.Type, s Object) Object {
	if len(s) == 0 || t.Kind() != reflect.Slice && t.Kind() != reflect.Pointer {
		return s
	}
	if kind, ok := s["type"].(string); ok {
		s["type"] = []string{kind, "null"}
		return s
	}
	return Object{"anyOf": []any{s, Object{"type": "null"}}}
}
