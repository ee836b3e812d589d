// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"boxdyno/internal/schema"
	"boxdyno/procedure/catalog"
	"boxdyno/report"
	"boxdyno/report/page"
	"boxdyno/result"
)

// The data of every page are what their schema says, of which the page's types are made.
func TestPageSchema(t *testing.T) {
	compiler := jsonschema.NewCompiler()
	declared := map[string][]result.Metric{}
	for _, p := range catalog.All {
		declared[p.Name] = p.Metrics
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema.Text(page.Schema(declared), "page")))
	if err == nil {
		err = compiler.AddResource("page", doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("page")
	if err != nil {
		t.Fatal(err)
	}
	valid := func(name string, data page.Data) {
		text, err := json.Marshal(data)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err == nil {
			err = compiled.Validate(doc)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, make := range pages {
		run, recs := make()
		data := page.Of(report.Summarized(run, recs), recs)
		for _, r := range data.Document.Rows {
			if f := r.Figures["throughput_fps"]; r.Settings == nil || (f == nil) != (r.ThroughputFPS == nil) || f != nil && f.Value != *r.ThroughputFPS {
				t.Errorf("%s: the figures of %s are %v, and it has %d settings", name, r.Name, r.Figures, len(r.Settings))
			}
		}
		valid(name, data)
	}
	d, recs := board(t, true)
	valid("board", page.Of(d, recs))
}
