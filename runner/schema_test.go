// SPDX-License-Identifier: Apache-2.0

package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"boxdyno/examples"
	"boxdyno/internal/schema"
	"boxdyno/internal/yaml"
	"boxdyno/procedure"
	"boxdyno/result"
)

type spec = procedure.Spec

func compile(t *testing.T, s schema.Object) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema.Text(s, "it")))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("it", doc); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("it")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

func valid(t *testing.T, s *jsonschema.Schema, v any) error {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(doc)
}

// plain is a YAML value as JSON has it.
func plain(n *yaml.Node) any {
	switch n.Kind {
	case yaml.Scalar:
		return json.RawMessage(text(n.Text))
	case yaml.List:
		out := []any{}
		for _, e := range n.List {
			out = append(out, plain(e))
		}
		return out
	case yaml.Map:
		out := map[string]any{}
		for _, f := range n.Map {
			out[f.Key] = plain(f.Value)
		}
		return out
	}
	return nil
}

func TestPlanSchema(t *testing.T) {
	c := Plugins()
	s := compile(t, PlanSchema(c))
	for _, e := range examples.All() {
		n, err := yaml.Parse(e.Name, e.Data)
		if err != nil {
			t.Fatal(err)
		}
		if err := valid(t, s, plain(n)); err != nil {
			t.Errorf("%s: %v", e.Name, err)
		}
	}
	p := Use("forward")
	if err := valid(t, s, resolveIt(t, c, p)); err != nil {
		t.Errorf("a resolved plan: %v", err)
	}
	for _, bad := range []string{
		`{}`, `{"procedures": []}`, `{"procedures": ["nope"]}`, `{"procedures": [{"use": "forward", "nope": 1}]}`, `{"procedures": ["forward"], "x": 1}`,
		`{"procedures": ["forward"], "repeat": 0}`, `{"procedures": [{"use": "forward", "service": "fly"}]}`, `{"procedures": [{"use": "forward", "frame_size": []}]}`,
		`{"procedures": ["forward"], "lab": "moon"}`,
	} {
		if valid(t, s, json.RawMessage(bad)) == nil {
			t.Errorf("the schema accepts %s", bad)
		}
	}
}

// What a run in memory writes is what the schemas say.
func TestRecordSchema(t *testing.T) {
	c := Plugins()
	m := &memory{}
	p := resolved(t, c, `{lab: {use: mem, capacity: 20k, ceiling: 60k}, procedures: [forward]}`)
	run, recs, err := Run(context.Background(), p, m, Options{Catalogue: c})
	if err != nil {
		t.Fatal(err)
	}
	if len(recs) < 5 {
		t.Fatalf("%d records", len(recs))
	}
	records, runs := compile(t, schema.Of(reflect.TypeFor[result.Record]())), compile(t, schema.Of(reflect.TypeFor[result.Run]()))
	whole := false
	for _, r := range m.appended {
		if err := valid(t, records, r); err != nil {
			t.Errorf("%s: %v", r.ID, err)
		}
		whole = whole || r.Load != nil && r.Account != nil && r.Values != nil
	}
	if !whole {
		t.Error("no record has figures, load and ledger")
	}
	if err := valid(t, runs, run); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{`{}`, `{"schema": 1}`} {
		if valid(t, records, json.RawMessage(bad)) == nil || valid(t, runs, json.RawMessage(bad)) == nil {
			t.Errorf("the schemas accept %s", bad)
		}
	}
	data, _ := json.Marshal(recs[0])
	if valid(t, records, json.RawMessage(strings.Replace(string(data), "{", `{"map":{},`, 1))) == nil {
		t.Error("the schema accepts a key that no record has")
	}
}

func TestEmptyRecordSchema(t *testing.T) {
	var r result.Record
	r.Config = []result.Pair{}
	if err := valid(t, compile(t, schema.Of(reflect.TypeFor[result.Record]())), r); err != nil {
		t.Error(err)
	}
}
