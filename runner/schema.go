// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"maps"
	"strconv"

	"boxdyno/internal/schema"
)

type object = schema.Object

// PlanSchema describes a plan by the catalogue.
func PlanSchema(c Catalogue) schema.Object {
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
