// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"
	"time"

	"boxdyno/result"
)

const draft = "https://json-schema.org/draft/2020-12/schema"

type object = map[string]any

// SchemaNames are the documents that Schema describes.
var SchemaNames = []string{"plan", "record", "run"}

// Schema is the JSON schema (2020-12) of a document: plan from the catalogue,
// record and run from the types that are written.
func Schema(c Catalogue, name string) ([]byte, error) {
	var s object
	switch name {
	case "plan":
		s = planSchema(c)
	case "record":
		s = typeSchema(reflect.TypeFor[result.Record]())
	case "run":
		s = typeSchema(reflect.TypeFor[result.Run]())
	default:
		return nil, planErrorf("", "unknown schema %q: there are %s", name, strings.Join(SchemaNames, ", "))
	}
	s["$schema"], s["title"] = draft, "boxdyno "+name
	return json.MarshalIndent(s, "", "  ")
}

func planSchema(c Catalogue) object {
	var labs, procedures []any
	var labNames, procedureNames []string
	for _, l := range c.Labs {
		labs = append(labs, entrySchema(l.Name, l.Doc, Params(l.New()), false))
		labNames = append(labNames, l.Name)
	}
	for _, p := range c.Procedures {
		procedures = append(procedures, entrySchema(p.Name, p.Doc, Params(p.New()), true))
		procedureNames = append(procedureNames, p.Name)
	}
	return object{
		"type": "object", "additionalProperties": false, "required": []string{"procedures"},
		"properties": object{
			"lab":        object{"description": "the topology", "default": DefaultLab, "anyOf": append([]any{object{"enum": labNames}}, labs...)},
			"procedures": object{"type": "array", "minItems": 1, "items": object{"anyOf": append([]any{object{"enum": procedureNames}}, procedures...)}},
			"preset":     object{"description": "value of every procedure's parameter preset that the plan does not set", "enum": Presets, "default": DefaultPreset},
			"repeat":     object{"description": "times that every point is measured", "type": "integer", "minimum": 1, "maximum": MaxRepeat, "default": DefaultRepeat},
			"telemetry":  watchingSchema(c.Collectors),
			"budget":     object{"description": "time that the run may take, such as 90s; what is worth least is left out; 0: as long as it needs", "type": []string{"string", "integer"}, "default": "0"},
			"seed":       object{"description": "of the order of points", "type": "integer", "minimum": 0, "default": DefaultSeed},
		},
	}
}

func entrySchema(name, doc string, params []Param, axes bool) object {
	props := object{"use": object{"const": name, "description": doc}}
	if axes { // a procedure
		props["lab"] = object{"description": "the topology that its points are measured in, as it is by default, in place of the plan's", "type": "string"}
		props["repeat"] = object{"description": "times that each of its points is measured, in place of the plan's", "type": "integer", "minimum": 1, "maximum": MaxRepeat}
	}
	for _, p := range params {
		scalar := object{"type": []string{"string", "number", "boolean"}}
		if p.Values != nil {
			scalar = object{"enum": spellings(p.Values)}
		}
		s := object{"description": p.Help, "default": p.Default}
		if axes {
			s["anyOf"] = []any{scalar, object{"type": "array", "minItems": 1, "uniqueItems": true, "items": scalar}}
		} else {
			maps.Copy(s, scalar)
		}
		props[p.Name] = s
	}
	return object{"type": "object", "additionalProperties": false, "required": []string{"use"}, "properties": props}
}

// spellings are values as YAML may hold them: 6 is a number, and "6" is not.
func spellings(values []string) (out []any) {
	for _, v := range values {
		out = append(out, v)
		if n, err := strconv.Atoi(v); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// typeSchema describes what encoding/json makes of a type. It knows the kinds
// that result has; another one is a fault of the program.
func typeSchema(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[json.RawMessage]():
		return object{} // a plan: any JSON
	}
	switch t.Kind() {
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Uint64:
		return object{"type": "integer", "minimum": 0}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Pointer:
		return typeSchema(t.Elem())
	case reflect.Slice:
		return object{"type": "array", "items": typeSchema(t.Elem())}
	case reflect.Struct:
		props, required := object{}, []string{}
		for _, f := range reflect.VisibleFields(t) {
			name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" || name == "-" {
				panic(fmt.Sprintf("%s.%s has no name in JSON", t, f.Name))
			}
			s := typeSchema(f.Type)
			if opts != "omitempty" {
				required = append(required, name)
				if f.Type.Kind() == reflect.Slice && s["type"] != nil { // nil is null
					s["type"] = []string{"array", "null"}
				}
			}
			props[name] = s
		}
		return object{"type": "object", "additionalProperties": false, "required": required, "properties": props}
	}
	panic("no schema for " + t.String())
}
